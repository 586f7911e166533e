"""Connected tool servers: programs that answer calls of `external` tools.

A call goes to one server that offers its tool. An offer is a message, not a start: it is written to the call's row
first, so that no two servers have one call, and made again when a server comes back under the same id. A call that
may run twice goes to another server as soon as its own is gone; any other waits for its server, or for anybody's
answer.
Above: the door that streams offers. Below: the store, whose bus says which tool has a new call.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct

from jackfield.catalog.catalog import Catalog
from jackfield.model.call import Call
from jackfield.model.principal import Principal
from jackfield.store import Store

DEFAULT_LIMIT = 100
"""Unanswered calls that one server has at most, unless it asks for another number."""


def offer_topic(tool: str) -> str:
    """Published when a call of `tool` waits for a server."""
    return f"offer:{tool}"


class Offer(Struct, frozen=True, kw_only=True):
    """A call as a tool server is given it."""

    call: Call
    tool: str
    """The tool's name as this server spells it."""


class ToolServer:
    """One connection of a tool server."""

    def __init__(self, client: str, tools: tuple[str, ...], *, principal: Principal, limit: int) -> None:
        self.client = client
        self.tools = tools
        self.principal = principal
        self.limit = limit
        self.outstanding = 0
        self.offers: asyncio.Queue[Offer | None] = asyncio.Queue()
        """None ends the stream."""

    async def __aiter__(self) -> AsyncIterator[Offer]:
        while (offer := await self.offers.get()) is not None:
            yield offer


class ToolServers:
    """The tool servers connected to this gateway."""

    def __init__(self, *, store: Store, catalog: Catalog, gateway_id: str) -> None:
        self._store = store
        self._catalog = catalog
        self._gateway_id = gateway_id
        self._servers: dict[str, ToolServer] = {}
        self._wakers: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def connect(
        self, client: str, tools: tuple[str, ...], *, principal: Principal, limit: int = DEFAULT_LIMIT
    ) -> AsyncIterator[ToolServer]:
        """A server is here, as long as this lasts. A second connection of one client takes the first one's place."""
        server = ToolServer(client, tools, principal=principal, limit=limit)
        before = self._servers.get(client)
        if before is not None:
            before.offers.put_nowait(None)
        self._servers[client] = server
        serving = asyncio.create_task(self._serve(server), name=f"tool server {client}")
        try:
            yield server
        finally:
            serving.cancel()
            await asyncio.wait([serving])
            if self._servers.get(client) is server:
                del self._servers[client]
                await self._release(client)

    def connected(self) -> list[ToolServer]:
        return list(self._servers.values())

    def close(self) -> None:
        """End every stream."""
        for server in self._servers.values():
            server.offers.put_nowait(None)

    def look_again(self, tools: list[str] | None = None) -> None:
        """Calls may wait for a server that no wake-up told of."""
        for tool in tools if tools is not None else ["*"]:
            for server in self._servers.values():
                if tool == "*" or tool in self._public_names(server):
                    self._wakers[server.client].set()

    async def _serve(self, server: ToolServer) -> None:
        # Which tools it serves is asked anew each time: the tools may be declared after the server connected.
        woken = asyncio.Event()
        self._wakers[server.client] = woken
        for call in await self._store.calls_offered_to(server.client):
            await self._offer(server, call)
        while True:
            names = self._public_names(server)
            with self._store.bus.listen(*map(offer_topic, names), event=woken):
                for tool in names:
                    await self._offer_new(server, tool)
                await woken.wait()
                woken.clear()

    async def _offer_new(self, server: ToolServer, tool: str) -> None:
        waiting = await self._store.calls_to_offer(tool)
        if not waiting:
            return
        server.outstanding = len(await self._store.calls_offered_to(server.client))
        for call in waiting:
            if server.outstanding >= server.limit or self._another_is_less_busy(server, tool):
                return
            await self._offer(server, call)

    async def _offer(self, server: ToolServer, call: Call) -> None:
        moved = await self._store.offer(call.id, client=server.client, gateway=self._gateway_id)
        if moved.moved and moved.call is not None:
            server.outstanding += 1
            server.offers.put_nowait(Offer(call=moved.call, tool=self._spelling(server, moved.call.tool)))

    def _another_is_less_busy(self, server: ToolServer, tool: str) -> bool:
        return any(
            other.outstanding < server.outstanding and tool in self._public_names(other)
            for other in self._servers.values()
            if other is not server
        )

    async def _release(self, client: str) -> None:
        self._wakers.pop(client, None)
        released = await self._store.release_offers(client=client, gateway=self._gateway_id)
        self.look_again(released)

    def _public_names(self, server: ToolServer) -> list[str]:
        """The external tools that this server offers and may answer, by their public names."""
        found = (self._catalog.find_external(name) for name in server.tools)
        names = {entry.name for entry in found if entry is not None and server.principal.may_serve(entry.name)}
        return sorted(names)

    def _spelling(self, server: ToolServer, tool: str) -> str:
        if tool in server.tools:
            return tool
        entry = self._catalog.entry(tool)
        return entry.tool.name if entry is not None else tool
