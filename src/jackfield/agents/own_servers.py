"""MCP servers of one agent (`[agents.NAME.mcp]`, seed 003): loaded when its cycle is built, seen by no other agent.

Above: the cycle. Below: sources of kind `mcp` that the panel lends, and the catalog, which pins their tools and lays
the operator's overrides over them. A connection stays until the agent changes, or has slept for a while: of all the
agents that sleep, none holds a connection or a process. One that a person allowed a call of is connected anew.
"""

import asyncio
import hashlib
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.agents.types import Agent
from jackfield.catalog.catalog import Catalog, Entry
from jackfield.catalog.globs import SOMEBODYS
from jackfield.catalog.names import legal
from jackfield.errors import ConfigError
from jackfield.settings.parsing import snake_keys
from jackfield.settings.tools import ToolOverride, hold_or_accept, parse_override
from jackfield.sources.base import Source
from jackfield.sources.mcp.options import McpOptions, parse_servers
from jackfield.sources.supervisor import SourceRegistry, SourceState

log = logging.getLogger("jackfield.agents")

LIST_SECONDS = 10.0
"""How long a cycle waits for a server's tools before it begins without them."""
IDLE_SECONDS = 600.0
"""How long a connection stays that nobody uses. Calls that outlive their cycle end by then."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CUT = 40


class OwnServer(Struct, frozen=True, kw_only=True):
    """One server of an agent, and what is said about its tools, as for every source."""

    options: McpOptions
    overrides: dict[str, ToolOverride] = {}
    accepts_changes: bool = False
    holds_new: bool = False


Make = Callable[[str, McpOptions, bool], Source]
"""Makes a source from its name, its options, and whether the operator's config names it."""


class OwnServers:
    """The servers of all agents here."""

    def __init__(
        self,
        *,
        panel: SourceRegistry,
        catalog: Catalog,
        make: Make,
        find: Callable[[str], Agent | None],
        on_listing: Callable[[], None],
    ) -> None:
        """`find` gives an agent by its id; `on_listing` is told when tools were listed, which may be new."""
        self._panel = panel
        self._catalog = catalog
        self._make = make
        self._find = find
        self._on_listing = on_listing
        self._lent: dict[str, McpOptions] = {}
        self._opening = asyncio.Lock()
        self._users: Counter[str] = Counter()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def of(self, persona: Agent) -> AsyncIterator[tuple[tuple[str, Entry], ...]]:
        """The tools of the agent's servers, each with its server's name, while the block runs."""
        servers = servers_of(persona)
        with self._using([source_name(persona.id, server) for server in servers]):
            reached = await asyncio.gather(*(self._reach(persona, server, own) for server, own in servers.items()))
            found = [(server, entry) for server, entries in zip(servers, reached, strict=True) for entry in entries]
            with self._catalog.lending(entry for _, entry in found):
                yield tuple(found)

    async def bring_back(self, source: str) -> None:
        """Connect the server of this name for a while, if its agent still has it: a call of it is to be run."""
        persona = self._find(source.rpartition(SOMEBODYS)[2])
        if persona is None:
            return
        for server, own in servers_of(persona).items():
            if source_name(persona.id, server) == source:
                with self._using([source]):
                    await self._reach(persona, server, own)

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
        self._catalog.forget_own(name)
        keeper = self._panel.take_back(name)
        if keeper is not None:
            task = asyncio.create_task(keeper.close(), name=f"closing {name}")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _reach(self, persona: Agent, server: str, own: OwnServer) -> tuple[Entry, ...]:
        """One server's tools as they are now. One that is down is left out, and said in the log."""
        name = source_name(persona.id, server)
        async with self._opening:
            if self._lent.get(name) != own.options:
                keeper = self._panel.take_back(name)
                if keeper is not None:
                    await keeper.close()
                await self._panel.lend(self._make(name, own.options, persona.is_configured))
                self._lent[name] = own.options
        status, listing = await self._panel.lent(name, within=LIST_SECONDS)
        if status.status is not SourceState.UP:
            log.warning("agent %s: its server '%s' is left out: %s", persona.id, server, status.error)
            return ()
        if own.accepts_changes:
            listing = msgspec.structs.replace(listing, accepts_changes=True)
        entries = await self._catalog.take_own(name, listing, overrides=own.overrides, holds_new=own.holds_new)
        self._on_listing()
        return entries


def source_name(agent: str, server: str) -> str:
    """What an agent's server is called as a source: `server@agent`, which no other source can be."""
    if _PLAIN.fullmatch(server):
        return f"{server}{SOMEBODYS}{agent}"
    digest = hashlib.sha256(server.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{legal(server)[:_CUT]}.{digest}{SOMEBODYS}{agent}"


def servers_of(persona: Agent) -> dict[str, OwnServer]:
    """The agent's servers by name. Raises `ConfigError` for what cannot be used."""
    mcp, where = persona.settings.mcp, f"agents.{persona.id}.mcp"
    if not mcp:
        return {}
    raws = mcp.get("servers", ())
    if not isinstance(raws, (list, tuple)) or not all(isinstance(raw, dict) for raw in raws):
        parse_servers(mcp, where=where)  # which says what is wrong
    split = [_split(raw, where=f"{where}.servers[{number}]") for number, raw in enumerate(raws)]
    parsed = parse_servers({**mcp, "servers": [rest for rest, _ in split]}, where=where)
    return {
        name: msgspec.structs.replace(rules, options=options)
        for (name, options), (_, rules) in zip(parsed.items(), split, strict=True)
    }


def _split(raw: dict[str, Any], *, where: str) -> tuple[dict[str, Any], OwnServer]:
    """How the server is reached, and what is said about its tools."""
    rest = snake_keys(raw)
    tools = rest.pop("tools", {})
    if not isinstance(tools, dict):
        raise ConfigError(f"{where}.tools must be a table of tool names. Write tools = {{ NAME = {{ … }} }}.")
    rules = OwnServer(
        options=McpOptions(),
        overrides={tool: parse_override(f"{where}.tools.{tool}", value) for tool, value in tools.items()},
        accepts_changes=hold_or_accept(rest, "on_change", "hold", where) == "accept",
        holds_new=hold_or_accept(rest, "on_new", "accept", where) == "hold",
    )
    return rest, rules
