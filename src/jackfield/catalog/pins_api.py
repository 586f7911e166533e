"""Foreign tools whose definition changed: what the change is, and accepting it, one tool or a whole source.

Only an administrator sees the change: a definition that nobody accepted is no text for agents.
Above: `routes_pins.py`. Below: the pinning of the gateway.
"""

from typing import Annotated, Any

from msgspec import Meta, Raw, Struct

from jackfield.catalog.api import ToolEntry
from jackfield.catalog.catalog import Entry
from jackfield.catalog.names import shown
from jackfield.catalog.pinning import Difference, offered_definition
from jackfield.catalog.view import visibility_of
from jackfield.errors import NotFound, ToolNotFound
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Request
from jackfield.http.response import Response, json_response

Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}(?![\\s\\S])", description="`digest` of the change that was seen")]


class AcceptBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which change is meant. Without a digest: whatever the source offers now."""

    digest: Digest | None = None


class AcceptAllBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which changes are meant, by tool; only those are accepted. Without: all that are held now."""

    digests: dict[str, Digest] | None = None


class ToolDiff(Struct, frozen=True, kw_only=True):
    """A foreign tool as it is pinned and as its source offers it now, and a unified diff of the two."""

    name: str
    source: str
    held: bool
    digest: str
    pinned: Any
    offered: Any
    diff: str


class SourceDiff(Struct, frozen=True, kw_only=True):
    """Every held tool of a source."""

    source: str
    tools: list[ToolDiff]


class AcceptedTool(Struct, frozen=True, kw_only=True):
    """The tool as it is offered now. Not `accepted`: there was nothing to accept."""

    tool: ToolEntry
    accepted: bool


class AcceptedSource(Struct, frozen=True, kw_only=True):
    """The tools that were held until now."""

    source: str
    tools: list[ToolEntry]


class _AcceptedTool(Struct, frozen=True, kw_only=True):
    tool: Raw
    accepted: bool


class _AcceptedSource(Struct, frozen=True, kw_only=True):
    source: str
    tools: list[Raw]


_one = BodyReader(AcceptBody, required=False)
_all = BodyReader(AcceptAllBody, required=False)


async def show_tool_diff(visit: Request) -> Response:
    """What changed in one tool."""
    return json_response(_told(await visit.gateway.pinning.difference(_tool(visit))))


async def accept_tool(visit: Request) -> Response:
    """Take one tool's new definition."""
    body = await _one.read(visit)
    entry = _tool(visit)
    offered_definition(entry)  # a tool that is never pinned is refused
    is_held = entry.name in visit.gateway.catalog.held
    if is_held:
        seen = {} if body.digest is None else {entry.name: body.digest}
        await visit.gateway.pinning.accept([entry], seen=seen, accepted_by=visit.principal.name)
    [shown_now] = _manifests(visit, [entry])
    return json_response(_AcceptedTool(tool=shown_now, accepted=is_held))


async def show_source_diff(visit: Request) -> Response:
    """What changed in the held tools of a source."""
    source = _source(visit)
    pinning = visit.gateway.pinning
    tools = [_told(await pinning.difference(entry)) for entry in _held(visit, source)]
    return json_response(SourceDiff(source=source, tools=tools))


async def accept_source(visit: Request) -> Response:
    """Take the new definitions of a source's held tools, all that are meant or none."""
    body = await _all.read(visit)
    source = _source(visit)
    held = _held(visit, source)
    if body.digests is not None:
        held = [entry for entry in held if entry.name in body.digests]
    if held:
        seen = body.digests or {}
        await visit.gateway.pinning.accept(held, seen=seen, accepted_by=visit.principal.name)
    return json_response(_AcceptedSource(source=source, tools=_manifests(visit, held)))


def _tool(visit: Request) -> Entry:
    name = visit.part("name")
    entry = visit.gateway.catalog.known(name)
    if entry is None or not visibility_of(visit.principal).sees(entry):
        raise ToolNotFound(f"There is no tool '{shown(name)}'. 'jackfield tools' lists those there are.", param="name")
    return entry


def _source(visit: Request) -> str:
    name = visit.part("name")
    gateway = visit.gateway
    if name not in {status.name for status in gateway.panel.statuses()} | gateway.catalog.own_sources:
        raise NotFound(f"There is no source '{shown(name)}'. GET /readyz lists those there are.", param="name")
    return name


def _held(visit: Request, source: str) -> list[Entry]:
    sight = visibility_of(visit.principal)
    return [entry for entry in visit.gateway.catalog.held_of(source) if sight.sees(entry)]


def _manifests(visit: Request, entries: list[Entry]) -> list[Raw]:
    """The tools as they are offered by now; one that changed again meanwhile, as it was accepted."""
    find = visit.gateway.catalog.entry
    return [Raw((find(entry.name, source=entry.tool.source) or entry).manifest) for entry in entries]


def _told(change: Difference) -> ToolDiff:
    return ToolDiff(
        name=change.name,
        source=change.source,
        held=change.is_held,
        digest=change.digest,
        pinned=change.pinned,
        offered=change.offered,
        diff=change.diff,
    )
