"""The sessions of clients of the handshake era: who shook hands, and what was agreed.

Above: the door and the methods. Below: the catalog's followers. A session lives in this gateway's memory only. One that
is not known here (another gateway's, expired, ended) is 404 to its client, which then shakes hands again: that is all a
balancer needs. Their number is bounded, and one that nobody has used for half an hour is forgotten.
"""

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from msgspec import Raw, Struct

from jackfield.catalog.changes import Follower
from jackfield.errors import Unavailable
from jackfield.mcp.exchange import McpExchange
from jackfield.mcp.pushing import Pushing
from jackfield.model.principal import Principal
from jackfield.protocol.jsonrpc import RequestId, RpcNotification, RpcResponse
from jackfield.protocol.mcp import MODERN
from jackfield.protocol.records import ToolsChanged

IDLE_SECONDS = 1800.0
MAX_SESSIONS = 10_000
MAX_FOUND = 200
"""Tools that `search_tools` keeps in one session's list; the ones found first go first."""


class Session:
    """One client that has shaken hands."""

    def __init__(
        self, session_id: str, *, principal: str, revision: str, capabilities: dict[str, Any], now: float
    ) -> None:
        self.id = session_id
        self.principal = principal
        self.revision = revision
        self.capabilities = capabilities
        self.used = now
        self.exchanges: dict[RequestId, McpExchange] = {}
        """Requests that are being answered, by the client's id."""
        self.asked: dict[RequestId, asyncio.Future[Raw | None]] = {}
        """What we asked the client and it has not answered yet."""
        self.follower: Follower | None = None
        """Of the open GET stream."""
        self.log_level: str | None = None
        """From which level on the client wants to hear what tools' servers say; None: it did not ask to."""
        self.pushing = Pushing(lambda: self.log_level)
        """What it is told of the sessions in which it lends tools."""
        self.found: dict[str, None] = {}
        """Names that `search_tools` found in this session."""

    @property
    def is_in_use(self) -> bool:
        return bool(self.exchanges) or self.follower is not None

    def remember(self, names: list[str]) -> bool:
        """Keep what was found; whether something was new."""
        new = [name for name in names if name not in self.found]
        self.found.update(dict.fromkeys(new))
        for name in list(self.found)[: max(0, len(self.found) - MAX_FOUND)]:
            del self.found[name]
        return bool(new)

    def tell_found(self, version: str) -> None:
        """The session's list has grown; its stream says so as it says every change."""
        if self.follower is not None:
            self.follower.offer(ToolsChanged(added=tuple(self.found), version=version))

    def follow(self, follower: Follower) -> None:
        """A new stream takes the place of the one before, whose connection may be dead without anybody knowing."""
        if self.follower is not None:
            self.follower.close()
        self.follower = follower

    def unfollow(self, follower: Follower) -> None:
        follower.close()
        if self.follower is follower:
            self.follower = None

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
        """The client calls one of its requests off. One that is over, or was never made, is not worth a word."""
        exchange = self.exchanges.get(request_id) if isinstance(request_id, (str, int)) else None
        if exchange is not None:
            exchange.cancel()

    def _answered(self, response: RpcResponse) -> None:
        """The client answers what it was asked."""
        asked = self.asked.pop(response.id, None)
        if asked is not None and not asked.done():
            asked.set_result(response.result)

    def end(self) -> None:
        """Let go of everybody who waits for this client."""
        if self.follower is not None:
            self.follower.close()
        for waiting in self.asked.values():
            waiting.cancel()


class Sessions:
    """All of one gateway, the least recently used first."""

    def __init__(self, *, limit: int = MAX_SESSIONS, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._by_id: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_id)

    def open(self, principal: Principal, *, revision: str, capabilities: dict[str, Any]) -> Session:
        """A new session. When there is no room, the one that was idle longest makes it."""
        self._expire()
        if len(self._by_id) >= self._limit:
            self._make_room()
        session_id = secrets.token_urlsafe(24)
        session = self._by_id[session_id] = Session(
            session_id,
            principal=principal.name,
            revision=revision,
            capabilities=capabilities,
            now=self._clock(),
        )
        return session

    def find(self, session_id: str, principal: Principal) -> Session | None:
        """The session, if it is this key's; for another key it does not exist."""
        self._expire()
        session = self._by_id.get(session_id)
        if session is None or session.principal != principal.name:
            return None
        self._touch(session)
        return session

    def end(self, session: Session) -> None:
        self._by_id.pop(session.id, None)
        session.end()

    def _touch(self, session: Session) -> None:
        session.used = self._clock()
        self._by_id.move_to_end(session.id)

    def _expire(self) -> None:
        before = self._clock() - IDLE_SECONDS
        while self._by_id:
            oldest = next(iter(self._by_id.values()))
            if oldest.used > before:
                return
            if oldest.is_in_use:
                self._touch(oldest)
            else:
                self.end(oldest)

    def _make_room(self) -> None:
        idle = next((session for session in self._by_id.values() if not session.is_in_use), None)
        if idle is None:
            raise Unavailable(f"{self._limit:,} MCP sessions are open and all in use. Close some, or try again later.")
        self.end(idle)


class Caller(Struct, frozen=True, kw_only=True):
    """The client behind one request. Of the handshake era it has a session, except while it shakes hands."""

    principal: Principal
    revision: str
    capabilities: dict[str, Any] = {}
    session: Session | None = None
    search_above: int = 0
    """Catalogs with more tools than this are searched, not listed; 0: never."""
    headers: dict[bytes, bytes] = {}
    takes_events: bool = False
    """Whether an answer may be a stream."""

    @property
    def is_modern(self) -> bool:
        return self.revision == MODERN
