"""Several gateway processes behind one port: `jackfield serve --workers N`.

The parent takes connections and hands each to the process that has fewest. It replaces processes that end or no longer
answer, and passes signals on. It has one thread and no event loop, so it can fork whenever it needs to; what has been
imported is shared with all of them. A connection that a process has not taken when it dies goes to another one.
Above: `server.py`. Below: fork, and `handed.py`, the other end of the pairs of sockets.
"""

import gc
import importlib
import logging
import os
import selectors
import shutil
import signal
import socket
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

from msgspec import Struct

from jackfield.gateway.handed import CONNECTION, DECLARED_DEAD, Place, ProcessState
from jackfield.protocol.backoff import RetryDelays

log = logging.getLogger("jackfield")

ACCEPTED_AT_ONCE = 64
SILENT_SECONDS = 3.0
"""A process that has said nothing for so long gets no more connections while another one answers."""
HUNG_SECONDS = 20.0
"""After so much silence it is killed and replaced: the lease of its calls (15 s) is over, others have taken them."""
STARTS_WITHIN = 120.0
"""The same before it has said anything."""
STABLE_SECONDS = 60.0
"""A process that lived so long is replaced at once."""
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 30.0
ENDS_WITHIN = 30.0
LOOK_SECONDS = 1.0
_IMPORTED_BY_UVICORN = (
    "uvicorn.lifespan.off",
    "uvicorn.protocols.http.httptools_impl",
    "uvicorn.protocols.websockets.websockets_sansio_impl",
)
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


class Slot:
    """One of the N processes, and those that come after it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.delays = RetryDelays(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        self.starts = 0
        self.pid = 0
        """0: none runs."""
        self.channel: socket.socket | None = None
        self.due: float | None = None
        """When the next one is to be started."""
        self.started_at = self.heard_at = 0.0
        self.unread = b""
        self.state = ProcessState()
        """As it said last."""
        self.waiting: deque[socket.socket] = deque()
        """Connections that were handed over, and not taken yet."""
        self.has_spoken = self.is_killed = False

    @property
    def takes_connections(self) -> bool:
        return self.channel is not None and not self.state.is_stopping

    @property
    def load(self) -> int:
        return self.state.open + len(self.waiting)

    def silence(self, now: float) -> float:
        return now - (self.heard_at if self.has_spoken else self.started_at)


class Ended(Struct, frozen=True):
    """The parent has nothing left to do."""

    code: int


class GatewayProcesses:
    """The parent's work. `run` comes back in the parent with its exit code, and in each child with its place."""

    def __init__(
        self,
        count: int,
        listener: socket.socket,
        *,
        on_ready: Callable[[], None],
        on_reload: Callable[[], None],
    ) -> None:
        """`on_ready`: the first process serves; `on_reload`: the config is to be read anew."""
        self._slots = [Slot(number) for number in range(1, count + 1)]
        self._listener = listener
        self._on_ready = on_ready
        self._on_reload = on_reload
        self._selector = selectors.DefaultSelector()
        self._folder = Path(tempfile.mkdtemp(prefix="jackfield-gateways-"))
        self._orphans: deque[socket.socket] = deque()
        """Connections that no process has."""
        self._signalled, self._signals = socket.socketpair()
        self._turn = 0
        self._is_up = self._is_accepting = self._is_stopping = False
        self._stop_by = 0.0
        self._code = 0

    def run(self) -> Place | Ended:
        for name in _IMPORTED_BY_UVICORN:
            importlib.import_module(name)
        gc.collect()
        gc.freeze()  # what is shared with the children is not to be written to by their collections
        self._catch_signals()
        self._selector.register(self._signalled, selectors.EVENT_READ, None)
        self._slots[0].due = time.monotonic()  # the others follow when it serves: it makes what is made once
        try:
            while True:
                place = self._start_due()
                if place is not None:
                    return place
                if self._is_stopping and not any(slot.pid for slot in self._slots):
                    return self._end()
                self._take_turn()
        except BaseException:
            self._kill_all(signal.SIGKILL)
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def _take_turn(self) -> None:
        self._accept_if_anybody_is_there()
        for key, _ in self._selector.select(self._until_due()):
            if key.fileobj is self._signalled:
                self._handle_signals()
            elif key.fileobj is self._listener:
                self._accept()
            elif isinstance(key.data, Slot):
                self._hear(key.data)
        self._reap()
        self._look_after()
        while self._orphans and self._hand_over(self._orphans[0]):
            self._orphans.popleft()

    def _until_due(self) -> float:
        dues = [slot.due for slot in self._slots if slot.due is not None and not self._is_stopping]
        return max(0.0, min([LOOK_SECONDS, *(due - time.monotonic() for due in dues)]))

    # Starting and ending

    def _start_due(self) -> Place | None:
        now = time.monotonic()
        for slot in self._slots:
            if slot.due is not None and slot.due <= now and not self._is_stopping:
                place = self._start(slot)
                if place is not None:
                    return place
        return None

    def _start(self, slot: Slot) -> Place | None:
        """Fork. The child comes back with its place."""
        ours, theirs = socket.socketpair()
        slot.starts += 1
        pid = os.fork()
        if pid == 0:
            ours.close()
            self._let_go()
            return Place(
                number=slot.number,
                count=len(self._slots),
                starts=slot.starts,
                announces=not self._is_up,
                folder=self._folder,
                channel=theirs,
            )
        theirs.close()
        ours.setblocking(False)  # noqa: FBT003 - the socket's own interface
        slot.pid, slot.channel, slot.due = pid, ours, None
        slot.started_at = slot.heard_at = time.monotonic()
        slot.state, slot.unread = ProcessState(), b""
        slot.has_spoken = slot.is_killed = False
        self._selector.register(ours, selectors.EVENT_READ, slot)
        if slot.starts > 1:
            log.info("gateway worker %d: a new process has been started (pid %d)", slot.number, pid)
        return None

    def _let_go(self) -> None:
        """In a child: nothing of the parent's stays open, and signals are its own."""
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the parent says when to end
        self._selector.close()
        self._listener.close()
        self._signalled.close()
        self._signals.close()
        for slot in self._slots:
            if slot.channel is not None:
                slot.channel.close()
            for connection in slot.waiting:
                connection.close()
        for connection in self._orphans:
            connection.close()

    def _reap(self) -> None:
        for slot in self._slots:
            if slot.pid and (ended := os.waitpid(slot.pid, os.WNOHANG))[0]:
                self._gone(slot, os.waitstatus_to_exitcode(ended[1]))

    def _gone(self, slot: Slot, code: int) -> None:
        pid, slot.pid = slot.pid, 0
        lived = time.monotonic() - slot.started_at
        was_ready = slot.state.is_ready
        self._close(slot)
        self._orphans.extend(slot.waiting)
        slot.waiting.clear()
        if self._is_stopping:
            return
        if not self._is_up:
            # What it could not do no other one can; it has said why.
            self._is_stopping, self._code = True, code if code >= 0 else 128 - code
            return
        if was_ready and lived > STABLE_SECONDS:
            slot.delays.reset()
        pause = 0.0 if code == DECLARED_DEAD else slot.delays.next()
        slot.due = time.monotonic() + pause
        log.warning(
            "gateway worker %d (pid %d) %s; another takes its place in %.1f s. Calls that it ran are taken over.",
            slot.number,
            pid,
            _how_ended(code),
            pause,
        )

    def _close(self, slot: Slot) -> None:
        if slot.channel is not None:
            self._selector.unregister(slot.channel)
            slot.channel.close()
            slot.channel = None

    def _end(self) -> Ended:
        for connection in self._orphans:
            connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        return Ended(self._code)

    # Connections

    def _accept_if_anybody_is_there(self) -> None:
        """While no process runs, connections wait in the system's queue."""
        wanted = not self._is_stopping and any(slot.takes_connections for slot in self._slots)
        if wanted and not self._is_accepting:
            self._selector.register(self._listener, selectors.EVENT_READ, None)
        elif self._is_accepting and not wanted:
            self._selector.unregister(self._listener)
        self._is_accepting = wanted

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as fault:  # the client is gone already, or there are no descriptors left
                log.warning("a connection was not taken: %s", fault)
                return
            if not self._hand_over(connection):
                self._orphans.append(connection)
                return

    def _hand_over(self, connection: socket.socket) -> bool:
        """To the process that has fewest, of those that answer. False: nobody takes it now."""
        now = time.monotonic()
        there = [slot for slot in self._slots if slot.takes_connections]
        ready = [slot for slot in there if slot.state.is_ready] or there
        awake = [slot for slot in ready if slot.silence(now) < SILENT_SECONDS] or ready
        self._turn += 1
        for slot in sorted(awake, key=lambda one: (one.load, (one.number + self._turn) % len(self._slots))):
            assert slot.channel is not None
            try:
                socket.send_fds(slot.channel, [CONNECTION], [connection.fileno()])
            except OSError:  # its queue is full, or it has just ended
                continue
            slot.waiting.append(connection)
            return True
        return False

    def _hear(self, slot: Slot) -> None:
        assert slot.channel is not None
        try:
            data = slot.channel.recv(65_536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(slot)
            return
        slot.heard_at, slot.has_spoken = time.monotonic(), True
        data = slot.unread + data
        while len(data) >= ProcessState.SIZE:
            self._understand(slot, ProcessState.unpacked(data[: ProcessState.SIZE]))
            data = data[ProcessState.SIZE :]
        slot.unread = data

    def _understand(self, slot: Slot, state: ProcessState) -> None:
        before, slot.state = slot.state, state
        for _ in range(min(len(slot.waiting), state.taken - before.taken)):
            slot.waiting.popleft().close()
        if state.is_ready:
            self._first_is_up()

    def _first_is_up(self) -> None:
        if not self._is_up:
            self._is_up = True
            self._on_ready()
            for other in self._slots[1:]:
                other.due = time.monotonic()

    # Looking after

    def _look_after(self) -> None:
        now = time.monotonic()
        if self._is_stopping:
            if now > self._stop_by:
                self._kill_all(signal.SIGKILL)
            return
        for slot in self._slots:
            is_hung = slot.silence(now) > (HUNG_SECONDS if slot.has_spoken else STARTS_WITHIN)
            if slot.pid and is_hung and not slot.is_killed:
                log.error("gateway worker %d (pid %d) does not answer any more and is killed", slot.number, slot.pid)
                slot.is_killed = True
                os.kill(slot.pid, signal.SIGKILL)

    def _catch_signals(self) -> None:
        self._signals.setblocking(False)  # noqa: FBT003 - the socket's own interface
        self._signalled.setblocking(False)  # noqa: FBT003
        for number in _SIGNALS:
            signal.signal(number, _ignore)
        signal.set_wakeup_fd(self._signals.fileno(), warn_on_full_buffer=False)

    def _handle_signals(self) -> None:
        for number in self._signalled.recv(4096):
            if number == signal.SIGHUP:
                self._reload()
            elif number in (signal.SIGTERM, signal.SIGINT):
                self._stop(number)

    def _reload(self) -> None:
        self._on_reload()
        for slot in self._slots:
            if slot.pid and slot.state.is_ready:
                os.kill(slot.pid, signal.SIGHUP)

    def _stop(self, number: int) -> None:
        """The first time each ends what runs; the second time all end at once."""
        now = time.monotonic()
        if self._is_stopping:
            self._code = 128 + number
            self._stop_by = min(self._stop_by, now + 1.0)
        else:
            self._stop_by = now + ENDS_WITHIN
        self._is_stopping = True
        self._accept_if_anybody_is_there()
        self._listener.close()
        self._kill_all(signal.SIGTERM)

    def _kill_all(self, number: signal.Signals) -> None:
        for slot in self._slots:
            if slot.pid:
                with suppress(ProcessLookupError):
                    os.kill(slot.pid, number)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """The number arrives at the wake-up socket."""


def _how_ended(code: int) -> str:
    if code == DECLARED_DEAD:
        return "was declared dead after 15 s without an answer"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
