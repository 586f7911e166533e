"""HTTP servers of every temper, byte by byte."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.sources.mcp.transport import McpClientError
from tests.requirement import requirement
from tests.sources.mcp.scene import Scene, failed, scene
from tests.sources.upstream import Received, Upstream, json_reply, reply
from tests.waiting import eventually_async

Answer = bytes | Callable[[Any], bytes] | Callable[[Any], Iterator[bytes]]
ECHO = {"name": "echo", "inputSchema": {"type": "object", "properties": {}}}
HELLO = {"content": [{"type": "text", "text": "hello"}]}


class Server:
    """A server of the older era on `Upstream`, with its own answers to `tools/call`."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.calls: Answer = b""
        self.stream: bytes = reply(405)
        self.sessions = 0
        upstream.answers["/mcp"] = self.answer

    @property
    def url(self) -> str:
        return f"{self.upstream.url}/mcp"

    def answer(self, request: Received) -> Any:
        if request.method != "POST":
            return self.stream if request.method == "GET" else reply(200)
        message = msgspec.json.decode(request.body)
        match message["method"]:
            case "initialize":
                self.sessions += 1
                result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
                body = msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], "result": result})
                return reply(200, body, content_type="application/json", mcp_session_id=f"s{self.sessions}")
            case "tools/list":
                return said(message, {"tools": [ECHO]})
            case "tools/call":
                return self.calls(message) if callable(self.calls) else self.calls
            case method if method.startswith("notifications/"):
                return reply(202)
        return json_reply({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "Bad version"}}, 400)


def said(message: Any, result: Any) -> bytes:
    return json_reply({"jsonrpc": "2.0", "id": message["id"], "result": result})


def streamed(*events: str, open_end: bool = False) -> bytes:
    body = "".join(events).encode()
    head = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n"
    length = f"content-length: {len(body) + (1 if open_end else 0)}\r\n\r\n"
    return (head + length).encode() + body


def event(message: Any, *, number: int | None = None) -> str:
    mark = "" if number is None else f"id: {number}\nretry: 20\n"
    return f"{mark}data: {msgspec.json.encode(message).decode()}\n\n"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Upstream() as upstream:
        yield Server(upstream)


@pytest.fixture
async def far(server: Server, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path, url=server.url, headers={"Authorization": "Bearer k3y"}) as made:
        await made.open()
        yield made


async def test_the_configs_headers_go_with_every_request(far: Scene, server: Server) -> None:
    server.calls = lambda message: said(message, HELLO)
    assert await far.result("echo") == "hello"
    assert {request.headers["authorization"] for request in server.upstream.received} == {"Bearer k3y"}
    last = server.upstream.received[-1].headers
    assert (last["mcp-session-id"], last["mcp-protocol-version"]) == ("s1", "2025-06-18")


async def test_a_stream_may_hold_other_things_before_the_answer(far: Scene, server: Server) -> None:
    server.calls = lambda message: streamed(
        ": a comment\n\n",
        "data: \n\n",
        "data: no json\n\n",
        event({"jsonrpc": "2.0", "method": "notifications/unheard_of", "params": [1]}),
        event({"jsonrpc": "2.0", "id": 12345, "result": {"content": []}}),
        event({"jsonrpc": "2.0", "id": "q1", "method": "ping"}),
        event({"jsonrpc": "2.0", "id": message["id"], "result": HELLO}),
    )
    assert await far.result("echo") == "hello"
    await eventually_async(lambda: b'"id":"q1","result":{}' in server.upstream.received[-1].body)


async def test_a_stream_that_ends_early_is_resumed_where_the_server_numbers_its_events(
    far: Scene, server: Server
) -> None:
    progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 0, "progress": 1}}

    def calls(message: Any) -> bytes:
        server.stream = streamed(event({"jsonrpc": "2.0", "id": message["id"], "result": HELLO}, number=8))
        return streamed(event(progress, number=7))

    server.calls = calls
    assert await far.result("echo") == "hello"
    [resumed] = [request for request in server.upstream.received if "last-event-id" in request.headers]
    assert (resumed.method, resumed.headers["last-event-id"]) == ("GET", "7")


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (reply(500, b"oops"), "source_unavailable", "The server answered HTTP 500."),
        (reply(200, b"<html>"), "mcp_error", "The server answered HTTP 200 without a result."),
        (reply(202), "mcp_error", "The server answered HTTP 202 without a result."),
        (reply(418), "mcp_error", "The server answered HTTP 418."),
        (streamed(event({"jsonrpc": "2.0", "id": 99, "result": {}})), "source_unavailable", "before the result"),
        (json_reply({"jsonrpc": "2.0", "id": 99, "result": {}}), "mcp_error", "without a result"),
        (b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\n{", "source_unavailable", "connection"),
        (b"garbage\r\n\r\n", "source_unavailable", "did not answer in HTTP"),
    ],
)
async def test_an_answer_that_is_none_is_a_failure_of_its_call_alone(
    answer: bytes, code: str, words: str, far: Scene, server: Server
) -> None:
    def cut(_: Any) -> bytes:
        return answer

    server.calls = cut if b"content-length: 100" not in answer else _abort(server, answer)
    outcome = failed(await far.call("echo"))
    assert outcome.code == code
    assert words in outcome.message
    server.calls = lambda message: said(message, HELLO)
    assert await far.result("echo") == "hello"


def _abort(server: Server, answer: bytes) -> Callable[[Any], Iterator[bytes]]:
    def parts(_: Any) -> Iterator[bytes]:
        yield answer
        raise ConnectionError

    return parts


@pytest.mark.parametrize(
    "refusal",
    [
        reply(404, b"no such session"),
        json_reply({"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "No valid session ID"}}, 400),
    ],
)
async def test_a_server_that_forgot_our_session_gets_a_new_handshake(
    refusal: bytes, far: Scene, server: Server
) -> None:
    server.calls = lambda message: said(message, HELLO) if server.sessions > 1 else refusal
    assert "has not run this call" in failed(await far.call("echo")).message
    assert await far.result("echo") == "hello"
    assert server.sessions == 2


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "The server refused the handshake: The server answered HTTP 401. Check the source's headers."),
        (405, 'HTTP 405. Check the url; for a server of 2024, set transport = "sse".'),
        (503, "The server answered HTTP 503."),
    ],
)
async def test_a_refused_handshake_says_what_to_check(status: int, hint: str, tmp_path: Path) -> None:
    async with Upstream() as upstream:
        upstream.answers["/mcp"] = reply(status)
        async with scene(tmp_path, url=f"{upstream.url}/mcp") as far:
            with pytest.raises(McpClientError) as caught:
                await far.source.open()
    assert str(caught.value).endswith(hint)


async def test_a_silent_server_costs_no_more_than_its_time(tmp_path: Path) -> None:
    async def silent(_: Received) -> bytes:
        await asyncio.Event().wait()
        return b""

    async with Upstream() as upstream:
        upstream.answers["/mcp"] = silent
        async with scene(tmp_path, url=f"{upstream.url}/mcp", connect_timeout=0.3) as far:
            async with asyncio.timeout(3):
                with pytest.raises(McpClientError, match=r"The server did not answer within 0\.3 s\."):
                    await far.source.open()


async def test_messages_are_posted_to_no_other_origin(tmp_path: Path) -> None:
    async with Upstream() as upstream:
        upstream.answers["/sse"] = streamed("event: endpoint\ndata: http://127.0.0.1:1/steal\n\n", open_end=True)
        async with scene(tmp_path, url=f"{upstream.url}/sse", transport="sse") as far:
            with pytest.raises(McpClientError, match="a message endpoint on another origin"):
                await far.source.open()


@requirement("MCP2-discover-again")
@pytest.mark.parametrize("refusals", [1, 2])
async def test_a_server_that_refuses_the_revision_it_speaks_is_asked_once_more(tmp_path: Path, refusals: int) -> None:
    asked: list[tuple[str, str | None]] = []

    def answer(request: Received) -> bytes:
        message = msgspec.json.decode(request.body)
        asked.append((message["method"], request.headers.get("mcp-protocol-version")))
        if message["method"] == "server/discover" and len(asked) <= refusals:
            refusal = {"code": -32022, "message": "Unsupported", "data": {"supported": ["2026-07-28"]}}
            return json_reply({"jsonrpc": "2.0", "id": message["id"], "error": refusal}, 400)
        if message["method"] == "server/discover":
            return said(message, {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        if message["method"] == "tools/list":
            return said(message, {"tools": [ECHO]})
        return reply(400)

    async with Upstream() as upstream:
        upstream.answers["/mcp"] = answer
        async with scene(tmp_path, url=f"{upstream.url}/mcp") as far:
            if refusals == 1:
                await far.open()
                assert asked == [("server/discover", "2026-07-28")] * 2 + [("tools/list", "2026-07-28")]
            else:
                with pytest.raises(McpClientError, match="refused the handshake"):
                    await far.open()
                assert [method for method, _ in asked] == ["server/discover", "server/discover", "initialize"]
