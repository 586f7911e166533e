"""MCP over a process's stdin and stdout, one message a line. The process is started and stopped with the connection.

Nothing it started outlives it (`workers/supervisor.py`), and it runs in a sandbox where the config asks for one. Its
environment is PATH, HOME and what the config names; its stderr goes to the log.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from itertools import chain, groupby, zip_longest
from typing import ClassVar

from msgspec import Raw

from jackfield.errors import CouldNotStart
from jackfield.sources.mcp.duplex import DuplexRequests
from jackfield.sources.mcp.transport import MAX_MESSAGE, NotDelivered, TransportListener, UpstreamLost
from jackfield.workers.logs import LogPipe, WorkerLog
from jackfield.workers.sandbox.kinds import LaunchPlan
from jackfield.workers.supervisor import Child, Supervisor

INHERITED = ("PATH", "HOME")
NO_SCRIPTS = {"npm_config_ignore_scripts": "true"}
"""For sandboxed servers: npx installs packages without running their scripts."""
EXIT_SECONDS = 2.0
"""How long a server may take to exit after its stdin was closed."""
DRAIN_SECONDS = 0.5
"""How long the stdout of a server that has exited is still read: a child of it may hold it open."""
LINES_PER_SECOND = 20
LAST_LINES = 50


class StdioTransport:
    """One process, started by `open`."""

    legacy_only: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        plan: Callable[[], Awaitable[LaunchPlan]],
        *,
        supervisor: Supervisor,
        listener: TransportListener,
        log: "ServerLog",
    ) -> None:
        self._name = name
        self._log = log
        self._make_plan = plan
        self._plan: LaunchPlan | None = None
        self._supervisor = supervisor
        self._listener = listener
        self._requests = DuplexRequests(name, send=self._write, listener=listener)
        self._child: Child | None = None
        self._stdin: _Stdin | None = None
        self._stderr: LogPipe | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        (theirs_in, ours_in), (ours_out, theirs_out), (ours_err, theirs_err) = os.pipe(), os.pipe(), os.pipe()
        try:
            self._plan = await self._make_plan()
            self._child = await self._plan.start(
                self._supervisor, stdin=theirs_in, stdout=theirs_out, stderr=theirs_err
            )
        except BaseException as fault:
            for ours in (ours_in, ours_out, ours_err):
                os.close(ours)
            if isinstance(fault, CouldNotStart):
                raise UpstreamLost(fault.message) from None
            raise
        finally:
            for theirs in (theirs_in, theirs_out, theirs_err):
                os.close(theirs)
        self._stderr = LogPipe(ours_err, self._log, worker=self._child.pid)
        self._stdin = _Stdin()
        await self._stdin.open(ours_in)
        stdout = await _reader(ours_out)
        reading = asyncio.create_task(self._read(stdout), name=f"mcp stdout of {self._name}")
        watching = asyncio.create_task(self._watch(self._child, reading), name=f"mcp process of {self._name}")
        self._tasks = [reading, watching]

    def agreed(self, revision: str, *, is_modern: bool) -> None:
        """Nothing to do: there are no headers."""

    async def call(self, number: int, method: str, params: Raw, *, headers: Mapping[str, str]) -> Raw:  # noqa: ARG002 - a line has none
        return await self._requests.call(number, method, params)

    async def notify(self, method: str, params: Raw) -> None:
        await self._requests.notify(method, params)

    async def close(self) -> None:
        """Close its stdin, give it a moment to exit, then kill it and everything it started."""
        await self._requests.close()
        if self._stdin is not None:
            self._stdin.close()
        if self._child is not None:
            try:
                async with asyncio.timeout(EXIT_SECONDS):
                    await self._child.wait()
            except TimeoutError:
                pass
            finally:
                self._child.kill()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._stderr is not None:
            self._stderr.close()

    async def _write(self, line: bytes) -> None:
        if self._stdin is None:
            raise NotDelivered("The server's process is not running.")
        try:
            await self._stdin.write(line + b"\n")
        except NotDelivered as fault:
            await asyncio.wait(self._tasks, timeout=EXIT_SECONDS)  # most often it is ending, and how it did says more
            raise self._requests.lost or fault from None

    async def _read(self, stdout: "_Stdout") -> None:
        try:
            while line := await stdout.lines.readuntil(b"\n"):
                if line.strip():
                    self._requests.feed(line)
        except asyncio.IncompleteReadError:
            return
        except asyncio.LimitOverrunError:
            self._gone(f"The server wrote a line of more than the {MAX_MESSAGE:,} bytes allowed.")
        finally:
            stdout.transport.close()

    async def _watch(self, child: Child, reading: "asyncio.Task[None]") -> None:
        """Wait until the process has exited, or has closed its stdout."""
        exited = asyncio.ensure_future(child.wait())
        try:
            await asyncio.wait((exited, reading), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait((exited, reading), timeout=DRAIN_SECONDS)
        finally:
            exited.cancel()
        code = child.returncode
        child.kill()
        if self._stderr is not None:
            self._stderr.drain()  # its last lines say why
        self._gone("The server closed its stdout." if code is None else self._how_it_ended(code))

    def _how_it_ended(self, code: int) -> str:
        if self._plan is None or self._plan.confinement is None:
            return f"The server's process exited ({_manner(code)})."
        return f"The server's process is gone: {self._plan.describe_exit(code)}."

    def _gone(self, why: str) -> None:
        fault = UpstreamLost(why)
        self._requests.lose(fault)
        self._listener.lost(fault)


class ServerLog(WorkerLog):
    """A server's stderr: its newest lines, and a limited number per second in the gateway's log."""

    def __init__(self, name: str, *, redact: Callable[[str], str]) -> None:
        super().__init__(name, redact=redact)
        self._logger = logging.getLogger(f"jackfield.mcp.{name}")

    def last_words(self, most: int = LAST_LINES) -> tuple[str, ...]:
        """The newest lines. What several processes in a row wrote alike is there once."""
        said = [[line.text for line in lines] for _, lines in groupby(self._lines, key=lambda line: line.worker)]
        told = [words for words, later in zip_longest(said, said[1:]) if words != later]
        return tuple(chain.from_iterable(told))[-most:]

    def _pass_on(self, text: str, *, is_span: bool, second: int) -> None:  # noqa: ARG002 - a server writes no spans
        if second != self._second:
            self._second, self._told = second, 0
        self._told += 1
        if self._told <= LINES_PER_SECOND:
            self._logger.info("%s", text)
        elif self._told == LINES_PER_SECOND + 1:
            self._logger.info("says more than is shown here; see: jackfield sources %s", self._name)


class _Stdin(asyncio.Protocol):
    """The writing end of the process's stdin."""

    def __init__(self) -> None:
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._transport: asyncio.WriteTransport | None = None
        self._is_lost = False

    async def open(self, fd: int) -> None:
        self._transport, _ = await asyncio.get_running_loop().connect_write_pipe(lambda: self, os.fdopen(fd, "wb", 0))

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the promise of a protocol
        self._is_lost = True
        self._may_write.set()

    async def write(self, data: bytes) -> None:
        await self._may_write.wait()
        if self._is_lost or self._transport is None or self._transport.is_closing():
            raise NotDelivered("The server's process has closed its stdin.")
        self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort() if not self._may_write.is_set() else self._transport.close()


class _Stdout:
    """The reading end of the process's stdout."""

    def __init__(self, lines: asyncio.StreamReader, transport: asyncio.ReadTransport) -> None:
        self.lines = lines
        self.transport = transport


async def _reader(fd: int) -> _Stdout:
    lines = asyncio.StreamReader(limit=MAX_MESSAGE)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(fd, "rb", 0)
    )
    return _Stdout(lines, transport)


def environment(named: Mapping[str, str]) -> dict[str, str]:
    """The environment of a server's process."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ} | dict(named)


def _manner(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"code {code}"
