"""The one process that the gateway starts itself. It forks a monitor for each command and passes messages on.

It is small and has one thread, so a fork is cheap and safe, which one of the gateway would not be. It is a subreaper:
the descendants of a killed monitor come here and are killed here. When the gateway is gone it waits until the
monitors are done, and exits. It ignores SIGINT, SIGTERM and SIGHUP.
Above: `supervisor.py` in the gateway. Below: `monitor.py`, `processes.py`.
"""

import gc
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import NoReturn

from . import kernel
from .messages import MessageReader, Order, StatusReport, encode
from .monitor import Monitor
from .processes import (
    GIVE_UP,
    ORPHAN_GRACE,
    POLL_SECONDS,
    REPORT_ANYWAY,
    Poller,
    descendants,
    ended_children,
    scan_for_children_of,
    signal_all,
    signal_group,
)

MOST_FDS = 250
"""The kernel passes no more at once."""
FDS_PER_COMMAND = 3


def main(arguments: list[str]) -> None:
    """The arguments: the socket to the gateway, the lifeline, `exact` or `best-effort`."""
    gateway, lifeline, mode = arguments
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.chdir("/")
    kernel.set_process_name("jf-supervisor")
    if mode == "exact":
        kernel.become_subreaper()
    gc.freeze()
    Zygote(socket.socket(fileno=int(gateway)), lifeline=int(lifeline), exact=mode == "exact").serve()


class MonitoredCommand:
    """A command, its monitor, and the channel to that."""

    def __init__(self, number: int, *, monitor: int, channel: socket.socket) -> None:
        self.number = number
        self.monitor = monitor
        self.channel = channel
        self.reports = MessageReader()
        self.child: int | None = None
        self.over = False
        """The gateway knows how it ended."""


class Zygote:
    def __init__(self, gateway: socket.socket, *, lifeline: int, exact: bool) -> None:
        self._gateway = gateway
        self._lifeline = lifeline
        self._exact = exact
        self._orders = MessageReader()
        self._fds: list[int] = []
        self._commands: dict[int, MonitoredCommand] = {}
        """By the pid of the monitor."""
        self._orphaned: list[MonitoredCommand] = []
        """Commands whose monitor was killed, until nothing of them is left."""
        self._orphaned_at = 0.0
        self._adopted: dict[int, int] = {}
        """Exit codes of the orphans that came here."""
        self._ending_at: float | None = None
        self._poller = Poller()

    def serve(self) -> None:
        self._poller.add(self._gateway.fileno(), self._read_orders)
        self._poller.add(self._lifeline, self._gateway_gone)
        while not self._done():
            busy = self._orphaned or self._ending_at is not None
            self._poller.wait(time.monotonic() + POLL_SECONDS if busy else None)
            self._reap()
            if self._orphaned:
                self._kill_orphans()

    def _done(self) -> bool:
        if self._ending_at is None:
            return False
        return not (self._commands or self._orphaned) or time.monotonic() > self._ending_at + GIVE_UP

    def _read_orders(self) -> None:
        cloexec = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        try:
            data, fds, flags, _ = socket.recv_fds(self._gateway, 65536, MOST_FDS, cloexec)
        except ConnectionError:
            data, fds, flags = b"", [], 0
        if flags & socket.MSG_CTRUNC:
            sys.exit("The supervisor process has too many open files to take another command.")
        if not data:
            self._gateway_gone()
        self._fds += fds
        order: Order
        for order in self._orders.feed(data):
            if "start" in order:
                mine, self._fds = self._fds[:FDS_PER_COMMAND], self._fds[FDS_PER_COMMAND:]
                self._start(order, mine)
            else:
                self._pass_on(order)

    def _start(self, order: Order, fds: list[int]) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        try:
            monitor = os.fork()
        except OSError as error:
            self._report({"id": order["id"], "failed": ("begin", error.errno or 0)})
            ours.close()
        else:
            if monitor == 0:
                self._run_monitor(order, channel=theirs, fds=fds)
            command = self._commands[monitor] = MonitoredCommand(order["id"], monitor=monitor, channel=ours)
            self._poller.add(ours.fileno(), lambda: self._read_reports(command))
        theirs.close()
        for fd in fds:
            os.close(fd)

    def _run_monitor(self, order: Order, *, channel: socket.socket, fds: list[int]) -> NoReturn:
        try:
            monitor = Monitor(order["id"], channel=channel, lifeline=self._lifeline, exact=self._exact)
            monitor.run(order["start"], fds=fds)
        except BaseException:  # noqa: BLE001 - a monitor must never go on as a zygote
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(0)

    def _pass_on(self, order: Order) -> None:
        for command in self._commands.values():
            if command.number == order["id"]:
                self._send(command, order)

    def _send(self, command: MonitoredCommand, order: Order) -> None:
        with suppress(OSError):  # a monitor that died; `_reap` will find it
            command.channel.sendall(encode(order))

    def _gateway_gone(self) -> None:
        """No more orders will come: end everything."""
        self._poller.drop(self._gateway.fileno())
        self._poller.drop(self._lifeline)
        if self._ending_at is None:
            self._ending_at = time.monotonic()
            for command in self._commands.values():
                self._send(command, {"id": command.number, "end": ORPHAN_GRACE})

    def _read_reports(self, command: MonitoredCommand) -> None:
        try:
            data = command.channel.recv(4096)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._poller.drop(command.channel.fileno())
        report: StatusReport
        for report in command.reports.feed(data):
            command.child = report.get("started", command.child)
            command.over = command.over or "exited" in report or "failed" in report
            self._report(report)

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            for pid, code in ended_children():
                command = self._commands.pop(pid, None)
                if command is None:
                    self._adopted[pid] = code
                else:
                    self._monitor_gone(command)

    def _monitor_gone(self, command: MonitoredCommand) -> None:
        self._poller.drop(command.channel.fileno())
        self._read_reports(command)
        command.channel.close()
        if not command.over:
            self._orphaned.append(command)
            self._orphaned_at = time.monotonic()

    def _kill_orphans(self) -> None:
        """Kill every child that is not a monitor; report when none is left."""
        orphans = self._orphans()
        if orphans and time.monotonic() < self._orphaned_at + REPORT_ANYWAY:
            signal_all([pid for orphan in orphans for pid in (orphan, *descendants(orphan))], signal.SIGKILL)
            return
        for command in self._orphaned:
            code = self._adopted.get(command.child or 0, -int(signal.SIGKILL))
            self._report({"id": command.number, "exited": code})
        self._orphaned.clear()
        self._adopted.clear()

    def _orphans(self) -> list[int]:
        if self._exact:
            return [pid for pid in scan_for_children_of(os.getpid()) if pid not in self._commands]
        for command in self._orphaned:
            if command.child is not None:
                signal_group(command.child, signal.SIGKILL)
        return []

    def _report(self, report: StatusReport) -> None:
        try:
            self._gateway.sendall(encode(report))
        except OSError:
            self._gateway_gone()
