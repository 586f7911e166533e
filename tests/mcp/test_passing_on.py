"""Log levels, log messages, `_meta` and idempotency keys: from a client to the server behind the gateway, and back."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp.types as t
import msgspec
import pytest
from mcp import Client

from tests.mcp.scene import BOTH, KEY, META, VERSION, Scene, mcp_scene
from tests.requirement import requirement
from tests.sources.mcp.scene import HttpServer, http_server
from tests.waiting import eventually_async

pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
ERAS = ["legacy", "2026-07-28"]
BACKS = ["legacy", "modern"]
LEVEL = "io.modelcontextprotocol/logLevel"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
IDEMPOTENCY = "jackfield/idempotency-key"
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


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, HttpServer]]:
    with (
        http_server(tmp_path_factory.mktemp("modern")) as modern,
        http_server(tmp_path_factory.mktemp("legacy"), legacy=True) as legacy,
    ):
        yield {"modern": modern, "legacy": legacy}


@pytest.fixture
def config(servers: dict[str, HttpServer]) -> str:
    return CONFIG.format(modern=servers["modern"].url, legacy=servers["legacy"].url)


async def listed(scene: Scene) -> None:
    """Both servers have given their tools."""
    await scene.gateway.source_registry.settled(within=10)
    await scene.gateway.catalog.update_aside(scene.gateway.source_registry.listings())


def messages(text: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


@requirement("MCP2-meta", "MCP2-logging")
@pytest.mark.parametrize("back", BACKS)
async def test_meta_trace_and_log_level_go_both_ways_from_a_modern_client(
    tmp_path: Path, config: str, back: str
) -> None:
    meta = {"acme/a": {"b": [1]}, "progressToken": "p", LEVEL: "debug", "traceparent": TRACE, "tracestate": "a=b"}
    async with mcp_scene(tmp_path, config) as scene:
        await listed(scene)
        answer = await scene.ask("tools/call", {"name": f"{back}_about", "arguments": {}}, meta=meta)
        told = messages(answer.text)
        (progress,) = [one["params"] for one in told if one.get("method") == "notifications/progress"]
        assert (progress["progressToken"], progress["_meta"]) == ("p", {"acme/of": "progress"})
        (said,) = [one["params"] for one in told if one.get("method") == "notifications/message"]
        assert said == {"level": "debug", "logger": "engine", "data": {"deep": ["down"]}}
        result = told[-1]["result"]
        assert result["_meta"]["acme/of"] == "result"
        (block,) = result["content"]
        assert block["_meta"] == {"acme/of": "content"}
        known = json.loads(block["text"])
        assert known["meta"]["acme/a"] == {"b": [1]}
        assert (known["meta"]["traceparent"], known["meta"]["tracestate"]) == (TRACE, "a=b")
        assert "p" not in known["meta"].values()
        assert "io.modelcontextprotocol/clientInfo" not in known["meta"] or back == "modern"
        assert (known["level"] if back == "legacy" else known["meta"][LEVEL]) == "debug"


@requirement("MCP2-logging")
@pytest.mark.parametrize("back", BACKS)
async def test_the_level_of_a_session_reaches_the_server_and_the_data_stays_json(
    tmp_path: Path, config: str, back: str
) -> None:
    heard: list[t.LoggingMessageNotificationParams] = []

    async def hear(params: t.LoggingMessageNotificationParams) -> None:
        heard.append(params)

    async with mcp_scene(tmp_path, config) as scene, scene.client(mode="legacy", logging_callback=hear) as client:
        await listed(scene)
        await client.set_logging_level("debug")
        result = await client.call_tool(f"{back}_about", {})
        await eventually_async(lambda: bool(heard))
        assert (heard[0].level, heard[0].logger, heard[0].data) == ("debug", "engine", {"deep": ["down"]})
        known = json.loads(result.content[0].text)  # type: ignore[union-attr]
        assert (known["level"] if back == "legacy" else known["meta"][LEVEL]) == "debug"
        await client.set_logging_level("error")
        heard.clear()
        await client.call_tool(f"{back}_about", {})
        assert not heard
        if back == "legacy":  # nobody wants more than the gateway itself
            await eventually_async(lambda: _level(client, "legacy_about", "info"))


async def _level(client: Any, tool: str, wanted: str) -> bool:
    result = await client.call_tool(tool, {})
    return bool(json.loads(result.content[0].text)["level"] == wanted)


@requirement("MCP2-logging")
async def test_what_a_server_says_outside_calls_reaches_administrators_sessions_that_want_it(
    tmp_path: Path, config: str
) -> None:
    heard: dict[str, list[Any]] = {"all": [], "limited": [], "caller": [], "silent": []}

    def hearing(name: str) -> Any:
        async def hear(params: t.LoggingMessageNotificationParams) -> None:
            heard[name].append(params.data)

        return hear

    async with (
        mcp_scene(tmp_path, config) as scene,
        scene.client(mode="legacy", logging_callback=hearing("all")) as client,
        scene.client(mode="legacy", logging_callback=hearing("limited"), key="limited-key") as limited,
        scene.client(mode="legacy", logging_callback=hearing("caller"), key="caller-key") as caller,
        scene.client(mode="legacy", logging_callback=hearing("silent")),
        asyncio.timeout(20),
    ):
        await listed(scene)
        for one in (client, limited, caller):
            await one.set_logging_level("info")
        while not heard["all"]:  # only the client knows when its stream is open
            await client.call_tool("legacy_announce", {"text": "the disk is full"})
            await asyncio.sleep(0.3)
        assert heard["all"][0] == "the disk is full"
        assert heard["limited"] == heard["caller"] == heard["silent"] == []


@requirement("MCP2-idempotency")
@pytest.mark.parametrize("front", ERAS)
async def test_an_idempotency_key_makes_a_call_once_over_mcp_and_http_alike(tmp_path: Path, front: str) -> None:
    async with mcp_scene(tmp_path) as scene, scene.client(mode=front) as client:
        meta: Any = {IDEMPOTENCY: "order-1"}
        first = await client.call_tool("echo", {"text": "a"}, meta=meta)
        again = await client.call_tool("echo", {"text": "a"}, meta=meta)
        assert first.meta is not None
        assert again.meta is not None
        assert first.meta["jackfield/callId"] == again.meta["jackfield/callId"]
        other = await client.call_tool("echo", {"text": "b"}, meta=meta)
        assert other.is_error
        assert other.meta is not None
        assert other.meta["jackfield/code"] == "conflict"
        headers = {"x-api-key": KEY, "idempotency-key": "order-1"}
        over_http = await scene.http.post(
            "/api/v1/tools/echo/execute", json={"arguments": {"text": "a"}}, headers=headers
        )
        assert over_http.json()["call_id"] == first.meta["jackfield/callId"]


@requirement("MCP2-idempotency")
async def test_a_key_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        for key in ("", "x" * 256, "white space", 5):
            call = {"name": "echo", "arguments": {"text": "a"}}
            answer = await scene.ask("tools/call", call, meta={IDEMPOTENCY: key})
            assert answer.json()["error"]["code"] == -32602


async def read_book(client: Client, book: str, back: str, **more: Any) -> str:
    result = await client.read_resource(f"{book}://book" if back == "modern" else own(book), **more)
    return str(result.contents[0].text)  # type: ignore[union-attr]


def own(book: str) -> str:
    """Both servers have the same URIs; the later one's are offered under the gateway's scheme."""
    return f"jackfield://legacy/{book}%3A%2F%2Fbook"


async def get_prompt(client: Client, book: str, back: str, **more: Any) -> str:
    result = await client.get_prompt(f"{back}_{book}", **more)
    return str(result.messages[0].content.text)  # type: ignore[union-attr]


@requirement("MCP2-client-requests")
@pytest.mark.parametrize("front", ERAS)
@pytest.mark.parametrize("back", BACKS)
async def test_resources_and_prompts_may_ask_the_client_too(tmp_path: Path, config: str, front: str, back: str) -> None:
    async def answer(_context: Any, _params: Any) -> t.ElicitResult:
        return t.ElicitResult(action="accept", content={"name": "Ada"})

    async with mcp_scene(tmp_path, config) as scene, scene.client(mode=front, elicitation_callback=answer) as client:
        await listed(scene)
        for use in (read_book, get_prompt):
            async with asyncio.timeout(10):
                assert await use(client, "asking", back) == 'accept {"name": "Ada"}'


@requirement("MCP2-reads-are-cancelled")
@pytest.mark.parametrize("front", ERAS)
@pytest.mark.parametrize("back", BACKS)
async def test_progress_of_a_read_comes_back_and_its_cancellation_reaches_the_server(
    tmp_path: Path, servers: dict[str, HttpServer], front: str, back: str
) -> None:
    state = servers[back].state
    config = f'[sources.far]\nkind = "mcp"\nurl = "{servers[back].url}"\n'
    async with mcp_scene(tmp_path, config) as scene, asyncio.timeout(20):
        await listed(scene)
        session = None if front != "legacy" else await scene.shake_hands()
        for method, params in (("resources/read", {"uri": "slow://book"}), ("prompts/get", {"name": "slow"})):
            for mark in ("hanging", "stopped"):
                (state / mark).unlink(missing_ok=True)
            async with raw_request(scene, method, params, session) as lines:
                told = await anext(lines)
                assert told["params"] == {
                    "progressToken": "p",
                    "progress": 1.0,
                    "total": 2.0,
                    "message": "half a page",
                }
                await eventually_async((state / "hanging").exists)
                if session is not None:
                    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}
                    assert (await scene.post(cancel, headers=session)).status_code == 202
                    assert "error" in await anext(lines)
            await eventually_async((state / "stopped").exists)


@asynccontextmanager
async def raw_request(
    scene: Scene, method: str, params: dict[str, Any], session: dict[str, str] | None
) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """The messages that answer one request. Leaving the block closes the connection, which cancels in the new era."""
    headers = {"x-api-key": KEY, "accept": BOTH, **(session or {})}
    meta: dict[str, Any] = {"progressToken": "p"}
    if session is None:
        meta |= META
        name = params.get("uri") or params["name"]
        headers |= {"mcp-protocol-version": VERSION, "mcp-method": method, "mcp-name": name}
    body = {"jsonrpc": "2.0", "id": 9, "method": method, "params": {**params, "_meta": meta}}
    async with scene.http.stream("POST", "/mcp", json=body, headers=headers) as response:
        yield (msgspec.json.decode(line[6:]) async for line in response.aiter_lines() if line.startswith("data: {"))
