"""How much a command and each process that it starts may use, kept by the kernel.

Above: `command.py`, in the process that becomes the command. Below: setrlimit(2).
"""

import resource

from .wire import Limits

LAST_SECONDS = 1
"""Of CPU time between SIGXCPU, which can be told from other deaths, and SIGKILL."""


def keep_to(limits: Limits) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limits["memory"]:
        _limit(resource.RLIMIT_AS, limits["memory"])
    if limits["cpu"]:
        _limit(resource.RLIMIT_CPU, limits["cpu"], hard=limits["cpu"] + LAST_SECONDS)
    if limits["file_size"]:
        _limit(resource.RLIMIT_FSIZE, limits["file_size"])
    if limits["processes"]:
        _limit(resource.RLIMIT_NPROC, limits["processes"])


def _limit(what: int, most: int, *, hard: int | None = None) -> None:
    """Never above what holds already."""
    ceiling = resource.getrlimit(what)[1]
    hard = most if hard is None else hard
    if ceiling != resource.RLIM_INFINITY:
        most, hard = min(most, ceiling), min(hard, ceiling)
    resource.setrlimit(what, (most, hard))
