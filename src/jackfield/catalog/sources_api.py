"""The sources of tools, for whoever runs the gateway: how each is, since when, and what it said last.

Above: `routes_sources.py`. Below: the gateway's statuses and the catalog.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from jackfield.catalog.catalog import Catalog
from jackfield.catalog.merge import merge
from jackfield.catalog.stored_tools import StoredTools
from jackfield.errors import BadRequest, NotFound
from jackfield.http.bodies import read_object
from jackfield.http.request import Request
from jackfield.http.response import EmptyResponse, Response, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.identity.keys_api import require_unlimited
from jackfield.model.principal import Scope
from jackfield.model.text import Time, iso_time
from jackfield.settings.tools import RESERVED_SOURCES, SourceSettings, is_source_name
from jackfield.sources.base import Source
from jackfield.sources.run_time import RunTimeSources
from jackfield.sources.supervisor import SourceState, SourceStatus
from jackfield.sources.trial import try_source

SourceName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=32,
        pattern="^[A-Za-z0-9_-]+(?![\\s\\S])",
        description="1 to 32 letters, digits, '_' or '-'",
    ),
]


class TestedTool(Struct, frozen=True, kw_only=True):
    """A tool as the catalog would show it, unless another source has its name."""

    name: str
    description: str


class SourceRecord(Struct, frozen=True, kw_only=True):
    """One source. `faulty`: up, but a part of it is broken; `stderr`: the newest 50 lines of its process, or of
    requests that failed, without secrets; `origin`: the config, the API (made here, or declared by a tool server), or
    the gateway itself.
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
    listed_at: Time | None
    """When its tools were last read."""
    reconnects: int
    """How often it came up again after it was down."""
    settings: dict[str, Any] | None = None
    """Of a source that was made here: what was given, with `${NAME}` for secrets. Values of `headers`, `env` and
    `oauth` that name no secret are left out."""


class SourceList(Struct, frozen=True, kw_only=True):
    """Every source, in the config's order."""

    sources: list[SourceRecord]


class OneSource(Struct, frozen=True, kw_only=True):
    """A source in its envelope."""

    source: SourceRecord


class SourceBody(Struct, frozen=True, kw_only=True):
    """A source, with the same fields as `[sources.NAME]` in the config beside its name."""

    name: SourceName
    kind: str


class SourceTest(Struct, frozen=True, kw_only=True):
    """What a source would offer, if it was kept. `ok`: it came up and was listed."""

    ok: bool
    error: str | None
    tools: list[TestedTool]
    resources: int
    prompts: int
    faults: list[str]
    stderr: tuple[str, ...]


class Restarting(Struct, frozen=True, kw_only=True):
    """It begins anew at every gateway."""

    restarting: str


class SourceApi:
    """Handlers of `/api/v1/sources`."""

    def __init__(
        self,
        catalog: Catalog,
        stored_tools: StoredTools,
        *,
        run_time: RunTimeSources,
        statuses: Callable[[], list[SourceStatus]],
        take_listings: Callable[[], Awaitable[None]],
        redact: Callable[[str], str],
    ) -> None:
        """`take_listings` has the catalog show what the sources list now."""
        self._catalog = catalog
        self._stored_tools = stored_tools
        self._run_time = run_time
        self._statuses = statuses
        self._take_listings = take_listings
        self._redact = redact

    async def list_sources(self, request: Request) -> Response:
        """Every source as it is now."""
        return json_response(SourceList(sources=[self._record(request, status) for status in self._statuses()]))

    async def show_source(self, request: Request) -> Response:
        """One source as it is now."""
        return json_response(OneSource(source=self._shown(request, request.part("name"))))

    async def create_source(self, request: Request) -> Response:
        """Make a source; it comes up at every gateway."""
        name, raw = _named(await read_object(request))
        require_unlimited(request.principal)
        await self._run_time.create(name, raw, created_by=request.principal.name)
        await self._come_up(name)
        return json_response(OneSource(source=self._shown(request, name)), status=201)

    async def change_source(self, request: Request) -> Response:
        """Change some fields of a source, as a JSON merge patch does; null removes one."""
        name, patch = request.part("name"), await read_object(request)
        require_unlimited(request.principal)
        if patch.pop("name", name) != name:
            raise BadRequest("A source keeps its name. Leave the name out, or make another source.", param="name")
        await self._run_time.change(name, patch, by=request.principal.name)
        await self._come_up(name)
        return json_response(OneSource(source=self._shown(request, name)))

    async def remove_source(self, request: Request) -> Response:
        """Forget a source; its tools are gone at every gateway."""
        require_unlimited(request.principal)
        await self._run_time.remove(request.part("name"), by=request.principal.name)
        await self._take_listings()
        return EmptyResponse(204)

    async def restart_source(self, request: Request) -> Response:
        """Close a source and open it again."""
        require_unlimited(request.principal)
        name = request.part("name")
        await self._run_time.restart(name, by=request.principal.name)
        return json_response(Restarting(restarting=name), status=202)

    async def test_source(self, request: Request) -> Response:
        """Connect to a source there is a second time, and list it."""
        require_unlimited(request.principal)
        source, settings = self._run_time.made_again(request.part("name"))
        return await self._tested(request, source, settings)

    async def test_new_source(self, request: Request) -> Response:
        """Connect to a source that is not kept, and list it."""
        body = await read_object(request)
        require_unlimited(request.principal)
        name, raw = _named({"name": "test", **body})
        source, settings = self._run_time.made_for_test(name, raw)
        return await self._tested(request, source, settings)

    async def _come_up(self, name: str) -> None:
        """Wait until the source has, or has failed, but not for long; then the catalog has its tools."""
        await self._run_time.settled(name)
        await self._take_listings()

    async def _tested(self, request: Request, source: Source, settings: SourceSettings) -> Response:
        tried = await try_source(source)
        merged = merge(
            [(settings.name, tried.listing)], {settings.name: settings.tools}, (), prefixes=_prefix(settings)
        )

        def clean(text: str) -> str:
            return self._redact(request.sanitizer.for_admins(text))

        return json_response(
            SourceTest(
                ok=tried.error is None,
                error=None if tried.error is None else clean(tried.error),
                tools=[
                    TestedTool(name=entry.name, description=clean(entry.tool.description)) for entry in merged.entries
                ],
                resources=len(tried.listing.resources),
                prompts=len(tried.listing.prompts),
                faults=[clean(fault) for fault in (*tried.listing.faults, *(one.message for one in merged.notices))],
                stderr=tuple(clean(line) for line in tried.last_words),
            )
        )

    def _shown(self, request: Request, name: str) -> SourceRecord:
        statuses = self._statuses()
        for status in statuses:
            if status.name == name:
                return self._record(request, status)
        known = ", ".join(status.name for status in statuses) or "none"
        raise NotFound(f"There is no source '{name[:100]}'. Sources: {known}.", param="name")

    def _record(self, request: Request, status: SourceStatus) -> SourceRecord:
        def clean(text: str) -> str:
            return self._redact(request.sanitizer.for_admins(text))

        note = self._run_time.note_on(status.name)
        names = sorted(e.name for e in self._catalog.view(request.principal).entries if e.tool.source == status.name)
        return SourceRecord(
            name=status.name,
            kind=status.kind,
            origin=self._origin(status.name),
            status=status.status,
            error=None if status.error is None else clean(status.error),
            doing=None if status.doing is None else clean(status.doing),
            stderr=tuple(map(clean, status.last_words)),
            faults=tuple(map(clean, (*status.faults, *([] if note is None else [note])))),
            tools=names,
            prompts=[e.name for e in self._catalog.prompts(request.principal).entries if e.tool.source == status.name],
            resources=status.resources,
            templates=status.templates,
            calls=status.calls,
            since=None if status.since is None else iso_time(status.since),
            checked_at=None if status.checked_at is None else iso_time(status.checked_at),
            listed_at=None if status.listed_at is None else iso_time(status.listed_at),
            reconnects=status.reconnects,
            settings=self._run_time.settings_of(status.name) if note is None else None,
        )

    def _origin(self, name: str) -> Literal["config", "api", "builtin"]:
        if self._run_time.is_configured(name):
            return "config"
        return "api" if name in self._run_time.all or name in self._stored_tools.declared else "builtin"


def _named(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name of a source, and its other fields."""
    raw = dict(body)
    name = raw.pop("name", None)
    if not isinstance(name, str) or not is_source_name(name) or name in RESERVED_SOURCES:
        raise BadRequest(
            "A source needs a name of 1 to 32 letters, digits, '_' or '-' that is not reserved. Give another one.",
            param="name",
        )
    return name, {key: value for key, value in raw.items() if value is not None}


def _prefix(settings: SourceSettings) -> dict[str, str]:
    return {settings.name: settings.prefix} if settings.prefix else {}


def routes(
    catalog: Catalog,
    stored_tools: StoredTools,
    *,
    run_time: RunTimeSources,
    statuses: Callable[[], list[SourceStatus]],
    take_listings: Callable[[], Awaitable[None]],
    redact: Callable[[str], str],
) -> list[Route]:
    """Every route of sources."""
    api = SourceApi(
        catalog, stored_tools, run_time=run_time, statuses=statuses, take_listings=take_listings, redact=redact
    )
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
        *_changing_routes(api),
    ]


def _changing_routes(api: SourceApi) -> list[Route]:
    one = ResponseSpec(description="The source as it is now", type=OneSource)
    return [
        Route(
            method="POST",
            path="/api/v1/sources",
            handler=api.create_source,
            scope=Scope.ADMIN,
            tag="Sources",
            summary="Make a source, with the fields of `[sources.NAME]` in the config; it comes up at every gateway",
            body=SourceBody,
            responses={201: one},
            errors=(409,),
        ),
        Route(
            method="POST",
            path="/api/v1/sources/test",
            handler=api.test_new_source,
            scope=Scope.ADMIN,
            tag="Sources",
            summary="Connect to a source and say what it would offer; nothing is kept",
            body=SourceBody,
            responses={200: ResponseSpec(description="What it would offer, or why not", type=SourceTest)},
        ),
        Route(
            method="PATCH",
            path="/api/v1/sources/{name}",
            handler=api.change_source,
            scope=Scope.ADMIN,
            tag="Sources",
            summary="Change fields of a source that was made here, as a JSON merge patch does; null removes one",
            body=dict[str, Any],
            responses={200: one},
            errors=(404, 409),
        ),
        Route(
            method="DELETE",
            path="/api/v1/sources/{name}",
            handler=api.remove_source,
            scope=Scope.ADMIN,
            tag="Sources",
            summary="Remove a source that was made here; its tools are gone, and their names are free",
            responses={204: ResponseSpec(description="It is gone")},
            errors=(404, 409),
        ),
        Route(
            method="POST",
            path="/api/v1/sources/{name}/restart",
            handler=api.restart_source,
            scope=Scope.ADMIN,
            tag="Sources",
            summary="Close a source and open it again, at every gateway; calls that run there fail",
            responses={202: ResponseSpec(description="It begins anew", type=Restarting)},
            errors=(404,),
        ),
        Route(
            method="POST",
            path="/api/v1/sources/{name}/test",
            handler=api.test_source,
            scope=Scope.ADMIN,
            tag="Sources",
            summary="Connect to a source a second time and say what it offers; nothing is kept",
            responses={200: ResponseSpec(description="What it offers, or why not", type=SourceTest)},
            errors=(404,),
        ),
    ]
