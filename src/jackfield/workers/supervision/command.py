"""From a fork to a running program: what the new process does before its command takes over.

Above: `minder.py`. Below: execve(2).
"""

import errno
import os
import signal
from collections.abc import Collection
from pathlib import Path
from typing import NoReturn

from . import kernel
from .limits import keep_to
from .mounts import Refusal
from .namespaces import enter_namespaces
from .tree import die_with_parent, exact
from .wire import Confinement, Start

COULD_NOT_RUN = 127
OPEN_FDS = Path("/proc/self/fd" if exact() else "/dev/fd")


def fork_command(start: Start, *, fds: list[int]) -> tuple[int, int]:
    """Begin to start the command. Its pid, and a descriptor that says why the program does not run, or ends empty."""
    verdict, told = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(start, fds=fds, parent=parent, told=told)
    os.close(told)
    return pid, verdict


def close_all_but(kept: Collection[int]) -> None:
    for fd in [int(entry.name) for entry in OPEN_FDS.iterdir()]:
        if fd not in kept:
            try:
                os.close(fd)
            except OSError as error:
                if error.errno != errno.EBADF:  # the one that the listing itself used
                    raise


def _become(start: Start, *, fds: list[int], parent: int, told: int) -> NoReturn:
    step = "begin"
    try:
        os.setsid()
        _forget_signals()
        die_with_parent()
        if os.getppid() != parent:
            os._exit(COULD_NOT_RUN)  # the parent died before it could take us along
        for number, fd in enumerate(fds):
            os.dup2(fd, number, inheritable=True)
        close_all_but({0, 1, 2, told})
        step = "sandbox its limits"
        if "confinement" in start:
            _confine(start["confinement"], told=told)
        step = "cwd"
        os.chdir(start["cwd"])
        step = "program"
        os.execvpe(start["command"][0], start["command"], start["env"])  # noqa: S606 - without a shell, as it should be
    except OSError as error:
        os.write(told, f"{step} {error.errno}".encode())
    except Refusal as refusal:
        os.write(told, f"sandbox {refusal.what} {refusal.number}".encode(errors="surrogateescape"))
    except ValueError:  # a word holds a NUL
        os.write(told, f"{step} {errno.EINVAL}".encode())
    finally:
        os._exit(COULD_NOT_RUN)


def _confine(confinement: Confinement, *, told: int) -> None:
    if "namespaces" in confinement:
        enter_namespaces(confinement["namespaces"], told=told)
    if not confinement["gains_privileges"]:
        kernel.gain_no_privileges()
    keep_to(confinement["limits"])


def _forget_signals() -> None:
    """Python ignores some signals and the minder others; programs expect none of that."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
