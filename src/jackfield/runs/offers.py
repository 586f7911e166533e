"""What a request's `tools` offer the model, and what its `tool_choice` makes of them. Pure.

Above: the engine. Below: entries of the catalog, and of servers that the request brought along.
A name is the tool's own where it is unique among all that the request offers and none of the gateway's, else
`label_name`. The functions of a request are its client's, and called as it calls them.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.catalog.catalog import Entry
from jackfield.catalog.globs import compiled
from jackfield.catalog.names import legal
from jackfield.errors import BadRequest
from jackfield.model.items import ListedMcpTool as ListedTool
from jackfield.model.response_request import (
    AllowedTools,
    ApprovalRules,
    ChosenTool,
    McpTool,
    RequestTool,
    ToolChoice,
    ToolSubset,
)
from jackfield.model.tool import BUILTIN, RESERVED_NAMES
from jackfield.runs.plan import Choice
from jackfield.runs.tools import OfferedTool, ToolTable, client_tools

CATALOG = "jackfield"
"""The label under which the catalog's own tools are shown."""
FEW = 20_000
"""Tools times patterns that are matched in some milliseconds."""


class OfferedServer(Struct, frozen=True, kw_only=True):
    """One label of a request, and the tools behind it."""

    label: str
    entries: tuple[Entry, ...] = ()
    readers: tuple[OfferedTool, ...] = ()
    """`read_resource` and `get_prompt` for what is behind the label."""
    is_private: bool = False
    asked_for: McpTool | None = None
    error: str | None = None
    options: dict[str, Any] = {}
    """What the request says to a tool of a registered type."""
    defers: bool | None = None
    """Whether the request wants its tools to be shown only when they are found; None: it does not say."""

    @property
    def offered(self) -> tuple[Entry, ...]:
        """Those that the request lets through."""
        subset = self._subset
        return self.entries if subset is None else tuple(entry for entry in self.entries if _fits(entry, subset))

    @property
    def offered_readers(self) -> tuple[OfferedTool, ...]:
        subset = self._subset
        if subset is None:
            return self.readers
        return tuple(tool for tool in self.readers if tool.entry is not None and _fits(tool.entry, subset))

    @property
    def _subset(self) -> ToolSubset | None:
        allowed = None if self.asked_for is None else self.asked_for.allowed_tools
        return ToolSubset(tool_names=allowed) if isinstance(allowed, tuple) else allowed

    @property
    def listed(self) -> tuple[ListedTool, ...]:
        return tuple(
            ListedTool(
                name=bare_name(entry, is_private=self.is_private),
                input_schema=entry.tool.input_schema,
                description=entry.tool.description or None,
                annotations=entry.tool.annotations or None,
            )
            for entry in (*self.offered, *(tool.entry for tool in self.offered_readers if tool.entry is not None))
        )

    def asks_first(self, entry: Entry) -> bool:
        """Whether the request wants to be asked; about a server that it brought along it does unless it says no."""
        rule = None if self.asked_for is None else self.asked_for.require_approval
        if rule is None:
            return self.is_private
        if isinstance(rule, ApprovalRules):
            if rule.never is not None and _fits(entry, rule.never):
                return False
            return self.is_private if rule.always is None else _fits(entry, rule.always)
        return rule == "always"


def bare_name(entry: Entry, *, is_private: bool) -> str:
    return entry.tool.name if is_private else entry.name


def of_catalog(entries: Iterable[Entry], patterns: Sequence[str]) -> tuple[Entry, ...]:
    """The catalog's tools that names, globs or `source:*` choose."""
    wanted = compiled(tuple(patterns))
    return tuple(
        entry for entry in entries if wanted.match(entry.name, source=entry.tool.source, foreign=entry.tool.name)
    )


async def chosen_of(entries: Sequence[Entry], patterns: Sequence[str]) -> tuple[Entry, ...]:
    """`of_catalog` for a request: in a thread where many globs meet many tools."""
    if len(entries) * len(patterns) <= FEW:
        return of_catalog(entries, patterns)
    return await asyncio.to_thread(of_catalog, entries, patterns)


def table_of(clients: Sequence[RequestTool], servers: Sequence[OfferedServer]) -> ToolTable:
    """Every tool of the request under a name of its own; one that a label has twice is offered once.

    `clients` are those that the client runs; others of the request are passed over here.
    """
    behind = {
        (server.label, bare_name(entry, is_private=server.is_private)): (server, entry)
        for server in servers
        for entry in server.offered
    }
    readers = {(server.label, tool.bare_name): tool for server in servers for tool in server.offered_readers}
    own_tools = list(client_tools(clients))
    wishes = Counter([tool.name for tool in own_tools])
    wishes.update(legal(bare) for _, bare in (*behind, *readers))
    taken = set(wishes)
    offered: dict[str, OfferedTool] = {}
    for tool in own_tools:
        name = tool.name if tool.name not in offered else _derived(tool.namespace or "own", tool.bare_name, taken)
        taken.add(name)
        offered[name] = msgspec.structs.replace(tool, name=name)
    for (label, bare), (server, entry) in behind.items():
        own = legal(bare)
        is_ours = own in RESERVED_NAMES and entry.tool.source != BUILTIN
        name = own if wishes[own] == 1 and not is_ours else _derived(label, bare, taken)
        taken.add(name)
        offered[name] = OfferedTool(
            name=name,
            description=entry.tool.description,
            parameters=entry.tool.input_schema,
            entry=entry,
            label=label,
            bare_name=bare,
            is_private=server.is_private,
            asks_first=server.asks_first(entry),
            options=server.options,
            defers=server.defers,
        )
    for (label, bare), tool in readers.items():
        name = bare if wishes[bare] == 1 else _derived(label, bare, taken)
        taken.add(name)
        offered[name] = msgspec.structs.replace(tool, name=name, label=label)
    return ToolTable(offered.values())


def _derived(label: str, bare: str, taken: set[str]) -> str:
    """A name with its label, which nobody has or asks for: a server must not get calls that are meant for another."""
    base = legal(f"{label}_{bare}")
    name, tries = base, 0
    while name in taken or name in RESERVED_NAMES:
        digest = hashlib.sha256(f"{label}\0{bare}\0{tries}".encode("utf-8", "surrogatepass")).hexdigest()
        name, tries = legal(f"{base}_{digest[:8]}"), tries + 1
    return name


def choice_of(wanted: ToolChoice, table: ToolTable) -> Choice:
    """`tool_choice` by the names that the model uses. A tool that is not there is a fault of the request."""
    if isinstance(wanted, str):
        if wanted == "required" and not table:
            raise BadRequest("'tool_choice' is 'required', and there are no tools. Add some.", param="tool_choice")
        return Choice(mode=wanted)
    if isinstance(wanted, AllowedTools):
        by_place = _by_place(table)
        names = frozenset().union(*(_named(tool, table, by_place) for tool in wanted.tools))
        return Choice(mode=wanted.mode, allowed=names)
    return Choice(forced=_named(wanted, table, _by_place(table)))


_Places = dict[tuple[str | None, str | None], list[str]]
"""The model's names of tools by label and own name; None where that does not matter."""


def _by_place(table: ToolTable) -> _Places:
    """Made once, since a request may name hundreds of tools among thousands."""
    places: _Places = {}
    for tool in table.values():
        for place in {(tool.label, tool.bare_name), (tool.label, None), (None, tool.bare_name)}:
            places.setdefault(place, []).append(tool.name)
    return places


def _named(chosen: ChosenTool, table: ToolTable, by_place: _Places) -> frozenset[str]:
    if chosen.type == "mcp":
        found = by_place.get((chosen.server_label, chosen.name), [])
    elif chosen.name is not None and chosen.name in table:
        found = [chosen.name]
    else:
        found = by_place.get((None, chosen.name), [])
    if not found:
        what = chosen.name or chosen.server_label
        raise BadRequest(f"'tool_choice' names '{what}', which is not among 'tools'. Add it.", param="tool_choice")
    return frozenset(found)


def _spellings(entry: Entry) -> set[str]:
    return {entry.name, entry.mcp_name, entry.tool.name}


def _fits(entry: Entry, subset: ToolSubset) -> bool:
    """Both conditions that are given hold. Whether a tool only reads is its owner's word."""
    if subset.tool_names is not None and _spellings(entry).isdisjoint(_set_of(subset.tool_names)):
        return False
    return subset.read_only is None or bool(entry.tool.annotations.get("readOnlyHint")) is subset.read_only


@lru_cache(maxsize=64)
def _set_of(names: tuple[str, ...]) -> frozenset[str]:
    """Asked for each tool of a server, which may have thousands."""
    return frozenset(names)
