"""Starts commands so that nothing of them is left when they, or the gateway, end.

A command and everything that it starts end together: when it exits, when it is killed, when the gateway stops, is
killed or crashes, and when one of the supervising processes is killed.
Above: the pool of workers, MCP servers on stdio, sandboxed sessions. Below: `supervision/`, in its own processes.
"""

import asyncio
import errno
import logging
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from jackfield.errors import CouldNotStart
from jackfield.workers.supervision.messages import Confinement, MessageReader, Order, Start, StatusReport, encode
from jackfield.workers.supervision.processes import exact

log = logging.getLogger("jackfield.workers")

START_SECONDS = 10.0
CLOSE_GRACE = 1.0
CLOSE_SECONDS = 2.0
NEVER_RAN = 127
BOOT = "import sys; sys.path.append(sys.argv[1]); from supervision.zygote import main; main(sys.argv[2:])"
"""An isolated interpreter finds the standard library only, so the zygote's package is put on its path, last."""
LOADER = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""The only variables of the gateway that the zygote gets: some interpreters cannot load without."""
EXIT_SECONDS = 1.0
"""How long a zygote without commands may take to exit."""


class ZygoteDied(CouldNotStart):
    """The zygote died during the start, so its result is unknown."""


class Child:
    """A running command with all its descendants."""

    def __init__(self, link: "ZygoteLink", number: int, *, program: str) -> None:
        self._link = link
        self._number = number
        self._ended = asyncio.Event()
        self.program = program
        self.started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.pid = 0
        self.returncode: int | None = None
        """None while it runs; minus the signal's number if a signal ended it."""

    async def wait(self) -> int:
        """Its exit code, once nothing of it is left. Unbounded: a command may run as long as it likes."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def kill(self, *, grace: float = 0.0) -> None:
        """End it and all its descendants: SIGTERM now, SIGKILL after `grace` seconds. Returns at once.

        A second call can only bring the SIGKILL forward.
        """
        if self.returncode is None:
            self._link.send({"id": self._number, "end": grace})

    def end(self, returncode: int, *, fault: CouldNotStart) -> None:
        """Record its end; `fault` is raised in a start that still waits."""
        self.returncode = returncode
        if not self.started.done():
            self.started.set_exception(fault)
        self._ended.set()


class Supervisor:
    """`best_effort`: without subreapers, a descendant that leaves its process group may survive."""

    def __init__(self, *, best_effort: bool | None = None) -> None:
        self.best_effort = not exact() if best_effort is None else best_effort
        self._numbers = count(1)
        self._children: dict[int, Child] = {}
        self._link: ZygoteLink | None = None
        self._closed = False

    async def spawn(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stdin: int,
        stdout: int,
        stderr: int,
        confinement: Confinement | None = None,
    ) -> Child:
        """Start the command with this environment and these descriptors, and nothing else of the gateway's.

        The program is searched in the `PATH` of `env`. The caller closes the descriptors. Raises `CouldNotStart`;
        a cancelled start leaves nothing behind.
        """
        start, fds = _start_of(command, env=env, cwd=cwd), (stdin, stdout, stderr)
        if confinement is not None:
            start["confinement"] = confinement
        try:
            return await self._start(start, fds=fds)
        except ZygoteDied:  # whatever it started ends with it
            return await self._start(start, fds=fds)

    async def close(self) -> None:
        """End all children, with SIGTERM and then SIGKILL, and the supervising processes."""
        self._closed = True
        children = list(self._children.values())
        for child in children:
            child.kill(grace=CLOSE_GRACE)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                for child in children:
                    await child.wait()
        if self._link is not None:
            await self._link.close()

    async def _start(self, start: Start, *, fds: Sequence[int]) -> Child:
        child = self._order(start, fds=fds)
        try:
            async with asyncio.timeout(START_SECONDS):
                child.pid = await child.started
        except TimeoutError:
            child.kill()
            raise CouldNotStart(f"'{child.program}' did not start within {START_SECONDS:.0f} seconds.") from None
        except BaseException:
            child.kill()
            raise
        return child

    def _order(self, start: Start, *, fds: Sequence[int]) -> Child:
        program = Path(start["command"][0]).name
        if self._closed:
            raise CouldNotStart(f"'{program}' was not started, because the gateway is stopping.")
        number = next(self._numbers)
        try:
            link = self._running_link()
            child = Child(link, number, program=program)
            link.send({"id": number, "start": start}, fds=fds)
        except OSError as error:
            raise CouldNotStart(f"Could not start '{program}': {error.strerror}.") from error
        self._children[number] = child
        return child

    def _running_link(self) -> "ZygoteLink":
        """The running zygote, or a new one: it is started on first use, and again after its death."""
        if self._link is not None and not self._link.alive:
            self._link.abandon()
        if self._link is None:
            self._link = ZygoteLink(best_effort=self.best_effort, on_report=self._on_report, on_lost=self._on_lost)
        return self._link

    def _on_report(self, report: StatusReport) -> None:
        child = self._children.get(report["id"])
        if child is None:
            return
        if "started" in report:
            if not child.started.done():
                child.started.set_result(report["started"])
            return
        del self._children[report["id"]]
        if "failed" in report:
            step, number = report["failed"]
            log.info("%s did not start: %s: %s", child.program, step, os.strerror(number))
            child.end(NEVER_RAN, fault=CouldNotStart(start_failure(child.program, step, number)))
        else:
            fault = CouldNotStart(f"'{child.program}' was killed while it started. Try again.")
            child.end(report["exited"], fault=fault)

    def _on_lost(self) -> None:
        """The zygote is gone and the monitors end their commands: no more reports will come."""
        children, self._children, self._link = self._children, {}, None
        if not self._closed:
            log.warning(
                "The process that starts commands has died; the %d that ran end now, the next start begins a new one",
                len(children),
            )
        for child in children.values():
            fault = ZygoteDied(f"'{child.program}' did not start: the process that starts commands keeps dying.")
            child.end(-int(signal.SIGKILL), fault=fault)


def _start_of(command: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> Start:
    """The zygote runs in another folder, so a relative `cwd` is made absolute here."""
    return {"command": list(command), "env": dict(env), "cwd": str(cwd.absolute())}


def start_failure(program: str, step: str, number: int) -> str:
    """Why a program did not start, from the step that failed and its errno."""
    match step, number:
        case "cwd", _:
            return f"Could not start '{program}': its working directory cannot be entered ({os.strerror(number)})."
        case str(), _ if step.startswith("sandbox "):
            what = step.removeprefix("sandbox ").partition(": ")[0]  # which path it was is in the log
            return f"Could not start '{program}' in a sandbox: {what} failed ({os.strerror(number)})."
        case "program", errno.ENOENT | errno.ENOTDIR:
            missing = "there is no such program, or the one that its first line names is missing"
            return f"Could not start '{program}': {missing}. Install it, or give its full path."
        case "program", errno.EACCES:
            return f"Could not start '{program}': this user may not execute it. Make the file executable."
        case _:
            return f"Could not start '{program}': {os.strerror(number)}."


class ZygoteLink:
    """The gateway's connection to one zygote process. `on_report` gets its reports; `on_lost` is called at its end.

    Nothing here blocks the event loop except the start of the zygote, once, for a few milliseconds.
    """

    def __init__(
        self, *, best_effort: bool, on_report: Callable[[StatusReport], None], on_lost: Callable[[], None]
    ) -> None:
        self._on_report = on_report
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._reports = MessageReader()
        self._unsent: deque[tuple[bytes, list[int]]] = deque()
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        lifeline, self._lifeline = os.pipe()
        try:
            self._process = _start_zygote(theirs.fileno(), lifeline, best_effort=best_effort)
        except BaseException:
            self._socket.close()
            os.close(self._lifeline)
            raise
        finally:
            theirs.close()
            os.close(lifeline)
        self._gone = asyncio.Event()
        self._reaped: asyncio.Future[None] | None = None
        self._loop.add_reader(self._socket.fileno(), self._read)

    @property
    def alive(self) -> bool:
        return not self._gone.is_set() and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, order: Order, *, fds: Sequence[int] = ()) -> None:
        """Queue the order. The caller keeps its descriptors: copies are sent."""
        if not self._gone.is_set():
            self._unsent.append((encode(order), _copies(fds)))
            self._write()

    async def close(self) -> None:
        """Let the zygote end its commands and exit. Returns when it is gone."""
        if not self._gone.is_set():
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
            with suppress(TimeoutError):
                async with asyncio.timeout(EXIT_SECONDS):
                    await self._gone.wait()
            self.abandon()
        if self._reaped is not None:
            await self._reaped

    def abandon(self) -> None:
        """Give the connection up. The monitors notice, too, and end their commands."""
        if self._gone.is_set():
            return
        self._gone.set()
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        os.close(self._lifeline)
        for _, fds in self._unsent:
            _close_all(fds)
        self._unsent.clear()
        self._reaped = self._loop.run_in_executor(None, _reap, self._process)
        self._on_lost()

    def _read(self) -> None:
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self.abandon()
        report: StatusReport
        for report in self._reports.feed(data):
            self._on_report(report)

    def _write(self) -> None:
        """Send as much as the socket takes. Descriptors go with the first byte of their line."""
        try:
            while self._unsent:
                data, fds = self._unsent[0]
                sent = socket.send_fds(self._socket, [data], fds) if fds else self._socket.send(data)
                _close_all(fds)
                if sent == len(data):
                    self._unsent.popleft()
                else:
                    self._unsent[0] = (data[sent:], [])
        except BlockingIOError:
            self._loop.add_writer(self._socket.fileno(), self._write)
        except OSError:
            self._loop.call_soon(self.abandon)
        else:
            self._loop.remove_writer(self._socket.fileno())


def _start_zygote(gateway: int, lifeline: int, *, best_effort: bool) -> "subprocess.Popen[bytes]":
    """In its own session, so that Ctrl-C in the terminal reaches the gateway only."""
    command = [
        sys.executable,
        "-I",
        "-S",
        "-X",
        "utf8",
        "-c",
        BOOT,
        str(Path(__file__).parent),
        str(gateway),
        str(lifeline),
    ]
    return subprocess.Popen(  # noqa: S603 - this interpreter and our own code
        [*command, "best-effort" if best_effort else "exact"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={name: os.environ[name] for name in LOADER if name in os.environ},
        pass_fds=(gateway, lifeline),
        start_new_session=True,
    )


def _reap(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _copies(fds: Sequence[int]) -> list[int]:
    copies: list[int] = []
    try:
        for fd in fds:
            copies.append(os.dup(fd))  # noqa: PERF401 - those made before a failure must be closed
    except OSError:
        _close_all(copies)
        raise
    return copies


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
    fds.clear()
