"""Discovery (seed 004): the manifest, one tool, search. All from the catalog's view of the key, all prepared bytes.

Above: `routes.py`. Below: the catalog.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct
from starlette.types import Send

from jackfield.catalog.catalog import Catalog
from jackfield.http.request import Request
from jackfield.http.response import (
    JSON,
    BytesResponse,
    EmptyResponse,
    Response,
    encode,
    raw_json_response,
)
from jackfield.http.sse import Comment, EventMessage, EventStream
from jackfield.http.streams import next_of, stop
from jackfield.model.principal import Principal
from jackfield.model.times import Time
from jackfield.model.tool import Category, Metadata
from jackfield.model.trace_context import HOUSE_HEADER
from jackfield.protocol.manifest import CACHE_HEADERS, etag_matches

_HOUSE = HOUSE_HEADER.encode()
_CACHE_HEADERS = tuple((name.encode(), value.encode()) for name, value in CACHE_HEADERS)


class Scenario(Struct, frozen=True, kw_only=True):
    """Which service offers these tools."""

    name: str
    version: str
    description: str
    base_url: str | None


class Parameters(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tool's input as JSON Schema; it may have any other keyword of JSON Schema too."""

    type: Annotated[str, Meta(extra_json_schema={"enum": ["object"]})]
    properties: dict[str, Any]


class ToolEntry(Struct, frozen=True, kw_only=True):
    """One tool of the manifest: seed 004's ToolDefinition, with the digest of its definition and its source."""

    name: str
    description: str
    category: str | None
    parameters: Parameters
    metadata: Metadata
    version: str
    source: str


class Manifest(Struct, frozen=True, kw_only=True):
    """Seed 004's ToolManifest."""

    protocol_version: str
    scenario: Scenario
    tools: list[ToolEntry]
    categories: list[Category]
    generated_at: Time


class FoundTools(Struct, frozen=True, kw_only=True):
    """The best matches first."""

    query: str
    tools: list[ToolEntry]


class SearchQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Words to look for in names, descriptions and tags; no words: the first tools by name."""

    q: Annotated[str, Meta(max_length=1000, description="Words to look for")] = ""
    limit: Annotated[int, Meta(ge=1, le=100, description="How many tools at most")] = 20


class _Found(Struct, frozen=True, kw_only=True):
    query: str
    tools: list[Raw]


async def list_tools(visit: Request) -> Response:
    """The whole manifest, from cache; 304 when the client has it already."""
    view = visit.gateway.catalog.view(visit.principal)
    headers = (*_CACHE_HEADERS, (b"etag", view.etag.encode()), (_HOUSE, visit.gateway.house.encode()))
    if etag_matches(visit.header(b"if-none-match"), view.etag):
        return EmptyResponse(304, headers)
    return BytesResponse(200, (JSON, *headers), view.manifest)


async def show_tool(visit: Request) -> Response:
    """One tool by its name, or by the name its owner gave it."""
    entry = visit.gateway.catalog.view(visit.principal).get(visit.part("name"))
    return raw_json_response(entry.manifest)


async def search_tools(visit: Request) -> Response:
    """Ranked matches."""
    wanted = visit.query(SearchQuery)
    found = visit.gateway.catalog.view(visit.principal).search(wanted.q, limit=wanted.limit)
    return raw_json_response(encode(_Found(query=wanted.q, tools=[Raw(entry.manifest) for entry in found])))


GOING_AWAY = 1001


class Connected(Struct, frozen=True, kw_only=True):
    """The first message: the catalog's version now."""

    type: Literal["connected"] = "connected"
    version: str


class Changed(Struct, frozen=True, kw_only=True):
    """Which tools came, went or have another definition; names only."""

    type: Literal["tools.changed"] = "tools.changed"
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    version: str


async def stream_changes(visit: Request) -> Response:
    """The changes as server-sent events."""

    async def messages() -> AsyncGenerator[EventMessage | Comment]:
        async for body in _messages(visit.gateway.catalog, visit.principal):
            yield EventMessage(event=body.type, id=body.version, data=body)

    return EventStream(messages(), streams=visit.streams)


async def socket_changes(visit: Request, send: Send) -> None:
    """The same messages over WebSocket, one text frame each."""
    if (await visit.receive())["type"] != "websocket.connect":
        return
    await send({"type": "websocket.accept", "headers": []})
    messages = _messages(visit.gateway.catalog, visit.principal)
    gone = visit.streams.watch(visit.receive)
    coming = asyncio.ensure_future(next_of(messages))
    try:
        while True:
            await asyncio.wait((coming, gone), return_when=asyncio.FIRST_COMPLETED)
            message = None if gone.done() else coming.result()
            if message is None:
                break
            await send({"type": "websocket.send", "text": encode(message).decode()})
            coming = asyncio.ensure_future(next_of(messages))
        if gone.cancelled() or not gone.done():
            await send({"type": "websocket.close", "code": GOING_AWAY})
    finally:
        await stop(coming)
        await visit.streams.release(gone)


async def _messages(catalog: Catalog, principal: Principal) -> AsyncGenerator[Connected | Changed]:
    changes = catalog.follow(principal)
    yield Connected(version=catalog.version)
    async for change in changes:
        yield Changed(added=change.added, removed=change.removed, changed=change.changed, version=change.version)
