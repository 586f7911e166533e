"""The socket to the gateway: one JSON object per line, both ways."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable

READ_BYTES = 262_144


class ChannelSelector(selectors.DefaultSelector):
    """Reads the channel inside `select`, so that new calls run in this turn of the loop, not in the next one. A
    reader registered with the loop would cost a fifth of a short call's time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._channel = -1
        self._read: Callable[[], None] = lambda: None

    def watch(self, channel: int, read: Callable[[], None]) -> None:
        self._channel, self._read = channel, read
        self.register(channel, selectors.EVENT_READ, (None, None))  # what the loop stores: no reader, no writer

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(timeout)
        for key, mask in events:
            if key.fd == self._channel and mask & selectors.EVENT_READ:
                self._read()
        return events


class GatewayChannel:
    """Lines to and from the gateway, on a non-blocking socket. `send` is thread-safe."""

    def __init__(self, connection: socket.socket, *, on_lost: Callable[[], None]) -> None:
        connection.settimeout(0)
        self._selector = ChannelSelector()
        self.loop: asyncio.AbstractEventLoop = asyncio.SelectorEventLoop(self._selector)
        self._socket = connection
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._buffer = bytearray(READ_BYTES)
        self._view = memoryview(self._buffer)
        self._partial: list[bytes] = []

    @property
    def unsent_bytes(self) -> int:
        return self._unsent_bytes

    def open(self, on_lines: Callable[[list[bytes]], None], on_end: Callable[[], None]) -> None:
        """Start reading: `on_lines` gets each batch of whole lines, `on_end` is called when no more will come."""
        self._selector.watch(self._socket.fileno(), functools.partial(self._read, on_lines, on_end))

    def send(self, data: bytes) -> None:
        with self._lock:
            sent = 0
            if not self._unsent:
                try:
                    sent = self._socket.send(data)
                except OSError as error:
                    sent = self._not_sent(error, data)
                if sent == len(data):
                    return
                self.loop.call_soon_threadsafe(self._watch)
            self._unsent.append(memoryview(data)[sent:])
            self._unsent_bytes += len(data) - sent

    def send_now(self, data: bytes) -> None:
        """Block until everything is sent; for the last message of the process."""
        self._socket.settimeout(None)
        with contextlib.suppress(OSError):
            self._socket.sendall(b"".join([*self._unsent, data]))

    def stop_reading(self) -> None:
        self.loop.remove_reader(self._socket.fileno())

    def shut(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def abandon(self) -> None:
        """In a forked child: the channel is the parent's."""
        self._socket.close()

    def _read(self, on_lines: Callable[[list[bytes]], None], on_end: Callable[[], None]) -> None:
        try:
            size = self._socket.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if not size:
            on_end()
            return
        first = self._buffer.find(b"\n", 0, size)
        if first == size - 1 and not self._partial:
            on_lines([bytes(self._view[:first])])
            return
        self._partial.append(bytes(self._view[:size]))
        if first >= 0:
            *whole, rest = b"".join(self._partial).split(b"\n")
            self._partial = [rest] if rest else []
            on_lines(whole)

    def _not_sent(self, error: OSError, data: bytes | memoryview) -> int:
        """How many bytes need not be sent again."""
        if isinstance(error, BlockingIOError):
            return 0
        self._on_lost()
        return len(data)

    def _watch(self) -> None:
        self.loop.add_writer(self._socket.fileno(), self._send_rest)

    def _send_rest(self) -> None:
        with self._lock:
            while self._unsent:
                first = self._unsent[0]
                try:
                    sent = self._socket.send(first)
                except OSError as error:
                    sent = self._not_sent(error, first)
                self._unsent_bytes -= sent
                if sent < len(first):
                    self._unsent[0] = first[sent:]
                    return
                self._unsent.popleft()
            self.loop.remove_writer(self._socket.fileno())
