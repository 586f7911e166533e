"""MCP servers and sources for tests: real processes, stopped by their pid; sources as the keeper would hold them."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from jackfield.model.call import Done, Failed, Outcome
from jackfield.model.items import Item, Message, text_of
from jackfield.model.tool import Tool
from jackfield.outgoing import Outgoing
from jackfield.sources.base import LogNote, Progress
from jackfield.sources.client import AskClient, CallerClient
from jackfield.sources.mcp.options import parse_options
from jackfield.sources.mcp.source import McpSource
from jackfield.sources.source_registry import SourceRegistry
from jackfield.sources.supervisor import SourceState
from jackfield.workers.host import WorkerHost
from tests.harness.process import free_port
from tests.sources.invocations import invocation_of
from tests.sources.network import surroundings_in
from tests.waiting import TIMEOUT, eventually_async

HERE = Path(__file__).parent
EVERYTHING = HERE / "everything.py"
PLAIN = HERE / "plain.py"
BOUND = TIMEOUT
START_WITHIN = 30.0


def raw_json(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


def plain(mode: str) -> list[str]:
    return [sys.executable, str(PLAIN), mode]


class HttpServer:
    """`everything.py` on a port that it keeps when it is started again."""

    def __init__(self, state: Path, *, legacy: bool = False) -> None:
        self.state = state
        self.port = free_port()
        self._legacy = ["--legacy"] if legacy else []
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def sse_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/sse"

    def start(self) -> None:
        command = [sys.executable, "-W", "ignore", str(EVERYTHING), "http", "--port", str(self.port), *self._legacy]
        self._process = subprocess.Popen([*command, "--state", str(self.state)])
        until = time.monotonic() + START_WITHIN
        while not self._listens():
            assert self._process.poll() is None, "the server did not start"
            assert time.monotonic() < until, "the server did not listen in time"
            time.sleep(0.02)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@contextmanager
def http_server(state: Path, *, legacy: bool = False) -> Iterator[HttpServer]:
    server = HttpServer(state, legacy=legacy)
    server.start()
    try:
        yield server
    finally:
        server.kill()


class Scene:
    """One source over one server, and what it asked of its keeper."""

    def __init__(self, folder: Path, outgoing: Outgoing, worker_host: WorkerHost, options: dict[str, Any]) -> None:
        self.changes = asyncio.Event()
        self.given = options
        self.source_context = surroundings_in(
            folder, outgoing=outgoing, changed=self._changed, ask_model=_model, worker_host=worker_host
        )
        self.source = McpSource("far", parse_options(options, where="sources.far"), self.source_context)
        self.source_registry: SourceRegistry | None = None
        self.tools: dict[str, Tool] = {}

    async def open(self) -> None:
        async with asyncio.timeout(START_WITHIN):
            await self.source.open()
            await self.list()

    async def list(self) -> dict[str, Tool]:
        async with asyncio.timeout(BOUND):
            listing = await self.source.refresh()
        self.tools = {tool.name: tool for tool in listing.tools}
        return self.tools

    async def keep(self) -> SourceRegistry:
        """Give the source to a keeper, as the gateway does."""
        self.source_registry = SourceRegistry(on_listing=lambda: None)
        await self.source_registry.add(self.source)
        return self.source_registry

    async def state(self, wanted: SourceState, *, within: float = BOUND) -> None:
        assert self.source_registry is not None
        source_registry = self.source_registry
        await eventually_async(lambda: source_registry.statuses()[0].status is wanted, within=within)

    async def call(
        self,
        name: str,
        /,
        *,
        report: Callable[[Progress], None] = lambda _: None,
        note: Callable[[LogNote], None] = lambda _: None,
        ask: AskClient | None = None,
        client: CallerClient | None = None,
        idempotent: bool = False,
        **arguments: Any,
    ) -> Outcome:
        tool = self.tools.get(name) or Tool(source="far", name=name)
        if idempotent:
            tool = msgspec.structs.replace(tool, metadata=msgspec.structs.replace(tool.metadata, idempotent=True))
        invocation = msgspec.structs.replace(
            invocation_of(tool, **arguments), report=report, note=note, ask=ask, client=client
        )
        async with asyncio.timeout(BOUND):
            if self.source_registry is not None:
                outcome = await self.source_registry.execute("far", invocation)
            else:
                outcome = await self.source.execute(invocation)
            assert isinstance(outcome, Outcome)
            return outcome

    async def result(self, name: str, /, **arguments: Any) -> Any:
        return result(await self.call(name, **arguments))

    def _changed(self, name: str) -> None:
        assert name == "far"
        self.changes.set()
        if self.source_registry is not None:
            self.source_registry.request_refresh(name)


@asynccontextmanager
async def scene(folder: Path, **options: Any) -> AsyncIterator[Scene]:
    """A source that is not open yet. Afterwards nothing of it is left."""
    worker_host = WorkerHost(folder / "workers", redact=str)
    async with Outgoing() as outgoing:
        made = Scene(folder, outgoing, worker_host, options)
        try:
            yield made
        finally:
            await (made.source_registry or made.source).close()
            await worker_host.close()


@asynccontextmanager
async def opened(folder: Path, **options: Any) -> AsyncIterator[Scene]:
    async with scene(folder, **options) as made:
        await made.open()
        yield made


def result(outcome: Outcome) -> Any:
    assert isinstance(outcome, Done), outcome
    return msgspec.json.decode(outcome.result)


def failed(outcome: Outcome) -> Failed:
    assert isinstance(outcome, Failed), outcome
    return outcome


def lives(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def _model(items: tuple[Item, ...], **options: Any) -> str:
    (message,) = items
    assert isinstance(message, Message)
    return f"{options['model'] or 'default'}, {options['max_output_tokens']} tokens: {text_of(message)}"
