"""One connection for all sources that mean the same server with the same credentials.

Above: `source.py`, which holds a share. Below: `upstream.py`. Sources of `[sources]` share where url and headers agree.
Servers that a request or an agent brings along share only where their headers carry credentials: without any, a server
tells its callers apart by the connection alone. What the operator's config names is never shared with what others name,
because other addresses are open to it; a process is nobody else's.
"""

from collections.abc import Callable, Hashable, MutableMapping
from typing import Any
from weakref import WeakValueDictionary

from msgspec import Raw

from jackfield.sources.mcp.connection import Connection
from jackfield.sources.mcp.errors import McpError
from jackfield.sources.mcp.options import HTTP, SSE, McpOptions
from jackfield.sources.mcp.upstream import Upstream

_CREDENTIALS = ("auth", "cookie", "key", "token", "secret")
_POOL = "mcp connections"


class Shared:
    """One upstream, and the shares that use it now."""

    def __init__(self, make: Callable[[Callable[[], None]], Upstream]) -> None:
        self.users: set[Share] = set()
        self.upstream = make(self._tell_all)

    def _tell_all(self) -> None:
        for user in tuple(self.users):
            user.changed()


class Share:
    """One source's part in a connection. It is held from the first use until `close`."""

    def __init__(self, shared: Shared, *, changed: Callable[[], None]) -> None:
        self._shared = shared
        self.changed = changed
        self._has_failed = False

    @property
    def upstream(self) -> Upstream:
        return self._shared.upstream

    async def connect(self) -> Connection:
        """The connection, made if there is none. Raises `McpError`."""
        self._shared.users.add(self)
        return await self.upstream.connect()

    async def list_tools(self) -> list[Raw]:
        self._shared.users.add(self)
        try:
            listed = await self.upstream.list_tools()
        except McpError:
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
) -> Share:
    """The source's part in the connection that fits its options, or in one of its own. `owner`: whose server it is."""
    if options.carrier not in (HTTP, SSE):
        return Share(Shared(make), changed=changed)
    known: MutableMapping[Hashable, Shared] = pool.setdefault(_POOL, WeakValueDictionary())
    key = _identity(options, owner=owner, from_config=from_config)
    shared = known.get(key)
    if shared is None:
        shared = known[key] = Shared(make)
    return Share(shared, changed=changed)


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
