"""The processes of a storm, each killed, stopped and started again: gateways, MCP servers, tool servers, callers."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from stress.processes import KEY, Project, Victim
from stress.upstreams import HttpVictim

STARTS_WITHIN = 90.0
"""A gateway may find its database away, and the machine busy with everything that happens at once."""
ROOT = Path(__file__).parents[1]


def parents() -> dict[int, int]:
    """Every process of this machine, and whose child it is."""
    found = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            found[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    return found


def descendants(pid: int) -> list[int]:
    """The processes that this one started, and those that they started."""
    of, found, left = parents(), list[int](), [pid]
    while left:
        above = left.pop()
        below = [child for child, parent in of.items() if parent == above]
        found += below
        left += below
    return found


def words_of(pid: int) -> str:
    """Its command line; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def open_files(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - names only
    except OSError:
        return 0


class StormGateway(Victim):
    """A gateway that is also frozen, stopped in order and told a wrong time, and whose parts are found."""

    STARTS_WITHIN = STARTS_WITHIN

    def __init__(
        self,
        folder: Path,
        *,
        store_url: str,
        starts: Path,
        project: Project,
        environment: dict[str, str],
        port: int,
        workers: int = 1,
        args: tuple[str, ...] = (),
    ) -> None:
        more = Project(project.config, project.files, {**project.env, **environment, "JACKFIELD_DEBUG": "1"})
        serve = (*args, "--workers", str(workers)) if workers > 1 else args
        super().__init__(folder, store_url=store_url, starts=starts, project=more, port=port, args=serve)
        self.folder = folder
        self.workers = workers
        self.frozen: list[int] = []

    async def start(self) -> None:
        """As a process manager would: again, until it runs."""
        until = time.monotonic() + STARTS_WITHIN
        while True:
            try:
                await super().start()
            except AssertionError:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(0.5)
            else:
                return

    def end(self) -> int:
        """SIGTERM, and the exit code. Raises where it does not end in time and had to be killed."""
        assert self._running is not None
        return self._running.stop()

    def freeze(self) -> None:
        """Every process that answers calls; not the workers of tools."""
        self.frozen = self.serving
        for pid in self.frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in self.frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.frozen = []

    @property
    def is_running(self) -> bool:
        return self._running is not None and self._running.process.poll() is None

    @property
    def serving(self) -> list[int]:
        """The processes that answer calls: one, or with `--workers` those below it."""
        if self._running is None:
            return []
        below = [pid for pid in descendants(self.pid) if "jackfield.cli serve" in words_of(pid)]
        return below if self.workers > 1 and below else [self.pid]

    @property
    def tool_processes(self) -> list[int]:
        """The workers that run tool files."""
        if self._running is None:
            return []
        return [pid for pid in descendants(self.pid) if "heavy.py" in words_of(pid)]


class StormServer(HttpVictim):
    """An MCP server that is also frozen."""

    def start(self) -> None:
        if self._process is None:
            super().start()

    def freeze(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)


class Program:
    """A program of ours, built on the SDK, in a process of its own: a tool server, or a caller with tools."""

    def __init__(self, module: str, *args: str, log: Path) -> None:
        self._command = [sys.executable, "-m", module, *args]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._process is None:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=log, stderr=log, env=_with_key())

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def end(self, *, within: float) -> bool:
        """Ask it to end. False: it had to be killed."""
        process = self._process
        if process is None:
            return True
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(within)
        is_over = process.poll() is not None
        self.kill()
        return is_over


def _with_key() -> dict[str, str]:
    return {**os.environ, "JACKFIELD_KEY": KEY}


def left_in(folder: Path, *, besides: Iterable[int] = ()) -> dict[int, str]:
    """Processes that work in the folder or name it, and what they are."""
    found, ours = {}, {os.getpid(), *besides}
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        with suppress(OSError):
            is_here = str(folder) in words_of(pid) or (entry / "cwd").readlink().is_relative_to(folder)
            if is_here and pid not in ours:
                found[pid] = words_of(pid)
    return found
