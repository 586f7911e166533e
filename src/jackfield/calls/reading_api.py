"""Resources and prompts over HTTP: lists from the catalog, reads and gets through the pipeline.

Below: the catalog's views, and `reading.py`, which `/mcp` uses too. A server's error is an error here, in its words.
"""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from jackfield.calls.pipeline import Pipeline
from jackfield.calls.reading import reading_request, server_error, what_was_read
from jackfield.calls.records import ExecuteAnswer, execute_answer
from jackfield.calls.requests import CallRequest
from jackfield.calls.telemetry import continue_trace_context
from jackfield.catalog.catalog import Catalog, Entry
from jackfield.catalog.groups import Groups
from jackfield.catalog.resources import LONGEST_URI
from jackfield.errors import (
    Conflict,
    InvalidArguments,
    PromptNotFound,
    Refused,
    ResourceNotFound,
    ToolNotFound,
    UpstreamFailed,
)
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Request
from jackfield.http.response import Response, encode, json_response, raw_json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.model.call import Call, CallStatus
from jackfield.model.principal import Principal
from jackfield.model.tool import CallKind
from jackfield.protocol.jsonrpc import INVALID_PARAMS
from jackfield.protocol.mcp import RESOURCE_NOT_FOUND
from jackfield.store.gateways import Cluster

PAGE = 1_000
DEFAULT_PAGE = 100
Uri = Annotated[str, Meta(min_length=1, max_length=LONGEST_URI)]
_CALL_ID = {"X-Call-Id": "The id of the call on record"}
GroupName = Annotated[str, Meta(min_length=1, max_length=64, description="Only what this group has")]
_NOT_THERE = frozenset({RESOURCE_NOT_FOUND, INVALID_PARAMS})


class ResourcesQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page of the resources."""

    limit: Annotated[int, Meta(ge=1, le=PAGE, description="How many resources at most")] = DEFAULT_PAGE
    cursor: Annotated[Uri, Meta(description="The `next_cursor` of the page before")] | None = None
    group: GroupName | None = None


class ReadQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to read."""

    uri: Annotated[Uri, Meta(description="The URI of a listed resource, or one that a template allows")]
    group: GroupName | None = None


class GroupQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of them, or those of one group."""

    group: GroupName | None = None


class PromptBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The prompt's arguments, which are strings."""

    arguments: dict[str, Any] = {}


class ResourceEntry(Struct, frozen=True, kw_only=True):
    """A resource as its source lists it, with the URI that it is read by here."""

    uri: str
    source: str
    name: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    mime_type: str | UnsetType = field(default=UNSET, name="mimeType")
    size: float | UnsetType = UNSET
    """In bytes."""


class ResourcePage(Struct, frozen=True, kw_only=True):
    """Resources, by URI. `next_cursor` is where the next page begins; null: this was the last."""

    resources: list[ResourceEntry]
    next_cursor: str | None


class TemplateEntry(Struct, frozen=True, kw_only=True):
    """A template of resources (RFC 6570) as its source lists it."""

    uri_template: str = field(name="uriTemplate")
    source: str
    name: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    mime_type: str | UnsetType = field(default=UNSET, name="mimeType")


class TemplateList(Struct, frozen=True, kw_only=True):
    """Every template."""

    resource_templates: list[TemplateEntry] = field(name="resourceTemplates")


class PromptArgument(Struct, frozen=True, kw_only=True):
    """An argument of a prompt."""

    name: str
    description: str | UnsetType = UNSET
    required: bool | UnsetType = UNSET


class PromptEntry(Struct, frozen=True, kw_only=True):
    """A prompt as its source lists it, under its public name."""

    name: str
    source: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    arguments: list[PromptArgument] | UnsetType = UNSET


class PromptList(Struct, frozen=True, kw_only=True):
    """Every prompt, by name."""

    prompts: list[PromptEntry]


class ResourceContents(Struct, frozen=True, kw_only=True):
    """What was read (MCP): parts with `uri`, `mimeType` and either `text` or `blob`, which is base64."""

    contents: list[dict[str, Any]]


class PromptMessages(Struct, frozen=True, kw_only=True):
    """What the prompt says (MCP): messages with `role` and `content`."""

    messages: list[dict[str, Any]]
    description: str | UnsetType = UNSET


class _Page(Struct, frozen=True, kw_only=True):
    resources: list[dict[str, Any]]
    next_cursor: str | None


class _Contents(Struct, frozen=True, kw_only=True):
    """Without what is for caches of MCP clients."""

    contents: Raw
    meta: Raw | UnsetType = field(default=UNSET, name="_meta")


_prompt_body = BodyReader(PromptBody, required=False)


class ReadingApi:
    """Handlers of resources and prompts."""

    def __init__(self, pipeline: Pipeline, *, catalog: Catalog, cluster: Cluster, groups: Groups) -> None:
        self._pipeline = pipeline
        self._catalog = catalog
        self._cluster = cluster
        self._groups = groups

    async def list_resources(self, request: Request) -> Response:
        """A page of the resources that the key sees."""
        wanted = request.query(ResourcesQuery)
        found, last = self._catalog.resources(self._within(wanted.group, request)).page(
            wanted.cursor, size=wanted.limit
        )
        listed = [{**one.listed, "uri": one.uri, "source": one.source} for one in found]
        return json_response(_Page(resources=listed, next_cursor=last))

    async def list_resource_templates(self, request: Request) -> Response:
        """The templates that the key sees."""
        principal = self._within(request.query(GroupQuery).group, request)
        templates = self._catalog.resources(principal).templates
        listed = [{**one.tool.listed, "uriTemplate": one.template, "source": one.source} for one in templates]
        return json_response({"resourceTemplates": listed})

    async def list_prompts(self, request: Request) -> Response:
        """The prompts that the key sees."""
        principal = self._within(request.query(GroupQuery).group, request)
        entries = self._catalog.prompts(principal).entries
        listed = [{**one.tool.listed, "name": one.name, "source": one.tool.source} for one in entries]
        return json_response({"prompts": listed})

    async def read_resource(self, request: Request) -> Response:
        """Read one resource."""
        wanted = request.query(ReadQuery)
        principal = self._within(wanted.group, request)
        try:
            entry = self._catalog.resources(principal).find(wanted.uri)
        except Refused as refusal:
            await self._refused(wanted.uri, {"uri": wanted.uri}, refusal, principal, kind=CallKind.RESOURCE)
            raise
        called = reading_request(entry, {"uri": wanted.uri}, principal=principal)
        return await self._call(request, entry, called, asked=wanted.uri)

    async def get_prompt(self, request: Request) -> Response:
        """Get one prompt, with its arguments filled in."""
        body = await _prompt_body.read(request)
        principal = self._within(request.query(GroupQuery).group, request)
        name = request.part("name")
        try:
            entry = self._catalog.prompts(principal).get(name)
        except Refused as refusal:
            await self._refused(name, body.arguments, refusal, principal, kind=CallKind.PROMPT)
            raise
        return await self._call(request, entry, reading_request(entry, body.arguments, principal=principal))

    async def _refused(
        self, name: str, arguments: dict[str, Any], refusal: Refused, principal: Principal, *, kind: CallKind
    ) -> None:
        """Put on record what was refused before it came to a call."""
        request = CallRequest(tool=name, arguments=arguments, principal=principal, kind=kind)
        await self._pipeline.refused(request, refusal)

    def _within(self, group: str | None, request: Request) -> Principal:
        """Who asks, within the group that the query names, if it names one."""
        return request.principal if group is None else self._groups.narrowed(request.principal, group)

    async def _call(self, request: Request, entry: Entry, called: CallRequest, *, asked: str | None = None) -> Response:
        within = continue_trace_context(request.headers, cluster_id=self._cluster.id, tool=entry.name)
        wanted = msgspec.structs.replace(
            called,
            over_http=False,  # nothing of it is for an inbox: who wants it still reads again
            within_ms=within,
            takes_pending=True,
        )
        try:
            call = await self._pipeline.call(wanted)
        except ToolNotFound as gone:  # the source has listed anew meanwhile
            raise PromptNotFound(gone.message) from None
        headers = ((b"x-call-id", call.id.encode()),)
        if not call.status.is_final:
            return raw_json_response(encode(execute_answer(call)), status=202, headers=headers)
        if call.status is not CallStatus.COMPLETED:
            hint = "" if asked is None else self._catalog.resources(called.principal).hint(asked)
            raise _failure(call, entry, asked=asked, hint=hint)
        result = await what_was_read(self._pipeline, call, entry, asked=asked)
        if asked is not None:
            result = Raw(encode(msgspec.json.decode(result, type=_Contents)))
        return raw_json_response(bytes(result), headers=headers)


def _failure(call: Call, entry: Entry, *, asked: str | None, hint: str) -> Refused:
    """What a call that did not complete is told as."""
    source = entry.tool.source
    subject = f"prompt '{entry.name}'" if asked is None else f"resource '{asked[:200]}'"
    if call.status is CallStatus.CANCELLED:
        return Conflict(f"The call that asked for {subject} was cancelled. Ask again if it is still wanted.")
    assert call.error is not None
    said = server_error(call.result)
    words = f"Source '{source}' could not give {subject}: {call.error.message}"
    words = words if words.endswith((".", "!", "?")) else f"{words}."
    if said is not None and entry.tool.operation is CallKind.RESOURCE and said.code in _NOT_THERE:
        return ResourceNotFound(f"{words}{hint} List the resources to see what can be read.", param="uri")
    if said is not None and said.code == INVALID_PARAMS:
        return InvalidArguments(f"{words} GET /api/v1/prompts lists each prompt's arguments.", details=[])
    return UpstreamFailed(f"{words} The call's record is {call.id}.", upstream_code=call.error.code)


def routes(pipeline: Pipeline, *, catalog: Catalog, cluster: Cluster, groups: Groups) -> list[Route]:
    """Every route of resources and prompts."""
    api = ReadingApi(pipeline, catalog=catalog, cluster=cluster, groups=groups)
    pending = ResponseSpec(description="Somebody else has to answer first", type=ExecuteAnswer, headers=_CALL_ID)
    return [
        Route(
            method="GET",
            path="/api/v1/resources",
            handler=api.list_resources,
            tag="Resources and prompts",
            summary="The resources that the key may read, page by page",
            query=ResourcesQuery,
            responses={200: ResponseSpec(description="A page of resources", type=ResourcePage)},
            errors=(404,),
        ),
        Route(
            method="GET",
            path="/api/v1/resources/templates",
            handler=api.list_resource_templates,
            tag="Resources and prompts",
            summary="The templates of resources",
            query=GroupQuery,
            responses={200: ResponseSpec(description="Every template", type=TemplateList)},
            errors=(404,),
        ),
        Route(
            method="GET",
            path="/api/v1/resources/read",
            handler=api.read_resource,
            tag="Resources and prompts",
            summary="Read a resource",
            query=ReadQuery,
            responses={
                200: ResponseSpec(description="What was read, whole", type=ResourceContents, headers=_CALL_ID),
                202: pending,
            },
            errors=(404, 409, 502),
        ),
        Route(
            method="GET",
            path="/api/v1/prompts",
            handler=api.list_prompts,
            tag="Resources and prompts",
            summary="The prompts that the key may get",
            query=GroupQuery,
            responses={200: ResponseSpec(description="Every prompt", type=PromptList)},
            errors=(404,),
        ),
        Route(
            method="POST",
            path="/api/v1/prompts/{name}",
            path_takes_slashes=True,
            handler=api.get_prompt,
            tag="Resources and prompts",
            summary="Get a prompt, with its arguments filled in",
            query=GroupQuery,
            body=PromptBody,
            body_is_optional=True,
            responses={
                200: ResponseSpec(description="The prompt's messages", type=PromptMessages, headers=_CALL_ID),
                202: pending,
            },
            errors=(404, 409, 502),
        ),
    ]
