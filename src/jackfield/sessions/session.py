"""One session: its owner, caller tools, status and event buffer.

Above: `registry.py`, which opens and ends it, and `relay.py`. It decides nothing by itself.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import UNSET, Raw, Struct, UnsetType

from jackfield.errors import EventsPurged
from jackfield.model.principal import Principal
from jackfield.model.text import iso_time
from jackfield.sessions.caller_tools import CallerPresence, CallerTools

KEPT = 1_000
KEPT_BYTES = 64 * 1024 * 1024

CALLER_TOOL_REQUEST = "caller_tool_request"
"""The agent wants one of the caller's tools run."""
CALLER_TOOL_SETTLED = "caller_tool_settled"
"""Such a request needs no answer any more."""
MESSAGE = "message"
"""A message of the caller or of the agent, whole; `role` says whose."""
DELTA = "delta"
"""Part of a message that is still streaming."""
TOOL_CALL = "tool_call"
"""An agent of the config calls a tool."""
TOOL_RESULT = "tool_result"
"""That call has ended."""
COMPLETION = "completion"
"""The agent finished the message."""
ERROR = "error"
"""The agent failed; `error` says why."""
STATUS = "status"
"""The session is now `idle`, `running`, `completed`, `failed` or `timed_out`."""


class SessionStatus(Enum):
    """Where a session is in its life."""

    IDLE = "idle"
    """It waits for a message."""
    RUNNING = "running"
    """Its agent is at work; a program is, as long as it lives."""
    COMPLETED = "completed"
    """It was ended, or its program ended well."""
    FAILED = "failed"
    """Its program failed."""
    TIMED_OUT = "timed_out"
    """It lasted too long, or nobody said anything for too long."""

    @property
    def is_over(self) -> bool:
        return self not in (SessionStatus.IDLE, SessionStatus.RUNNING)


class SessionRunner(Protocol):
    """What runs in a session: a configured agent or a program."""

    async def start(self) -> None:
        """Start, or raise."""

    def tell(self, message: str) -> None:
        """Queue a message of the caller. Never blocks; raises `Refused` when the queue is full."""

    async def stop(self) -> None:
        """Stop and clean up."""


class OpenRequest(Struct, frozen=True, kw_only=True):
    """A call of a caller tool that is not answered yet."""

    call_id: str
    tool: str
    timer: asyncio.TimerHandle


class SessionLimits(Struct, frozen=True, kw_only=True):
    """When a session ends by itself, in seconds; 0: never."""

    timeout: float = 0
    idle_timeout: float = 1800


class AgentSession:
    """A session, from its opening until some time after its end."""

    def __init__(
        self,
        session_id: str,
        *,
        owner: Principal,
        agent: str,
        kind: Literal["agent", "program"],
        token: str,
        presence: CallerPresence,
        limits: SessionLimits,
    ) -> None:
        self.id = session_id
        self.owner = owner
        self.agent = agent
        self.kind = kind
        self.token = token
        self.principal = Principal(
            name=f"session:{session_id}", scopes=frozenset({f"session:{session_id}"}), owner=owner.name
        )
        """The principal of the session's own key."""
        self.presence = presence
        self.limits = limits
        self.events = EventBuffer(session_id)
        self.caller_tools = CallerTools()
        self.requests: dict[str, OpenRequest] = {}
        self.status = SessionStatus.IDLE
        self.error: str | None = None
        self.socket: Path | None = None
        self.runner: SessionRunner | None = None
        self.opened_at = time.time_ns() // 1_000_000
        self._opened = self._last_word = time.monotonic()
        self.ended: float | None = None
        """When it was over, by the monotonic clock."""

    def touch(self) -> None:
        """Reset the idle timeout."""
        self._last_word = time.monotonic()

    @property
    def overdue(self) -> str | None:
        """Why it must end now, or None."""
        now, limits = time.monotonic(), self.limits
        if limits.timeout and now - self._opened > limits.timeout:
            return f"The session lasted {limits.timeout:g} s, which is as long as it may."
        last = max(self._last_word, self._opened)
        if limits.idle_timeout and now - last > limits.idle_timeout and not self.requests:
            return f"Nobody said anything for {limits.idle_timeout:g} s."
        return None

    def move_to(self, status: SessionStatus) -> None:
        """Change the status and publish it. A final status stays."""
        if status is not self.status and not self.status.is_over:
            self.status = status
            self.events.add(STATUS, status=status.value)


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
        """Append an event. Never blocks. Events after the end are dropped."""
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
        """No more events."""
        self.is_closed = True
        self._wake()

    async def delivered(self, *, within: float) -> None:
        """Wait until every follower has read the end, or the time is over."""
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
