"""Streams of the handshake era that break: the call goes on, and the client comes back to what it has missed."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from jackfield.mcp import resumption
from jackfield.mcp.exchange import McpExchange
from jackfield.mcp.resumption import MAX_BYTES, SessionEvents
from jackfield.protocol.jsonrpc import RpcRequest
from jackfield.protocol.sse import EventParser, ServerEvent
from tests.mcp.scene import BOTH, KEY, Scene, mcp_scene
from tests.requirement import requirement

Session = Mapping[str, str]


@asynccontextmanager
async def stream(
    scene: Scene, method: str, session: Session, *, last: str | None = None, body: Any = None
) -> AsyncIterator[tuple[EventParser, AsyncIterator[ServerEvent]]]:
    headers = {"x-api-key": KEY, "accept": BOTH, **session, **({} if last is None else {"last-event-id": last})}
    parser = EventParser()
    async with scene.http.stream(method, "/mcp", json=body, headers=headers) as response:
        assert response.status_code == 200

        async def events() -> AsyncIterator[ServerEvent]:
            async for chunk in response.aiter_bytes():
                for event in parser.feed(chunk):
                    yield event

        yield parser, events()


def call(name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments, "_meta": {"progressToken": "p"}}
    return {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": params}


async def rest_of(scene: Scene, session: Session, last: str) -> list[ServerEvent]:
    async with stream(scene, "GET", session, last=last) as (_, events):
        return [event async for event in events]


@requirement("MCP2-resumption")
async def test_a_call_goes_on_when_its_stream_breaks_and_its_result_is_fetched_by_get(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene, asyncio.timeout(20):
        session = await scene.shake_hands()
        async with stream(scene, "POST", session, body=call("hold")) as (parser, events):
            first = await anext(events)
            assert (first.data, bool(first.id), parser.retry_ms) == ("", True, 1000)
        await scene.source.started.wait()
        scene.source.release.set()
        (last,) = await rest_of(scene, session, first.id)
        assert '"released"' in last.data
        assert last.id != first.id
        assert [one.data for one in await rest_of(scene, session, first.id)] == [last.data], "as often as it is asked"
        assert await rest_of(scene, session, last.id) == []


@requirement("MCP2-resumption")
async def test_what_was_asked_on_a_broken_stream_is_asked_again_and_may_be_answered(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene, asyncio.timeout(20):
        session = await scene.shake_hands(capabilities={"elicitation": {}})
        async with stream(scene, "POST", session, body=call("ask")) as (_, events):
            first = await anext(events)
            asked = await anext(events)
        async with stream(scene, "GET", session, last=first.id) as (_, events):
            again = await anext(events)
            assert again == asked
            question = httpx2.Response(200, content=again.data).json()
            result = {"action": "accept", "content": {"name": "Ada"}}
            told = await scene.post({"jsonrpc": "2.0", "id": question["id"], "result": result}, headers=session)
            assert told.status_code == 202
            rest = [event.data async for event in events]
        assert '"notifications/progress"' in rest[0]
        assert '"Ada"' in rest[1]


@requirement("MCP2-resumption")
async def test_a_client_that_comes_back_takes_the_place_of_a_connection_that_may_be_dead(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene, asyncio.timeout(20):
        session = await scene.shake_hands()
        async with stream(scene, "POST", session, body=call("hold")) as (_, events):
            first = await anext(events)
            async with stream(scene, "GET", session, last=first.id) as (_, later):
                scene.source.release.set()
                assert '"released"' in (await anext(later)).data
            assert [event async for event in events] == []


async def test_who_names_events_first_gets_a_stream_for_a_short_call_too(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        session = {**await scene.shake_hands(), "accept": "text/event-stream, application/json"}
        answer = await scene.post(call("echo", text="hello"), headers=session)
        assert answer.headers["content-type"].startswith("text/event-stream")
        first, last = EventParser().feed(answer.content)
        assert (first.data, first.id, last.id) == ("", "1-0", "1-1")
        assert "hello" in last.data


async def test_the_sdk_client_comes_back_by_itself(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene, asyncio.timeout(20):
        breaking = BreakingTransport(scene)
        http = httpx2.AsyncClient(transport=breaking, headers={"x-api-key": KEY}, timeout=30)
        transport = streamable_http_client("http://localhost:8420/mcp", http_client=http)
        async with http, Client(transport, mode="legacy") as client:
            result = await client.call_tool("hold", {})
            assert result.content[0].text == "released"  # type: ignore[union-attr]
            assert breaking.broken == 1


class BreakingTransport(httpx2.AsyncBaseTransport):
    """Ends the first stream that answers a POST after its first part; the tool is released then."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.broken = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self.scene.transport.handle_async_request(request)
        streams = response.headers.get("content-type", "").startswith("text/event-stream")
        if request.method == "POST" and streams and not self.broken:
            self.broken += 1
            return httpx2.Response(200, headers=response.headers, stream=_Cut(self.scene, response))
        return response


class _Cut(httpx2.AsyncByteStream):
    def __init__(self, scene: Scene, response: httpx2.Response) -> None:
        self._scene = scene
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._response.stream:  # type: ignore[union-attr]
            yield part
            break
        await self._response.aclose()
        self._scene.source.release.set()

    async def aclose(self) -> None:
        await self._response.aclose()


@requirement("MCP2-resumption")
async def test_a_session_hears_of_what_changed_while_its_stream_was_gone(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene, asyncio.timeout(20):
        session = await scene.shake_hands()
        async with stream(scene, "GET", session) as (_, events):
            first = await anext(events)
            assert first.data == ""
        await scene.list_anew(scene.source._tool("newcomer", {"type": "object"}))
        async with stream(scene, "GET", session, last=first.id) as (_, events):
            told = await anext(events)
            while not told.data:
                told = await anext(events)
            assert "tools/list_changed" in told.data
        async with stream(scene, "GET", session, last=first.id) as (_, events):
            assert (await anext(events)) == told, "sent again, since it was perhaps not received"


async def test_an_event_that_nobody_knows_opens_the_stream_of_the_session(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene, asyncio.timeout(20):
        session = await scene.shake_hands()
        for unknown in ("77-1", "nonsense", "0-x", "0-99999999999999999999"):
            async with stream(scene, "GET", session, last=unknown) as (_, events):
                assert (await anext(events)).id == "0-0"


async def test_a_stream_that_nobody_comes_back_to_lapses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumption, "RESUME_SECONDS", 0.01)
    events, lapsed = SessionEvents(), asyncio.Event()
    one = events.open(exchange())
    one.attach(owner := object())
    kept = one.frame(b"{}")
    assert events.find("1-1") == (one, 1)
    assert one.after(0) == [kept]
    one.detach(owner, on_lapse=lapsed.set)
    async with asyncio.timeout(5):
        await lapsed.wait()
    assert events.find("1-1") is None
    assert one.after(0) == []


async def test_what_is_kept_for_a_session_is_bounded() -> None:
    events = SessionEvents()
    one = events.open(exchange())
    for number in range(2_000):
        one.frame(b'{"n":%d}' % number)
    assert len(one.after(0)) == 1_000
    one.frame(b'"%b"' % (b"x" * MAX_BYTES))
    assert one.after(0) == []
    many = [events.open(exchange()) for _ in range(50)]
    for each in many:
        each.outcome(b"{}")
    events.open(exchange())
    assert events.find(f"{many[0].id}-1") is None


async def test_large_outcomes_are_not_kept_for_those_who_had_them() -> None:
    events = SessionEvents()
    first, second = (events.open(exchange()) for _ in range(2))
    for stream in (first, second):
        stream.attach(owner := object())
        stream.outcome(b"x" * (MAX_BYTES * 2 // 3))
        stream.detach(owner, on_lapse=None)
    assert events.find(f"{first.id}-0") is None
    assert events.find(f"{second.id}-0") == (second, 0)
    second.lapse()


def exchange() -> McpExchange:
    return McpExchange(RpcRequest(id=1, method="tools/call", params={}))
