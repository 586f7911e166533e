"""The promise of a wire, held by every transport: ours, and one that another package brings."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from jackfield.errors import ConfigError
from jackfield.protocol.jsonrpc import METHOD_NOT_FOUND, RpcError
from jackfield.sources import plugins as foreign
from jackfield.sources.base import SourceContext
from jackfield.sources.mcp.handshake import agree
from jackfield.sources.mcp.options import parse_options
from jackfield.sources.mcp.transport import GROUP, ClientTransport, Transport, UpstreamLost
from jackfield.sources.mcp.transport_maker import TransportMaker
from tests.requirement import requirement
from tests.sources.mcp.scene import HttpServer, lives, plain, raw_json, scene
from tests.waiting import eventually_async

CALLS: list[str] = []


class Pigeon:
    """A transport of another package: it answers from its own loft."""

    def __init__(self) -> None:
        self.closed = False

    async def call(self, method: str, params: Raw) -> Raw:
        CALLS.append(method)
        match method:
            case "server/discover":
                return raw_json({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
            case "tools/list":
                return raw_json({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
            case "tools/call" if msgspec.json.decode(params)["name"] == "echo":
                return raw_json(
                    {"content": [{"type": "text", "text": msgspec.json.decode(params)["arguments"]["text"]}]}
                )
            case "tools/call":
                try:
                    await asyncio.Event().wait()
                finally:
                    CALLS.append("stopped")
        raise RpcError(METHOD_NOT_FOUND, "Method not found")

    async def close(self) -> None:
        self.closed = True
        CALLS.append("closed")


def pigeon(name: str, options: dict[str, Any], source_context: SourceContext) -> Transport:
    assert (name, options, source_context.folder.is_dir()) == ("far", {"loft": "north"}, True)
    return Pigeon()


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint(name="pigeon", value=f"{__name__}:pigeon", group=GROUP),
        EntryPoint(name="broken", value="no_such_module:x", group=GROUP),
    ]
    monkeypatch.setattr(foreign, "entry_points", lambda *, group: points if group == GROUP else [])
    CALLS.clear()


class Listener:
    def notified(self, method: str, params: Raw, *, during: int | None) -> None: ...

    async def asked(self, method: str, params: Raw, *, during: int | None) -> Raw:  # noqa: ARG002 - a listener's promise
        raise RpcError(METHOD_NOT_FOUND, method)

    def lost(self, error: UpstreamLost) -> None: ...


class Case:
    def __init__(self, wire: ClientTransport, hangs: Callable[[], bool], stopped: Callable[[], bool]) -> None:
        self.wire = wire
        self.hangs = hangs
        self.stopped = stopped

    async def call(self, number: int, method: str, params: dict[str, Any]) -> Any:
        headers: dict[str, str] = {}
        async with asyncio.timeout(10):
            return msgspec.json.decode(await self.wire.call(number, method, raw_json(params), headers=headers))


@asynccontextmanager
async def case_of(kind: str, folder: Path, server: HttpServer) -> AsyncIterator[Case]:
    options: dict[str, Any]
    hangs: Callable[[], bool]
    if kind == "pigeon":
        options = {"transport": "pigeon", "options": {"loft": "north"}}
        hangs, stopped = lambda: "tools/call" in CALLS, lambda: "stopped" in CALLS
    elif kind == "stdio":
        options = {"command": plain("good")}
        hangs, stopped = (folder / "hanging").exists, (folder / "cancelled").exists
    else:
        options = {"url": server.url if kind == "http" else server.sse_url, "transport": kind}
        for mark in ("hanging", "stopped"):
            (server.state / mark).unlink(missing_ok=True)
        hangs, stopped = (server.state / "hanging").exists, (server.state / "stopped").exists
    async with scene(folder, command=["unused"]) as far:
        wire = TransportMaker("far", parse_options(options, where="sources.far"), far.source_context)(Listener())
        await wire.open()
        try:
            yield Case(wire, hangs, stopped)
        finally:
            await wire.close()


@pytest.fixture(params=["http", "sse", "stdio", "pigeon"])
async def case(request: pytest.FixtureRequest, tmp_path: Path, legacy: HttpServer) -> AsyncIterator[Case]:
    async with case_of(request.param, tmp_path, legacy) as made:
        numbers = iter(range(1, 10))

        def ask(method: str, params: Raw, headers: Any) -> Awaitable[Raw]:
            return made.wire.call(next(numbers), method, params, headers=headers)

        async with asyncio.timeout(10):
            await agree(made.wire, ask, capabilities={}, probe_seconds=5)
        yield made


@requirement("TOOL-mcp-transport-call", "TOOL-ext-custom-transport", "TOOL-deliver-mcp-transport")
async def test_a_transport_carries_a_method_with_params_and_returns_the_raw_result(case: Case) -> None:
    answer = await case.call(11, "tools/call", {"name": "echo", "arguments": {"text": "hi"}})
    assert answer["content"] == [{"type": "text", "text": "hi"}]
    with pytest.raises(RpcError):
        await case.call(12, "no/such/method", {})


@requirement("TOOL-mcp-transport-call", "TOOL-ext-custom-transport", "TOOL-deliver-mcp-transport")
async def test_a_call_can_be_cancelled_while_others_go_on(case: Case) -> None:
    hanging = asyncio.create_task(case.call(21, "tools/call", {"name": "hang", "arguments": {}}))
    await eventually_async(case.hangs)
    answer = await case.call(22, "tools/call", {"name": "echo", "arguments": {"text": "beside"}})
    assert answer["content"] == [{"type": "text", "text": "beside"}]
    hanging.cancel()
    await asyncio.wait([hanging])
    await eventually_async(case.stopped)


@requirement("TOOL-mcp-transport-close", "TOOL-ext-custom-transport", "TOOL-deliver-mcp-transport")
async def test_a_closed_transport_leaves_nothing_and_can_be_closed_again(case: Case, tmp_path: Path) -> None:
    async with asyncio.timeout(10):
        await case.wire.close()
        await case.wire.close()
    if (tmp_path / "starts").exists():
        pid = int((tmp_path / "starts").read_text())
        await eventually_async(lambda: not lives(pid))
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("mcp ")]


@requirement("TOOL-ext-custom-transport")
async def test_a_source_over_another_packages_transport_lists_and_calls(tmp_path: Path) -> None:
    async with scene(tmp_path, transport="pigeon", options={"loft": "north"}) as far:
        await far.open()
        assert await far.result("echo", text="coo") == "coo"
    assert CALLS[-1] == "closed"


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("pidgeon", "sources.far.transport is 'pidgeon', which nothing installed here knows. Did you mean 'pigeon'?"),
        ("broken", "sources.far.transport 'broken' comes from no_such_module:x, which cannot be loaded: "),
    ],
)
async def test_a_transport_that_is_not_there_is_a_config_error(kind: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        async with scene(tmp_path, transport=kind):
            pass
    assert str(caught.value).startswith(sentence)
