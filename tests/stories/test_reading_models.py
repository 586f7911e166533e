"""Models that read: `read_resource` and `get_prompt` for agents, responses and sessions, and resources as input.

The resources and prompts are those of a real MCP server, made with the SDK.
"""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import pytest_asyncio

from jackfield.calls.rows import CallFilter, call_page
from jackfield.identity.keys import ADMIN
from tests.harness.process import start_gateway
from tests.llm.chat_server import ChatServer
from tests.mcp.library import Library, library
from tests.requirement import requirement
from tests.stories.chat_scene import Scene, calls, chat_scene, model_at, names, speaks
from tests.waiting import eventually_async

pytestmark = pytest.mark.asyncio(loop_scope="module")

CATALOG = {"type": "mcp", "server_label": "jackfield"}
READERS = ["read_resource", "get_prompt"]
READ = ("read_resource", {"uri": "note://one"})
GET = ("get_prompt", {"name": "review", "arguments": {"code": "x = 1"}})


def config(shelf: Library, other: Library) -> str:
    return f"""
[agents.ada]
model = "tiny"
[agents.tools_only]
model = "tiny"
tools = ["clock"]
[agents.notes_only]
model = "tiny"
tools = ["docs:note://*"]
[sources.docs]
kind = "mcp"
url = "{shelf.url}"
[sources.more]
kind = "mcp"
url = "{other.url}"
[auth.keys.limited]
key = "limited-key"
scopes = ["call"]
tools = ["clock"]
[[tools]]
name = "clock"
description = "Tells the time."
executionType = "internal"
inputSchema = {{ type = "object" }}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Scene, Library]]:
    async with library() as shelf, library("more") as other:
        other.texts, other.prompts, other.templates = {"note://one": "Another first note."}, [], []
        shelf.texts |= {"note://gone": "?", "note://picture": "?"}
        folder = tmp_path_factory.mktemp("reading")
        async with chat_scene(folder, lambda _: config(shelf, other)) as scene:
            await eventually_async(lambda: len(scene.gateway.catalog.resources(ADMIN).resources) == 5)
            del shelf.texts["note://gone"]
            yield scene, shelf


@pytest.fixture
def scene(place: tuple[Scene, Library]) -> Scene:
    return place[0]


@pytest.fixture
def shelf(place: tuple[Scene, Library]) -> Library:
    place[1].reads.clear()
    return place[1]


def tool_results(body: Any) -> list[str]:
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]


def described(body: Any, name: str) -> str:
    [found] = [tool["function"]["description"] for tool in body["tools"] if tool["function"]["name"] == name]
    return str(found)


async def records(scene: Scene, run_id: str) -> list[tuple[str, str, str, str]]:
    page = await scene.gateway.store.read(partial(call_page, CallFilter(run_id=run_id), limit=50))
    return sorted((call.kind.value, call.tool, call.source, call.status.value) for call in page.calls)


@requirement("MCP2-read-responses")
async def test_a_response_reads_resources_and_prompts_of_the_catalog(scene: Scene) -> None:
    scene.plays(calls(READ, GET), calls(("read_resource", {"uri": "jackfield://more/note%3A%2F%2Fone"})))
    made = await scene.ask(tools=[CATALOG])
    first, second, third = scene.chat.bodies

    assert names(first) == ["clock", *READERS]
    assert "note://two (two)" in described(first, "read_resource")
    assert "note://by/{name} (A note by its name.)" in described(first, "read_resource")
    assert "review(code) (Reviews code.)" in described(first, "get_prompt")
    assert tool_results(second) == ["[resource note://one]\nThe first note.", "[user]\nPlease review x = 1."]
    assert tool_results(third)[-1] == "[resource jackfield://more/note%3A%2F%2Fone]\nAnother first note."
    listed, *used, _ = made.output
    assert [tool.name for tool in listed.tools] == ["clock", *READERS]
    assert [(item.type, item.server_label, item.name, item.status) for item in used] == [
        ("mcp_call", "jackfield", name, "completed") for name in (*READERS, "read_resource")
    ]
    assert await records(scene, made.id) == [
        ("prompt", "review", "docs", "completed"),
        ("resource", "note://one", "docs", "completed"),
        ("resource", "note://one", "more", "completed"),
    ]


@requirement("MCP2-read-covered")
async def test_a_request_reads_only_what_it_names(scene: Scene) -> None:
    scene.plays(calls(READ))
    await scene.ask(tools=[{"type": "mcp", "server_label": "more"}])
    assert names(scene.chat.bodies[0]) == ["read_resource"], "it has no prompts"
    assert "note://two" not in described(scene.chat.bodies[0], "read_resource")
    assert tool_results(scene.chat.bodies[1]) == ["[resource note://one]\nAnother first note."], "its own"
    scene.plays(calls(READ))
    await scene.ask(tools=[{"type": "jackfield:catalog", "tools": ["docs:note://two"]}])
    assert names(scene.chat.bodies[0]) == ["read_resource"]
    assert "There is no resource" in tool_results(scene.chat.bodies[1])[0]

    for tool in (
        {"type": "jackfield:catalog", "tools": ["clock"]},
        {**CATALOG, "allowed_tools": ["clock"]},
        {"type": "function", "name": "clock", "parameters": {"type": "object", "properties": {}}},
    ):
        scene.plays(calls(READ))
        await scene.ask(tools=[tool])
        assert names(scene.chat.bodies[0]) == ["clock"]
        assert "There is no tool" in tool_results(scene.chat.bodies[1])[0]

    scene.plays(calls(READ))
    await scene.ask(tools=[{"type": "jackfield:catalog", "tools": ["docs:*"]}, {**CATALOG, "allowed_tools": [READ[0]]}])
    assert names(scene.chat.bodies[0]) == READERS

    scene.plays()
    limited = openai.OpenAI(base_url=str(scene.url) + "/v1", api_key="limited-key", max_retries=0)
    await scene.ask(tools=[CATALOG], client=limited)
    assert names(scene.chat.bodies[0]) == ["clock"], "the key sees nothing else"


@requirement("MCP2-read-covered")
async def test_what_cannot_be_read_is_an_answer_for_the_model(scene: Scene) -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("read_resource", {}),
        ("read_resource", {"uri": "note://nowhere"}),
        ("read_resource", {"uri": "note://gone"}),
        ("get_prompt", {"name": "nothing"}),
        ("get_prompt", {"name": "review"}),
        ("get_prompt", {"name": "review", "arguments": 3}),
    ]
    scene.plays(calls(*wrong))
    made = await scene.ask(tools=[CATALOG])
    told = tool_results(scene.chat.bodies[1])
    words = ("uri", "There is no resource", "Resource not found", "There is no prompt", "code", "arguments")
    for said, word in zip(told, words, strict=True):
        assert word in said
    assert {item.status for item in made.output if item.type == "mcp_call"} == {"failed"}


@requirement("MCP2-read-agents")
async def test_an_agent_reads_and_its_reads_are_in_its_journal(scene: Scene) -> None:
    scene.plays(calls(READ, GET, ("read_resource", {"uri": "note://picture"})))
    await scene.cycle("ada", 1)
    first, second = scene.chat.bodies[:2]
    assert set(READERS) <= set(names(first))
    assert tool_results(second)[:2] == ["[resource note://one]\nThe first note.", "[user]\nPlease review x = 1."]
    assert "shown as image 1" in tool_results(second)[2]
    run = (await scene.http.get("/api/agents/ada")).json()["agent"]["lastCycle"]["id"]
    assert [(kind, tool) for kind, tool, _, _ in await records(scene, run)] == [
        ("prompt", "review"),
        ("resource", "note://one"),
        ("resource", "note://picture"),
    ]

    scene.plays()
    await scene.cycle("tools_only", 1)
    assert not set(READERS) & set(names(scene.chat.bodies[0]))
    scene.plays(calls(("read_resource", {"uri": "note://by/ada"}), GET))
    await scene.cycle("notes_only", 1)
    assert set(READERS) & set(names(scene.chat.bodies[0])) == {"read_resource"}
    read, got = tool_results(scene.chat.bodies[1])
    assert read == "[resource note://by/ada]\nA note by ada."
    assert "There is no tool 'get_prompt'" in got


@requirement("MCP2-read-agents")
async def test_an_agent_in_a_session_reads_too(scene: Scene) -> None:
    scene.plays(calls(READ), speaks("Read."))
    session = (await scene.http.post("/api/sessions", json={"agent": "ada"})).json()["session_id"]
    await scene.http.post(f"/api/sessions/{session}/messages", json={"message": "Read it."})
    await eventually_async(lambda: len(scene.chat.bodies) == 2)
    assert names(scene.chat.bodies[0]) == ["clock", *READERS]
    assert tool_results(scene.chat.bodies[1]) == ["[resource note://one]\nThe first note."]


def user(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "input_text", "text": "What is this?"}, *parts]}]


@requirement("MCP2-read-input")
async def test_resources_are_input_of_a_response(scene: Scene, shelf: Library) -> None:
    scene.plays()
    note = {"type": "input_file", "file_url": "note://one"}
    picture = {"type": "input_image", "image_url": "note://picture", "detail": "low"}
    made = await scene.ask(user(note, picture, note))
    [message] = scene.chat.bodies[0]["messages"]
    held = {"type": "text", "text": "[resource note://one]\nThe first note."}
    assert message["content"][1:] == [
        held,
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAE=", "detail": "low"}},
        held,
    ]
    assert sorted(shelf.reads) == ["note://one", "note://picture"]
    assert await records(scene, made.id) == [
        ("resource", "note://one", "docs", "completed"),
        ("resource", "note://picture", "docs", "completed"),
    ]

    scene.plays()
    before, shelf.texts["note://one"] = shelf.texts["note://one"], "Changed."
    await scene.ask("And?", previous_response_id=made.id)
    shelf.texts["note://one"] = before
    assert scene.chat.bodies[0]["messages"][0] == message, "what the model was told stays"
    assert len(shelf.reads) == 2

    body = {"model": "tiny", "input": user(note)}
    counted = (await scene.http.post("/v1/responses/input_tokens", json=body)).json()["input_tokens"]
    assert counted > 10


@requirement("MCP2-read-input")
async def test_a_request_that_names_what_cannot_be_read_is_refused(scene: Scene, shelf: Library) -> None:
    scene.plays()
    for uri, word in (
        ("note://gone", "Resource not found"),
        ("other://x", "no resource"),
        ("no uri", "There is no resource"),
    ):
        with pytest.raises(openai.BadRequestError, match=word) as refused:
            await scene.ask(user({"type": "input_file", "file_url": uri}))
        assert refused.value.param == "input"
    many = [{"type": "input_file", "file_url": f"note://{number}"} for number in range(21)]
    with pytest.raises(openai.BadRequestError, match="20 are allowed"):
        await scene.ask(user(*many))
    limited = openai.OpenAI(base_url=str(scene.url) + "/v1", api_key="limited-key", max_retries=0)
    with pytest.raises(openai.BadRequestError, match="There is no resource"):
        await scene.ask(user({"type": "input_file", "file_url": "note://one"}), client=limited)
    with pytest.raises(openai.NotFoundError, match="There is no model"):
        await scene.ask(user({"type": "input_file", "file_url": "note://one"}), model="nobody")
    assert "note://one" not in shelf.reads
    assert scene.chat.bodies == []


@requirement("MCP2-read-repeated")
@pytest.mark.timeout(120)
async def test_a_read_of_an_agent_whose_gateway_was_killed_is_made_again(tmp_path: Path) -> None:
    async with library() as shelf, ChatServer() as chat:
        source = f'[agents.ada]\nmodel = "tiny"\n[sources.docs]\nkind = "mcp"\nurl = "{shelf.url}"\n'
        chat.plays = [calls(READ, GET), speaks()]
        shelf.may_answer.clear()
        gateway = await asyncio.to_thread(start_gateway, tmp_path, model_at(chat.base_url) + source)
        try:
            body = {"serviceName": "clock", "payload": "Read."}
            trigger = partial(httpx2.post, f"{gateway.url}/api/agents/ada/trigger", json=body, headers=gateway.headers)
            (await asyncio.to_thread(trigger)).raise_for_status()
            await eventually_async(lambda: shelf.reads == ["note://one"])
            gateway.process.kill()
            await asyncio.to_thread(gateway.process.wait)
            shelf.may_answer.set()
            gateway = await asyncio.to_thread(start_gateway, tmp_path)
            await eventually_async(lambda: len(chat.bodies) == 2)
            assert tool_results(chat.bodies[1]) == [
                "[resource note://one]\nThe first note.",
                "[user]\nPlease review x = 1.",
            ]
            assert shelf.reads == ["note://one", "note://one"]
        finally:
            gateway.kill()
