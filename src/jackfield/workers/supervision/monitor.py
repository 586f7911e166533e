"""The parent process of one command. It ends the command with all its descendants and reports how it ended.

It is a subreaper, so everything that its command starts stays below it, and it knows when none is left. It ends them
on request, when the command exits, when the zygote dies and when the gateway dies.
Above: `zygote.py` forks it. Below: `namespaces.py`, `processes.py`, execve(2).
"""

import errno
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

from . import kernel
from .messages import FIRST_TEXT_FD, Confinement, MessageReader, Order, ResourceLimits, Start, StatusReport, encode
from .namespaces import SetupFailed, enter_namespaces
from .processes import (
    GIVE_UP,
    ORPHAN_GRACE,
    POLL_SECONDS,
    REPORT_ANYWAY,
    Poller,
    descendants,
    ended_children,
    exact,
    signal_all,
    signal_group,
)

COULD_NOT_RUN = 127
OPEN_FDS = Path("/proc/self/fd" if exact() else "/dev/fd")
CPU_GRACE = 1
"""Seconds of CPU time between SIGXCPU, which shows why it ended, and SIGKILL."""


class Monitor:
    """`channel` is the only connection to the zygote; `lifeline` closes when the gateway ends."""

    def __init__(self, number: int, *, channel: socket.socket, lifeline: int, exact: bool) -> None:
        self._number = number
        self._channel = channel
        self._lifeline = lifeline
        self._exact = exact
        self._orders = MessageReader()
        self._start_result: int | None = None
        """A pipe that closes when the program runs; before that it may carry an error."""
        self._child = 0
        self._is_wrapped = False
        self._code: int | None = None
        self._kill_at: float | None = None
        """When SIGKILL is due; None while the command may run."""
        self._reported = False

    def run(self, start: Start, *, fds: list[int]) -> None:
        """Start the command; returns when nothing of it is left."""
        self._set_up(fds)
        self._is_wrapped = "wrapper" in start.get("confinement", {})
        try:
            self._child, self._start_result = fork_command(start, fds=fds)
        except OSError as error:
            self._report({"id": self._number, "failed": ("begin", error.errno or 0)})
            return
        for fd in fds:
            os.close(fd)
        self._poller.add(self._start_result, self._read_start_result)
        self._poller.add(self._channel.fileno(), self._read_orders)
        self._poller.add(self._lifeline, self._gateway_gone)
        while not self._none_left() and not self._past(GIVE_UP):
            try:
                self._act()
                self._poller.wait(self._next_deadline())
            except Exception:  # noqa: BLE001 - whatever fails, the command must not be left behind
                sys.excepthook(*sys.exc_info())
                self._end(0.0)
        self._report_end()

    def _set_up(self, fds: list[int]) -> None:
        os.setsid()
        signal.set_wakeup_fd(-1)
        close_all_but({0, 1, 2, self._channel.fileno(), self._lifeline, *fds})
        kernel.set_process_name("jf-monitor")
        if self._exact:
            kernel.become_subreaper()
        self._poller = Poller()

    def _none_left(self) -> bool:
        """Without children a subreaper has no descendants. Elsewhere: none that can be seen."""
        try:
            for pid, code in ended_children():
                if pid == self._child:
                    self._code = code
        except ChildProcessError:
            if not self._exact:
                signal_group(self._child, signal.SIGKILL)
            return True
        return False

    def _act(self) -> None:
        if self._code is not None and self._kill_at is None:
            self._kill_at = time.monotonic()  # it exited; what it left behind is killed
        if self._past(0.0):
            self._signal(signal.SIGKILL)
        if self._past(REPORT_ANYWAY):
            self._report_end()

    def _past(self, seconds: float) -> bool:
        """Whether SIGKILL was due so many seconds ago."""
        return self._kill_at is not None and time.monotonic() >= self._kill_at + seconds

    def _next_deadline(self) -> float | None:
        if self._kill_at is None:
            return None
        return max(self._kill_at, time.monotonic() + POLL_SECONDS)

    def _end(self, grace: float) -> None:
        """SIGTERM to all now, SIGKILL after the grace. A second order can only bring that forward."""
        kill_at = time.monotonic() + grace
        if self._kill_at is None and grace > 0:
            self._signal(signal.SIGTERM)
        self._kill_at = kill_at if self._kill_at is None else min(self._kill_at, kill_at)

    def _signal(self, what: signal.Signals) -> None:
        if self._exact:
            spared = self._child if self._is_wrapped and what is signal.SIGTERM else None
            signal_all(descendants(os.getpid()), what, spared_group=spared)
        elif self._code is None:
            signal_group(self._child, what)

    def _read_start_result(self) -> None:
        """Read to the end: a failed start writes its error and exits, a program that runs writes nothing."""
        if self._start_result is None:
            return
        said = b"".join(iter(partial(os.read, self._start_result, 100), b""))
        self._poller.drop(self._start_result)
        os.close(self._start_result)
        self._start_result = None
        if said:
            step, _, number = said.decode(errors="surrogateescape").rpartition(" ")
            self._reported = True
            self._report({"id": self._number, "failed": (step, int(number))})
        else:
            self._report({"id": self._number, "started": self._child})

    def _read_orders(self) -> None:
        try:
            data = self._channel.recv(4096)
        except ConnectionError:  # it died with reports unread
            data = b""
        if not data:
            self._poller.drop(self._channel.fileno())
            self._end(0.0)  # the zygote is dead, and for the gateway so is this command
        order: Order
        for order in self._orders.feed(data):
            self._end(order["end"])

    def _gateway_gone(self) -> None:
        self._poller.drop(self._lifeline)
        self._end(ORPHAN_GRACE)

    def _report_end(self) -> None:
        if self._code is not None:
            self._read_start_result()  # a command can exit before its start was reported
        if not self._reported:
            self._reported = True
            code = -int(signal.SIGKILL) if self._code is None else self._code
            self._report({"id": self._number, "exited": code})

    def _report(self, report: StatusReport) -> None:
        try:
            self._channel.sendall(encode(report))
        except OSError:
            self._end(0.0)  # the zygote is dead


def fork_command(start: Start, *, fds: list[int]) -> tuple[int, int]:
    """Begin to start the command. Its pid, and a pipe that carries why it did not start, or closes empty."""
    result, error_pipe = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _exec(start, fds=fds, parent=parent, error_pipe=error_pipe)
    os.close(error_pipe)
    return pid, result


def close_all_but(kept: Collection[int]) -> None:
    for fd in [int(entry.name) for entry in OPEN_FDS.iterdir()]:
        if fd not in kept:
            try:
                os.close(fd)
            except OSError as error:
                if error.errno != errno.EBADF:  # the one that the listing itself used
                    raise


def _exec(start: Start, *, fds: list[int], parent: int, error_pipe: int) -> NoReturn:
    step = "begin"
    try:
        os.setsid()
        _reset_signals()
        kernel.die_with_parent()
        if os.getppid() != parent:
            os._exit(COULD_NOT_RUN)  # the parent died before its death could signal us
        for number, fd in enumerate(fds):
            os.dup2(fd, number, inheritable=True)
        close_all_but({0, 1, 2, error_pipe})
        step = "sandbox its limits"
        if "confinement" in start:
            _confine(start["confinement"], error_pipe=error_pipe)
        step = "cwd"
        os.chdir(start["cwd"])
        step = "program"
        os.execvpe(start["command"][0], start["command"], start["env"])  # noqa: S606 - without a shell, as it should be
    except OSError as error:
        os.write(error_pipe, f"{step} {error.errno}".encode())
    except SetupFailed as failure:
        os.write(error_pipe, f"sandbox {failure.step} {failure.errno}".encode(errors="surrogateescape"))
    except ValueError:  # an argument holds a NUL
        os.write(error_pipe, f"{step} {errno.EINVAL}".encode())
    finally:
        os._exit(COULD_NOT_RUN)


def _confine(confinement: Confinement, *, error_pipe: int) -> None:
    if "namespaces" in confinement:
        enter_namespaces(confinement["namespaces"], error_pipe=error_pipe)
    if "wrapper" in confinement:
        with suppress(OSError):  # not every kernel keeps keys
            kernel.leave_keyring()
        for number, text in enumerate(confinement["wrapper"]["texts"], FIRST_TEXT_FD):
            _put_text(text, number)
    if not confinement["gains_privileges"]:
        kernel.gain_no_privileges()
    apply_limits(confinement["limits"])


def _put_text(text: str, number: int) -> None:
    fd = os.memfd_create("text")
    os.write(fd, text.encode())
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, number, inheritable=True)
    os.close(fd)


def _reset_signals() -> None:
    """Python ignores some signals and the monitor others; programs expect the defaults."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def apply_limits(limits: ResourceLimits) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limits["memory"]:
        _limit(resource.RLIMIT_AS, limits["memory"])
    if limits["cpu"]:
        _limit(resource.RLIMIT_CPU, limits["cpu"], hard=limits["cpu"] + CPU_GRACE)
    if limits["file_size"]:
        _limit(resource.RLIMIT_FSIZE, limits["file_size"])
    if limits["processes"]:
        _limit(resource.RLIMIT_NPROC, limits["processes"])


def _limit(what: int, most: int, *, hard: int | None = None) -> None:
    """Never raises an existing limit."""
    ceiling = resource.getrlimit(what)[1]
    hard = most if hard is None else hard
    if ceiling != resource.RLIM_INFINITY:
        most, hard = min(most, ceiling), min(hard, ceiling)
    resource.setrlimit(what, (most, hard))
