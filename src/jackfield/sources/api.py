"""The sources of tools, for whoever runs the gateway: how each is, since when, and what it said last.

Above: `routes_sources.py`. Below: the gateway's statuses and the catalog.
"""

from typing import Literal

from msgspec import Struct

from jackfield.errors import NotFound
from jackfield.http.request import Request
from jackfield.http.response import Response, json_response
from jackfield.model.times import Time, iso_time
from jackfield.sources.supervisor import SourceState, SourceStatus


class SourceRecord(Struct, frozen=True, kw_only=True):
    """One source. `faulty`: up, but a part of it is broken; `stderr`: the newest 50 lines of its process, if it has
    one, without secrets; `origin`: the config, the API (a tool server declared it), or the gateway itself.
    """

    name: str
    kind: str
    origin: Literal["config", "api", "builtin"]
    status: SourceState
    error: str | None
    doing: str | None
    """What it is busy with while it is not up."""
    stderr: tuple[str, ...]
    faults: tuple[str, ...]
    tools: list[str]
    """By their public names."""
    calls: int
    """How many run now."""
    since: Time | None
    checked_at: Time | None


class SourceList(Struct, frozen=True, kw_only=True):
    """Every source, in the config's order."""

    sources: list[SourceRecord]


class OneSource(Struct, frozen=True, kw_only=True):
    """A source in its envelope."""

    source: SourceRecord


async def list_sources(visit: Request) -> Response:
    """Every source as it is now."""
    return json_response(SourceList(sources=[_record(visit, status) for status in visit.gateway.source_statuses()]))


async def show_source(visit: Request) -> Response:
    """One source as it is now."""
    name = visit.part("name")
    statuses = visit.gateway.source_statuses()
    for status in statuses:
        if status.name == name:
            return json_response(OneSource(source=_record(visit, status)))
    known = ", ".join(status.name for status in statuses) or "none"
    raise NotFound(f"There is no source '{name[:100]}'. Sources: {known}.", param="name")


def _record(visit: Request, status: SourceStatus) -> SourceRecord:
    gateway, sanitizer = visit.gateway, visit.sanitizer
    names = sorted(e.name for e in gateway.catalog.view(visit.principal).entries if e.tool.source == status.name)
    return SourceRecord(
        name=status.name,
        kind=status.kind,
        origin=_origin(visit, status.name),
        status=status.status,
        error=None if status.error is None else sanitizer.text(status.error),
        doing=None if status.doing is None else sanitizer.text(status.doing),
        stderr=tuple(sanitizer.text(line) for line in status.last_words),
        faults=tuple(sanitizer.text(fault) for fault in status.faults),
        tools=names,
        calls=status.calls,
        since=None if status.since is None else iso_time(status.since),
        checked_at=None if status.checked_at is None else iso_time(status.checked_at),
    )


def _origin(visit: Request, name: str) -> Literal["config", "api", "builtin"]:
    if any(source.name == name for source in visit.gateway.settings.sources):
        return "config"
    return "api" if name in visit.gateway.shelf.declared else "builtin"
