"""The line to one worker: JSON objects, one to a line, both ways, over a socketpair.

Above: `worker.py`, which gives the messages their meaning. Below: an asyncio transport.
A result is not parsed here: it passes as the bytes that came.
"""

import asyncio
import re
import socket
from collections.abc import Callable
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

LONGEST_MESSAGE = 64 * 1024 * 1024
"""Bytes. A worker that writes a longer line is not trusted to end it."""


class ProgressPart(Struct, frozen=True):
    """How far a call is, in the worker's words."""

    progress: float
    total: float | None = None
    message: str | None = None


class WorkerMessage(Struct, frozen=True):
    """Anything a worker says. Which field is set tells what it is."""

    id: str | int | None = None
    result: Raw | UnsetType = UNSET
    error: Any = None
    code: str | None = None
    trace: str = ""
    """Where the tool's own code failed."""
    progress: ProgressPart | None = None
    call: int | None = None
    tool: str = ""
    kwargs: dict[str, Any] = {}
    ready: bool | None = None


class Garbage(Exception):
    """Something on the line that is no message."""


_decode = msgspec.json.Decoder(WorkerMessage).decode


_ANSWER = re.compile(rb'\{"id":("[^"\\]*"|\d+),"result":')
"""How a worker of ours begins an answer."""
_TOO_DEEP = "The tool returned something that is nested too deeply to be passed on. Return it flatter, or as text."


def decode_message(line: bytes) -> WorkerMessage:
    try:
        if not line.isascii():
            line.decode()  # a result is passed on unread, so nobody after us looks whether it is UTF-8
        return _decode(line)
    except RecursionError:
        return _too_deep(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Garbage(str(error)) from None


def _too_deep(line: bytes) -> WorkerMessage:
    """A result that cannot be passed on fails its own call and no other."""
    found = _ANSWER.match(line)
    if found is None:
        raise Garbage("it is nested too deeply")
    return WorkerMessage(id=msgspec.json.decode(found[1]), error=_TOO_DEEP, code="bad_result")


class WorkerChannel(asyncio.Protocol):
    """Splits what comes into lines. `on_line` gets each one, `on_end` is told once that no more will come."""

    def __init__(self, *, on_line: Callable[[bytes], None], on_end: Callable[[str | None], None]) -> None:
        self._on_line = on_line
        self._on_end = on_end
        self._transport: asyncio.Transport | None = None
        self._parts: list[bytes] = []
        self._held = 0

    @classmethod
    async def open(
        cls, sock: socket.socket, *, on_line: Callable[[bytes], None], on_end: Callable[[str | None], None]
    ) -> "WorkerChannel":
        loop = asyncio.get_running_loop()
        channel = cls(on_line=on_line, on_end=on_end)
        await loop.create_unix_connection(lambda: channel, sock=sock)
        return channel

    def send(self, line: bytes) -> None:
        """Put one message, which ends in a newline, on its way. After the end it goes nowhere; `on_end` has told."""
        if self._transport is not None:
            self._transport.write(line)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        end = data.find(b"\n")
        if end == len(data) - 1 and not self._parts:
            self._on_line(data)  # one whole message, as nearly always; its newline is white space to the decoder
            return
        if end < 0:
            self._hold(data)
            return
        first, *more = data.split(b"\n")
        if self._parts:
            first = b"".join([*self._parts, first])
            self._parts.clear()
            self._held = 0
        rest = more.pop()
        if first:
            self._on_line(first)
        for line in more:
            if line:
                self._on_line(line)
        if rest:
            self._hold(rest)

    def _hold(self, data: bytes) -> None:
        self._parts.append(data)
        self._held += len(data)
        if self._held > LONGEST_MESSAGE:
            self._parts.clear()
            self._end(f"it wrote a line of more than {LONGEST_MESSAGE // 1024 // 1024} MB")

    def connection_lost(self, _: Exception | None) -> None:
        self._end(None)

    def _end(self, reason: str | None) -> None:
        self.close()
        self._transport = None
        on_end, self._on_end = self._on_end, _ignore
        on_end(reason)


def _ignore(_: str | None) -> None:
    return
