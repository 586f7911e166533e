"""What a client of the handshake era is told of its relay sessions, on the stream that it holds open.

Above: `listening.py`, which sends, and `session_tools.py`, which binds. Below: the ring of a session's events. A
request to run a caller's tool is told whatever log level the client set, since nobody else can answer it; the rest only
to who asked for it. What happened while the stream was broken is told when it is back.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.errors import EventsPurged
from jackfield.protocol.jsonrpc import notification
from jackfield.protocol.mcp import LOG_LEVELS
from jackfield.sessions.events import CALLER_TOOL_REQUEST, SessionEvent
from jackfield.sessions.session import Session

log = logging.getLogger(__name__)

LEVEL = "info"
CALLER_TOOL = "jackfield.caller_tool"
SESSION = "jackfield.session"
BACKLOG = 100
"""Messages that wait for one stream; the ring keeps the others."""
MOST_BOUND = 100


class Push(Struct, frozen=True):
    """A message for the stream, and what to note as soon as it has left."""

    message: bytes
    on_sent: Callable[[], Awaitable[None]] | None = None


class Pushing:
    """The relay sessions of one MCP client. `level` is what the client asked to hear of."""

    def __init__(self, level: Callable[[], str | None]) -> None:
        self._level = level
        self._sessions: dict[str, Session] = {}
        self._told: dict[str, int] = {}
        """By session: the last event that this client was told."""
        self._outbox: asyncio.Queue[Push] | None = None
        self._pumps: dict[str, asyncio.Task[None]] = {}

    def bind(self, session: Session) -> None:
        """From now on this client is told what happens there."""
        if self._sessions.get(session.id) is session:
            return
        if (earlier := self._pumps.pop(session.id, None)) is not None:  # of the life before, if it was opened again
            earlier.cancel()
        self._forget_ended()
        self._sessions[session.id] = session
        self._told[session.id] = -1
        if self._outbox is not None:
            self._begin(session, self._outbox)

    @asynccontextmanager
    async def stream(self) -> AsyncIterator["asyncio.Queue[Push]"]:
        """What is to be sent, while the client's stream is open. A new stream takes the place of the one before."""
        await self._stop()
        outbox = self._outbox = asyncio.Queue(BACKLOG)
        for session in self._sessions.values():
            self._begin(session, outbox)
        try:
            yield outbox
        finally:
            if self._outbox is outbox:
                self._outbox = None
                await self._stop()

    def _begin(self, session: Session, outbox: "asyncio.Queue[Push]") -> None:
        self._pumps[session.id] = asyncio.create_task(self._pump(session, outbox), name=f"push {session.id}")

    async def _stop(self) -> None:
        pumps, self._pumps = list(self._pumps.values()), {}
        for pump in pumps:
            pump.cancel()
        if pumps:
            await asyncio.wait(pumps)

    async def _pump(self, session: Session, outbox: "asyncio.Queue[Push]") -> None:
        after: int | None = self._told[session.id]
        with session.presence.stream():
            while after is not None:
                after = await self._follow(session, outbox, after=after)

    async def _follow(self, session: Session, outbox: "asyncio.Queue[Push]", *, after: int) -> int | None:
        """To the session's end (None); if some were purged meanwhile, where to begin again."""
        try:
            async with aclosing(session.ring.follow(after)) as events:
                async for event in events:
                    if event.index > self._told[session.id] and self._is_wanted(session, event):
                        await outbox.put(Push(message_of(event), partial(self._note, session.id, event.index)))
        except EventsPurged as fault:
            log.info("a client was not told all of session %s: %s", session.id, fault)
            return -1
        return None

    async def _note(self, session_id: str, index: int) -> None:
        """The client has it: what was only on its way when a stream broke is told on the next."""
        if session_id in self._told:
            self._told[session_id] = index

    def _is_wanted(self, session: Session, event: SessionEvent) -> bool:
        if event.type == CALLER_TOOL_REQUEST:
            return event.request_id in session.requests
        least = self._level()
        return least is not None and LOG_LEVELS.index(LEVEL) >= LOG_LEVELS.index(least)

    def _forget_ended(self) -> None:
        over = [one.id for one in self._sessions.values() if one.status.is_over]
        for session_id in over[: max(0, len(self._sessions) - MOST_BOUND + 1)]:
            del self._sessions[session_id], self._told[session_id]


def message_of(event: SessionEvent) -> bytes:
    """The event as a log message, in the shape in which it can also be asked for."""
    logger = CALLER_TOOL if event.type == CALLER_TOOL_REQUEST else SESSION
    data: Any = msgspec.Raw(msgspec.json.encode(event))
    return notification("notifications/message", {"level": LEVEL, "logger": logger, "data": data})
