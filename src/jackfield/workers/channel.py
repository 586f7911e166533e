"""The connection to one worker: one JSON object per line, both ways, over a socketpair.

Above: `worker.py`, which handles the messages. Below: an asyncio transport.
A result is not parsed: it passes as the bytes that came.
"""

import asyncio
import re
import socket
from collections.abc import Callable
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from jackfield.model.call import NULL, Done, Failed
from jackfield.protocol.lines import LineSplitter, TooLong

MAX_MESSAGE = 64 * 1024 * 1024
"""Bytes. A worker that writes a longer line is ended."""


class ProgressPart(Struct, frozen=True):
    """A progress report, as the worker sends it."""

    progress: float
    total: float | None = None
    message: str | None = None


class WorkerMessage(Struct, frozen=True):
    """Any message from a worker. Which field is set tells what it is."""

    id: str | int | None = None
    result: Raw | UnsetType = UNSET
    error: Any = None
    code: str | None = None
    trace: str = ""
    """The traceback of the tool's own code."""
    progress: ProgressPart | None = None
    call: int | None = None
    tool: str = ""
    kwargs: dict[str, Any] = {}
    ready: bool | None = None

    def outcome(self) -> Done | Failed:
        """An empty error is still an error; `null` is a result."""
        if self.error is not None:
            error = self.error if isinstance(self.error, str) else msgspec.json.encode(self.error).decode()
            return Failed(self.code or "tool_error", error or "The tool failed and did not say why.")
        return Done(self.result if isinstance(self.result, Raw) else NULL)


class InvalidMessage(Exception):
    """A line that is not a message."""


_decode = msgspec.json.Decoder(WorkerMessage).decode
_ANSWER = re.compile(rb'\{"id":("[^"\\]*"|\d+),"result":')
"""How `jackfield_tool` begins an answer."""
_TOO_DEEP = "The tool returned something that is nested too deeply to be passed on. Return it flatter, or as text."


def decode_message(line: bytes) -> WorkerMessage:
    try:
        if not line.isascii():
            line.decode()  # a result is passed on unparsed, so its UTF-8 is checked here
        return _decode(line)
    except RecursionError:
        answer = _ANSWER.match(line)
        if answer is None:
            raise InvalidMessage("it is nested too deeply") from None
        return WorkerMessage(id=msgspec.json.decode(answer[1]), error=_TOO_DEEP, code="bad_result")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidMessage(str(error)) from None


class WorkerChannel(asyncio.Protocol):
    """`on_line` gets each line; `on_end` is called once, with a reason if the worker broke the protocol."""

    def __init__(self, *, on_line: Callable[[bytes], None], on_end: Callable[[str | None], None]) -> None:
        self._on_line = on_line
        self._on_end = on_end
        self._transport: asyncio.Transport | None = None
        self._lines = LineSplitter(limit=MAX_MESSAGE)

    @classmethod
    async def open(
        cls, sock: socket.socket, *, on_line: Callable[[bytes], None], on_end: Callable[[str | None], None]
    ) -> "WorkerChannel":
        channel = cls(on_line=on_line, on_end=on_end)
        await asyncio.get_running_loop().create_unix_connection(lambda: channel, sock=sock)
        return channel

    def send(self, line: bytes) -> None:
        """Send one message, which ends in a newline. Dropped after the end."""
        if self._transport is not None:
            self._transport.write(line)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if isinstance(line, TooLong):
                self._end(f"it wrote a line of more than {MAX_MESSAGE // 1024 // 1024} MB")
                return
            if line:
                self._on_line(line)

    def connection_lost(self, _: Exception | None) -> None:
        self._end(None)

    def _end(self, reason: str | None) -> None:
        self.close()
        self._transport = None
        on_end, self._on_end = self._on_end, lambda _: None
        on_end(reason)
