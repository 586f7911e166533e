"""Tools as MCP lists them: encoded once per definition and era, in the catalog's stable order, page by page.

Above: `methods.py`. Below: the catalog's views. A page is the bytes of its tools, joined.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from jackfield.catalog.merge import Entry
from jackfield.catalog.view import View
from jackfield.http.response import encode
from jackfield.model.tool import Tool
from jackfield.protocol.jsonrpc import INVALID_PARAMS, RpcError
from jackfield.protocol.manifest import parameters_of

PAGE = 1_000
"""Tools that one answer to `tools/list` has at most. Few clients ask for a second page, so the first is large."""
KEPT = 25_000

_CURSOR = "after:"


class Definitions:
    """The encoded tools. Bounded: those that nobody has listed for longest are encoded again."""

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

    def page(
        self,
        view: View,
        cursor: str | None,
        *,
        modern: bool,
        offered: Callable[[tuple[Entry, ...]], tuple[Entry, ...]] = tuple,
        first: tuple[bytes, ...] = (),
    ) -> tuple[bytes, str | None]:
        """The tools after `cursor` as a JSON array, and the cursor of the next page if there is one.

        `offered` leaves out those that are switched off.
        """
        entries = view.entries
        start = 0 if cursor is None else _start(view, cursor)
        shown = entries[start : start + PAGE]
        following = f"{_CURSOR}{shown[-1].name}" if start + PAGE < len(entries) else None
        return self.array(offered(shown), first=first, modern=modern), following

    def array(self, entries: tuple[Entry, ...], *, modern: bool, first: tuple[bytes, ...] = ()) -> bytes:
        """These tools as a JSON array; `first` are definitions that stand before them."""
        return b"[%b]" % b",".join([*first, *(self.of(entry, modern=modern) for entry in entries)])


def definition(entry: Entry, *, modern: bool) -> dict[str, Any]:
    """One tool in MCP's words."""
    tool = entry.tool
    told: dict[str, Any] = {"name": entry.mcp_name}
    if tool.title is not None:
        told["title"] = tool.title
    told["description"] = tool.description
    told["inputSchema"] = parameters_of(tool.input_schema)
    if promises_output(tool, modern=modern):
        told["outputSchema"] = tool.output_schema
    if hints := _hints(tool):
        told["annotations"] = hints
    if tool.meta:
        told["_meta"] = tool.meta
    return told


def _hints(tool: Tool) -> dict[str, Any]:
    """What its owner says about it; the operator's word that it may be repeated counts more."""
    return {**tool.annotations, "idempotentHint": True} if tool.metadata.idempotent else tool.annotations


def promises_output(tool: Tool, *, modern: bool) -> bool:
    """Whether the output schema is listed.

    A client takes it as a promise about every result that is no error. A call that can be left pending cannot keep it,
    and before 2026-07-28 only objects may be promised.
    """
    if tool.output_schema is None or tool.answered_by_others or tool.metadata.requires_approval:
        return False
    return modern or tool.output_schema.get("type") == "object"


def _start(view: View, cursor: str) -> int:
    """Where the page after `cursor` begins. It holds a name, so it stays good while tools come and go."""
    if not cursor.startswith(_CURSOR):
        raise RpcError(INVALID_PARAMS, "'params.cursor' is not one that this server gave. Leave it out to begin.")
    after = cursor[len(_CURSOR) :]
    return bisect_right(view.entries, after, key=lambda entry: entry.name)
