"""A gateway process's end of what `processes.py` does: it takes connections from its parent, and says how it is.

Above: `server.py`. Below: a pair of sockets. The parent is gone when the pair is closed; then the process ends too.
"""

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

log = logging.getLogger("jackfield")

CONNECTION = b"c"
"""What comes with each descriptor."""
ALIVE_EVERY = 0.5
DECLARED_DEAD = 75
"""The exit code of a process whose work others have taken over."""
_STATE = struct.Struct("!??II")


class ProcessState(Struct, frozen=True, kw_only=True):
    """How a process is. It says so twice a second and after every change; each says it all, so one may be lost."""

    is_ready: bool = False
    """It serves."""
    is_stopping: bool = False
    """It takes no more connections."""
    open: int = 0
    """Connections."""
    taken: int = 0
    """Connections that it has been handed so far and has."""

    SIZE: ClassVar[int] = _STATE.size

    def packed(self) -> bytes:
        return _STATE.pack(*msgspec.structs.astuple(self))

    @classmethod
    def unpacked(cls, data: bytes) -> "ProcessState":
        is_ready, is_stopping, connections, taken = _STATE.unpack(data)
        return cls(is_ready=is_ready, is_stopping=is_stopping, open=connections, taken=taken)


class Place(Struct, frozen=True, kw_only=True):
    """Which of several gateway processes this one is."""

    number: int
    count: int
    starts: int
    """How many processes have had this number so far, this one included."""
    announces: bool
    """Whether it is the first one of all, which says what is said once."""
    folder: Path
    """Where the processes find each other."""
    channel: socket.socket


class HandedConnections:
    """Takes what the parent hands over, as long as it is open. Used on the event loop only."""

    def __init__(
        self,
        place: Place,
        *,
        make_protocol: Callable[[], asyncio.Protocol],
        count: Callable[[], int],
        on_orphaned: Callable[[], None],
    ) -> None:
        """`count`: how many connections are open; `on_orphaned`: the parent is gone."""
        self._channel = place.channel
        self._make_protocol = make_protocol
        self._count = count
        self._on_orphaned = on_orphaned
        self._state = ProcessState()
        self._taking: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_reading = False

    def open(self) -> None:
        self._channel.setblocking(False)  # noqa: FBT003 - the socket's own interface
        asyncio.get_running_loop().add_reader(self._channel.fileno(), self._take)
        self._is_reading = True
        self._say_alive()

    def say_ready(self) -> None:
        self._say(is_ready=True)

    def _say(self, **changes: Any) -> None:
        self._state = msgspec.structs.replace(self._state, **changes, open=self._count())
        with suppress(OSError):  # the parent is gone, or too busy to listen: it will hear the next
            self._channel.send(self._state.packed())

    async def close(self) -> None:
        """Take what has been handed over, and no more."""
        self._say(is_stopping=True)
        if self._is_reading:
            self._take()
        self._stop_reading()
        if self._timer is not None:
            self._timer.cancel()
        if self._taking:
            await asyncio.wait(self._taking)

    def _say_alive(self) -> None:
        self._say()
        self._timer = asyncio.get_running_loop().call_later(ALIVE_EVERY, self._say_alive)

    def _take(self) -> None:
        while True:
            try:
                said, descriptors, _, _ = socket.recv_fds(self._channel, 1, 1)
            except BlockingIOError:
                return
            except OSError:
                said = b""
            if not said:
                self._stop_reading()
                self._on_orphaned()
                return
            for descriptor in descriptors:
                connection = socket.socket(fileno=descriptor)
                task = asyncio.create_task(self._serve(connection))
                self._taking.add(task)
                task.add_done_callback(self._taking.discard)
                self._say(taken=self._state.taken + 1)

    async def _serve(self, connection: socket.socket) -> None:
        connection.setblocking(False)  # noqa: FBT003 - the socket's own interface
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(self._make_protocol, connection)
        except OSError as fault:  # the client is gone already
            log.debug("a connection could not be served: %s", fault)
            connection.close()

    def _stop_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            asyncio.get_running_loop().remove_reader(self._channel.fileno())
