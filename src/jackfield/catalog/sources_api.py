"""The sources of tools, for whoever runs the gateway: how each is, since when, and what it said last.

Above: `routes_sources.py`. Below: the gateway's statuses and the catalog.
"""

from collections.abc import Callable, Container
from typing import Literal

from msgspec import Struct

from jackfield.catalog.catalog import Catalog
from jackfield.catalog.stored_tools import StoredTools
from jackfield.errors import NotFound
from jackfield.http.request import Request
from jackfield.http.response import Response, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.model.principal import Scope
from jackfield.model.text import Time, iso_time
from jackfield.sources.supervisor import SourceRegistry, SourceState, SourceStatus


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
    prompts: list[str]
    """By their public names."""
    resources: int
    templates: int
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


class SourceApi:
    """Handlers of `/api/v1/sources`."""

    def __init__(
        self,
        catalog: Catalog,
        stored_tools: StoredTools,
        *,
        configured: Container[str],
        source_registry: SourceRegistry,
        statuses: Callable[[], list[SourceStatus]],
    ) -> None:
        self._catalog = catalog
        self._stored_tools = stored_tools
        self._configured = configured
        """The names of the sources in the config."""
        self._source_registry = source_registry
        self._statuses = statuses

    async def list_sources(self, request: Request) -> Response:
        """Every source as it is now."""
        return json_response(SourceList(sources=[self._record(request, status) for status in self._statuses()]))

    async def show_source(self, request: Request) -> Response:
        """One source as it is now."""
        name = request.part("name")
        statuses = self._statuses()
        for status in statuses:
            if status.name == name:
                return json_response(OneSource(source=self._record(request, status)))
        known = ", ".join(status.name for status in statuses) or "none"
        raise NotFound(f"There is no source '{name[:100]}'. Sources: {known}.", param="name")

    def _record(self, request: Request, status: SourceStatus) -> SourceRecord:
        sanitizer = request.sanitizer
        names = sorted(e.name for e in self._catalog.view(request.principal).entries if e.tool.source == status.name)
        return SourceRecord(
            name=status.name,
            kind=status.kind,
            origin=self._origin(status.name),
            status=status.status,
            error=None if status.error is None else sanitizer.text(status.error),
            doing=None if status.doing is None else sanitizer.text(status.doing),
            stderr=tuple(sanitizer.text(line) for line in status.last_words),
            faults=tuple(sanitizer.text(fault) for fault in status.faults),
            tools=names,
            prompts=[e.name for e in self._catalog.prompts(request.principal).entries if e.tool.source == status.name],
            resources=status.resources,
            templates=status.templates,
            calls=status.calls,
            since=None if status.since is None else iso_time(status.since),
            checked_at=None if status.checked_at is None else iso_time(status.checked_at),
        )

    def _origin(self, name: str) -> Literal["config", "api", "builtin"]:
        if name in self._configured:
            return "config"
        return "api" if name in self._stored_tools.declared else "builtin"


def routes(
    catalog: Catalog,
    stored_tools: StoredTools,
    *,
    configured: Container[str],
    source_registry: SourceRegistry,
    statuses: Callable[[], list[SourceStatus]],
) -> list[Route]:
    """Every route of sources."""
    api = SourceApi(catalog, stored_tools, configured=configured, source_registry=source_registry, statuses=statuses)
    return [
        Route(
            method="GET",
            path="/api/v1/sources",
            handler=api.list_sources,
            scope=Scope.ADMIN,
            tag="Sources",
            summary="Where the tools come from",
            responses={200: ResponseSpec(description="Each source, how it is and what it said last", type=SourceList)},
        ),
        Route(
            method="GET",
            path="/api/v1/sources/{name}",
            handler=api.show_source,
            scope=Scope.ADMIN,
            tag="Sources",
            summary="One source of tools",
            responses={200: ResponseSpec(description="How it is, and what it said last", type=OneSource)},
            errors=(404,),
        ),
    ]
