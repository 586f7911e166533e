"""A minder: the parent of one command. It ends the command and everything that came of it, and says how it ended.

It is subreaper, so all that its command ever starts stays below it, and the system tells it when nobody is left. It
ends them when it is told to, when the command ends by itself, when the zygote dies and when the gateway dies.
Above: `zygote.py` forks it. Below: `command.py`, `tree.py`, `watch.py`.
"""

import os
import signal
import socket
import sys
import time
from functools import partial

from .command import close_all_but, fork_command
from .tree import be_called, become_subreaper, descendants, signal_all, signal_group
from .watch import GIVE_UP, LOOK_AGAIN, ORPHAN_GRACE, TELL_ANYWAY, Watch, ended_children
from .wire import Lines, Order, Report, Start, line


class Minder:
    """`channel` leads to the zygote and nobody else has its other end; `lifeline` ends with the gateway."""

    def __init__(self, number: int, *, channel: socket.socket, lifeline: int, exact: bool) -> None:
        self._number = number
        self._channel = channel
        self._lifeline = lifeline
        self._exact = exact
        self._orders = Lines()
        self._verdict: int | None = None
        """Closes when the program runs; before that it may say what went wrong."""
        self._child = 0
        self._code: int | None = None
        self._force_at: float | None = None
        """When SIGKILL is due; None while the command may live."""
        self._told = False

    def mind(self, start: Start, *, fds: list[int]) -> None:
        """Start the command and return when nothing is left of it."""
        self._settle_in(fds)
        try:
            self._child, self._verdict = fork_command(start, fds=fds)
        except OSError as error:
            self._tell({"id": self._number, "failed": ("begin", error.errno or 0)})
            return
        for fd in fds:
            os.close(fd)
        self._watch.add(self._verdict, self._hear_verdict)
        self._watch.add(self._channel.fileno(), self._hear_order)
        self._watch.add(self._lifeline, self._miss_gateway)
        while not self._all_gone() and not self._past(GIVE_UP):
            try:
                self._do_what_is_due()
                self._watch.wait(self._next_moment())
            except Exception:  # noqa: BLE001 - a minder's turn: whatever fails, it must not leave its command behind
                sys.excepthook(*sys.exc_info())
                self._end(0.0)
        self._tell_end()

    def _settle_in(self, fds: list[int]) -> None:
        os.setsid()
        signal.set_wakeup_fd(-1)
        close_all_but({0, 1, 2, self._channel.fileno(), self._lifeline, *fds})
        be_called("jf-minder")
        if self._exact:
            become_subreaper()
        self._watch = Watch()

    def _all_gone(self) -> bool:
        """Nobody is left below: a subreaper without children has no descendants. Elsewhere: nobody that can be seen."""
        try:
            for pid, code in ended_children():
                if pid == self._child:
                    self._code = code
        except ChildProcessError:
            if not self._exact:
                signal_group(self._child, signal.SIGKILL)
            return True
        return False

    def _do_what_is_due(self) -> None:
        if self._code is not None and self._force_at is None:
            self._force_at = time.monotonic()  # it ended by itself; what it left behind has no business any more
        if self._past(0.0):
            self._signal(signal.SIGKILL)
        if self._past(TELL_ANYWAY):
            self._tell_end()

    def _past(self, seconds: float) -> bool:
        """Force began so many seconds ago."""
        return self._force_at is not None and time.monotonic() >= self._force_at + seconds

    def _next_moment(self) -> float | None:
        if self._force_at is None:
            return None
        return max(self._force_at, time.monotonic() + LOOK_AGAIN)

    def _end(self, grace: float) -> None:
        """SIGTERM to all now, SIGKILL after the grace. A second word can only bring that forward."""
        force_at = time.monotonic() + grace
        if self._force_at is None and grace > 0:
            self._signal(signal.SIGTERM)
        self._force_at = force_at if self._force_at is None else min(self._force_at, force_at)

    def _signal(self, what: signal.Signals) -> None:
        if self._exact:
            signal_all(descendants(os.getpid()), what)
        elif self._code is None:
            signal_group(self._child, what)

    def _hear_verdict(self) -> None:
        """Read to the end, which is near: whoever says something ends, and whoever runs says nothing."""
        if self._verdict is None:
            return
        said = b"".join(iter(partial(os.read, self._verdict, 100), b""))
        self._watch.drop(self._verdict)
        os.close(self._verdict)
        self._verdict = None
        if said:
            step, _, number = said.decode(errors="surrogateescape").rpartition(" ")
            self._told = True
            self._tell({"id": self._number, "failed": (step, int(number))})
        else:
            self._tell({"id": self._number, "started": self._child})

    def _hear_order(self) -> None:
        try:
            data = self._channel.recv(4096)
        except ConnectionError:  # it died with words of ours unread
            data = b""
        if not data:
            self._watch.drop(self._channel.fileno())
            self._end(0.0)  # the zygote is dead, and for the gateway so is this command
        order: Order
        for order in self._orders.feed(data):
            self._end(order["end"])

    def _miss_gateway(self) -> None:
        self._watch.drop(self._lifeline)
        self._end(ORPHAN_GRACE)

    def _tell_end(self) -> None:
        if self._code is not None:
            self._hear_verdict()  # a command can end before anybody has looked whether it started
        if not self._told:
            self._told = True
            code = -int(signal.SIGKILL) if self._code is None else self._code
            self._tell({"id": self._number, "exited": code})

    def _tell(self, report: Report) -> None:
        try:
            self._channel.sendall(line(report))
        except OSError:
            self._end(0.0)  # nobody hears it: the zygote is dead
