"""One session: whose it is, what is lent to it, what happens in it, and who lives in it.

Above: `registry.py`, which opens and ends it, and `relay.py`. Below: its parts. It decides nothing by itself.
"""

import asyncio
import time
from enum import Enum
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from jackfield.model.principal import Principal
from jackfield.sessions import events
from jackfield.sessions.caller_tools import CallerTools
from jackfield.sessions.events import EventBuffer
from jackfield.sessions.presence import Presence


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


class Inhabitant(Protocol):
    """Who works in a session."""

    async def start(self) -> None:
        """Begin. Raises when that cannot be."""

    def tell(self, message: str) -> None:
        """Something the caller says. Never blocks; raises `Refused` when no more can be taken in."""

    async def stop(self) -> None:
        """End, and leave nothing behind."""


class OpenRequest(Struct, frozen=True, kw_only=True):
    """A call of a lent tool that its caller has not answered."""

    call_id: str
    tool: str
    timer: asyncio.TimerHandle


class Limits(Struct, frozen=True, kw_only=True):
    """When a session ends by itself, in seconds; 0: not for that."""

    timeout: float = 0
    idle_timeout: float = 1800


class Session:
    """From its opening until it is forgotten, some time after its end."""

    def __init__(
        self,
        session_id: str,
        *,
        owner: Principal,
        agent: str,
        kind: Literal["agent", "program"],
        token: str,
        presence: Presence,
        limits: Limits,
    ) -> None:
        self.id = session_id
        self.owner = owner
        self.agent = agent
        self.kind = kind
        self.token = token
        self.principal = Principal(
            name=f"session:{session_id}", scopes=frozenset({f"session:{session_id}"}), owner=owner.name
        )
        """Whoever has the session's key."""
        self.presence = presence
        self.limits = limits
        self.ring = EventBuffer(session_id)
        self.lent = CallerTools()
        self.requests: dict[str, OpenRequest] = {}
        self.status = SessionStatus.IDLE
        self.error: str | None = None
        self.socket: Path | None = None
        self.inhabitant: Inhabitant | None = None
        self.opened_at = time.time_ns() // 1_000_000
        self._opened = self._last_word = time.monotonic()
        self.ended: float | None = None
        """When it was over, by the monotonic clock."""

    def touch(self) -> None:
        """Somebody said or did something."""
        self._last_word = time.monotonic()

    @property
    def overdue(self) -> str | None:
        """Why it has to end now, if it has to."""
        now, limits = time.monotonic(), self.limits
        if limits.timeout and now - self._opened > limits.timeout:
            return f"The session lasted {limits.timeout:g} s, which is as long as it may."
        last = max(self._last_word, self._opened)
        if limits.idle_timeout and now - last > limits.idle_timeout and not self.requests:
            return f"Nobody said anything for {limits.idle_timeout:g} s."
        return None

    def move_to(self, status: SessionStatus) -> None:
        """Say so where it is something new. What is over stays as it is."""
        if status is not self.status and not self.status.is_over:
            self.status = status
            self.ring.add(events.STATUS, status=status.value)
