"""`tools/list`: definitions encoded once per era, paged in the catalog's order; `search_tools` for large catalogs.

Above: `server.py`. Below: the catalog's views and the built-in `search_tools`. In the handshake era tools that were
found join the session's list. Since 2026-07-28 a list may not depend on earlier requests, so a search returns whole
definitions, and any tool of the catalog can be called by name.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Container, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from jackfield.calls.requests import CallRequest
from jackfield.catalog.merge import Entry, named_entry
from jackfield.catalog.view import View
from jackfield.errors import BadRequest
from jackfield.http.response import encode
from jackfield.mcp.results import promises_output
from jackfield.model.call import Call
from jackfield.model.principal import Principal
from jackfield.model.text import counted
from jackfield.model.tool import BUILTIN, PROGRAMS, Tool, ToolKind
from jackfield.programs.stubs import stub_of
from jackfield.protocol.json_bodies import bad_value
from jackfield.protocol.jsonrpc import INVALID_PARAMS, RpcError
from jackfield.protocol.manifest import parameters_of

PAGE = 1_000
"""Tools that one answer to `tools/list` has at most. Few clients ask for a second page, so the first is large."""
KEPT = 25_000

_CURSOR = "after:"
SEARCH_TOOLS = "search_tools"
HEADER = b"jackfield-search-above"
"""Asks for another size than `[mcp] search_tools_above`, for this request; 0: list everything."""
DEFAULT_LIMIT = 5
MAX_LIMIT = 50


class Definitions:
    """Encoded definitions, in a bounded cache."""

    def __init__(self, *, kept: int = KEPT) -> None:
        self._kept = kept
        self._encoded: OrderedDict[tuple[str, bool], tuple[Entry, bytes]] = OrderedDict()

    def of(self, entry: Entry, *, modern: bool) -> bytes:
        """One tool, as this era lists it."""
        key = (entry.name, modern)
        known = self._encoded.get(key)
        if known is not None and known[0] is entry:
            return known[1]
        made = encode(definition(entry, modern=modern))
        self._encoded[key] = (entry, made)
        if len(self._encoded) > self._kept:
            self._encoded.popitem(last=False)
        return made

    def _with_app(self, entry: Entry, renamed: Mapping[tuple[str, str], str], *, modern: bool) -> bytes:
        """One tool, whose app is named by the URI that it is offered under."""
        ui = entry.tool.meta.get("ui")
        if not isinstance(ui, dict):
            return self.of(entry, modern=modern)
        uri = renamed.get((entry.tool.source, str(ui.get("resourceUri"))))
        if uri is None:
            return self.of(entry, modern=modern)
        listed = definition(entry, modern=modern)
        return encode({**listed, "_meta": {**entry.tool.meta, "ui": {**ui, "resourceUri": uri}}})

    def page(
        self,
        view: View,
        cursor: str | None,
        *,
        modern: bool,
        offered: Callable[[tuple[Entry, ...]], tuple[Entry, ...]] = tuple,
        first: tuple[bytes, ...] = (),
        renamed: Mapping[tuple[str, str], str] | None = None,
    ) -> tuple[bytes, str | None]:
        """The tools after `cursor` as a JSON array, and the cursor of the next page if there is one.

        `offered` leaves out those that are switched off.
        """
        entries = view.entries
        start = 0 if cursor is None else _start(view, cursor)
        shown = entries[start : start + PAGE]
        following = f"{_CURSOR}{shown[-1].name}" if start + PAGE < len(entries) else None
        return self.array(offered(shown), first=first, modern=modern, renamed=renamed), following

    def array(
        self,
        entries: tuple[Entry, ...],
        *,
        modern: bool,
        first: tuple[bytes, ...] = (),
        renamed: Mapping[tuple[str, str], str] | None = None,
    ) -> bytes:
        """These tools as a JSON array; `first` are definitions that stand before them.

        `renamed` are resources that are offered under another URI, by source and own URI: an app's page may be one.
        """
        if renamed:
            return b"[%b]" % b",".join([*first, *(self._with_app(entry, renamed, modern=modern) for entry in entries)])
        return b"[%b]" % b",".join([*first, *(self.of(entry, modern=modern) for entry in entries)])


def definition(entry: Entry, *, modern: bool) -> dict[str, Any]:
    """One tool in MCP's words."""
    tool = entry.tool
    listed: dict[str, Any] = {"name": entry.mcp_name}
    if tool.title is not None:
        listed["title"] = tool.title
    if tool.description:
        listed["description"] = tool.description
    is_servers_own = tool.kind is ToolKind.MCP and tool.input_schema.get("type") == "object"
    listed["inputSchema"] = tool.input_schema if is_servers_own else parameters_of(tool.input_schema)
    if promises_output(tool, modern=modern):
        listed["outputSchema"] = tool.output_schema
    if hints := _hints(tool):
        listed["annotations"] = hints
    if (support := _task_support(tool, modern=modern)) is not None:
        listed["execution"] = {"taskSupport": support}
    if tool.meta:
        listed["_meta"] = tool.meta
    return {**tool.listed, **listed} if tool.listed else listed


def _hints(tool: Tool) -> dict[str, Any]:
    """The tool's own annotations; the operator's `idempotent` wins."""
    return {**tool.annotations, "idempotentHint": True} if tool.metadata.idempotent else tool.annotations


def _task_support(tool: Tool, *, modern: bool) -> str | None:
    """What its server says; else, at 2025-11-25, that a call which may wait for long can be a task."""
    if tool.task_support is not None or modern:
        return tool.task_support
    said = tool.metadata
    return "optional" if said.requires_approval or said.long_running or tool.answered_by_others else None


def _start(view: View, cursor: str) -> int:
    """Where the page after `cursor` begins. It holds a name, so it stays good while tools come and go."""
    if not cursor.startswith(_CURSOR):
        raise RpcError(INVALID_PARAMS, "'params.cursor' is invalid. Leave it out to get the first page.")
    after = cursor[len(_CURSOR) :]
    return bisect_right(view.entries, after, key=lambda entry: entry.name)


class _Named(Struct, frozen=True):
    name: str


class _Found(Struct, frozen=True):
    tools: tuple[_Named, ...]


class SearchArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `search_tools`."""

    query: Annotated[str, Meta(max_length=1000)]
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT


def search_above(header: bytes | None, *, configured: int) -> int:
    """The size past which this client wants to search; a header that is no number changes nothing."""
    return int(header) if header is not None and header.isdigit() and len(header) < len("1000000") else configured


def is_searched(view: View, above: int) -> bool:
    """Whether this catalog is searched and not listed."""
    return 0 < above < len(view.entries)


def among(view: View, names: Container[str]) -> tuple[Entry, ...]:
    """The tools of these names, in the catalog's order. What is gone or out of sight is not there."""
    return tuple(entry for entry in view.entries if entry.name in names)


def search_definition(count: int) -> dict[str, Any]:
    """The tool as it is listed, with the size of the catalog it stands for."""
    return {
        "name": SEARCH_TOOLS,
        "description": (
            f"Find tools by what they do. This server has {counted(count, 'tool')} and lists none of them until you "
            "search. The answer has the definition of each tool that fits, best first; call one by its name."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What the tool should do, in a few words"},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "idempotentHint": True},
    }


def stub_search_definition(count: int) -> dict[str, Any]:
    """The same in code mode: what is found is called by a program."""
    description = (
        f"Find tools by what they do, as Python functions for the code of `run_program`. There are "
        f"{counted(count, 'tool')}. The answer has the signature of each tool that fits, best first; call one as "
        "`await tools.NAME(...)`."
    )
    return {**search_definition(count), "description": description}


def stubs_of(found: tuple[Entry, ...]) -> Raw:
    """What a search finds in code mode."""
    usable = [entry for entry in found if entry.tool.source != PROGRAMS]
    return Raw(encode({"tools": [{"name": entry.name, "stub": stub_of(entry)} for entry in usable]}))


ENTRY = named_entry(SEARCH_TOOLS, Tool(source=BUILTIN, name=SEARCH_TOOLS))
"""As it is called: `search_request` checks its arguments."""


def search_request(arguments: dict[str, Any], *, principal: Principal) -> CallRequest:
    """The call of a search, or the refusal that a model can act on. It needs no scope: it reads what is listed."""
    try:
        wanted = msgspec.convert(arguments, SearchArguments)
    except msgspec.ValidationError as fault:
        said = bad_value(fault, what="The input", into=SearchArguments).message
        raise BadRequest(f"search_tools cannot take these arguments: {said}") from None
    return CallRequest(
        tool=SEARCH_TOOLS,
        arguments=msgspec.to_builtins(wanted),
        principal=principal,
        entry=ENTRY,
        needs=None,
        only_reads=True,
    )


def found_in(call: Call, view: View) -> tuple[Entry, ...]:
    """The tools that a search found, as far as they still exist."""
    assert call.result is not None
    names = [found.name for found in msgspec.json.decode(call.result, type=_Found).tools]
    seen = among(view, names)
    return tuple(sorted(seen, key=lambda entry: names.index(entry.name)))
