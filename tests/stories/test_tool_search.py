"""Two thousand tools and a model that gets to know the few it needs: responses, agents and sessions.

The model is a chat-completions server on loopback that says what a test wrote down and keeps what it was asked.
"""

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
import pytest_asyncio

from jackfield.llm.chat_request import BYTES_PER_TOKEN
from tests.harness.process import start_gateway
from tests.llm.chat_server import ChatServer
from tests.requirement import requirement
from tests.stories.chat_scene import Scene, calls, chat_scene, model_at, names, speaks
from tests.waiting import eventually_async

pytestmark = pytest.mark.asyncio(loop_scope="module")

MANY = 2_000
CATALOG = {"type": "mcp", "server_label": "jackfield"}
SEARCH = {"type": "tool_search"}
ABOUT = (
    "Works on {noun}s: {verb} the {noun} that the id names, in the workspace of the caller. Use it when somebody asks "
    "to {verb} a {noun}; it gives the {noun} back as it is afterwards, with its owner, its state and its history."
)
VERBS = ("create", "read", "update", "delete", "archive", "share", "export", "watch", "approve", "assign")
NOUNS = [f"{kind}_{part}" for kind, part in itertools.product(
    ("invoice", "ticket", "parcel", "contract", "meeting", "recipe", "server", "patient", "lesson", "ticketless"),
    ("draft", "line", "note", "label", "owner", "budget", "report", "photo", "review", "archive",
     "folder", "stamp", "price", "batch", "route", "claim", "token", "chart", "badge", "quota"),
)]  # fmt: skip
FUNCTION = {
    "type": "function",
    "name": "open_garage",
    "description": "Open the garage door.",
    "parameters": {"type": "object", "properties": {"slowly": {"type": "boolean"}}},
    "defer_loading": True,
}


def declared(verb: str, noun: str) -> str:
    schema = """{ type = "object", required = ["id"], properties = {
  id = { type = "string", description = "Which one, as the list gives it" },
  fields = { type = "array", items = { type = "string" }, description = "What to give back; all if left out" },
  dry_run = { type = "boolean", description = "Only say what would happen" } } }"""
    return (
        f'[[tools]]\nname = "{verb}_{noun}"\ndescription = "{ABOUT.format(verb=verb, noun=noun)}"\n'
        f'executionType = "internal"\nvisible = false\ninputSchema = {schema.replace(chr(10), " ")}\n'
    )


def config(*, verbs: tuple[str, ...] = VERBS) -> str:
    tools = "\n".join(itertools.starmap(declared, itertools.product(verbs, NOUNS)))
    agents = '[agents.ada]\nmodel = "tiny"\n[agents.all]\nmodel = "tiny"\nsearch_tools_above = 0\n'
    outgoing = '[outgoing]\nallow = ["127.0.0.1"]\n'
    return f"{agents}\n{outgoing}\n{tools}"


def tokens(body: Any) -> int:
    """About what the tools of a request cost the model."""
    return len(msgspec.json.encode(body["tools"])) // BYTES_PER_TOKEN


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with chat_scene(tmp_path_factory.mktemp("search"), lambda _: config()) as scene:
        yield scene


FIND = ("search_tools", {"query": "export invoice draft", "limit": 2})
USE = ("export_invoice_draft", {"id": "17"})


@requirement("MCP2-search-responses", "MCP2-search-cheap")
async def test_a_response_over_two_thousand_tools_costs_its_model_a_few_hundred_tokens(scene: Scene) -> None:
    scene.plays(calls(FIND), calls(USE))
    made = await scene.ask(tools=[CATALOG])
    asked = scene.chat.bodies

    assert names(asked[0]) == ["search_tools"]
    assert "2,000 tools" in asked[0]["tools"][0]["function"]["description"]
    assert tokens(asked[0]) < 300
    assert names(asked[1])[:2] == ["search_tools", "export_invoice_draft"]
    assert len(names(asked[1])) == 3
    assert tokens(asked[1]) < 900
    assert asked[1]["tools"][0] == asked[0]["tools"][0], "what was found is added at the end"
    assert asked[2]["tools"] == asked[1]["tools"]
    assert [item.type for item in made.output] == [
        "mcp_list_tools",
        "tool_search_call",
        "tool_search_output",
        "mcp_call",
        "message",
    ]
    _, search, found, used, _ = made.output
    assert (search.execution, search.call_id, search.status) == ("server", None, "completed")
    assert search.arguments == {"query": "export invoice draft", "limit": 2}
    assert (found.execution, found.call_id, found.status) == ("server", None, "completed")
    assert found.tools[0].type == "mcp"
    assert found.tools[0].allowed_tools[0] == "export_invoice_draft"
    assert (used.name, used.status) == ("export_invoice_draft", "completed")

    scene.plays()
    await scene.ask(tools=[{**CATALOG, "defer_loading": False}])
    assert len(names(scene.chat.bodies[0])) == MANY, "a request may have all of them"
    assert tokens(scene.chat.bodies[0]) > 300 * tokens(asked[0])


@requirement("MCP2-search-stays")
async def test_what_a_response_found_is_shown_in_those_that_continue_it(scene: Scene) -> None:
    scene.plays(calls(FIND))
    first = await scene.ask(tools=[CATALOG])
    before = scene.chat.bodies[-1]["tools"]

    scene.plays(calls(USE))
    second = await scene.ask("And now?", tools=[CATALOG], previous_response_id=first.id)
    assert scene.chat.bodies[0]["tools"] == before
    assert [item.type for item in second.output] == ["mcp_call", "message"]
    told = scene.chat.bodies[0]["messages"]
    [searched] = [message for message in told if message.get("tool_calls")]
    assert searched["tool_calls"][0]["function"]["name"] == "search_tools"
    [result] = [message for message in told if message["role"] == "tool"]
    assert [tool["name"] for tool in msgspec.json.decode(result["content"])["tools"]] == names(scene.chat.bodies[0])[1:]

    scene.plays()
    said = [{"role": "user", "content": "Go."}, *(item.to_dict() for item in first.output)]
    await scene.ask(said, tools=[CATALOG], store=False)
    assert scene.chat.bodies[0]["tools"] == before, "also where the client keeps the conversation"


@requirement("MCP2-search-by-name")
async def test_a_tool_that_was_not_searched_for_can_be_called_by_its_name(scene: Scene) -> None:
    scene.plays(calls(USE))
    made = await scene.ask(tools=[CATALOG])
    assert [(item.name, item.status) for item in made.output if item.type == "mcp_call"] == [(USE[0], "completed")]
    assert names(scene.chat.bodies[1]) == ["search_tools", USE[0]]

    scene.plays(calls(USE))
    limited = await scene.ask(tools=[{**CATALOG, "allowed_tools": [f"read_{noun}" for noun in NOUNS]}])
    assert not [item for item in limited.output if item.type == "mcp_call"]
    assert "There is no tool" in scene.chat.bodies[1]["messages"][-1]["content"]


@requirement("MCP2-search-defer-loading")
async def test_a_request_says_which_of_its_tools_are_loaded_when_they_are_found(scene: Scene) -> None:
    space = {
        "type": "namespace",
        "name": "home",
        "description": "Things at home",
        "tools": [{**FUNCTION, "name": "water_plants", "description": "Water the plants."}],
    }
    loaded = {"type": "function", "name": "ring", "parameters": {"type": "object", "properties": {}}}
    mcp = {"type": "jackfield:catalog", "tools": ["export_invoice_*"], "defer_loading": True}
    tools = [SEARCH, FUNCTION, loaded, space, mcp]
    scene.plays(
        calls(("search_tools", {"query": "garage door"}), ("search_tools", {"query": "water plants"})),
        calls(("open_garage", {})),
    )
    made = await scene.ask("Open it.", tools=tools)
    asked = scene.chat.bodies
    assert names(asked[0]) == ["ring", "search_tools"]
    described = asked[0]["tools"][1]["function"]["description"]
    assert "22 tools" in described
    assert "home (1; Things at home)" in described
    assert names(asked[1])[:2] == ["ring", "search_tools"]
    assert {"open_garage", "home__water_plants"} <= set(names(asked[1]))
    shown = [tool.to_dict() for item in made.output if item.type == "tool_search_output" for tool in item.tools]
    assert {**FUNCTION, "strict": None} in shown
    assert [inner["name"] for tool in shown if tool["type"] == "namespace" for inner in tool["tools"]] == [
        "water_plants"
    ]
    [wanted] = [item for item in made.output if item.type == "function_call"]
    assert wanted.name == "open_garage"

    scene.plays()
    output = {"type": "function_call_output", "call_id": wanted.call_id, "output": "open"}
    await scene.ask([output], tools=tools, previous_response_id=made.id)
    assert scene.chat.bodies[0]["tools"] == asked[1]["tools"]


@requirement("MCP2-search-defer-loading")
async def test_a_client_that_searches_itself_shows_the_model_what_it_found(scene: Scene) -> None:
    by_client = {"type": "tool_search", "execution": "client", "description": "Find.", "parameters": {"type": "object"}}
    scene.plays(calls(("tool_search", {"query": "garage"})))
    made = await scene.ask("Open it.", tools=[by_client, FUNCTION])
    assert names(scene.chat.bodies[0]) == ["tool_search"]
    [asked] = [item for item in made.output if item.type == "tool_search_call"]
    scene.plays()
    found = {"type": "tool_search_output", "call_id": asked.call_id, "execution": "client", "tools": [FUNCTION]}
    await scene.ask([found], tools=[by_client, FUNCTION], previous_response_id=made.id)
    assert names(scene.chat.bodies[0]) == ["tool_search", "open_garage"]


@requirement("MCP2-search-choice")
async def test_tools_that_tool_choice_names_are_loaded_and_a_search_is_no_use_of_a_tool(scene: Scene) -> None:
    scene.plays(calls(USE))
    await scene.ask(tools=[CATALOG], tool_choice={"type": "mcp", "server_label": "jackfield", "name": USE[0]})
    assert names(scene.chat.bodies[0]) == [USE[0], "search_tools"]
    assert scene.chat.bodies[0]["tool_choice"]["function"]["name"] == USE[0]

    scene.plays(calls(FIND), calls(USE))
    await scene.ask(tools=[CATALOG], tool_choice="required", max_tool_calls=1)
    assert [body["tool_choice"] for body in scene.chat.bodies] == ["required", "required", "none"]

    scene.plays()
    allowed = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "mcp", "server_label": "jackfield", "name": USE[0]}],
    }
    await scene.ask(tools=[CATALOG], tool_choice=allowed)
    assert names(scene.chat.bodies[0]) == [USE[0]], "there is nothing else to find"


async def test_tokens_are_counted_as_the_model_will_see_them(scene: Scene) -> None:
    body = {"model": "tiny", "input": "hi", "tools": [CATALOG]}
    counted = (await scene.http.post("/v1/responses/input_tokens", json=body)).json()["input_tokens"]
    assert counted < 300


async def test_a_search_that_fails_is_an_answer_that_found_nothing(scene: Scene) -> None:
    scene.plays(calls(("search_tools", {"query": ""})))
    made = await scene.ask(tools=[CATALOG])
    [found] = [item for item in made.output if item.type == "tool_search_output"]
    assert (found.tools, found.status) == ([], "incomplete")
    assert "query" in scene.chat.bodies[1]["messages"][-1]["content"]
    assert names(scene.chat.bodies[1]) == ["search_tools"]


@requirement("MCP2-search-agents", "MCP2-search-cheap", "MCP2-search-stays")
async def test_an_agent_with_two_thousand_tools_searches_them(scene: Scene) -> None:
    scene.plays(calls(FIND), calls(USE))
    await scene.cycle("ada", 1)
    first, second, *_ = scene.chat.bodies
    own = [tool for tool in first["tools"] if tool["function"]["name"] != "search_tools"]
    [search] = [tool for tool in first["tools"] if tool["function"]["name"] == "search_tools"]
    assert not {name for name in names(first) if name.endswith(tuple(NOUNS))}
    assert "2,000 tools" in search["function"]["description"]
    assert len(own) < 20
    assert tokens({"tools": [search]}) < 300
    assert second["tools"][: len(first["tools"])] == first["tools"]
    assert names(second)[len(first["tools"])] == USE[0]
    result = [message for message in scene.chat.bodies[2]["messages"] if message["role"] == "tool"][-1]
    assert msgspec.json.decode(result["content"]) == {"success": True, "args": {"id": "17"}}

    scene.plays()
    await scene.cycle("ada", 2)
    assert scene.chat.bodies[0]["tools"] == second["tools"], "it still remembers its search"

    scene.plays()
    await scene.cycle("all", 1)
    assert len(names(scene.chat.bodies[0])) > MANY, "its config says so"


@requirement("MCP2-search-sessions")
async def test_an_agent_in_a_session_searches_too(scene: Scene) -> None:
    scene.plays(calls(FIND), calls(USE), speaks("Exported."))
    answer = await scene.http.post("/api/sessions", json={"agent": "ada"})
    assert answer.status_code < 300, answer.text
    session = answer.json()["session_id"]
    await scene.http.post(f"/api/sessions/{session}/messages", json={"message": "Export it."})
    await eventually_async(lambda: len(scene.chat.bodies) == 3)
    assert names(scene.chat.bodies[0]) == ["search_tools"]
    assert names(scene.chat.bodies[1])[:2] == ["search_tools", USE[0]]


@requirement("MCP2-search-stays")
@pytest.mark.timeout(120)
async def test_a_cycle_that_is_resumed_after_a_crash_is_shown_what_it_had_found(tmp_path: Path) -> None:
    hangs = asyncio.Event()

    async def is_asked() -> AsyncIterator[bytes]:
        hangs.set()
        await asyncio.Event().wait()
        yield b""

    async with ChatServer() as chat:
        chat.plays = [calls(FIND), is_asked]
        gateway = await asyncio.to_thread(start_gateway, tmp_path, model_at(chat.base_url) + config(verbs=("export",)))
        try:
            body = {"serviceName": "clock", "payload": "Export the invoice."}
            url = f"{gateway.url}/api/agents/ada/trigger"
            httpx2.post(url, json=body, headers=gateway.headers).raise_for_status()
            async with asyncio.timeout(30):
                await hangs.wait()
            gateway.process.send_signal(signal.SIGKILL)
            gateway.process.wait()
            asked = chat.bodies[1]
            chat.received.clear()
            chat.plays = [calls(USE), speaks()]
            gateway = await asyncio.to_thread(start_gateway, tmp_path)
            await eventually_async(lambda: len(chat.bodies) == 2)
            assert chat.bodies[0]["tools"] == asked["tools"]
            assert chat.bodies[0]["messages"][1:] == asked["messages"][1:]
            assert USE[0] in names(chat.bodies[0])
        finally:
            gateway.kill()
