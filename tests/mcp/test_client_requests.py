"""What a server behind the gateway asks of its caller's client, over both eras in front and behind."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp.types as t
import pytest
from mcp.client.context import ClientRequestContext

from tests.mcp.scene import Scene, mcp_scene
from tests.requirement import requirement
from tests.sources.mcp.scene import http_server

ERAS = ["legacy", "2026-07-28"]
ABLE: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "sampling": {}, "roots": {}}}
KINDS = {"who": "elicitation/create", "thought": "sampling/createMessage", "folders": "roots/list"}
CONFIG = """
[sources.modern]
kind = "mcp"
url = "{modern}"
prefix = "modern_"
[sources.legacy]
kind = "mcp"
url = "{legacy}"
prefix = "legacy_"
"""


RESPONSES: dict[str, Any] = {
    "who": {"action": "accept", "content": {"name": "Ada"}},
    "thought": {"role": "assistant", "content": {"type": "text", "text": "four"}, "model": "m"},
    "folders": {"roots": []},
}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with (
        http_server(tmp_path_factory.mktemp("modern")) as modern,
        http_server(tmp_path_factory.mktemp("legacy"), legacy=True) as legacy,
    ):
        yield CONFIG.format(modern=modern.url, legacy=legacy.url)


async def elicit(_context: ClientRequestContext, params: t.ElicitRequestParams) -> t.ElicitResult:
    assert params.message == "Who is it?"
    return t.ElicitResult(action="accept", content={"name": "Ada"})


async def sample(_context: ClientRequestContext, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:
    (message,) = params.messages
    assert params.max_tokens == 50
    assert isinstance(message.content, t.TextContent)
    return t.CreateMessageResult(
        role="assistant", content=t.TextContent(text=message.content.text), model="the client's"
    )


async def roots(_context: ClientRequestContext) -> t.ListRootsResult:
    return t.ListRootsResult(roots=[t.Root.model_validate({"uri": "file:///home/ada", "name": "home"})])


CALLBACKS: dict[str, Any] = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots}


async def listed(scene: Scene) -> None:
    """Both servers have given their tools."""
    await scene.gateway.source_registry.settled(within=10)
    await scene.gateway.catalog.update_aside(scene.gateway.source_registry.listings())


@requirement("MCP2-client-requests")
@pytest.mark.parametrize("front", ERAS)
@pytest.mark.parametrize("back", ["legacy", "modern"])
async def test_the_callers_client_is_asked_for_everything(tmp_path: Path, config: str, front: str, back: str) -> None:
    async with mcp_scene(tmp_path, config) as scene, scene.client(mode=front, **CALLBACKS) as client:
        await listed(scene)
        async with asyncio.timeout(10):
            result = await client.call_tool(f"{back}_inquire", {})
        answers = json.loads(result.content[0].text)  # type: ignore[union-attr]
        assert answers["who"] == {"action": "accept", "content": {"age": 7, "name": "Ada"}}
        assert answers["thought"]["model"] == "the client's"
        assert answers["thought"]["content"]["text"] == "What is two and two?"
        assert answers["folders"]["roots"] == [{"name": "home", "uri": "file:///home/ada"}]


@requirement("MCP2-client-requests")
async def test_several_requests_of_a_server_are_one_result_and_answers_may_come_in_parts(
    tmp_path: Path, config: str
) -> None:
    call = {"name": "modern_inquire", "arguments": {}}
    async with mcp_scene(tmp_path, config) as scene:
        await listed(scene)
        asked = (await scene.ask("tools/call", call, meta=ABLE)).json()["result"]
        assert asked["resultType"] == "input_required"
        assert {key: one["method"] for key, one in asked["inputRequests"].items()} == KINDS
        only = {"who": RESPONSES["who"], "stranger": {"action": "accept"}}
        again = {**call, "requestState": asked["requestState"], "inputResponses": only}
        rest = (await scene.ask("tools/call", again, meta=ABLE)).json()["result"]
        assert set(rest["inputRequests"]) == {"thought", "folders"}
        stale = (await scene.ask("tools/call", again, meta=ABLE)).json()
        assert stale["error"]["code"] == -32602
        last = {**call, "requestState": rest["requestState"], "inputResponses": RESPONSES}
        done = (await scene.ask("tools/call", last, meta=ABLE)).json()["result"]
        assert json.loads(done["content"][0]["text"])["thought"]["content"]["text"] == "four"


@requirement("MCP2-client-requests")
async def test_answers_that_come_with_the_first_request_are_used_and_others_ignored(
    tmp_path: Path, config: str
) -> None:
    early = {**RESPONSES, "stranger": {"action": "accept"}}
    async with mcp_scene(tmp_path, config) as scene:
        await listed(scene)
        call = {"name": "modern_inquire", "arguments": {}, "inputResponses": early}
        done = (await scene.ask("tools/call", call, meta=ABLE)).json()["result"]
        assert json.loads(done["content"][0]["text"])["folders"] == {"roots": []}
        wrong = {**call, "inputResponses": {**early, "folders": 5}}
        asked = (await scene.ask("tools/call", wrong, meta=ABLE)).json()["result"]
        assert set(asked["inputRequests"]) == {"folders"}


@requirement("MCP2-client-capabilities")
async def test_a_server_sees_what_the_client_declares_and_its_refusal_is_passed_on(tmp_path: Path, config: str) -> None:
    async with mcp_scene(tmp_path, config) as scene:
        await listed(scene)
        answer = await scene.ask("tools/call", {"name": "modern_capable", "arguments": {}})
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": {"roots": {}}})
        assert "It works in your folders" in error["message"]
        able = (await scene.ask("tools/call", {"name": "modern_capable", "arguments": {}}, meta=ABLE)).json()["result"]
        assert set(json.loads(able["content"][0]["text"])) == {"elicitation", "roots", "sampling"}
        async with scene.client(mode="legacy") as client:
            refused = await client.call_tool("modern_capable", {})
            assert refused.is_error
            assert "It works in your folders" in str(refused.content)


@requirement("MCP2-client-requests")
@pytest.mark.parametrize("front", ERAS)
@pytest.mark.parametrize("back", ["legacy", "modern"])
async def test_what_the_client_does_not_declare_is_refused(tmp_path: Path, config: str, front: str, back: str) -> None:
    async with (
        mcp_scene(tmp_path, config) as scene,
        scene.client(mode=front, elicitation_callback=elicit) as client,
        asyncio.timeout(10),
    ):
        await listed(scene)
        for tool in ("think", "inquire"):
            refused = await client.call_tool(f"{back}_{tool}", {})
            assert refused.is_error, refused


@requirement("MCP2-client-requests")
@pytest.mark.parametrize("back", ["legacy", "modern"])
async def test_a_client_of_the_handshake_era_may_refuse_a_request(tmp_path: Path, config: str, back: str) -> None:
    async def refuse(_context: ClientRequestContext, _params: Any) -> t.ErrorData:
        return t.ErrorData(code=-1, message="The person said no")

    async with (
        mcp_scene(tmp_path, config) as scene,
        scene.client(mode="legacy", sampling_callback=refuse) as client,
        asyncio.timeout(10),
    ):
        await listed(scene)
        result = await client.call_tool(f"{back}_think", {})
        assert result.is_error
        assert "The person said no" in str(result.content)
