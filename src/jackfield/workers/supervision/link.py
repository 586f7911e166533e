"""The gateway's end of the line to one zygote: starts it, sends orders, hands reports on, notices its death.

Nothing here blocks the event loop but the start of the zygote itself, once, for a few milliseconds.
Above: `supervisor.py`. Below: `zygote.py` in its own process, `wire.py`.
"""

import asyncio
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from jackfield.workers.supervision.wire import Lines, Order, Report, line

SCRIPT = Path(__file__).with_name("start.py")
LOADER = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""All that the zygote gets of the gateway's environment: some interpreters cannot load without."""
LAST_SECONDS = 1.0
"""How long a zygote that has nothing left may take to go."""


class Link:
    """One zygote, from its start to its end. `hear` gets its reports; `lost` is called once, when it is gone."""

    def __init__(self, *, best_effort: bool, hear: Callable[[Report], None], lost: Callable[[], None]) -> None:
        self._hear = hear
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._reports = Lines()
        self._unsent: deque[tuple[bytes, list[int]]] = deque()
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        lifeline, self._lifeline = os.pipe()
        try:
            self._process = _start_zygote(theirs.fileno(), lifeline, best_effort=best_effort)
        except BaseException:
            self._socket.close()
            os.close(self._lifeline)
            raise
        finally:
            theirs.close()
            os.close(lifeline)
        self._gone = asyncio.Event()
        self._reaped: asyncio.Future[None] | None = None
        self._loop.add_reader(self._socket.fileno(), self._read)

    @property
    def alive(self) -> bool:
        return not self._gone.is_set() and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, order: Order, *, fds: Sequence[int] = ()) -> None:
        """Send the order when its turn comes. The descriptors stay the caller's: copies are sent."""
        if not self._gone.is_set():
            self._unsent.append((line(order), _copies(fds)))
            self._write()

    async def close(self) -> None:
        """The zygote ends what it still has and goes. Returns when it is gone."""
        if not self._gone.is_set():
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_SECONDS):
                    await self._gone.wait()
            self.abandon()
        if self._reaped is not None:
            await self._reaped

    def abandon(self) -> None:
        """The line is of no use any more. Its minders notice that, too, and end what they have."""
        if self._gone.is_set():
            return
        self._gone.set()
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        os.close(self._lifeline)
        for _, fds in self._unsent:
            _close_all(fds)
        self._unsent.clear()
        self._reaped = self._loop.run_in_executor(None, _reap, self._process)
        self._lost()

    def _read(self) -> None:
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self.abandon()
        report: Report
        for report in self._reports.feed(data):
            self._hear(report)

    def _write(self) -> None:
        """As much as the socket takes. Descriptors go with the first byte of their line."""
        try:
            while self._unsent:
                data, fds = self._unsent[0]
                sent = socket.send_fds(self._socket, [data], fds) if fds else self._socket.send(data)
                _close_all(fds)
                if sent == len(data):
                    self._unsent.popleft()
                else:
                    self._unsent[0] = (data[sent:], [])
        except BlockingIOError:
            self._loop.add_writer(self._socket.fileno(), self._write)
        except OSError:
            self._loop.call_soon(self.abandon)
        else:
            self._loop.remove_writer(self._socket.fileno())


def _start_zygote(gateway: int, lifeline: int, *, best_effort: bool) -> "subprocess.Popen[bytes]":
    """In a session of its own, so that Ctrl-C in the terminal is the gateway's to handle."""
    command = [sys.executable, "-I", "-S", "-X", "utf8", str(SCRIPT), str(gateway), str(lifeline)]
    return subprocess.Popen(  # noqa: S603 - this interpreter and our own file
        [*command, "best-effort" if best_effort else "exact"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={name: os.environ[name] for name in LOADER if name in os.environ},
        pass_fds=(gateway, lifeline),
        start_new_session=True,
    )


def _reap(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(LAST_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _copies(fds: Sequence[int]) -> list[int]:
    copies: list[int] = []
    try:
        for fd in fds:
            copies.append(os.dup(fd))  # noqa: PERF401 - those made before a failure must be closed
    except OSError:
        _close_all(copies)
        raise
    return copies


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
    fds.clear()
