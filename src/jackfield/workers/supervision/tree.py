"""Who descends from a process, and how to signal all of them.

Exact on Linux: a process that is *subreaper* inherits the orphans among its descendants, so whatever they do (fork
twice, setsid, close every descriptor), they stay below it and /proc shows them. Elsewhere there is only the process
group, which a descendant can leave.
Above: `minder.py`, `zygote.py`, `supervisor.py`. Below: prctl(2), /proc.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

try:
    import ctypes
except ImportError:  # some interpreters are built without it
    ctypes = None  # type: ignore[assignment]

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
PROC = Path("/proc")
LISTS_OF_CHILDREN = (PROC / "thread-self/children").exists()
"""Some kernels are built without them."""

_prctl: Callable[..., int] | None = ctypes.CDLL(None).prctl if ctypes and sys.platform == "linux" else None


def exact() -> bool:
    """Whether every descendant of a subreaper can be found here."""
    return _prctl is not None and (PROC / "self/stat").exists()


def become_subreaper() -> None:
    """From now on this process, not init, inherits the orphans among its descendants."""
    if _prctl is None or _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("This system has no subreaper.")


def die_with_parent() -> None:
    """From now on the kernel kills this process when its parent dies."""
    if _prctl is not None:
        _prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def be_called(name: str) -> None:
    """What `ps` and `top` show as this process's name; 15 characters at most."""
    if _prctl is not None:
        _prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def descendants(root: int) -> list[int]:
    """Everybody below `root`, as far as can be seen while they come and go. Look again until nobody is left."""
    found: list[int] = []
    waiting = [root]
    while waiting:
        children = children_of(waiting.pop())
        found += children
        waiting += children
    return found


def children_of(pid: int) -> list[int]:
    """The processes that `pid` is the parent of, zombies included; one that comes or goes just now may be missed."""
    if not LISTS_OF_CHILDREN:
        return scan_for_children_of(pid)
    children: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in (PROC / str(pid) / "task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                children += map(int, (task / "children").read_bytes().split())
    return children


def scan_for_children_of(pid: int) -> list[int]:
    """The same by a look at every process of the machine: slow, but misses none that stays."""
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


def signal_all(pids: Iterable[int], what: signal.Signals) -> None:
    """Signal these processes, each once, by their groups: a group cannot escape by forking while it is signalled.

    A descendant's group never holds a stranger, for each command is a session of its own and a group cannot cross
    sessions. Only who has not come that far is still in our own group and is signalled alone.
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
    for group in groups:
        signal_group(group, what)


def signal_group(group: int, what: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, what)
