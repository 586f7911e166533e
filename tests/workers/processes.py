"""Real commands for the supervisor's tests, and a look at /proc for what is left of them.

Every process that a scene's commands start carries the scene's mark in its environment, wherever it has gone.
"""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from jackfield.workers.supervisor import Child, Supervisor
from tests.waiting import TIMEOUT, eventually_async

WITHIN = TIMEOUT
PYTHON = (sys.executable, "-I", "-S", "-c")
UNRULY = """
import os, signal, time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
ready, tell = os.pipe()


def stay():
    os.write(tell, b"x")
    os.closerange(0, 64)
    while True:
        time.sleep(60)


for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            stay()
        os._exit(0)
    os.wait()
if os.fork() == 0:
    stay()
said = b""
while len(said) < 3:
    said += os.read(ready, 3)
os.write(1, b"ready\\n")
while True:
    time.sleep(60)
"""
"""Ignores SIGTERM and has a child in its group and two daemons: forked twice, own session, no descriptor open."""
UNRULY_SIZE = 4


class Scene:
    """One supervisor and the means to start commands with it."""

    def __init__(self, supervisor: Supervisor, folder: Path) -> None:
        self.supervisor = supervisor
        self.folder = folder
        self.mark = f"mark-{uuid4().hex}"
        self.env = {"PATH": os.environ["PATH"], "MARK": self.mark}
        self._outputs: list[asyncio.BaseTransport] = []

    async def start(self, *command: str, env: dict[str, str] | None = None, stdin: int | None = None) -> "Started":
        """The running command, with its standard output to read from."""
        reading, writing = os.pipe()
        null = os.open(os.devnull, os.O_RDWR)
        try:
            child = await self.supervisor.spawn(
                command,
                env=self.env if env is None else env,
                cwd=self.folder,
                stdin=null if stdin is None else stdin,
                stdout=writing,
                stderr=2,
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(null)
            os.close(writing)
        return Started(child, await self._reader(reading))

    async def start_unruly(self) -> "Started":
        """An unruly command whose processes are all there."""
        started = await self.start(*PYTHON, UNRULY)
        assert await started.line() == b"ready\n"
        return started

    async def close(self) -> None:
        await self.supervisor.close()
        for output in self._outputs:
            output.close()
        for pid in marked(self.mark):  # what a failed test left
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def alive(self) -> set[int]:
        return marked(self.mark)

    async def empties(self) -> None:
        await eventually_async(lambda: not self.alive(), what=lambda: f"still there: {described(self.alive())}")

    async def _reader(self, fd: int) -> asyncio.StreamReader:
        reader = asyncio.StreamReader()
        loop, file = asyncio.get_running_loop(), os.fdopen(fd, "rb", buffering=0)
        output, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
        self._outputs.append(output)
        return reader

    @property
    def zygote(self) -> int:
        assert self.supervisor._link is not None
        return self.supervisor._link.pid

    def monitor_of(self, child: Child) -> int:
        return parents()[child.pid]


class Started:
    def __init__(self, child: Child, output: asyncio.StreamReader) -> None:
        self.child = child
        self._output = output

    async def line(self) -> bytes:
        async with asyncio.timeout(10):
            return await self._output.readline()

    async def rest(self) -> bytes:
        """All it writes, until nobody holds the other end any more."""
        async with asyncio.timeout(10):
            return await self._output.read()

    async def code(self) -> int:
        async with asyncio.timeout(10):
            return await self.child.wait()


def marked(mark: str) -> set[int]:
    """The processes with this mark in their environment. A zombie's is empty: it is gone but for its parent."""
    found = set()
    for pid in pids():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if mark.encode() in environment:
            found.add(pid)
    return found


def running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] not in {b"Z", b"X"}


def below(root: int) -> set[int]:
    """Everybody who descends from `root`."""
    parent_of = parents()
    found: set[int] = set()
    more = {root}
    while more:
        more = {pid for pid, parent in parent_of.items() if parent in more}
        found |= more
    return found


def parents() -> dict[int, int]:
    found = {}
    for pid in pids():
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            continue
        found[pid] = int(stat.rpartition(b")")[2].split()[1])
    return found


def pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def described(group: set[int]) -> str:
    """For a failed test: who they are."""
    said = []
    for pid in sorted(group):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        said.append(f"{pid} {words[:2]!r}")
    return "; ".join(said)
