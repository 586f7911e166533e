"""Server-sent events: `encode_event` writes one, `EventParser` reads them as the HTML standard says.

Above: every stream that the gateway sends, and every client that reads one. Below: nothing; no I/O.
"""

import re

from msgspec import Struct

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def encode_event(data: bytes, *, id: str | None = None, event: str | None = None) -> bytes:  # noqa: A002 - the field's name
    """One event with JSON as its data. Line breaks in JSON are white space, so they become spaces."""
    head = b""
    if id is not None:
        head += b"id: %s\n" % id.encode()
    if event is not None:
        head += b"event: %s\n" % event.encode()
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\n", b" ").replace(b"\r", b" ")
    return b"%sdata: %s\n\n" % (head, data)


class ServerEvent(Struct, frozen=True):
    """One event: its type, its data lines joined, and the last event id of the stream so far."""

    type: str
    data: str
    id: str = ""


class EventParser:
    """Turns chunks, however they are cut, into complete events. An incomplete event at the end is dropped."""

    def __init__(self) -> None:
        self.last_id = ""
        """The `Last-Event-ID` to send on reconnect."""
        self.retry_ms: int | None = None
        """The reconnection time that the server asked for."""
        self.restart()

    def restart(self) -> None:
        """Prepare for a new stream that continues after `last_id`: an incomplete event is dropped."""
        self._rest = bytearray()
        self._searched = 0
        self._started = False
        self._after_return = False
        self._type = ""
        self._data: list[str] = []
        self._id = self.last_id

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        self._rest += chunk
        if not self._started and not self._skip_byte_order_mark():
            return []
        events = []
        start = 0
        if self._after_return and self._rest:
            # The last chunk ended in "\r", which ended its line; a "\n" here is the other half of that line end.
            start = 1 if self._rest.startswith(b"\n") else 0
            self._after_return = False
        position = max(start, self._searched)
        while found := _LINE_END.search(self._rest, position):
            line = self._rest[start : found.start()].decode("utf-8", "replace")
            if event := self._take(line):
                events.append(event)
            start = position = found.end()
            self._after_return = found[0] == b"\r" and start == len(self._rest)
        del self._rest[:start]
        self._searched = len(self._rest)
        return events

    def _skip_byte_order_mark(self) -> bool:
        """Remove a leading byte order mark. False until enough bytes have arrived to tell."""
        if len(self._rest) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(bytes(self._rest)):
            return False
        if self._rest.startswith(_BYTE_ORDER_MARK):
            del self._rest[: len(_BYTE_ORDER_MARK)]
        self._started = True
        return True

    def _take(self, line: str) -> ServerEvent | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._type = value
        elif field == "data":
            self._data.append(value)
        elif field == "id" and "\0" not in value:
            self._id = value
        elif field == "retry" and value.isascii() and value.isdigit():
            self.retry_ms = int(value)
        return None

    def _dispatch(self) -> ServerEvent | None:
        self.last_id = self._id
        event = ServerEvent(self._type or "message", "\n".join(self._data), self._id) if self._data else None
        self._type = ""
        self._data = []
        return event
