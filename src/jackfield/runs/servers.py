"""MCP servers that a request brings along: connected for those who name them, and in nobody's catalog.

Above: the engine. Below: a source of kind `mcp` that the panel lends. A connection is kept for a while after its last
use, since a conversation comes back; keys do not share one, nor do different headers.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
from msgspec import Struct

from jackfield.catalog.catalog import Catalog, Entry
from jackfield.catalog.merge import merge_private
from jackfield.errors import BadRequest, ConfigError
from jackfield.model.principal import Principal
from jackfield.model.response_request import McpTool
from jackfield.model.tool import REQUEST
from jackfield.sources.base import Listing, Source
from jackfield.sources.supervisor import SourceRegistry, SourceState

LIST_SECONDS = 20.0
KEPT_SECONDS = 300.0
MOST_SERVERS = 200
MOST_OF_A_KEY = 20
"""Servers that one key may have in use, so that no key takes the room of all others."""


class Reached(Struct, frozen=True, kw_only=True):
    """A server's tools as they are now, or why there are none."""

    entries: tuple[Entry, ...] = ()
    error: str | None = None


class _Kept:
    def __init__(self, name: str, *, owner: str) -> None:
        self.name = name
        self.owner = owner
        self.users = 0
        self.opening = asyncio.Lock()
        self.is_open = False
        self.ending: asyncio.TimerHandle | None = None
        self.listing = Listing()
        self.entries: tuple[Entry, ...] = ()
        """Made from that listing."""


class RequestServers:
    """All servers that requests have brought along."""

    def __init__(self, *, panel: SourceRegistry, catalog: Catalog, make: Callable[[str, McpTool], Source]) -> None:
        self._panel = panel
        self._catalog = catalog
        self._make = make
        self._kept: dict[str, _Kept] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def reach(self, tool: McpTool, *, principal: Principal) -> AsyncIterator[Reached]:
        """The server's tools while the block runs. A server that is down is told, not raised; a bad url raises."""
        kept = self._use(tool, principal)
        try:
            async with kept.opening:
                if not kept.is_open:
                    await self._panel.lend(self._source(kept.name, tool))
                    kept.is_open = True
            status, listing = await self._panel.lent(kept.name, within=LIST_SECONDS)
            if status.status is not SourceState.UP:
                yield Reached(error=status.error or f"It did not answer within {LIST_SECONDS:g} s.")
                return
            if kept.listing is not listing:  # aside: a server may have thousands of tools
                judge = self._catalog.checking.fault_in
                kept.entries = (await asyncio.to_thread(merge_private, kept.name, listing, judge=judge)).entries
                kept.listing = listing
            entries = kept.entries
            with self._catalog.lending(entries):
                yield Reached(entries=entries)
        finally:
            self._release(kept)

    async def close(self) -> None:
        for kept in tuple(self._kept.values()):
            self._end(kept)
        await asyncio.gather(*self._closing)

    def _source(self, name: str, tool: McpTool) -> Source:
        try:
            return self._make(name, tool)
        except ConfigError as fault:
            raise BadRequest(f"The mcp server '{tool.server_label}' cannot be used: {fault}", param="tools") from None

    def _use(self, tool: McpTool, principal: Principal) -> _Kept:
        name = _name_of(tool, principal)
        kept = self._kept.get(name)
        if kept is None:
            self._make_room(principal.name)
            kept = self._kept[name] = _Kept(name, owner=principal.name)
        kept.users += 1
        if kept.ending is not None:
            kept.ending.cancel()
            kept.ending = None
        return kept

    def _make_room(self, owner: str) -> None:
        """Where there is none, the server that nobody has used for the longest time gives way."""
        for whose, most in ((owner, MOST_OF_A_KEY), (None, MOST_SERVERS)):
            among = [kept for kept in self._kept.values() if whose in (None, kept.owner)]
            if len(among) < most:
                continue
            idle = next((kept for kept in among if not kept.users), None)
            if idle is None:
                said = f"{most} mcp servers are in use by requests{' of this key' if whose else ''}, which is the most."
                raise BadRequest(f"{said} Try again later.", param="tools")
            self._end(idle)

    def _release(self, kept: _Kept) -> None:
        kept.users -= 1
        if kept.users or self._kept.get(kept.name) is not kept:
            return
        if not kept.is_open:
            self._end(kept)
        else:
            self._kept[kept.name] = self._kept.pop(kept.name)  # the last used is the last to give way
            kept.ending = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._end, kept)

    def _end(self, kept: _Kept) -> None:
        del self._kept[kept.name]
        if kept.ending is not None:
            kept.ending.cancel()
        keeper = self._panel.take_back(kept.name)
        if keeper is not None:
            task = asyncio.create_task(keeper.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _name_of(tool: McpTool, principal: Principal) -> str:
    """The same server with the same credentials, asked for by the same key, is the same source."""
    identity = (principal.name, tool.server_url, tool.authorization, sorted((tool.headers or {}).items()))
    return f"{REQUEST}@{hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:24]}"
