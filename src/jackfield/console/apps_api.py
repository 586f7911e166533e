"""Apps of tools (MCP Apps): which tools have one, its page, the calls that it makes, and the frame it is shown in.

Above: the URL map. Below: the catalog and the pipeline. The page is read from the tool's own source, as every resource
is. What an app calls are tools of that source, in the name of the person who looks at it: the same pipeline, limits and
approvals as if that person had called them.
"""

import base64
import binascii
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from jackfield.calls.pipeline import Pipeline
from jackfield.calls.reading import reading_request, what_was_read
from jackfield.calls.records import ExecuteAnswer, execute_answer
from jackfield.calls.requests import CallRequest
from jackfield.catalog.catalog import Catalog, Entry
from jackfield.catalog.resources import LONGEST_URI
from jackfield.console.app_frame import FRAME, Domains, allowed_domains, declared_domains, policy
from jackfield.errors import Forbidden, NotFound, Refused, ToolNotFound, UpstreamFailed
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Request
from jackfield.http.response import BytesResponse, Response, encode, json_response, raw_json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.model.call import CallStatus
from jackfield.model.principal import Principal, Scope
from jackfield.model.resource import qualified
from jackfield.protocol.mcp import APP_TYPE

LARGEST_PAGE = 5 * 1024 * 1024
"""Characters of an app's page."""
_Sources = Annotated[str, Meta(max_length=6_000)]


class AppOfTool(Struct, frozen=True, kw_only=True):
    """A tool whose calls are shown by an app."""

    tool: str
    uri: str


class AppList(Struct, frozen=True, kw_only=True):
    """The tools with an app, by name."""

    apps: list[AppOfTool]


class AppDomains(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the app may reach."""

    connect_domains: list[str]
    resource_domains: list[str]
    frame_domains: list[str]
    base_uri_domains: list[str]


class App(Struct, frozen=True, kw_only=True):
    """A tool's app, ready to be shown."""

    tool: str
    own_name: str
    """The tool's name at its server, which is the one the app knows."""
    source: str
    uri: str
    html: str
    """Foreign: for the frame alone."""
    frame: str
    """The path of the page to show it in."""
    input_schema: dict[str, Any] = field(name="inputSchema")
    csp: AppDomains
    refused: list[str]
    """What it declares and may not reach."""
    prefers_border: bool | None = field(name="prefersBorder")


class AppCallBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool of the app's own source, by the name that its server gives it, and the arguments."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    arguments: dict[str, Any] = {}


class AppReadQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A resource of the app's own source."""

    uri: Annotated[str, Meta(min_length=1, max_length=LONGEST_URI)]


class FrameQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the app in the frame may reach, each a list with spaces between."""

    connect: _Sources = ""
    resource: _Sources = ""
    frame: _Sources = ""
    base: _Sources = ""


class AppContents(Struct, frozen=True, kw_only=True):
    """What was read (MCP): parts with `uri`, `mimeType` and either `text` or `blob`, which is base64."""

    contents: list[dict[str, Any]]


class _Part(Struct):
    mime_type: str = field(default="", name="mimeType")
    text: str | None = None
    blob: str | None = None
    meta: dict[str, Any] = field(default={}, name="_meta")


class _Read(Struct):
    contents: list[_Part]


_call_body = BodyReader(AppCallBody)


class AppsApi:
    """Handlers of `/api/v1/apps` and of the frame."""

    def __init__(self, pipeline: Pipeline, *, catalog: Catalog, url: str) -> None:
        self._pipeline = pipeline
        self._catalog = catalog
        self._url = url

    async def list_apps(self, request: Request) -> Response:
        """The tools that have an app, of those that the key sees."""
        found = self._catalog.view(request.principal).entries
        shown = [AppOfTool(tool=one.name, uri=one.tool.app_uri) for one in found if one.tool.app_uri is not None]
        return json_response(AppList(apps=shown))

    async def show_app(self, request: Request) -> Response:
        """The app of one tool, read from its source."""
        entry, uri = self._app_in(request)
        read = await self._read(entry, uri, request.principal)
        part = next((one for one in read.contents if one.mime_type.replace(" ", "") == APP_TYPE), None)
        if part is None:
            raise UpstreamFailed(
                f"The app of '{entry.name}' is no page of the type {APP_TYPE}. Its server has to mend that.",
                upstream_code="bad_app",
            )
        ui = part.meta.get("ui")
        said = ui if isinstance(ui, dict) else {}
        domains = declared_domains(said.get("csp"), own_url=self._url)
        border = said.get("prefersBorder")
        return json_response(
            App(
                tool=entry.name,
                own_name=entry.tool.name,
                source=entry.tool.source,
                uri=uri,
                html=_html(part, entry),
                frame=domains.address,
                input_schema=entry.tool.input_schema,
                csp=_shown(domains),
                refused=list(domains.refused),
                prefers_border=border if isinstance(border, bool) else None,
            )
        )

    async def read_for_app(self, request: Request) -> Response:
        """A resource of the app's own source, as the app asks for it."""
        entry, _ = self._app_in(request)
        result = await self._whole(entry, request.query(AppReadQuery).uri, request.principal)
        return json_response({"contents": msgspec.json.decode(result).get("contents", [])})

    async def call_for_app(self, request: Request) -> Response:
        """Call a tool of the app's own source, in the name of who looks at the app."""
        body = await _call_body.read(request)
        entry, _ = self._app_in(request)
        try:
            called = self._tool_of_app(entry, body.name, request.principal)
        except Refused as refusal:
            refused = CallRequest(tool=body.name[:255], arguments=body.arguments, principal=request.principal)
            await self._pipeline.refused(refused, refusal)
            raise
        call = await self._pipeline.call(
            CallRequest(
                tool=called.name,
                arguments=body.arguments,
                principal=request.principal,
                over_http=True,
                client_gone=request.client_gone,
                takes_pending=True,
            )
        )
        waits = call.status is CallStatus.PENDING_LOGIN
        login = self._pipeline.login_url(call, principal=request.principal) if waits else None
        answer = execute_answer(call) if login is None else execute_answer(call, login_url=login)
        return raw_json_response(encode(answer), status=200 if answer.status.is_final else 202)

    async def show_frame(self, request: Request) -> Response:
        """The page that an app is shown in, with the policy of that app."""
        asked = request.query(FrameQuery)
        wanted = {"connect": asked.connect, "resource": asked.resource, "frame": asked.frame, "base": asked.base}
        domains = allowed_domains({kind: said.split() for kind, said in wanted.items()}, own_url=self._url)
        headers = (
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-security-policy", policy(domains).encode()),
            (b"permissions-policy", _NO_FEATURES),
            (b"referrer-policy", b"no-referrer"),
            (b"x-dns-prefetch-control", b"off"),
            (b"cache-control", b"no-cache"),
        )
        return BytesResponse(200, headers, _frame())

    def _app_in(self, request: Request) -> tuple[Entry, str]:
        """The tool that the path names, and the resource that is its app."""
        entry = self._catalog.view(request.principal).get(request.part("tool"))
        uri = entry.tool.app_uri
        if uri is None:
            raise NotFound(f"Tool '{entry.name}' has no app. GET /api/v1/apps lists the tools that have.", param="tool")
        return entry, uri

    def _tool_of_app(self, app: Entry, name: str, principal: Principal) -> Entry:
        """The tool that an app means by the name its server gives it. Tools of other sources are not an app's."""
        of_source = [one for one in self._catalog.view(principal).entries if one.tool.source == app.tool.source]
        found = next((one for one in of_source if one.tool.name == name), None)
        found = found or next((one for one in of_source if one.name == name), None)
        if found is None:
            raise ToolNotFound(f"Source '{app.tool.source}' has no tool '{name[:100]}' that you may use in its apps.")
        if not found.tool.is_for_apps:
            raise Forbidden(f"Tool '{found.name}' is for models only: its server does not let apps call it.")
        return found

    async def _read(self, entry: Entry, uri: str, principal: Principal) -> _Read:
        result = await self._whole(entry, uri, principal)
        try:
            return msgspec.json.decode(result, type=_Read)
        except msgspec.ValidationError as fault:
            raise UpstreamFailed(
                f"The app of '{entry.name}' cannot be read: {fault}.", upstream_code="bad_app"
            ) from None

    async def _whole(self, entry: Entry, uri: str, principal: Principal) -> msgspec.Raw:
        """What the tool's source has at this URI."""
        found = self._catalog.resources(principal).find(qualified(entry.tool.source, uri))
        call = await self._pipeline.call(reading_request(found, {"uri": uri}, principal=principal))
        if call.status is not CallStatus.COMPLETED:
            said = "nobody has answered" if call.error is None else call.error.message
            code = None if call.error is None else call.error.code
            raise UpstreamFailed(
                f"'{uri[:200]}' of source '{entry.tool.source}' cannot be read: {said}", upstream_code=code
            )
        return await what_was_read(self._pipeline, call, found)


def routes(pipeline: Pipeline, *, catalog: Catalog, url: str) -> list[Route]:
    """Every route of apps."""
    api = AppsApi(pipeline, catalog=catalog, url=url)
    return [
        Route(
            method="GET",
            path="/api/v1/apps",
            handler=api.list_apps,
            tag="Apps",
            summary="The tools whose calls are shown by an app",
            responses={200: ResponseSpec(description="The tools, by name", type=AppList)},
        ),
        Route(
            method="GET",
            path="/api/v1/apps/{tool}",
            handler=api.show_app,
            tag="Apps",
            summary="The app of a tool, read from its source",
            responses={200: ResponseSpec(description="The app's page and what it may reach", type=App)},
            errors=(404, 409, 502),
        ),
        Route(
            method="GET",
            path="/api/v1/apps/{tool}/resource",
            handler=api.read_for_app,
            tag="Apps",
            summary="Read a resource of an app's own source",
            query=AppReadQuery,
            responses={200: ResponseSpec(description="What was read", type=AppContents)},
            errors=(404, 409, 502),
        ),
        Route(
            method="POST",
            path="/api/v1/apps/{tool}/calls",
            handler=api.call_for_app,
            scope=Scope.CALL,
            tag="Apps",
            summary="Call a tool of an app's own source, as the app asks for it",
            body=AppCallBody,
            responses={
                200: ResponseSpec(description="The call is settled; a failed one too", type=ExecuteAnswer),
                202: ResponseSpec(
                    description="Somebody else has to answer or approve first, or to log in", type=ExecuteAnswer
                ),
            },
            errors=(404, 409, 429),
        ),
        Route(
            method="GET",
            path="/apps/frame",
            handler=api.show_frame,
            scope=None,
            tag="Apps",
            summary="The frame that an app is shown in",
            is_page=True,
            query=FrameQuery,
            responses={200: ResponseSpec(description="The page", media="text/html")},
        ),
    ]


_NO_FEATURES = b"camera=(), microphone=(), geolocation=(), clipboard-read=(), clipboard-write=(), payment=(), usb=()"


@cache
def _frame() -> bytes:
    return (files("jackfield.console") / "static" / FRAME).read_bytes()


def _html(part: _Part, entry: Entry) -> str:
    try:
        html = part.text if part.text is not None else base64.b64decode(part.blob or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise UpstreamFailed(f"The app of '{entry.name}' is not UTF-8 in base64.", upstream_code="bad_app") from None
    if len(html) > LARGEST_PAGE:
        said = f"The app of '{entry.name}' has {len(html):,} characters; {LARGEST_PAGE:,} are allowed."
        raise UpstreamFailed(said, upstream_code="bad_app")
    return html


def _shown(domains: Domains) -> AppDomains:
    return AppDomains(
        connect_domains=list(domains.connect),
        resource_domains=list(domains.resource),
        frame_domains=list(domains.frame),
        base_uri_domains=list(domains.base),
    )
