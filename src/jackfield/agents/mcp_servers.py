"""MCP servers that are in nobody's catalog: those that a request brings along, and those of one agent.

Above: responses, agents' cycles and sessions. Below: sources of kind `mcp` that the source registry lends. A connection
stays for a while after its last use: a conversation comes back, and a call may outlive its cycle. Keys do not share
one, nor do different credentials. Of all the agents that sleep, none holds a connection or a process.
"""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager

import msgspec
from msgspec import Struct

from jackfield.agents.types import Agent, AgentServer, servers_of, source_name
from jackfield.catalog.catalog import Catalog, Entry
from jackfield.catalog.globs import SOMEBODYS
from jackfield.catalog.merge import merge_private
from jackfield.errors import BadRequest, ConfigError
from jackfield.model.principal import Principal
from jackfield.model.response_request import McpTool
from jackfield.model.tool import REQUEST
from jackfield.sources.base import Listing, Source
from jackfield.sources.mcp.options import McpOptions
from jackfield.sources.source_registry import SourceRegistry
from jackfield.sources.supervisor import SourceState, SourceStatus

log = logging.getLogger("jackfield.agents")

REQUEST_LIST_SECONDS = 20.0
"""How long a request waits for a server's tools."""
CYCLE_LIST_SECONDS = 10.0
"""How long a cycle waits for a server's tools before it begins without them."""
REQUEST_IDLE_SECONDS = 300.0
AGENT_IDLE_SECONDS = 600.0
"""How long a connection stays that nobody uses. Calls that outlive their cycle end by then."""
MOST_OF_REQUESTS = 200
MOST_OF_A_KEY = 20
"""Servers that requests of one key may have in use, so that no key takes the room of all others."""

MakeForRequest = Callable[[str, McpTool], Source]
MakeForAgent = Callable[[str, McpOptions, bool], Source]
"""Makes a source from its name, its options, and whether the operator's config names it."""


class RequestServer(Struct, frozen=True, kw_only=True):
    """A server's tools as they are now, or why there are none."""

    entries: tuple[Entry, ...] = ()
    error: str | None = None


class _Connection:
    """One server that is in use, or was a moment ago."""

    def __init__(self, name: str, *, key: str | None) -> None:
        self.name = name
        self.key = key
        """Whose request it is for; None: it is an agent's."""
        self.users = 0
        self.opening = asyncio.Lock()
        self.options: McpOptions | str | None = None
        """What it is connected with, for a request by its name; None: it is not."""
        self.idle: asyncio.TimerHandle | None = None
        self.listing = Listing()
        self.entries: tuple[Entry, ...] = ()
        """For a request: made from that listing."""


class McpServers:
    """All servers that requests and agents have of their own."""

    def __init__(
        self,
        *,
        sources: SourceRegistry,
        catalog: Catalog,
        make_for_request: MakeForRequest,
        make_for_agent: MakeForAgent,
        find_agent: Callable[[str], Agent | None],
        on_listing: Callable[[], None],
    ) -> None:
        """`on_listing` is told when an agent's tools were listed, which may be new."""
        self._sources = sources
        self._catalog = catalog
        self._make_for_request = make_for_request
        self._make_for_agent = make_for_agent
        self._find_agent = find_agent
        self._on_listing = on_listing
        self._connections: dict[str, _Connection] = {}
        """By the name of the source, the last used last."""
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def of_request(self, tool: McpTool, *, principal: Principal) -> AsyncIterator[RequestServer]:
        """A server's tools while the block runs. One that is down has an error; a bad url raises."""
        name = request_source_name(tool, principal)
        if name not in self._connections:
            self._make_room(principal.name)
        with self._using(name, key=principal.name) as connection:
            status, listing = await self._listed(
                connection, name, lambda: self._request_source(name, tool), within=REQUEST_LIST_SECONDS
            )
            if status.status is not SourceState.UP:
                yield RequestServer(error=status.error or f"It did not answer within {REQUEST_LIST_SECONDS:g} s.")
                return
            if connection.listing is not listing:  # aside: a server may have thousands of tools
                judge = self._catalog.checking.fault_in
                merged = await asyncio.to_thread(merge_private, name, listing, judge=judge)
                connection.entries, connection.listing = merged.entries, listing
            entries = connection.entries
            with self._catalog.lending(entries):
                yield RequestServer(entries=entries)

    @asynccontextmanager
    async def of_agent(self, agent: Agent) -> AsyncIterator[tuple[tuple[str, Entry], ...]]:
        """The tools of the agent's servers, each with its server's name, while the block runs."""
        servers = servers_of(agent)
        with ExitStack() as stack:
            connections = [stack.enter_context(self._using(source_name(agent.id, server))) for server in servers]
            listed = await asyncio.gather(
                *(
                    self._agent_entries(connection, agent, server, own)
                    for connection, (server, own) in zip(connections, servers.items(), strict=True)
                )
            )
            found = [(server, entry) for server, entries in zip(servers, listed, strict=True) for entry in entries]
            with self._catalog.lending(entry for _, entry in found):
                yield tuple(found)

    async def reconnect(self, source: str) -> None:
        """Connect an agent's server for a while, if the agent still has it: a call of it is to be run."""
        agent = self._find_agent(source.rpartition(SOMEBODYS)[2])
        for server, own in servers_of(agent).items() if agent is not None else ():
            if agent is not None and source_name(agent.id, server) == source:
                with self._using(source) as connection:
                    await self._agent_entries(connection, agent, server, own)

    async def close(self) -> None:
        for connection in tuple(self._connections.values()):
            self._disconnect(connection)
        await asyncio.gather(*self._closing)

    async def _agent_entries(
        self, connection: _Connection, agent: Agent, server: str, own: AgentServer
    ) -> tuple[Entry, ...]:
        """One server's tools as they are now. One that is down is left out, and the log says so."""
        name = connection.name
        status, listing = await self._listed(
            connection,
            own.options,
            lambda: self._make_for_agent(name, own.options, agent.is_configured),
            within=CYCLE_LIST_SECONDS,
        )
        if status.status is not SourceState.UP:
            log.warning("agent %s: its server '%s' is left out: %s", agent.id, server, status.error)
            return ()
        if own.accepts_changes:
            listing = msgspec.structs.replace(listing, accepts_changes=True)
        entries = await self._catalog.take_own(name, listing, overrides=own.overrides, holds_new=own.holds_new)
        self._on_listing()
        return entries

    async def _listed(
        self, connection: _Connection, options: McpOptions | str, make: Callable[[], Source], *, within: float
    ) -> tuple[SourceStatus, Listing]:
        """How the server is, and its tools. It is connected first, anew if its options have changed."""
        async with connection.opening:
            if connection.options != options:
                source = make()
                if (before := self._sources.take_back(connection.name)) is not None:
                    await before.close()
                await self._sources.lend(source)
                connection.options = options
        return await self._sources.lent(connection.name, within=within)

    def _request_source(self, name: str, tool: McpTool) -> Source:
        try:
            return self._make_for_request(name, tool)
        except ConfigError as fault:
            raise BadRequest(f"The mcp server '{tool.server_label}' cannot be used: {fault}", param="tools") from None

    @contextmanager
    def _using(self, name: str, *, key: str | None = None) -> Iterator[_Connection]:
        """While the block runs, and for a while after it, the connection stays."""
        connection = self._connections.get(name)
        if connection is None:
            connection = self._connections[name] = _Connection(name, key=key)
        connection.users += 1
        if connection.idle is not None:
            connection.idle.cancel()
            connection.idle = None
        try:
            yield connection
        finally:
            self._release(connection)

    def _release(self, connection: _Connection) -> None:
        name = connection.name
        connection.users -= 1
        if connection.users or self._connections.get(name) is not connection:
            return
        if connection.options is None:
            self._disconnect(connection)
        else:
            self._connections[name] = self._connections.pop(name)
            seconds = AGENT_IDLE_SECONDS if connection.key is None else REQUEST_IDLE_SECONDS
            connection.idle = asyncio.get_running_loop().call_later(seconds, self._disconnect, connection)

    def _make_room(self, key: str) -> None:
        """Where there is none, the server that no request has used for the longest time gives way."""
        for whose, most in ((key, MOST_OF_A_KEY), (None, MOST_OF_REQUESTS)):
            among = [one for one in self._connections.values() if one.key is not None and whose in (None, one.key)]
            if len(among) < most:
                continue
            idle = next((one for one in among if not one.users), None)
            if idle is None:
                said = f"{most} mcp servers are in use by requests{' of this key' if whose else ''}, which is the most."
                raise BadRequest(f"{said} Try again later.", param="tools")
            self._disconnect(idle)

    def _disconnect(self, connection: _Connection) -> None:
        del self._connections[connection.name]
        if connection.idle is not None:
            connection.idle.cancel()
        if connection.key is None:
            self._catalog.forget_own(connection.name)
        supervisor = self._sources.take_back(connection.name)
        if supervisor is not None:
            task = asyncio.create_task(supervisor.close(), name=f"closing {connection.name}")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def request_source_name(tool: McpTool, principal: Principal) -> str:
    """The same server with the same credentials, asked for by the same key, is the same source."""
    identity = (principal.name, tool.server_url, tool.authorization, sorted((tool.headers or {}).items()))
    return f"{REQUEST}@{hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:24]}"
