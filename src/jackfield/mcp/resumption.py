"""Streams of the handshake era that can be resumed: what was sent on them, by event ids (`Last-Event-ID`).

Above: `exchange.py` and `notifications.py`, which send, and `api.py`, which finds the stream that a client comes back
to. Below: nothing. Kept in memory, with bounds for each session; a stream that its client does not come back to lapses.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from msgspec import Struct

from jackfield.protocol.sse import encode_event

if TYPE_CHECKING:
    from jackfield.mcp.exchange import McpExchange

RESUME_SECONDS = 30.0
"""How long a client may take to come back to a stream that broke, or to ask again for what was sent on it."""
RETRY_MS = 1_000
"""After so long a client should come back."""
MAX_EVENTS = 1_000
MAX_BYTES = 1024 * 1024
"""Of the events that are kept for one session, and as many of outcomes that were sent."""
MAX_STREAMS = 32
"""Of one session that are over and can be asked for again."""
STANDALONE = "0"
"""The stream that belongs to no request (GET)."""


class _Kept(Struct, frozen=True):
    stream: str
    number: int
    frame: bytes


class SessionEvents:
    """What one session was sent. Used on the event loop only."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._kept: deque[_Kept] = deque()
        self._bytes = 0
        self.standalone = ResumableStream(STANDALONE, self)
        self._streams: dict[str, ResumableStream] = {STANDALONE: self.standalone}

    def open(self, exchange: "McpExchange") -> "ResumableStream":
        """The stream of a request."""
        stream = ResumableStream(str(next(self._numbers)), self, exchange)
        self._streams[stream.id] = stream
        self.prune()
        return stream

    def prune(self) -> None:
        """Let the oldest streams go whose outcomes were sent, where there are too many or they are too large."""
        over = [one for one in self._streams.values() if one.is_over and one.owner is None]
        size = sum(one.outcome_size for one in over)
        for oldest in over:
            if len(self._streams) <= MAX_STREAMS and size <= MAX_BYTES:
                return
            size -= oldest.outcome_size
            oldest.lapse()

    def find(self, event_id: str) -> "tuple[ResumableStream, int] | None":
        """The stream of an event, and its number there; None: unknown, or no longer kept."""
        name, _, number = event_id.rpartition("-")
        stream = self._streams.get(name)
        if stream is None or not number.isdecimal() or len(number) > len(str(2**31)):
            return None
        return stream, int(number)

    def keep(self, stream: str, number: int, frame: bytes) -> None:
        self._kept.append(_Kept(stream, number, frame))
        self._bytes += len(frame)
        while len(self._kept) > MAX_EVENTS or self._bytes > MAX_BYTES:
            self._bytes -= len(self._kept.popleft().frame)

    def after(self, stream: str, number: int) -> list[bytes]:
        """What was sent on a stream after that event, as far as it is kept."""
        return [one.frame for one in self._kept if one.stream == stream and one.number > number]

    def forget(self, stream: "ResumableStream") -> None:
        """Nobody will ask for it any more."""
        self._streams.pop(stream.id, None)
        self._kept = deque(one for one in self._kept if one.stream != stream.id)
        self._bytes = sum(len(one.frame) for one in self._kept)

    def end(self) -> None:
        """The session is over."""
        for stream in list(self._streams.values()):
            if stream.exchange is not None and stream.owner is None:
                stream.lapse()


class ResumableStream:
    """One stream: of a request, or the one that belongs to none."""

    def __init__(self, stream_id: str, events: SessionEvents, exchange: "McpExchange | None" = None) -> None:
        self.id = stream_id
        self.exchange = exchange
        self.owner: object | None = None
        """Whoever sends on it now; None: its client is away."""
        self.outcome_number: int | None = None
        """Of the event that had the outcome."""
        self.outcome_size = 0
        self._events = events
        self._number = 0
        self._on_lapse: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_over(self) -> bool:
        """Its outcome was sent."""
        return self.outcome_number is not None

    def attach(self, owner: object) -> None:
        """Send on it from now on, in the place of whoever did before."""
        self.owner = owner
        self._stop_timer()
        if self.exchange is not None:
            self.exchange.wake()

    def detach(self, owner: object, *, on_lapse: Callable[[], None] | None) -> None:
        """The connection is gone. Unless the client comes back in time, the stream lapses."""
        if self.owner is not owner:
            return
        self.owner = None
        self._on_lapse = on_lapse
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(RESUME_SECONDS, self.lapse)
        if on_lapse is None:
            self._events.prune()

    def lapse(self) -> None:
        """Nobody will come back to it."""
        self._stop_timer()
        self._events.forget(self)
        on_lapse, self._on_lapse = self._on_lapse, None
        if on_lapse is not None:
            on_lapse()

    def prime(self) -> bytes:
        """An event without data that gives the client an id to come back with, and says when."""
        return b"id: %b-%d\nretry: %d\ndata: \n\n" % (self.id.encode(), self._number, RETRY_MS)

    def frame(self, message: bytes) -> bytes:
        """A message as an event, which is kept."""
        self._number += 1
        frame = self._encoded(message, self._number)
        self._events.keep(self.id, self._number, frame)
        return frame

    def next_id(self) -> str:
        """The id of an event that is not kept, because its sender sends it again by itself."""
        self._number += 1
        return f"{self.id}-{self._number}"

    def outcome(self, message: bytes) -> bytes:
        """The outcome as an event. Its exchange has it, so it is not kept twice."""
        if self.outcome_number is None:
            self._number += 1
            self.outcome_number = self._number
        self.outcome_size = len(message)
        return self._encoded(message, self.outcome_number)

    def after(self, number: int) -> list[bytes]:
        """What was sent after that event."""
        return self._events.after(self.id, number)

    def _encoded(self, message: bytes, number: int) -> bytes:
        return encode_event(message, id=f"{self.id}-{number}", event="message")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
