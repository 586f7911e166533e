"""Tool search: past a number of tools a model is shown `search_tools` in their place, and those that it finds.

Above: whoever makes a run's tools (agents, responses, sessions) and the loop; `/mcp` searches with the same built-in
tool. Below: the catalog's index. Which tools were found is read off the conversation, so that a resumed cycle and a
continued response are shown the same ones. They come after all others, in the order in which they were found: the list
changes only when something new was found, for the sake of prompt caches.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.catalog.catalog import Catalog
from jackfield.catalog.merge import Entry, named_entry
from jackfield.catalog.search import Index
from jackfield.model.call import Done, done
from jackfield.model.items import FunctionCall, FunctionCallOutput, Item
from jackfield.model.tool import BUILTIN, EMPTY_SCHEMA, REQUEST, Tool, ToolDefinition
from jackfield.runs.offers import CATALOG
from jackfield.runs.plan import Choice, RunPlan
from jackfield.runs.tools import OfferedTool, ToolTable
from jackfield.sources.base import Invocation
from jackfield.sources.builtin import Handler

SEARCH_TOOLS = "search_tools"
DEFAULT_LIMIT = 5
MAX_LIMIT = 20
MOST_LOADED = 100
"""Found tools that a model is shown at once; the ones found first go first."""
MOST_GROUPS = 20
"""Sources, servers and namespaces that the search tool names."""
LONGEST_ABOUT = 120
LONGEST_DESCRIPTION = 200
"""Characters of a found tool's description in the result of a search; the tool itself follows whole."""
MANY = 200
"""Tools of a run alone that are indexed in a thread."""

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "What the tool should do, in a few words",
            "minLength": 1,
            "maxLength": 1000,
        },
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    },
    "additionalProperties": False,
    "required": ["query"],
}
SEARCH_ENTRY = named_entry(
    SEARCH_TOOLS,
    Tool(
        source=BUILTIN,
        name=SEARCH_TOOLS,
        description="Find tools by what they do, among all that you may use.",
        input_schema=_SCHEMA,
    ),
)


class _FoundTool(Struct, frozen=True):
    name: str


class _Found(Struct, frozen=True):
    tools: tuple[_FoundTool, ...]


_decode_found = msgspec.json.Decoder(_Found).decode


def with_search(
    table: ToolTable,
    *,
    above: int,
    choice: Choice | None = None,
    about: Mapping[str, str] | None = None,
    is_item: bool = False,
) -> ToolTable:
    """The table with the tools that are loaded only when they are found, and with the tool that finds them.

    Deferred is what the request says should be, and all tools that run here, if there are more than `above` (0:
    never). `about` describes servers and namespaces; `is_item`: a search is an item of its own in the output.
    """
    choice = choice or Choice()
    deferred = {name for name, tool in table.items() if tool.defers}
    many = [name for name, tool in table.items() if tool.defers is None and _can_be_found(tool) and tool.runs_here]
    if 0 < above < len(many):
        deferred.update(many)
    named = choice.allowed if choice.forced is None else choice.forced
    if named is not None and len(named) <= MOST_LOADED:
        deferred -= named  # tool_choice names them, so the model has to know them
    if not deferred:
        return table
    found = [name for name in table if name in deferred and choice.may_call(name)]
    if not found or _is_left_to_client(table, found):
        return ToolTable(table.values(), deferred=deferred)
    search = OfferedTool(
        name=_free_name(table),
        description=_description([table[name] for name in found], about or {}),
        parameters=SEARCH_ENTRY.tool.input_schema,
        entry=SEARCH_ENTRY,
        label=BUILTIN,
        bare_name=SEARCH_TOOLS,
        is_private=True,
        is_own=True,
        kind="tool_search" if is_item else "function",
        searches=True,
    )
    others = {name: tool for name, tool in table.items() if name not in deferred}
    ordered = {**others, search.name: search, **table, search.name: search}
    return ToolTable(ordered.values(), deferred=deferred, search=search.name)


def _is_left_to_client(table: ToolTable, found: Iterable[str]) -> bool:
    """The client has a search of its own, and all that can be found is its own."""
    has_search = any(tool.kind == "tool_search" and not tool.runs_here for tool in table.values())
    return has_search and not any(table[name].runs_here for name in found)


def _free_name(table: ToolTable) -> str:
    """`search_tools`, unless a function of the request has that name."""
    name, known = SEARCH_TOOLS, table.get(SEARCH_TOOLS)
    while known is not None and known.label != BUILTIN:
        name = f"jackfield_{name}"
        known = table.get(name)
    return name


def _can_be_found(tool: OfferedTool) -> bool:
    return tool.label != BUILTIN and tool.kind != "tool_search" and tool.target is None


def _description(found: list[OfferedTool], about: Mapping[str, str]) -> str:
    groups = Counter(group for tool in found if (group := _group(tool)))
    named = [_named(group, count, about) for group, count in groups.items()][:MOST_GROUPS]
    more = len(groups) - len(named)
    among = f" Among them: {', '.join(named)}{f' and {more} more' if more else ''}." if named else ""
    kind, are = ("tool", "is") if len(found) == 1 else ("tools", "are")
    return (
        f"Find tools by what they do. You can use {len(found):,} {kind} that {are} not listed until you search."
        f"{among} Tools that are found can be called in the next step."
    )


def _named(group: str, count: int, about: Mapping[str, str]) -> str:
    said = about.get(group, "").strip()
    return f"{group} ({count:,}{f'; {said[:LONGEST_ABOUT]}' if said else ''})"


def _group(tool: OfferedTool) -> str:
    """Where a tool comes from, as a model is told it: a source, a server or a namespace."""
    if tool.entry is None:
        return tool.namespace or ""
    return tool.entry.tool.source if tool.label == CATALOG else tool.label


class ShownTools:
    """The tools that a model is shown: those that are not deferred, then those that it found, or called by name."""

    def __init__(self, tools: ToolTable, items: Iterable[Item] = ()) -> None:
        self._tools = tools
        self._first = tuple(tool.definition for name, tool in tools.items() if name not in tools.deferred)
        self._loaded: dict[str, ToolDefinition] = {}
        self._searches: set[str] = set()
        """Call ids of searches whose result is still to come."""
        self.follow(items)

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        return (*self._first, *self._loaded.values()) if self._loaded else self._first

    def follow(self, items: Iterable[Item]) -> None:
        """Take notice of what was said since."""
        if not self._tools.deferred:
            return
        for item in items:
            if isinstance(item, FunctionCall) and item.name == self._tools.search:
                self._searches.add(item.call_id)
            elif isinstance(item, FunctionCall):
                self._load((item.name,))
            elif isinstance(item, FunctionCallOutput) and item.call_id in self._searches:
                self._searches.remove(item.call_id)
                self._load(found_names(item.output))

    def _load(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self._tools.deferred and name not in self._loaded and name in self._tools:
                self._loaded[name] = self._tools[name].definition
                if len(self._loaded) > MOST_LOADED:
                    del self._loaded[next(iter(self._loaded))]


def found_result(found: Iterable[OfferedTool], *, deferred: Iterable[str]) -> dict[str, Any]:
    """What a search gives back. Of a tool that is loaded now the schema is in its definition."""
    hidden = frozenset(deferred)
    return {"tools": [_told(tool, is_short=tool.name in hidden) for tool in found]}


def found_names(output: object) -> tuple[str, ...]:
    """The names in a search's result; none in what a search that failed says."""
    if not isinstance(output, str):
        return ()
    try:
        return tuple(tool.name for tool in _decode_found(output).tools)
    except (msgspec.DecodeError, RecursionError):
        return ()


def _told(tool: OfferedTool, *, is_short: bool) -> dict[str, Any]:
    if is_short:
        return {"name": tool.name, "description": _cut(tool.description)}
    return {"name": tool.name, "description": tool.description, "inputSchema": tool.parameters or EMPTY_SCHEMA}


def _cut(description: str) -> str:
    return description if len(description) <= LONGEST_DESCRIPTION else f"{description[:LONGEST_DESCRIPTION]}…"


class ToolSearch:
    """The built-in tool `search_tools`: in a run it searches the run's own tools, elsewhere the caller's catalog."""

    def __init__(self, catalog: Catalog, *, above: int) -> None:
        self.above = above
        """`[mcp] models_search_above`: runs with more tools than this are searched."""
        self._catalog = catalog
        self._runs: dict[str, RunTools] = {}

    @property
    def builtin_handlers(self) -> dict[str, Handler]:
        return {SEARCH_TOOLS: self._search}

    @contextmanager
    def over(self, plan: RunPlan) -> Iterator[None]:
        """While the block runs, a search in this run is one of its tools."""
        self._runs[plan.run_id] = RunTools(plan.tools, plan.choice, self._catalog.view(plan.principal).index)
        try:
            yield
        finally:
            self._runs.pop(plan.run_id, None)

    async def _search(self, invocation: Invocation) -> Done:
        """On the loop, to which the catalog belongs."""
        assert invocation.caller is not None
        query, limit = str(invocation.arguments["query"]), int(invocation.arguments.get("limit", DEFAULT_LIMIT))
        run = self._runs.get(invocation.run_id)
        if run is not None:
            return done(found_result(await run.find(query, limit=limit), deferred=run.tools.deferred))
        found = self._catalog.view(invocation.caller).search(query, limit=limit)
        return done(
            {
                "tools": [
                    {"name": entry.name, "description": entry.tool.description, "inputSchema": entry.tool.input_schema}
                    for entry in found
                ]
            }
        )


class RunTools:
    """What one run's searches find: its deferred tools, or all of them where none is."""

    def __init__(self, tools: ToolTable, choice: Choice, index: Index) -> None:
        self.tools = tools
        self._choice = choice
        self._index = index
        self._by_key: dict[str, OfferedTool] | None = None
        """By the public name in the catalog; those of the run alone by a name that no catalog has."""

    async def find(self, query: str, *, limit: int) -> list[OfferedTool]:
        """The best matches, best first."""
        if self._by_key is None:
            self._by_key = await self._indexed()
        by_key = self._by_key
        names = self._index.find(query, limit=limit, among=by_key.keys())
        found = {by_key[name].name: by_key[name] for name in names}
        exact = self.tools.get(query.strip())
        if exact is not None and exact in by_key.values():
            found = {exact.name: exact} | found
        return list(found.values())[:limit]

    async def _indexed(self) -> dict[str, OfferedTool]:
        tools = self.tools
        among = tools.deferred or {name for name, tool in tools.items() if _can_be_found(tool)}
        by_key: dict[str, OfferedTool] = {}
        alone: list[OfferedTool] = []
        for name in tools:
            if name not in among or not self._choice.may_call(name):
                continue
            tool = tools[name]
            if tool.entry is not None and not tool.is_private:
                by_key.setdefault(tool.entry.name, tool)
            else:
                alone.append(tool)
                by_key[_key(tool)] = tool
        if len(alone) > MANY:
            self._index = await asyncio.to_thread(_with_tools, self._index, alone)
        elif alone:
            self._index = _with_tools(self._index, alone)
        return by_key


def _with_tools(index: Index, tools: Iterable[OfferedTool]) -> Index:
    """The index with tools of a run alone."""
    return index.following(removed=(), added=map(_entry, tools))


def _entry(tool: OfferedTool) -> Entry:
    parameters = tool.parameters or EMPTY_SCHEMA
    own = Tool(source=REQUEST, name=tool.name, description=tool.description, input_schema=parameters)
    return named_entry(_key(tool), own)


def _key(tool: OfferedTool) -> str:
    return f"\0{tool.name}"
