"""Server-sent events from bytes, as the HTML standard parses them, however the bytes are cut into chunks.

Above: `connection.py`, which feeds it a response. Below: nothing.
"""

import re

from msgspec import Struct

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class ServerEvent(Struct, frozen=True):
    """One event: its type, its data lines joined, and the last id the stream has named so far."""

    type: str
    data: str
    id: str = ""


class EventParser:
    """Feed it chunks; it gives the events that are complete. What a broken stream leaves half-said is dropped."""

    def __init__(self) -> None:
        self.last_id = ""
        """What `Last-Event-ID` should say after a reconnect."""
        self.retry_ms: int | None = None
        """How long the server asks us to wait before a reconnect."""
        self.restart()

    def restart(self) -> None:
        """Forget what was half-said: the next bytes are a new stream's, which goes on after `last_id`."""
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
        """Whether enough has come to know how the stream begins; a leading mark is taken away."""
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
