"""Discovery (seed 004): the manifest, one tool, search. All from the catalog's view of the key, all prepared bytes.

Below: the catalog.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct
from starlette.types import Send

from jackfield.catalog.catalog import Catalog
from jackfield.catalog.groups import Groups
from jackfield.catalog.records import FoundTools, Manifest, ToolEntry
from jackfield.http.request import Request
from jackfield.http.response import (
    JSON,
    BytesResponse,
    EmptyResponse,
    Response,
    encode,
    raw_json_response,
)
from jackfield.http.routing import SSE_MEDIA, HeaderParameter, ResponseSpec, Route, SocketRoute
from jackfield.http.sse import Comment, EventMessage, EventStream
from jackfield.http.streams import GOING_AWAY, next_of, stop
from jackfield.model.principal import Principal
from jackfield.model.trace_context import CLUSTER_HEADER
from jackfield.protocol.manifest import CACHE_HEADERS, etag_matches
from jackfield.store.gateways import Cluster

_CLUSTER_ID = CLUSTER_HEADER.encode()
_CACHE_HEADERS = tuple((name.encode(), value.encode()) for name, value in CACHE_HEADERS)


GroupName = Annotated[str, Meta(min_length=1, max_length=64, description="Only the tools of this group")]


class GroupQuery(Struct, frozen=True, kw_only=True):
    """All tools, or those of one group."""

    group: GroupName | None = None


class SearchQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Words to look for in names, descriptions and tags; no words: the first tools by name."""

    q: Annotated[str, Meta(max_length=1000, description="Words to look for")] = ""
    limit: Annotated[int, Meta(ge=1, le=100, description="How many tools at most")] = 20
    group: GroupName | None = None


class _Found(Struct, frozen=True, kw_only=True):
    query: str
    tools: list[Raw]


class Connected(Struct, frozen=True, kw_only=True):
    """The first message: the catalog's version now."""

    type: Literal["connected"] = "connected"
    version: str


class CatalogChanged(Struct, frozen=True, kw_only=True):
    """Which tools came, went or have another definition; names only."""

    type: Literal["tools.changed"] = "tools.changed"
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    version: str


class CatalogApi:
    """Handlers of discovery."""

    def __init__(self, catalog: Catalog, *, cluster: Cluster, groups: Groups) -> None:
        self._catalog = catalog
        self._cluster = cluster
        self._groups = groups

    async def list_tools(self, request: Request) -> Response:
        """The whole manifest, from cache; 304 when the client has it already."""
        view = self._catalog.view(self._asking(request))
        headers = (*_CACHE_HEADERS, (b"etag", view.etag.encode()), (_CLUSTER_ID, self._cluster.id.encode()))
        if etag_matches(request.header(b"if-none-match"), view.etag):
            return EmptyResponse(304, headers)
        return BytesResponse(200, (JSON, *headers), view.manifest)

    async def search_tools(self, request: Request) -> Response:
        """Ranked matches."""
        wanted = request.query(SearchQuery)
        found = self._catalog.view(self._within(wanted.group, request)).search(wanted.q, limit=wanted.limit)
        return raw_json_response(encode(_Found(query=wanted.q, tools=[Raw(entry.manifest) for entry in found])))

    async def stream_changes(self, request: Request) -> Response:
        """The changes as server-sent events."""
        principal = self._asking(request)

        async def messages() -> AsyncGenerator[EventMessage | Comment]:
            async for body in self._messages(principal):
                yield EventMessage(event=body.type, id=body.version, data=body)

        return EventStream(messages(), streams=request.streams)

    async def show_tool(self, request: Request) -> Response:
        """One tool by its name, or by the name its owner gave it."""
        entry = self._catalog.view(request.principal).get(request.part("name"))
        return raw_json_response(entry.manifest)

    async def socket_changes(self, request: Request, send: Send) -> None:
        """The same messages over WebSocket, one text frame each."""
        principal = self._asking(request)
        if (await request.receive())["type"] != "websocket.connect":
            return
        await send({"type": "websocket.accept", "headers": []})
        messages = self._messages(principal)
        gone = request.streams.watch(request.receive)
        coming = asyncio.ensure_future(next_of(messages))
        try:
            while True:
                await asyncio.wait((coming, gone), return_when=asyncio.FIRST_COMPLETED)
                message = None if gone.done() else coming.result()
                if message is None:
                    break
                await send({"type": "websocket.send", "text": encode(message).decode()})
                coming = asyncio.ensure_future(next_of(messages))
            if (code := request.streams.close_code(gone) if gone.done() else GOING_AWAY) is not None:
                await send({"type": "websocket.close", "code": code})
        finally:
            await stop(coming)
            await request.streams.release(gone)

    def _asking(self, request: Request) -> Principal:
        """Who asks, within the group that the query names, if it names one."""
        return self._within(request.query(GroupQuery).group if request.scope["query_string"] else None, request)

    def _within(self, group: str | None, request: Request) -> Principal:
        return request.principal if group is None else self._groups.narrowed(request.principal, group)

    async def _messages(self, principal: Principal) -> AsyncGenerator[Connected | CatalogChanged]:
        changes = self._catalog.follow(principal)
        yield Connected(version=self._catalog.version)
        async for change in changes:
            yield CatalogChanged(
                added=change.added, removed=change.removed, changed=change.changed, version=change.version
            )


def routes(
    catalog: Catalog, *, cluster: Cluster, groups: Groups, preferences: Sequence[Route], pins: Sequence[Route]
) -> list[Route]:
    """Every route of discovery, with those of preferences and pins, whose paths come before `/tools/{name}`."""
    api = CatalogApi(catalog, cluster=cluster, groups=groups)
    return [
        Route(
            method="GET",
            path="/api/v1/tools",
            handler=api.list_tools,
            for_sessions=True,
            is_discovery=True,
            tag="Tools",
            summary="The manifest of all tools that the key may see",
            query=GroupQuery,
            headers=(HeaderParameter(name="If-None-Match", description="The ETag of the manifest that you have"),),
            responses={
                200: ResponseSpec(
                    description="The manifest", type=Manifest, headers={"ETag": "Changes with any definition"}
                ),
                304: ResponseSpec(description="You have it"),
            },
            errors=(404,),
        ),
        Route(
            method="GET",
            path="/api/v1/tools/search",
            handler=api.search_tools,
            for_sessions=True,
            is_discovery=True,
            tag="Tools",
            summary="Find tools by words",
            query=SearchQuery,
            responses={200: ResponseSpec(description="The best matches first", type=FoundTools)},
            errors=(404,),
        ),
        Route(
            method="GET",
            path="/api/v1/tools/changes",
            handler=api.stream_changes,
            for_sessions=True,
            is_discovery=True,
            tag="Tools",
            summary="Changes of the catalog, live (also as WebSocket)",
            query=GroupQuery,
            responses={200: ResponseSpec(description="`connected`, then `tools.changed` events", media=SSE_MEDIA)},
            errors=(404,),
        ),
        *preferences,
        *pins,
        Route(
            method="GET",
            path="/api/v1/tools/{name}",
            path_takes_slashes=True,
            handler=api.show_tool,
            for_sessions=True,
            is_discovery=True,
            tag="Tools",
            summary="One tool",
            responses={200: ResponseSpec(description="The tool", type=ToolEntry)},
            errors=(404,),
        ),
    ]


def sockets(catalog: Catalog, *, cluster: Cluster, groups: Groups) -> list[SocketRoute]:
    """Changes of the catalog over WebSocket."""
    api = CatalogApi(catalog, cluster=cluster, groups=groups)
    return [SocketRoute(path="/api/v1/tools/changes", handler=api.socket_changes, for_sessions=True, is_discovery=True)]
