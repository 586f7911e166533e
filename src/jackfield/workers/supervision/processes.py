"""Descendants of a process: found, signalled, waited for.

Exact on Linux: a process that is *subreaper* inherits the orphans among its descendants, so whatever they do (fork
twice, setsid, close every descriptor), they stay below it and /proc shows them. Elsewhere there is only the process
group, which a descendant can leave.
Above: `monitor.py`, `zygote.py`, `supervisor.py`. Below: prctl(2), /proc.
"""

import os
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from .kernel import IS_AVAILABLE

PROC = Path("/proc")
HAS_CHILDREN_FILES = (PROC / "thread-self/children").exists()
"""Some kernels are built without them."""
ORPHAN_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL for what a dead gateway left."""
REPORT_ANYWAY = 2.0
"""Seconds after which a process that cannot be killed no longer delays the report that its command has ended."""
GIVE_UP = 10.0
"""Seconds after which no more descendants are looked for."""
POLL_SECONDS = 0.01


def exact() -> bool:
    """Whether every descendant of a subreaper can be found here."""
    return IS_AVAILABLE and (PROC / "self/stat").exists()


def descendants(root: int) -> list[int]:
    """All processes below `root`; some may be missed while they come and go, so look again until none is left."""
    found: list[int] = []
    waiting = [root]
    while waiting:
        children = children_of(waiting.pop())
        found += children
        waiting += children
    return found


def children_of(pid: int) -> list[int]:
    """The children of `pid`, zombies included; one that starts or ends just now may be missed."""
    if not HAS_CHILDREN_FILES:
        return scan_for_children_of(pid)
    children: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in (PROC / str(pid) / "task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                children += map(int, (task / "children").read_bytes().split())
    return children


def scan_for_children_of(pid: int) -> list[int]:
    """The same from a scan of all processes: slow, but misses none that stays."""
    children: list[int] = []
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                # pid (name) state parent …; the name may hold anything, parentheses too
                parent = (entry / "stat").read_bytes().rpartition(b")")[2].split()[1]
                if int(parent) == pid:
                    children.append(int(entry.name))
    return children


def cpu_seconds(root: int) -> float:
    """The CPU time of the process at or below `root` that has used most."""
    ticks = [0]
    for pid in (root, *descendants(root)):
        with suppress(FileNotFoundError, ProcessLookupError):
            # … the 12th and 13th after the name: time in the program and for it in the kernel
            fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
            ticks.append(int(fields[11]) + int(fields[12]))
    return max(ticks) / os.sysconf("SC_CLK_TCK")


def signal_all(pids: Iterable[int], what: signal.Signals, *, spared_group: int | None = None) -> None:
    """Signal these processes by their groups: a group cannot escape by forking while it is signalled.

    A descendant's group never holds a stranger, because each command has a session of its own and a group cannot
    cross sessions. A process that is not that far yet is still in our own group and is signalled alone.
    """
    own = os.getpgrp()
    groups: set[int] = set()
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            group = os.getpgid(pid)
            if group == own:
                os.kill(pid, what)
            else:
                groups.add(group)
    for group in groups - {spared_group}:
        signal_group(group, what)


def signal_group(group: int, what: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, what)


class Poller:
    """Calls back when a descriptor has something to read; `SIGCHLD` wakes it, too."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._woken, waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.add(self._woken, self._wake)

    def add(self, fd: int, ready: Callable[[], None]) -> None:
        self._selector.register(fd, selectors.EVENT_READ, ready)

    def drop(self, fd: int) -> None:
        with suppress(KeyError):
            self._selector.unregister(fd)

    def wait(self, until: float | None) -> None:
        """Until something happens, at most until the time `until`."""
        timeout = None if until is None else max(0.0, until - time.monotonic())
        for key, _ in self._selector.select(timeout):
            key.data()

    def _wake(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._woken, 4096):
                pass


def ended_children() -> Iterator[tuple[int, int]]:
    """Each child that has ended, with its exit code. Raises `ChildProcessError` at the end if none is left."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)
