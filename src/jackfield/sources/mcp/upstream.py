"""One MCP server: a connection that all calls share, made anew when it was lost.

Above: `source.py`. Below: `connection.py`.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, MutableMapping
from typing import Any
from weakref import WeakValueDictionary

from msgspec import Raw, Struct

from jackfield.sources.mcp.connection import CallHandlers, Connection
from jackfield.sources.mcp.handlers import Sample
from jackfield.sources.mcp.options import HTTP, SSE, McpOptions
from jackfield.sources.mcp.routing import HeaderMap
from jackfield.sources.mcp.transport import (
    INVALID_REQUEST,
    UNSUPPORTED_VERSION,
    ClientTransport,
    McpClientError,
    RpcError,
    SessionLost,
    TransportListener,
    UpstreamLost,
)

SHORT_LIFE, BREATH = 1.0, 0.4
"""After a connection that held no longer than this, the next one waits a little: the server may be one that crashes."""


PROBE_SECONDS = 5.0
"""After so long without an answer a server is asked in the older way, too."""


class ConnectOptions(Struct, frozen=True, kw_only=True):
    """How a server is connected to."""

    seconds: float
    first_seconds: float
    """How long it may take to come up for the first time."""
    is_process: bool = False
    handshake_only: bool = False


class Upstream:
    """One server. `make_wire` is called for each new connection; `changed` when the tools should be read anew."""

    def __init__(
        self,
        name: str,
        make_wire: Callable[[TransportListener], ClientTransport],
        *,
        terms: ConnectOptions,
        changed: Callable[[], None],
        sample: Sample | None = None,
    ) -> None:
        self.name = name
        self._log = logging.getLogger(f"jackfield.mcp.{name}")
        self._terms = terms
        self._handshake_only = terms.handshake_only
        self._was_up = False
        """Whether it has ever answered; until then it may be being installed."""
        self._sample = sample
        self._make_wire = make_wire
        self._changed = changed
        self._connecting = asyncio.Lock()
        self._connection: Connection | None = None
        self._buried: set[asyncio.Task[None]] = set()
        """The ends of lost connections, until they have come."""
        self._opening_since: float | None = None
        self._not_before = 0.0
        self._why = ""

    @property
    def patience(self) -> float:
        """Seconds that the next connection may take."""
        return self._terms.seconds if self._was_up else self._terms.first_seconds

    @property
    def instructions(self) -> str:
        """What the server says of how its tools are used; nothing while it is not connected."""
        return "" if self._connection is None else self._connection.instructions

    @property
    def opening_for(self) -> float | None:
        """Seconds since a connection is being made; None: none is."""
        return None if self._opening_since is None else time.monotonic() - self._opening_since

    async def connect(self) -> "Connection":
        """The connection, made if there is none. Raises `McpError`; then nothing is left behind."""
        connection = self._connection
        if connection is None:
            async with self._connecting:
                connection = self._connection or await self._opened()
        return connection

    async def _opened(self) -> "Connection":
        if time.monotonic() < self._not_before:
            raise UpstreamLost(self._why)
        seconds, self._opening_since = self.patience, time.monotonic()
        slow = asyncio.get_running_loop().call_later(PROBE_SECONDS, self._say_that_it_is_slow, seconds)
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
        return connection

    async def _either_era(self) -> "Connection":
        """A process that ends when it is asked for the newer era is started again, and asked for the older alone."""
        try:
            return await self._connected()
        except UpstreamLost as fault:
            if self._handshake_only or not self._terms.is_process:
                raise
            self._log.info("it ended before it answered, so it is started again and asked by `initialize` alone")
            try:
                connection = await self._connected(handshake_only=True)
            except UpstreamLost:
                raise fault from None
            self._handshake_only = True
            return connection

    async def _connected(self, *, handshake_only: bool = False) -> "Connection":
        connection = Connection(self.name, self._make_wire, lost=self._lost, changed=self._changed, sample=self._sample)
        try:
            await connection.open(
                probe_seconds=min(PROBE_SECONDS, self._terms.seconds / 3),
                handshake_only=handshake_only or self._handshake_only,
            )
        except BaseException:
            await connection.close()
            raise
        return connection

    def _say_that_it_is_slow(self, seconds: float) -> None:
        hint = " Its command may be installing it." if self._terms.is_process and not self._was_up else ""
        self._log.info("it has not answered for %g s; it has %g s.%s", PROBE_SECONDS, seconds, hint)

    async def list_tools(self) -> list[Raw]:
        """The raw definitions of all tools, page by page. A lost connection is made anew first."""
        try:
            connection = await self.connect()
            async with asyncio.timeout(self._terms.seconds):
                try:
                    return await connection.list_tools()
                except SessionLost:
                    self._drop(self._connection)
                    return await (await self.connect()).list_tools()
        except TimeoutError:
            raise UpstreamLost(f"The server did not list its tools within {self._terms.seconds:g} s.") from None

    async def call(self, tool: str, arguments: dict[str, Any], *, headers: HeaderMap, talk: CallHandlers) -> Raw:
        """The raw answer to one `tools/call`. Raises `McpError`."""
        connection = await self.connect()
        try:
            return await connection.call(tool, arguments, headers=headers, talk=talk)
        except SessionLost:
            self._drop(connection)
            self._changed()
            raise
        except UpstreamLost:
            self._changed()  # the next reading of the tools shows whether the server is still there
            raise
        except RpcError as error:
            if error.number in (INVALID_REQUEST, UNSUPPORTED_VERSION):
                self._changed()  # or still speaks the revision that we agreed on
            raise

    def renew(self) -> None:
        """Have done with the connection that there is; the next use makes another."""
        self._drop(self._connection)

    async def close(self) -> None:
        self._drop(self._connection)
        if self._buried:
            await asyncio.wait(self._buried)

    def _drop(self, connection: "Connection | None") -> None:
        """Have done with a connection; the next use makes a new one. Nobody waits for its end but `close`."""
        if connection is None:
            return
        if self._connection is connection:
            self._connection = None
        ending = connection.bury()
        self._buried.add(ending)
        ending.add_done_callback(self._buried.discard)

    def _lost(self, connection: "Connection", error: UpstreamLost) -> None:
        if self._connection is connection:
            if connection.age < SHORT_LIFE:
                self._not_before, self._why = time.monotonic() + BREATH, error.message
            self._drop(connection)
            self._changed()


_CREDENTIALS = ("auth", "cookie", "key", "token", "secret")
_POOL = "mcp connections"


class SharedUpstream:
    """One upstream, and the shares that use it now."""

    def __init__(self, make: Callable[[Callable[[], None]], Upstream]) -> None:
        self.users: set[UpstreamShare] = set()
        self.upstream = make(self._tell_all)

    def _tell_all(self) -> None:
        for user in tuple(self.users):
            user.changed()


class UpstreamShare:
    """One source's part in a connection. It is held from the first use until `close`."""

    def __init__(self, shared: SharedUpstream, *, changed: Callable[[], None]) -> None:
        self._shared = shared
        self.changed = changed
        self._has_failed = False

    @property
    def upstream(self) -> Upstream:
        return self._shared.upstream

    async def connect(self) -> Connection:
        """The connection, made if there is none. Raises `McpClientError`."""
        self._shared.users.add(self)
        return await self.upstream.connect()

    async def list_tools(self) -> list[Raw]:
        self._shared.users.add(self)
        try:
            listed = await self.upstream.list_tools()
        except McpClientError:
            self._has_failed = True
            raise
        self._has_failed = False
        return listed

    async def close(self) -> None:
        """Have done with it. The last one closes the connection; one that it failed has it made anew for the others."""
        users = self._shared.users
        users.discard(self)
        if not users:
            await self.upstream.close()
        elif self._has_failed:
            self.upstream.renew()
        self._has_failed = False


def share_of(
    pool: dict[str, Any],
    options: McpOptions,
    *,
    owner: str,
    from_config: bool,
    make: Callable[[Callable[[], None]], Upstream],
    changed: Callable[[], None],
) -> UpstreamShare:
    """The source's part in the connection that fits its options, or in one of its own. `owner`: whose server it is."""
    if options.carrier not in (HTTP, SSE):
        return UpstreamShare(SharedUpstream(make), changed=changed)
    known: MutableMapping[Hashable, SharedUpstream] = pool.setdefault(_POOL, WeakValueDictionary())
    key = _identity(options, owner=owner, from_config=from_config)
    shared = known.get(key)
    if shared is None:
        shared = known[key] = SharedUpstream(make)
    return UpstreamShare(shared, changed=changed)


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
