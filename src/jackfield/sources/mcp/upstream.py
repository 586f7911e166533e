"""One MCP server: a connection that all calls share, reopened when it was lost.

Sources of `[sources]` with the same url and headers share one upstream. Servers that a request or an agent brings along
share only where their headers carry credentials: without any, a server tells its callers apart by the connection alone.
What the operator's config names is never shared with what others name, because other addresses are open to it. A
process is never shared.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, MutableMapping
from typing import Any
from weakref import WeakValueDictionary

from msgspec import Raw, Struct

from jackfield.model.skill import EXTENSION as SKILLS
from jackfield.protocol.jsonrpc import METHOD_NOT_FOUND, RpcError
from jackfield.sources.foreign import MAX_TOOLS
from jackfield.sources.logs import SourceLogs
from jackfield.sources.mcp.connection import Connection
from jackfield.sources.mcp.handlers import Sample
from jackfield.sources.mcp.handshake import Agreement
from jackfield.sources.mcp.offers import MAX_OFFERS, MAX_TEMPLATES
from jackfield.sources.mcp.options import HTTP, SSE, McpOptions
from jackfield.sources.mcp.subscriptions import ResourceSubscriptions
from jackfield.sources.mcp.transport import (
    ClientTransport,
    LoginRequired,
    McpClientError,
    SessionLost,
    TransportListener,
    UpstreamLost,
)
from jackfield.sources.skills.entries import MAX_SKILLS

SHORT_LIFE, RECONNECT_PAUSE = 1.0, 0.4
"""After a connection that held no longer than this, the next one waits a little: the server may be one that crashes."""
PROBE_SECONDS = 5.0
"""After so long without an answer a server is asked by `initialize`, too."""
_CREDENTIALS = ("auth", "cookie", "key", "token", "secret")
_POOL = "mcp connections"

User = Callable[[], None]
"""A source that uses the server: called when it should refresh its tools."""


class ConnectOptions(Struct, frozen=True, kw_only=True):
    """How a connection to a server is opened."""

    seconds: float
    first_seconds: float
    """How long it may take to come up for the first time."""
    is_process: bool = False
    handshake_only: bool = False


_LISTS = {
    ("tools", "tools/list"): ("tools", MAX_TOOLS),
    ("resources", "resources/list"): ("resources", MAX_OFFERS),
    ("resources", "resources/templates/list"): ("resourceTemplates", MAX_TEMPLATES),
    ("prompts", "prompts/list"): ("prompts", MAX_OFFERS),
    (SKILLS, "skills/list"): ("skills", MAX_SKILLS),
}
"""By what a server declares, and the method: where a page has the definitions, and how many are read."""


class Offered(Struct):
    """All that a server lists, raw, by the member of the page that has it; and lists that failed."""

    agreement: Agreement
    lists: dict[str, list[Raw]] = {}
    failures: dict[str, McpClientError | RpcError] = {}

    def of(self, member: str) -> list[Raw]:
        return self.lists.get(member, [])


class Upstream:
    """One server. `make_transport` is called for each new connection."""

    def __init__(
        self,
        name: str,
        make_transport: Callable[[TransportListener], ClientTransport],
        *,
        options: ConnectOptions,
        sample: Sample | None = None,
        logs: SourceLogs | None = None,
    ) -> None:
        self._name = name
        self._logs = logs or SourceLogs()
        self.sources: set[str] = set()
        """The names of the sources that use it."""
        self._log = logging.getLogger(f"jackfield.mcp.{name}")
        self._options = options
        self._handshake_only = options.handshake_only
        self._sample = sample
        self._make_transport = make_transport
        self.subscriptions = ResourceSubscriptions(name, self._current)
        self._users: set[User] = set()
        self._failed: set[User] = set()
        """Users whose last list failed."""
        self._was_up = False
        """Whether it has ever answered; until then it may be being installed."""
        self._connecting = asyncio.Lock()
        self._connection: Connection | None = None
        self._closing: set[asyncio.Task[None]] = set()
        """Connections that are being closed."""
        self._opening_since: float | None = None
        self._not_before = 0.0
        self._why = ""

    @property
    def connect_seconds(self) -> float:
        """Seconds that the next connection may take."""
        return self._options.seconds if self._was_up else self._options.first_seconds

    @property
    def opening_for(self) -> float | None:
        """Seconds since a connection is being opened; None: none is."""
        return None if self._opening_since is None else time.monotonic() - self._opening_since

    async def connect(self, user: User) -> Connection:
        """The connection, opened if there is none. Raises `McpClientError`; then nothing is left behind.

        A user holds the server from its first use until `release`.
        """
        self._users.add(user)
        connection = self._connection
        if connection is None or connection.is_expired:
            self._drop(connection)
            async with self._connecting:
                connection = self._connection or await self._opened()
        return connection

    async def _current(self) -> Connection:
        """The connection, for those who use the server already."""
        connection = self._connection
        if connection is None or connection.is_expired:
            if not self._users:
                raise UpstreamLost("Nobody uses the server any more.")
            return await self.connect(next(iter(self._users)))
        return connection

    async def list(self, user: User) -> Offered:
        """All that the server offers. A lost connection is reopened first."""
        try:
            try:
                offered = await self._list(await self.connect(user))
            except SessionLost:
                self._drop(self._connection)
                offered = await self._list(await self.connect(user))
        except (McpClientError, RpcError):
            self._failed.add(user)
            raise
        self._failed.discard(user)
        return offered

    async def _list(self, connection: Connection) -> Offered:
        """Every list that the server declares. Without its tools it is down; another list that fails is a fault."""
        agreement = connection.agreement
        offered = Offered(agreement=agreement)
        async with asyncio.TaskGroup() as group:
            for (feature, method), (member, most) in _LISTS.items():
                if agreement.offers(feature) or agreement.extension(feature) is not None:
                    group.create_task(self._list_one(connection, offered, method, member, most))
        login = next((fault for fault in offered.failures.values() if isinstance(fault, LoginRequired)), None)
        if (failed := login or offered.failures.pop("tools", None)) is not None:
            raise failed
        lost = next((fault for fault in offered.failures.values() if isinstance(fault, SessionLost)), None)
        if lost is not None:
            raise lost
        return offered

    async def _list_one(self, connection: Connection, offered: "Offered", method: str, member: str, most: int) -> None:
        seconds = self._options.seconds
        try:
            async with asyncio.timeout(seconds):
                offered.lists[member] = await connection.list(method, member, most=most)
        except TimeoutError:
            offered.failures[member] = UpstreamLost(f"The server did not answer {method} within {seconds:g} s.")
        except (McpClientError, RpcError) as fault:
            if isinstance(fault, RpcError) and fault.number == METHOD_NOT_FOUND and member != "tools":
                return  # most servers with resources have no templates, and many then lack the method
            offered.failures[member] = fault

    async def release(self, user: User) -> None:
        """The last user closes the connection; one whose last list failed has it reopened for the others."""
        has_failed = user in self._failed
        self._failed.discard(user)
        self._users.discard(user)
        if not self._users:
            await self.subscriptions.close()
            self._drop(self._connection)
            if self._closing:
                await asyncio.wait(self._closing)
        elif has_failed:
            self._drop(self._connection)

    def disconnect(self) -> None:
        """Close the connection at once; the next use opens a new one."""
        self._drop(self._connection)

    async def _opened(self) -> Connection:
        if time.monotonic() < self._not_before:
            raise UpstreamLost(self._why)
        seconds, self._opening_since = self.connect_seconds, time.monotonic()
        slow = asyncio.get_running_loop().call_later(PROBE_SECONDS, self._log_slow_start, seconds)
        try:
            async with asyncio.timeout(seconds):
                connection = await self._either_era()
        except TimeoutError:
            self._was_up = False  # its next start may have to install it anew
            raise UpstreamLost(f"The server did not answer within {seconds:g} s.") from None
        finally:
            slow.cancel()
            self._opening_since = None
        self._connection, self._was_up = connection, True
        self.subscriptions.connected(connection)
        return connection

    async def _either_era(self) -> Connection:
        """A process that exits when it is asked by `server/discover` is started again, and asked by `initialize`."""
        try:
            return await self._connected()
        except UpstreamLost as fault:
            if self._handshake_only or not self._options.is_process:
                raise
            self._log.info("it ended before it answered, so it is started again and asked by `initialize` alone")
            try:
                connection = await self._connected(handshake_only=True)
            except UpstreamLost:
                raise fault from None
            self._handshake_only = True
            return connection

    async def _connected(self, *, handshake_only: bool = False) -> Connection:
        connection = Connection(
            self._name,
            self._make_transport,
            lost=self._lost,
            changed=self._refresh_users,
            updated=self.subscriptions.updated,
            sample=self._sample,
            logs=self._logs,
            say=lambda note: self._logs.say(frozenset(self.sources), note),
        )
        try:
            await connection.open(
                probe_seconds=min(PROBE_SECONDS, self._options.seconds / 3),
                handshake_only=handshake_only or self._handshake_only,
            )
        except BaseException:
            await connection.close()
            raise
        return connection

    def _log_slow_start(self, seconds: float) -> None:
        hint = " Its command may be installing it." if self._options.is_process and not self._was_up else ""
        self._log.info("it has not answered for %g s; it has %g s.%s", PROBE_SECONDS, seconds, hint)

    def _drop(self, connection: Connection | None) -> None:
        """Close a connection in the background; the next use opens a new one."""
        if connection is None:
            return
        if self._connection is connection:
            self._connection = None
        closing = connection.start_closing()
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _lost(self, connection: Connection, error: UpstreamLost) -> None:
        if self._connection is connection:
            if connection.age < SHORT_LIFE:
                self._not_before, self._why = time.monotonic() + RECONNECT_PAUSE, error.message
            self._drop(connection)
            self._refresh_users()

    def _refresh_users(self) -> None:
        for user in tuple(self._users):
            user()


def upstream_for(
    pool: dict[str, Any], options: McpOptions, *, owner: str, from_config: bool, make: Callable[[], Upstream]
) -> Upstream:
    """The upstream that fits the options, from `pool` or a new one. `owner`: whose server it is."""
    if options.carrier not in (HTTP, SSE):
        return make()
    known: MutableMapping[Hashable, Upstream] = pool.setdefault(_POOL, WeakValueDictionary())
    key = _identity(options, owner=owner, from_config=from_config)
    upstream = known.get(key)
    if upstream is None:
        upstream = known[key] = make()
    return upstream


def _identity(options: McpOptions, *, owner: str, from_config: bool) -> Hashable:
    headers = tuple(sorted((name.lower(), value) for name, value in options.headers.items()))
    has_credentials = any(word in name for name, _ in headers for word in _CREDENTIALS)
    return (
        from_config,
        "" if has_credentials else owner,
        options.carrier,
        options.url,
        headers,
        options.connect_seconds,
        options.first_seconds,
        options.era,
        options.sampling,
    )
