"""What happens in a session: one shape for whoever is told at once and whoever asks later.

Above: the session, and the doors that show it. Below: asyncio. The newest thousand are kept, under a number that only
grows; who asks for older ones is told so, and never gets a stream with a hole in it.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from jackfield.errors import EventsPurged
from jackfield.model.times import iso_time

KEPT = 1_000
KEPT_BYTES = 64 * 1024 * 1024

CALLER_TOOL_REQUEST = "caller_tool_request"
"""The agent wants one of the caller's tools run."""
CALLER_TOOL_SETTLED = "caller_tool_settled"
"""Such a request needs no answer any more."""
MESSAGE = "message"
DELTA = "delta"
"""A piece of a message that is still being said."""
TOOL_CALL = "tool_call"
TOOL_RESULT = "tool_result"
COMPLETION = "completion"
"""The agent is done with what it was told."""
ERROR = "error"
STATUS = "status"


class SessionEvent(Struct, frozen=True, kw_only=True):
    """One thing that happened. What does not apply is left out."""

    index: int
    type: str
    session_id: str
    at: str
    request_id: str | UnsetType = UNSET
    tool: str | UnsetType = UNSET
    """The caller's own name of one of its tools."""
    arguments: Raw | UnsetType = UNSET
    tool_name: str | UnsetType = UNSET
    role: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    error: str | UnsetType = UNSET
    status: str | UnsetType = UNSET

    @property
    def size(self) -> int:
        """About how much memory it takes."""
        return sum(len(part) for part in (self.text, self.arguments, self.error) if part is not UNSET)


class EventBuffer:
    """The newest events of one session."""

    def __init__(self, session_id: str, *, kept: int = KEPT, kept_bytes: int = KEPT_BYTES) -> None:
        self._session_id = session_id
        self._kept = kept
        self._kept_bytes = kept_bytes
        self._events: deque[SessionEvent] = deque()
        self._bytes = 0
        self._followers: set[asyncio.Event] = set()
        self._unfollowed = asyncio.Event()
        self._unfollowed.set()
        self.last_index = -1
        self.is_closed = False

    @property
    def dropped(self) -> int:
        """How many were there and are not any more."""
        return self.last_index + 1 - len(self._events)

    def add(self, type_: str, **told: Any) -> SessionEvent:
        """Something happened. Never blocks. What comes after the end is not kept."""
        at = iso_time(time.time_ns() // 1_000_000)
        event = SessionEvent(index=self.last_index + 1, type=type_, session_id=self._session_id, at=at, **told)
        if self.is_closed:
            return event
        self.last_index += 1
        self._events.append(event)
        self._bytes += event.size
        while len(self._events) > self._kept or (self._bytes > self._kept_bytes and len(self._events) > 1):
            self._bytes -= self._events.popleft().size
        self._wake()
        return event

    def since(self, index: int, *, limit: int | None = None) -> list[SessionEvent]:
        """Those after `index`, the oldest first; -1 asks for everything that is kept."""
        if index < 0:
            count = len(self._events)
        else:
            oldest = self.dropped
            if index + 1 < oldest:
                raise EventsPurged(
                    f"Events before index {oldest} have been purged (oldest available: {oldest}). "
                    "Ask with since_index -1 for all that are left.",
                    param="since_index",
                )
            count = max(0, self.last_index - index)
        first = len(self._events) - count
        last = len(self._events) if limit is None else min(len(self._events), first + limit)
        return [self._events[place] for place in range(first, last)]

    async def follow(self, after: int) -> AsyncGenerator[SessionEvent]:
        """Those after `after`, then each as it comes, to the session's end. Who is too slow gets `EventsPurged`."""
        # An index that is still to come was another session's: what comes next is new to whoever names it.
        position, woken = min(after, self.last_index), asyncio.Event()
        self._begin_following(woken)
        try:
            while True:
                woken.clear()
                for event in self.since(position):
                    position = event.index
                    yield event
                if position < self.last_index:
                    continue
                if self.is_closed:
                    return
                await woken.wait()
        finally:
            self._end_following(woken)

    async def wait_past(self, index: int, *, within: float) -> None:
        """Until there is an event after `index`, or the session is over, or the time is."""
        woken = asyncio.Event()
        self._begin_following(woken)
        try:
            async with asyncio.timeout(within):
                while self.last_index <= index and not self.is_closed:
                    woken.clear()
                    await woken.wait()
        except TimeoutError:
            return
        finally:
            self._end_following(woken)

    def close(self) -> None:
        """Nothing more will happen."""
        self.is_closed = True
        self._wake()

    async def told(self, *, within: float) -> None:
        """Until everybody who follows has heard the end, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._unfollowed.wait()

    def _begin_following(self, woken: asyncio.Event) -> None:
        self._followers.add(woken)
        self._unfollowed.clear()

    def _end_following(self, woken: asyncio.Event) -> None:
        self._followers.discard(woken)
        if not self._followers:
            self._unfollowed.set()

    def _wake(self) -> None:
        for woken in self._followers:
            woken.set()
