"""Sessions of handshake-era clients, and the messages pushed on their streams.

Above: `api.py` and `server.py`. Below: the catalog's followers and the event buffers of agent sessions. Sessions live
in memory: an unknown one (another gateway's, expired, ended) is 404 and its client initializes again, which is all a
load balancer needs. Their number is bounded; idle ones expire after half an hour.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.catalog.changes import ListFollower
from jackfield.errors import EventsPurged, Unavailable
from jackfield.mcp.exchange import McpExchange
from jackfield.mcp.resumption import SessionEvents
from jackfield.model.ids import secret_of
from jackfield.model.principal import Principal
from jackfield.protocol.jsonrpc import RequestId, RpcNotification, RpcResponse, notification
from jackfield.protocol.mcp import APPS, LOG_LEVELS
from jackfield.sessions.session import CALLER_TOOL_REQUEST, AgentSession, SessionEvent

log = logging.getLogger(__name__)

IDLE_SECONDS = 1800.0
MAX_SESSIONS = 10_000
MAX_FOUND = 200
"""Tools that `search_tools` keeps in one session's list; the ones found first go first."""

LEVEL = "info"
CALLER_TOOL = "jackfield.caller_tool"
SESSION = "jackfield.session"
BACKLOG = 100
"""Messages queued for one stream; the event buffer holds the others."""
MOST_BOUND = 100


class McpSession:
    """One initialized client."""

    def __init__(
        self, session_id: str, *, principal: Principal, revision: str, capabilities: dict[str, Any], now: float
    ) -> None:
        self.id = session_id
        self.principal = principal.name
        self.group = principal.group
        self.grant = principal.grant
        """The group whose endpoint it was opened at; it is good for that one only."""
        self.viewer = principal
        """Whose it is, as of the last request."""
        self.revision = revision
        self.capabilities = capabilities
        self.used = now
        self.exchanges: dict[RequestId, McpExchange] = {}
        """Requests that are being answered, by the client's id."""
        self.asked: dict[RequestId, asyncio.Future[RpcResponse | None]] = {}
        """What we asked the client and it has not answered yet."""
        self.follower: ListFollower | None = None
        """Of the open GET stream."""
        self.followed: dict[str, Callable[[], None]] = {}
        """Resources that the client subscribed to, and how to end that."""
        self.is_over = False
        self._missed: dict[str, None] = {}
        """What changed while no stream was open."""
        self._absent: ListFollower | None = None
        """Follows the lists while no stream is open, once one was."""
        self.log_level: str | None = None
        """From which level on the client wants to hear what tools' servers say; None: it did not ask to."""
        self.events = SessionEvents()
        """What was sent on its streams, for a client that comes back to one."""
        self.push = SessionPush(lambda: self.log_level)
        """Events of the agent sessions that use its tools."""
        self.found: dict[str, None] = {}
        """Names that `search_tools` found in this session."""

    @property
    def is_in_use(self) -> bool:
        return bool(self.exchanges) or self.follower is not None

    def remember(self, names: list[str]) -> bool:
        """Remember found tools; whether any was new."""
        new = [name for name in names if name not in self.found]
        self.found.update(dict.fromkeys(new))
        for name in list(self.found)[: max(0, len(self.found) - MAX_FOUND)]:
            del self.found[name]
        return bool(new)

    def announce_found(self) -> None:
        """Announce on the stream that the session's list has grown."""
        if self.follower is not None:
            self.follower.offer("tools")

    def change(self, change: str) -> None:
        """Tell the client of a change, now or when it opens its stream."""
        if self.follower is not None:
            self.follower.offer(change)
        else:
            self._missed[change] = None

    def follow(self, follower: ListFollower) -> None:
        """A new stream takes the place of the one before, whose connection may be dead without anybody knowing."""
        if self.follower is not None:
            self.follower.close()
        self.follower = follower
        absent, self._absent = self._absent, None
        for change in (*self._missed, *(() if absent is None else absent.take())):
            follower.offer(change)
        self._missed.clear()
        if absent is not None:
            absent.close()

    def unfollow(self, follower: ListFollower) -> None:
        """The stream is gone. What changes until there is another one is told on that."""
        if self.follower is follower and not self.is_over:
            self.follower = None
            self._absent = follower
        else:
            follower.close()

    def keep(self, exchange: McpExchange) -> None:
        """Know a request by its id until it is answered."""
        assert exchange.work is not None
        self.exchanges[exchange.request.id] = exchange
        exchange.work.add_done_callback(lambda _: self._forget(exchange))

    def _forget(self, exchange: McpExchange) -> None:
        if self.exchanges.get(exchange.request.id) is exchange:
            del self.exchanges[exchange.request.id]

    def take(self, message: RpcNotification | RpcResponse) -> None:
        """A message that wants no answer."""
        if isinstance(message, RpcResponse):
            self._answered(message)
        elif message.method == "notifications/cancelled":
            self._cancel(message.params.get("requestId"))

    def _cancel(self, request_id: Any) -> None:
        """Cancel a request of the client. Unknown ids are ignored, as the protocol asks."""
        exchange = self.exchanges.get(request_id) if isinstance(request_id, (str, int)) else None
        if exchange is not None:
            exchange.cancel()

    def _answered(self, response: RpcResponse) -> None:
        """The client answers what it was asked."""
        asked = self.asked.pop(response.id, None)
        if asked is not None and not asked.done():
            asked.set_result(response)

    def end(self) -> None:
        """Close the stream and cancel open questions."""
        if self.follower is not None:
            self.follower.close()
        self.is_over = True
        if self._absent is not None:
            self._absent.close()
        self.events.end()
        for end in self.followed.values():
            end()
        self.followed.clear()
        for waiting in self.asked.values():
            waiting.cancel()


class McpSessions:
    """All of one gateway, the least recently used first."""

    def __init__(
        self, gateway_id: str = "", *, limit: int = MAX_SESSIONS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`gateway_id`: where they live; their ids begin with it."""
        self._gateway_id = gateway_id
        self._limit = limit
        self._clock = clock
        self._by_id: OrderedDict[str, McpSession] = OrderedDict()
        self.on_end: Callable[[McpSession], None] | None = None
        """Told of each session that is over."""

    def __len__(self) -> int:
        return len(self._by_id)

    def open(self, principal: Principal, *, revision: str, capabilities: dict[str, Any]) -> McpSession:
        """Open a session; at the limit the longest idle one is evicted."""
        self._expire()
        if len(self._by_id) >= self._limit:
            self._make_room()
        session_id = secret_of(self._gateway_id)
        session = self._by_id[session_id] = McpSession(
            session_id,
            principal=principal,
            revision=revision,
            capabilities=capabilities,
            now=self._clock(),
        )
        return session

    def find(self, session_id: str, principal: Principal) -> McpSession | None:
        """The session, if it is this key's, at this endpoint; for another key, group or grant it does not exist."""
        self._expire()
        session = self._by_id.get(session_id)
        if session is None or session.principal != principal.name:
            return None
        if (session.group, session.grant) != (principal.group, principal.grant):
            return None
        session.viewer = principal
        session.used = self._clock()
        self._by_id.move_to_end(session_id)
        return session

    def end(self, session: McpSession) -> None:
        self._by_id.pop(session.id, None)
        session.end()
        if self.on_end is not None:
            self.on_end(session)

    def _expire(self) -> None:
        before = self._clock() - IDLE_SECONDS
        while self._by_id:
            oldest = next(iter(self._by_id.values()))
            if oldest.used > before:
                return
            if oldest.is_in_use:
                oldest.used = self._clock()
                self._by_id.move_to_end(oldest.id)
            else:
                self.end(oldest)

    def _make_room(self) -> None:
        idle = next((session for session in self._by_id.values() if not session.is_in_use), None)
        if idle is None:
            raise Unavailable(f"{self._limit:,} MCP sessions are open and all in use. Close some, or try again later.")
        self.end(idle)


class Caller(Struct, frozen=True, kw_only=True):
    """The client behind one request. Handshake-era clients have a session once initialized."""

    principal: Principal
    revision: str
    is_modern: bool
    """Revision 2026-07-28 or later: no session, no handshake."""
    capabilities: dict[str, Any] = {}
    session: McpSession | None = None
    search_above: int = 0
    """Catalogs with more tools than this are searched, not listed; 0: never."""
    headers: dict[bytes, bytes] = {}
    takes_events: bool = False
    """Whether an answer may be a stream."""

    def declares(self, extension: str) -> bool:
        """Whether the client declares this extension of MCP."""
        extensions = self.capabilities.get("extensions")
        return isinstance(extensions, dict) and extension in extensions

    @property
    def shows_apps(self) -> bool:
        return self.declares(APPS)


class Push(Struct, frozen=True):
    """A message for the stream, and what to note as soon as it has left."""

    message: bytes
    on_sent: Callable[[], Awaitable[None]] | None = None


class SessionPush:
    """The relay sessions of one MCP client. `level` is what the client asked to hear of."""

    def __init__(self, level: Callable[[], str | None]) -> None:
        self._level = level
        self._sessions: dict[str, AgentSession] = {}
        self._delivered: dict[str, int] = {}
        """By session: the index of the last delivered event."""
        self._outbox: asyncio.Queue[Push] | None = None
        self._pumps: dict[str, asyncio.Task[None]] = {}

    def bind(self, session: AgentSession) -> None:
        """Push the events of this session from now on."""
        if self._sessions.get(session.id) is session:
            return
        if (earlier := self._pumps.pop(session.id, None)) is not None:  # of the life before, if it was opened again
            earlier.cancel()
        self._forget_ended()
        self._sessions[session.id] = session
        self._delivered[session.id] = -1
        if self._outbox is not None:
            self._begin(session, self._outbox)

    def offer(self, message: bytes) -> None:
        """Send a message if the stream is open and has room. Never blocks."""
        if self._outbox is not None and not self._outbox.full():
            self._outbox.put_nowait(Push(message))

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

    def _begin(self, session: AgentSession, outbox: "asyncio.Queue[Push]") -> None:
        self._pumps[session.id] = asyncio.create_task(self._pump(session, outbox), name=f"push {session.id}")

    async def _stop(self) -> None:
        pumps, self._pumps = list(self._pumps.values()), {}
        for pump in pumps:
            pump.cancel()
        if pumps:
            await asyncio.wait(pumps)

    async def _pump(self, session: AgentSession, outbox: "asyncio.Queue[Push]") -> None:
        after: int | None = self._delivered[session.id]
        with session.presence.stream():
            while after is not None:
                after = await self._follow(session, outbox, after=after)

    async def _follow(self, session: AgentSession, outbox: "asyncio.Queue[Push]", *, after: int) -> int | None:
        """To the session's end (None); if some were purged meanwhile, where to begin again."""
        try:
            async with aclosing(session.events.follow(after)) as events:
                async for event in events:
                    if event.index > self._delivered[session.id] and self._is_wanted(session, event):
                        await outbox.put(Push(message_of(event), partial(self._note, session.id, event.index)))
        except EventsPurged as fault:
            log.info("a client was not told all of session %s: %s", session.id, fault)
            return -1
        return None

    async def _note(self, session_id: str, index: int) -> None:
        """Delivered. What was in flight when a stream broke is sent again on the next."""
        if session_id in self._delivered:
            self._delivered[session_id] = index

    def _is_wanted(self, session: AgentSession, event: SessionEvent) -> bool:
        if event.type == CALLER_TOOL_REQUEST:
            return event.request_id in session.requests
        least = self._level()
        return least is not None and LOG_LEVELS.index(LEVEL) >= LOG_LEVELS.index(least)

    def _forget_ended(self) -> None:
        over = [one.id for one in self._sessions.values() if one.status.is_over]
        for session_id in over[: max(0, len(self._sessions) - MOST_BOUND + 1)]:
            del self._sessions[session_id], self._delivered[session_id]


def message_of(event: SessionEvent) -> bytes:
    """The event as a log message, in the shape in which it can also be asked for."""
    logger = CALLER_TOOL if event.type == CALLER_TOOL_REQUEST else SESSION
    data: Any = msgspec.Raw(msgspec.json.encode(event))
    return notification("notifications/message", {"level": LEVEL, "logger": logger, "data": data})
