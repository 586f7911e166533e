"""MCP servers of one agent (`[agents.NAME.mcp]`, seed 003): loaded when its cycle is built, seen by no other agent.

Above: the cycle. Below: sources of kind `mcp` that the panel lends. A connection stays until the agent changes, or has
slept for a while: of all the agents that sleep, none holds a connection or a process.
"""

import asyncio
import hashlib
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from jackfield.agents.persona import Persona
from jackfield.catalog.catalog import Catalog, Entry
from jackfield.catalog.globs import SOMEBODYS
from jackfield.catalog.merge import private_entries
from jackfield.catalog.names import legal
from jackfield.sources.base import Source
from jackfield.sources.keeper import Panel, SourceState
from jackfield.sources.mcp.options import McpOptions, parse_servers

log = logging.getLogger("jackfield.agents")

LIST_SECONDS = 10.0
"""How long a cycle waits for a server's tools before it begins without them."""
IDLE_SECONDS = 600.0
"""How long a connection stays that nobody uses. Calls that outlive their cycle end by then."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CUT = 40

Make = Callable[[str, McpOptions, bool], Source]
"""Makes a source from its name, its options, and whether the operator's config names it."""


class OwnServers:
    """The servers of all agents here."""

    def __init__(self, *, panel: Panel, catalog: Catalog, make: Make) -> None:
        self._panel = panel
        self._catalog = catalog
        self._make = make
        self._lent: dict[str, McpOptions] = {}
        self._opening = asyncio.Lock()
        self._users: Counter[str] = Counter()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def of(self, persona: Persona) -> AsyncIterator[tuple[tuple[str, Entry], ...]]:
        """The tools of the agent's servers, each with its server's name, while the block runs."""
        servers = servers_of(persona)
        with self._using([source_name(persona.id, server) for server in servers]):
            reached = await asyncio.gather(
                *(self._reach(persona, server, options) for server, options in servers.items())
            )
            found = [(server, entry) for server, entries in zip(servers, reached, strict=True) for entry in entries]
            with self._catalog.lending(entry for _, entry in found):
                yield tuple(found)

    @contextmanager
    def _using(self, names: Sequence[str]) -> Iterator[None]:
        """While the block runs, and a good while after it, these connections stay."""
        for name in names:
            self._users[name] += 1
            if (timer := self._timers.pop(name, None)) is not None:
                timer.cancel()
        try:
            yield
        finally:
            for name in names:
                self._users[name] -= 1
                if not self._users[name]:
                    del self._users[name]
                    loop = asyncio.get_running_loop()
                    self._timers[name] = loop.call_later(IDLE_SECONDS, self._let_go, name)

    def _let_go(self, name: str) -> None:
        """Nobody has used it for a while; the next cycle that wants it connects anew."""
        self._timers.pop(name, None)
        self._lent.pop(name, None)
        keeper = self._panel.take_back(name)
        if keeper is not None:
            task = asyncio.create_task(keeper.close(), name=f"closing {name}")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _reach(self, persona: Persona, server: str, options: McpOptions) -> tuple[Entry, ...]:
        """One server's tools as they are now. One that is down is left out, and said in the log."""
        name = source_name(persona.id, server)
        async with self._opening:
            if self._lent.get(name) != options:
                keeper = self._panel.take_back(name)
                if keeper is not None:
                    await keeper.close()
                await self._panel.lend(self._make(name, options, persona.is_configured))
                self._lent[name] = options
        status, listing = await self._panel.lent(name, within=LIST_SECONDS)
        if status.status is not SourceState.UP:
            log.warning("agent %s: its server '%s' is left out: %s", persona.id, server, status.error)
            return ()
        return await asyncio.to_thread(private_entries, listing, owner=name, judge=self._catalog.checking.fault_in)


def source_name(agent: str, server: str) -> str:
    """What an agent's server is called as a source: `server@agent`, which no other source can be."""
    if _PLAIN.fullmatch(server):
        return f"{server}{SOMEBODYS}{agent}"
    digest = hashlib.sha256(server.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{legal(server)[:_CUT]}.{digest}{SOMEBODYS}{agent}"


def servers_of(persona: Persona) -> dict[str, McpOptions]:
    """The agent's servers by name. Raises `ConfigError` for what cannot be used."""
    return parse_servers(persona.settings.mcp, where=f"agents.{persona.id}.mcp") if persona.settings.mcp else {}
