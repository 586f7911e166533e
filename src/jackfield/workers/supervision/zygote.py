"""The zygote: the one process that the gateway starts. It forks a minder for each command and passes words on.

It is small and has one thread, so a fork costs little and is safe, which the gateway's own would not be. It is
subreaper: when a minder is killed, what it minded comes here and is killed here. When the gateway is gone it waits
until the minders have done their work, and ends. SIGINT, SIGTERM and SIGHUP do not count: only the gateway's end does.
Above: `link.py` in the gateway. Below: `minder.py`, `tree.py`, `watch.py`.
"""

import gc
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import NoReturn

from .minder import Minder
from .tree import be_called, become_subreaper, descendants, scan_for_children_of, signal_all, signal_group
from .watch import GIVE_UP, LOOK_AGAIN, ORPHAN_GRACE, TELL_ANYWAY, Watch, ended_children
from .wire import Lines, Order, Report, line

MOST_FDS = 250
"""The system passes no more at once."""
FDS_OF_A_COMMAND = 3


def main(arguments: list[str]) -> None:
    """The arguments: the socket to the gateway, the lifeline, `exact` or `best-effort`."""
    gateway, lifeline, manner = arguments
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.chdir("/")
    be_called("jf-supervisor")
    if manner == "exact":
        become_subreaper()
    gc.freeze()
    Zygote(socket.socket(fileno=int(gateway)), lifeline=int(lifeline), exact=manner == "exact").serve()


class Ward:
    """A command as the zygote knows it: its minder, and how to speak with that."""

    def __init__(self, number: int, *, minder: int, channel: socket.socket) -> None:
        self.number = number
        self.minder = minder
        self.channel = channel
        self.reports = Lines()
        self.child: int | None = None
        self.over = False
        """The gateway was told how it ended."""


class Zygote:
    def __init__(self, gateway: socket.socket, *, lifeline: int, exact: bool) -> None:
        self._gateway = gateway
        self._lifeline = lifeline
        self._exact = exact
        self._orders = Lines()
        self._fds: list[int] = []
        self._wards: dict[int, Ward] = {}
        """By the pid of the minder."""
        self._bereaved: list[Ward] = []
        """Wards whose minder was killed, until nothing is left of them."""
        self._bereaved_at = 0.0
        self._adopted: dict[int, int] = {}
        """How the orphans that came here ended."""
        self._ending_at: float | None = None
        self._watch = Watch()

    def serve(self) -> None:
        self._watch.add(self._gateway.fileno(), self._hear_gateway)
        self._watch.add(self._lifeline, self._miss_gateway)
        while not self._done():
            busy = self._bereaved or self._ending_at is not None
            self._watch.wait(time.monotonic() + LOOK_AGAIN if busy else None)
            self._reap()
            if self._bereaved:
                self._end_orphans()

    def _done(self) -> bool:
        if self._ending_at is None:
            return False
        return not (self._wards or self._bereaved) or time.monotonic() > self._ending_at + GIVE_UP

    def _hear_gateway(self) -> None:
        cloexec = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        try:
            data, fds, flags, _ = socket.recv_fds(self._gateway, 65536, MOST_FDS, cloexec)
        except ConnectionError:
            data, fds, flags = b"", [], 0
        if flags & socket.MSG_CTRUNC:
            sys.exit("The supervisor process has too many open files to take another command.")
        if not data:
            self._miss_gateway()
        self._fds += fds
        order: Order
        for order in self._orders.feed(data):
            if "start" in order:
                mine, self._fds = self._fds[:FDS_OF_A_COMMAND], self._fds[FDS_OF_A_COMMAND:]
                self._start(order, mine)
            else:
                self._pass_on(order)

    def _start(self, order: Order, fds: list[int]) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        try:
            minder = os.fork()
        except OSError as error:
            self._tell({"id": order["id"], "failed": ("begin", error.errno or 0)})
            ours.close()
        else:
            if minder == 0:
                self._be_minder(order, channel=theirs, fds=fds)
            ward = self._wards[minder] = Ward(order["id"], minder=minder, channel=ours)
            self._watch.add(ours.fileno(), lambda: self._hear_minder(ward))
        theirs.close()
        for fd in fds:
            os.close(fd)

    def _be_minder(self, order: Order, *, channel: socket.socket, fds: list[int]) -> NoReturn:
        try:
            minder = Minder(order["id"], channel=channel, lifeline=self._lifeline, exact=self._exact)
            minder.mind(order["start"], fds=fds)
        except BaseException:  # noqa: BLE001 - nothing of a minder may go on as a zygote
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(0)

    def _pass_on(self, order: Order) -> None:
        for ward in self._wards.values():
            if ward.number == order["id"]:
                self._say(ward, order)

    def _say(self, ward: Ward, order: Order) -> None:
        with suppress(OSError):  # a minder that died; `_reap` will find it
            ward.channel.sendall(line(order))

    def _miss_gateway(self) -> None:
        """Nobody gives orders any more: end everything."""
        self._watch.drop(self._gateway.fileno())
        self._watch.drop(self._lifeline)
        if self._ending_at is None:
            self._ending_at = time.monotonic()
            for ward in self._wards.values():
                self._say(ward, {"id": ward.number, "end": ORPHAN_GRACE})

    def _hear_minder(self, ward: Ward) -> None:
        try:
            data = ward.channel.recv(4096)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._watch.drop(ward.channel.fileno())
        report: Report
        for report in ward.reports.feed(data):
            ward.child = report.get("started", ward.child)
            ward.over = ward.over or "exited" in report or "failed" in report
            self._tell(report)

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            for pid, code in ended_children():
                ward = self._wards.pop(pid, None)
                if ward is None:
                    self._adopted[pid] = code
                else:
                    self._miss_minder(ward)

    def _miss_minder(self, ward: Ward) -> None:
        self._watch.drop(ward.channel.fileno())
        self._hear_minder(ward)
        ward.channel.close()
        if not ward.over:
            self._bereaved.append(ward)
            self._bereaved_at = time.monotonic()

    def _end_orphans(self) -> None:
        """Kill everybody below who is no minder; tell the gateway when none is left."""
        orphans = self._orphans()
        if orphans and time.monotonic() < self._bereaved_at + TELL_ANYWAY:
            signal_all([pid for orphan in orphans for pid in (orphan, *descendants(orphan))], signal.SIGKILL)
            return
        for ward in self._bereaved:
            code = self._adopted.get(ward.child or 0, -int(signal.SIGKILL))
            self._tell({"id": ward.number, "exited": code})
        self._bereaved.clear()
        self._adopted.clear()

    def _orphans(self) -> list[int]:
        if self._exact:
            return [pid for pid in scan_for_children_of(os.getpid()) if pid not in self._wards]
        for ward in self._bereaved:
            if ward.child is not None:
                signal_group(ward.child, signal.SIGKILL)
        return []

    def _tell(self, report: Report) -> None:
        try:
            self._gateway.sendall(line(report))
        except OSError:
            self._miss_gateway()
