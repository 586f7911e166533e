"""Connected tool servers: programs that answer calls of `external` tools.

A call goes to one server that offers its tool. An offer is a message, not a start: it is written to the call's row
first, so that no two servers have one call, and made again when a server comes back under the same id. A call that
may run twice goes to another server as soon as its own is gone; any other when its own has been gone for ten seconds
and had not said that it began.
Above: the handler that streams offers. Below: the store, whose bus says which tool has a new call.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from msgspec import Struct

from jackfield.calls import transactions as call_tx
from jackfield.calls.events import CallEvents
from jackfield.catalog.catalog import Catalog, Entry
from jackfield.model.call import Call, CallStatus
from jackfield.model.principal import Principal
from jackfield.store import Store

log = logging.getLogger("jackfield.calls")

_WITHOUT_ANSWER = (CallStatus.CANCELLED, CallStatus.EXPIRED, CallStatus.REJECTED)
SERVED_SECONDS = 10.0
"""How long what another process says it serves is believed."""
DEFAULT_LIMIT = 100
"""Unanswered calls that one server has at most, unless it asks for another number."""


def offer_topic(tool: str) -> str:
    """Published when a call of `tool` waits for a server."""
    return f"offer:{tool}"


def servers_of(principal: Principal) -> str:
    """How the ids of this key's tool servers begin."""
    return f"{principal.name}/"


class Offer(Struct, frozen=True, kw_only=True):
    """A call as a tool server is given it."""

    call: Call
    tool: str
    """The tool's name as this server spells it."""


class Cancelled(Struct, frozen=True):
    """A call that the server was given and nobody needs any more."""

    call_id: str


class ToolServer:
    """One connection of a tool server."""

    def __init__(
        self,
        client: str,
        tools: tuple[str, ...] | None,
        *,
        principal: Principal,
        limit: int,
        takes_cancels: bool = False,
    ) -> None:
        self.id = servers_of(principal) + client
        """With the key's name, so that nobody gets another key's calls by saying its id."""
        self.tools = tools
        """What it offers, in its own spelling; None: all that its key may serve."""
        self.principal = principal
        self.limit = limit
        """0: it takes no more, and finishes those that it has."""
        self.takes_cancels = takes_cancels
        self.outstanding = 0
        self.given: set[str] = set()
        """The unanswered calls that came over this connection."""
        self.offers: asyncio.Queue[Offer | Cancelled | None] = asyncio.Queue()
        """None ends the stream."""
        self.woken = asyncio.Event()
        self.serving: asyncio.Task[None] | None = None
        self.spellings: dict[str, str] = {}
        """Public name → its own spelling, for the tools that it serves as of `spelled_at`."""
        self.spelled_at: str | None = None

    async def __aiter__(self) -> AsyncIterator[Offer | Cancelled]:
        while (offer := await self.offers.get()) is not None:
            yield offer

    @property
    def has_room(self) -> bool:
        return self.outstanding < self.limit

    def end(self) -> None:
        if self.serving is not None:
            self.serving.cancel()
        self.offers.put_nowait(None)


class Capacity(Struct, frozen=True, kw_only=True):
    """What the tool servers connected here can do for one source."""

    servers: int = 0
    """Those that take calls."""
    slots: int = 0
    """Calls that they take at once, all together."""
    used: int = 0
    """Calls that they have, those of servers that are drained included."""


class ToolServers:
    """The tool servers connected to this gateway."""

    def __init__(self, *, store: Store, catalog: Catalog, gateway_id: str, events: CallEvents | None = None) -> None:
        """`events` say which calls are over."""
        if events is not None:
            events.on_settled(self.settled)
        self._store = store
        self._catalog = catalog
        self._gateway_id = gateway_id
        self._servers: dict[str, ToolServer] = {}
        self._elsewhere: dict[str, tuple[frozenset[str], float]] = {}
        """What is served at other processes of this port, and when they said so."""
        self._gone: set[str] = set()
        """Servers that left while the store could not be told."""

    def announce(self, call: Call) -> None:
        """Wake whoever serves this call's tool, at any gateway."""
        self._store.wake(offer_topic(call.tool))

    @asynccontextmanager
    async def connect(
        self,
        client: str,
        tools: tuple[str, ...] | None,
        *,
        principal: Principal,
        limit: int = DEFAULT_LIMIT,
        takes_cancels: bool = False,
    ) -> AsyncIterator[ToolServer]:
        """A server is here, as long as this lasts. A second connection of one client takes the first one's place."""
        server = ToolServer(client, tools, principal=principal, limit=limit, takes_cancels=takes_cancels)
        before = self._servers.get(server.id)
        if before is not None:
            before.end()
        self._servers[server.id] = server
        self._gone.discard(server.id)
        server.serving = asyncio.create_task(self._serve(server), name=f"tool server {server.id}")
        try:
            yield server
        finally:
            server.serving.cancel()
            await asyncio.wait([server.serving])
            if self._servers.get(server.id) is server:
                del self._servers[server.id]
                await self._note_gone(server.id)

    def serve_any(self, tools: set[str]) -> bool:
        """Whether a server is connected that offers one of these, by their public names; here, or at another process of
        this port.
        """
        fresh = time.monotonic() - SERVED_SECONDS
        elsewhere = [names for names, at in self._elsewhere.values() if at > fresh]
        return any(not tools.isdisjoint(names) for names in (self.served, *elsewhere))

    @property
    def served(self) -> frozenset[str]:
        """The tools that servers connected here offer, by their public names."""
        return frozenset(name for server in self._servers.values() for name in self._spellings(server))

    def note_elsewhere(self, gateway_id: str, tools: frozenset[str]) -> None:
        """Another process of this port says what is served there. It has to say so again and again."""
        self._elsewhere[gateway_id] = (tools, time.monotonic())

    def settled(self, call_id: str, status: CallStatus) -> None:
        """A call is over, here or at another gateway: the server that has it need not go on if nobody answered it."""
        if status in _WITHOUT_ANSWER:
            for server in self._servers.values():
                if server.takes_cancels and call_id in server.given:
                    server.offers.put_nowait(Cancelled(call_id))

    async def unoffered(self) -> dict[tuple[str, str], call_tx.Unoffered]:
        """Calls that no server has, at any gateway, by tool and source; only those tools that have any."""
        sources = {entry.name: entry.tool.source for entry in self._catalog.external_tools()}
        found = await self._store.read(partial(call_tx.count_unoffered, sorted(sources)))
        return {(tool, sources[tool]): calls for tool, calls in sorted(found.items())}

    async def capacity(self) -> dict[str, Capacity]:
        """By source. A server that serves several counts for each of them."""
        used = await self._store.read(partial(call_tx.count_offered, sorted(self._servers)))
        sources = {entry.name: entry.tool.source for entry in self._catalog.external_tools()}
        found = {source: Capacity() for source in sorted(set(sources.values()))}
        for server in self._servers.values():
            for source in {sources[name] for name in self._spellings(server) if name in sources}:
                so_far = found[source]
                found[source] = Capacity(
                    servers=so_far.servers + (server.limit > 0),
                    slots=so_far.slots + server.limit,
                    used=so_far.used + used.get(server.id, 0),
                )
        return found

    def close(self) -> None:
        """End every stream."""
        for server in self._servers.values():
            server.end()

    def look_again(self) -> None:
        """Calls may wait for a server that no wake-up told of."""
        for server in self._servers.values():
            server.woken.set()

    async def _serve(self, server: ToolServer) -> None:
        try:
            while True:
                await self._serve_once(server)
        except Exception:
            log.exception("offers to tool server %s broke off; it gets them when it connects again", server.id)
            server.offers.put_nowait(None)

    async def _serve_once(self, server: ToolServer) -> None:
        """Offer all there is, then wait for more. The tools it serves are asked anew: they may be declared later."""
        server.woken.clear()
        tools = self._spellings(server)
        with self._store.bus.listen(*map(offer_topic, tools), event=server.woken):
            await self._offer_again(server)
            for tool in sorted(tools):
                await self._offer_new(server, tool)
            if server.has_room:
                await server.woken.wait()
            else:
                await self._until_one_is_answered(server)

    async def _offer_again(self, server: ToolServer) -> None:
        """What this server had when it left. Also brings up to date what it has to do now."""
        held = await self._store.read(partial(call_tx.calls_offered_to, server.id))
        server.given.intersection_update(call.id for call in held)
        server.outstanding = len(held)
        for call in held:
            if call.id not in server.given and call.tool in server.spellings:
                await self._offer(server, call)

    async def _offer_new(self, server: ToolServer, tool: str) -> None:
        for call in await self._store.read(partial(call_tx.calls_to_offer, tool)):
            if self._left_to_others(server, tool):
                return
            if await self._offer(server, call):
                server.outstanding += 1

    async def _offer(self, server: ToolServer, call: Call) -> bool:
        moved = await self._store.write(partial(call_tx.offer, call.id, client=server.id, gateway=self._gateway_id))
        if not moved.moved or moved.call is None:
            return False
        server.given.add(call.id)
        server.offers.put_nowait(Offer(call=moved.call, tool=server.spellings.get(call.tool, call.tool)))
        return True

    async def _until_one_is_answered(self, server: ToolServer) -> None:
        held = tuple(server.given)
        with self._store.bus.listen(*held, event=server.woken):
            if len(await self._store.read(partial(call_tx.calls_offered_to, server.id))) >= server.limit:
                await server.woken.wait()

    def _left_to_others(self, server: ToolServer, tool: str) -> bool:
        """Whether this server takes no more for now: it is full, or others have less to do.

        Those are woken. They may have left these calls to this server before.
        """
        others = [
            other
            for other in self._servers.values()
            if other is not server and other.has_room and tool in self._spellings(other)
        ]
        if server.has_room:
            others = [other for other in others if other.outstanding < server.outstanding]
        for other in others:
            other.woken.set()
        return bool(others) or not server.has_room

    async def release(self) -> None:
        """Let other servers have the calls of those that have been gone for long, here or with another gateway."""
        for server_id in [one for one in self._gone if one not in self._servers]:
            await self._note_gone(server_id)
        self._offer_all(await self._store.write(call_tx.release_offers))

    async def _note_gone(self, server_id: str) -> None:
        """A server has left. Remembered until it is on record: a store may be away just now."""
        self._gone.add(server_id)
        freed = await self._store.write(partial(call_tx.server_left, server_id, gateway=self._gateway_id))
        self._gone.discard(server_id)
        self._offer_all(freed)

    def _offer_all(self, tools: list[str]) -> None:
        for tool in tools:
            self._store.wake(offer_topic(tool))

    def _spellings(self, server: ToolServer) -> dict[str, str]:
        """The external tools that this server offers and may answer. Looked up once for each state of the catalog."""
        if server.spelled_at != self._catalog.version:
            server.spelled_at = self._catalog.version
            server.spellings = spellings_of(server, self._catalog.external_tools())
        return server.spellings


def spellings_of(server: ToolServer, tools: list[Entry]) -> dict[str, str]:
    """Public name → how the server calls it: as it asked for it, by the public name or by the owner's."""
    may_serve = [entry for entry in tools if server.principal.may_serve(entry.name)]
    if server.tools is None:
        return {entry.name: entry.name for entry in may_serve}
    meant: dict[str, str] = {entry.tool.name: entry.name for entry in reversed(may_serve)}
    meant |= {entry.name: entry.name for entry in may_serve}
    return {meant[asked]: asked for asked in server.tools if asked in meant}
