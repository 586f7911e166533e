"""Foreign tools, prompts and templates whose definition changed: what the change is, and accepting or refusing it, one
tool or a whole source.

Only an administrator sees the change: a definition that nobody accepted is no text for agents.
Below: `pinning.py`.
"""

from typing import Annotated, Any

from msgspec import Meta, Raw, Struct

from jackfield.catalog.catalog import Catalog, Entry
from jackfield.catalog.kinds import PinnedKind, kind_of, pin_key
from jackfield.catalog.names import shown
from jackfield.catalog.pinning import Difference, Pinning, offered_definition
from jackfield.catalog.records import ToolEntry
from jackfield.errors import NotFound, ToolNotFound
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Request
from jackfield.http.response import Response, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.model.principal import Scope
from jackfield.model.text import Time, iso_time
from jackfield.sources.source_registry import SourceRegistry

Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}(?![\\s\\S])", description="`digest` of the change that was seen")]


class AcceptBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which change is meant. Without a digest: whatever the source offers now."""

    digest: Digest | None = None


class AcceptAllBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which changes are meant, by their `key`; only those are decided. Without: all that are held now and that nobody
    has refused.
    """

    digests: dict[str, Digest] | None = None


class ToolDiff(Struct, frozen=True, kw_only=True):
    """A foreign tool as it is pinned and as its source offers it now, and a unified diff of the two."""

    name: str
    kind: PinnedKind
    key: str
    """What `digests` names it by: a tool's name, `prompt:NAME` or `template:TEMPLATE`."""
    source: str
    held: bool
    digest: str
    pinned: Any
    offered: Any
    diff: str
    refused_by: str | None
    """Who refused what is offered now; null: nobody."""
    refused_at: Time | None


class SourceDiff(Struct, frozen=True, kw_only=True):
    """Every held tool, prompt and template of a source."""

    source: str
    tools: list[ToolDiff]


class AcceptedTool(Struct, frozen=True, kw_only=True):
    """The tool as it is offered now. Not `accepted`: there was nothing to accept."""

    tool: ToolEntry
    accepted: bool


class AcceptedSource(Struct, frozen=True, kw_only=True):
    """What was held until now: tools, the names of prompts, and templates."""

    source: str
    tools: list[ToolEntry]
    prompts: list[str]
    templates: list[str]


class RefusedTool(Struct, frozen=True, kw_only=True):
    """The tool stays held. Not `refused`: there was nothing to refuse."""

    tool: str
    refused: bool


class RefusedSource(Struct, frozen=True, kw_only=True):
    """What stays held: the names of tools and prompts, and templates."""

    source: str
    tools: list[str]
    prompts: list[str]
    templates: list[str]


class _AcceptedTool(Struct, frozen=True, kw_only=True):
    tool: Raw
    accepted: bool


class _AcceptedSource(Struct, frozen=True, kw_only=True):
    source: str
    tools: list[Raw]
    prompts: list[str]
    templates: list[str]


_one = BodyReader(AcceptBody, required=False)
_all = BodyReader(AcceptAllBody, required=False)


class PinsApi:
    """Handlers of changed definitions."""

    def __init__(self, pinning: Pinning, *, catalog: Catalog, sources: SourceRegistry) -> None:
        self._pinning = pinning
        self._catalog = catalog
        self._sources = sources

    async def show_tool_diff(self, request: Request) -> Response:
        """What changed in one tool."""
        return json_response(_told(await self._pinning.difference(self._tool(request))))

    async def accept_tool(self, request: Request) -> Response:
        """Take one tool's new definition."""
        body = await _one.read(request)
        entry = self._tool(request)
        offered_definition(entry)  # a tool that is never pinned is refused
        is_held = entry.name in self._catalog.held
        if is_held:
            seen = {} if body.digest is None else {entry.name: body.digest}
            await self._pinning.accept([entry], seen=seen, accepted_by=request.principal.name)
        [shown_now] = self._manifests([entry])
        return json_response(_AcceptedTool(tool=shown_now, accepted=is_held))

    async def refuse_tool(self, request: Request) -> Response:
        """Leave one tool held, as its source offers it now."""
        body = await _one.read(request)
        entry = self._tool(request)
        offered_definition(entry)
        is_held = entry.name in self._catalog.held
        if is_held:
            seen = {} if body.digest is None else {entry.name: body.digest}
            await self._pinning.refuse([entry], seen=seen, refused_by=request.principal.name)
        return json_response(RefusedTool(tool=entry.name, refused=is_held))

    async def show_source_diff(self, request: Request) -> Response:
        """What changed in the held tools of a source."""
        source = self._source(request)
        tools = [_told(await self._pinning.difference(entry)) for entry in self._held(request, source)]
        return json_response(SourceDiff(source=source, tools=tools))

    async def accept_source(self, request: Request) -> Response:
        """Take the new definitions of a source's held tools, all that are meant or none."""
        body = await _all.read(request)
        source = self._source(request)
        meant = self._meant(request, source, body)
        if meant:
            await self._pinning.accept(meant, seen=body.digests or {}, accepted_by=request.principal.name)
        return json_response(
            _AcceptedSource(
                source=source,
                tools=self._manifests([entry for entry in meant if kind_of(entry.tool) == "tool"]),
                prompts=[entry.name for entry in meant if kind_of(entry.tool) == "prompt"],
                templates=[entry.name for entry in meant if kind_of(entry.tool) == "template"],
            )
        )

    async def refuse_source(self, request: Request) -> Response:
        """Leave a source's held tools held as they are offered now, all that are meant or none."""
        body = await _all.read(request)
        source = self._source(request)
        meant = self._meant(request, source, body)
        if meant:
            await self._pinning.refuse(meant, seen=body.digests or {}, refused_by=request.principal.name)
        return json_response(
            RefusedSource(
                source=source,
                tools=[entry.name for entry in meant if kind_of(entry.tool) == "tool"],
                prompts=[entry.name for entry in meant if kind_of(entry.tool) == "prompt"],
                templates=[entry.name for entry in meant if kind_of(entry.tool) == "template"],
            )
        )

    def _meant(self, request: Request, source: str, body: AcceptAllBody) -> list[Entry]:
        held = self._held(request, source)
        if body.digests is None:
            return [entry for entry in held if not self._catalog.is_refused(entry)]
        return [entry for entry in held if pin_key(entry) in body.digests]

    def _tool(self, request: Request) -> Entry:
        name = request.part("name")
        entry = self._catalog.known(name)
        sight = self._catalog.visibility(request.principal)
        if entry is None or not sight.sees(entry):
            said = f"There is no tool '{shown(name)}'. 'jackfield tools' lists those there are."
            held = (one for one in self._catalog.all_held if one.name == name and sight.sees_pinned(one))
            if (other := next(held, None)) is not None:
                source = other.tool.source
                said = (
                    f"'{shown(name)}' is a {kind_of(other.tool)} of '{source}'. 'jackfield accept {source}' accepts it."
                )
            raise ToolNotFound(said, param="name")
        return entry

    def _source(self, request: Request) -> str:
        name = request.part("name")
        if name not in {status.name for status in self._sources.statuses()} | self._catalog.own_sources:
            raise NotFound(f"There is no source '{shown(name)}'. GET /readyz lists those there are.", param="name")
        return name

    def _held(self, request: Request, source: str) -> list[Entry]:
        sight = self._catalog.visibility(request.principal)
        return [entry for entry in self._catalog.held_of(source) if sight.sees_pinned(entry)]

    def _manifests(self, entries: list[Entry]) -> list[Raw]:
        """The tools as they are offered by now; one that changed again meanwhile, as it was accepted."""
        find = self._catalog.entry
        return [Raw((find(entry.name, source=entry.tool.source) or entry).manifest) for entry in entries]


def _told(change: Difference) -> ToolDiff:
    return ToolDiff(
        name=change.name,
        kind=change.kind,
        key=change.key,
        source=change.source,
        held=change.is_held,
        digest=change.digest,
        pinned=change.pinned,
        offered=change.offered,
        diff=change.diff,
        refused_by=None if change.refused is None else change.refused.refused_by,
        refused_at=None if change.refused is None else iso_time(change.refused.refused_at),
    )


def routes(pinning: Pinning, *, catalog: Catalog, sources: SourceRegistry) -> list[Route]:
    """Every route of changed definitions."""
    api = PinsApi(pinning, catalog=catalog, sources=sources)
    return [
        Route(
            method="GET",
            path="/api/v1/tools/{name}/diff",
            path_takes_slashes=True,
            handler=api.show_tool_diff,
            scope=Scope.ADMIN,
            tag="Tools",
            summary="What changed in a foreign tool since its definition was pinned",
            responses={200: ResponseSpec(description="Both definitions and a unified diff", type=ToolDiff)},
            errors=(404,),
        ),
        Route(
            method="POST",
            path="/api/v1/tools/{name}/accept",
            path_takes_slashes=True,
            handler=api.accept_tool,
            scope=Scope.ADMIN,
            tag="Tools",
            summary="Accept the new definition of a held tool",
            body=AcceptBody,
            body_is_optional=True,
            responses={200: ResponseSpec(description="The tool is offered again", type=AcceptedTool)},
            errors=(404, 409),
        ),
        Route(
            method="POST",
            path="/api/v1/tools/{name}/refuse",
            path_takes_slashes=True,
            handler=api.refuse_tool,
            scope=Scope.ADMIN,
            tag="Tools",
            summary="Refuse the new definition of a held tool",
            body=AcceptBody,
            body_is_optional=True,
            responses={200: ResponseSpec(description="The tool stays held", type=RefusedTool)},
            errors=(404, 409),
        ),
        Route(
            method="GET",
            path="/api/v1/sources/{name}/diff",
            handler=api.show_source_diff,
            scope=Scope.ADMIN,
            tag="Tools",
            summary="What changed in the held tools, prompts and templates of a source",
            responses={200: ResponseSpec(description="One diff for each", type=SourceDiff)},
            errors=(404,),
        ),
        Route(
            method="POST",
            path="/api/v1/sources/{name}/accept",
            handler=api.accept_source,
            scope=Scope.ADMIN,
            tag="Tools",
            summary="Accept the new definitions of a source's held tools, prompts and templates",
            body=AcceptAllBody,
            body_is_optional=True,
            responses={200: ResponseSpec(description="What is offered again", type=AcceptedSource)},
            errors=(404, 409),
        ),
        Route(
            method="POST",
            path="/api/v1/sources/{name}/refuse",
            handler=api.refuse_source,
            scope=Scope.ADMIN,
            tag="Tools",
            summary="Refuse the new definitions of a source's held tools, prompts and templates",
            body=AcceptAllBody,
            body_is_optional=True,
            responses={200: ResponseSpec(description="What stays held", type=RefusedSource)},
            errors=(404, 409),
        ),
    ]
