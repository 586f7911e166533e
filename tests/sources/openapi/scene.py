"""OpenAPI documents and services for tests: documents of a few words, and sources as the keeper would hold them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from jackfield.model.call import Done, Failed, Outcome
from jackfield.model.tool import Tool
from jackfield.outgoing import Outgoing
from jackfield.sources.base import Listing
from jackfield.sources.openapi.operations import OpenApiListing, openapi_listing
from jackfield.sources.openapi.options import credentials_of, parse_options
from jackfield.sources.openapi.source import OpenApiSource, openapi_source
from tests.sources.invocations import invocation_of
from tests.sources.network import surroundings_in
from tests.sources.upstream import Received, Upstream, json_reply, reply
from tests.waiting import TIMEOUT

BOUND = TIMEOUT
URL = "https://service.example/openapi.json"


def document(paths: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "x", "version": "1"}, "paths": paths or {}, **more}


def operation(operation_id: str, **more: Any) -> dict[str, Any]:
    return {"operationId": operation_id, "responses": {}, **more}


def json_body(schema: Any, *, required: bool = True, media: str = "application/json") -> dict[str, Any]:
    return {"required": required, "content": {media: {"schema": schema}}}


def parameter(name: str, place: str = "query", **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": {"type": "string"}, **more}


def offered(content: dict[str, Any] | bytes, **options: Any) -> OpenApiListing:
    """What a document offers."""
    parsed = parse_options({"url": URL, **options}, where="sources.shop")
    lent = credentials_of(parsed.auth, parsed.headers)
    raw = content if isinstance(content, bytes) else msgspec.json.encode(content)
    return openapi_listing(raw, source="shop", options=parsed, credentials=lent)


def tools_of(content: dict[str, Any] | bytes, **options: Any) -> dict[str, Tool]:
    return {tool.name: tool for tool in offered(content, **options).listing.tools}


class Service:
    """A source over a service whose every answer a test decides, and what it asked of its keeper."""

    def __init__(self, upstream: Upstream, outgoing: Outgoing, folder: Path, options: dict[str, Any]) -> None:
        self.upstream = upstream
        self.changes = asyncio.Event()
        lent = {name: options.pop(name) for name in ("logins", "kept") if name in options}
        source_context = surroundings_in(folder, outgoing=outgoing, changed=self._changed, **lent)
        given = {} if "file" in options else {"url": f"{upstream.url}/openapi.json"}
        self.source: OpenApiSource = openapi_source("shop", {**given, **options}, source_context)
        self.tools: dict[str, Tool] = {}

    def publish(self, content: dict[str, Any] | bytes, **headers: str) -> None:
        """From now on, the service answers with this document; by its `etag` if there is one."""
        body = content if isinstance(content, bytes) else msgspec.json.encode(content)

        def answer(request: Received) -> bytes:
            if headers.get("etag") and request.headers.get("if-none-match") == headers["etag"]:
                return reply(304, b"", **headers)
            return reply(200, body, content_type="application/json", **headers)

        self.upstream.answers["/openapi.json"] = answer

    async def list(self) -> Listing:
        async with asyncio.timeout(BOUND):
            listing = await self.source.refresh()
        self.tools = {tool.name: tool for tool in listing.tools}
        return listing

    async def call(self, name: str, /, **arguments: Any) -> Outcome:
        async with asyncio.timeout(BOUND):
            return await self.source.execute(invocation_of(self.tools[name], **arguments))

    async def result(self, name: str, /, **arguments: Any) -> Any:
        outcome = await self.call(name, **arguments)
        assert isinstance(outcome, Done), outcome
        return msgspec.json.decode(outcome.result)

    async def failure(self, name: str, /, **arguments: Any) -> Failed:
        outcome = await self.call(name, **arguments)
        assert isinstance(outcome, Failed), outcome
        return outcome

    def _changed(self, source: str) -> None:
        assert source == "shop"
        self.changes.set()


@asynccontextmanager
async def service(
    folder: Path, content: dict[str, Any] | bytes | None = None, **options: Any
) -> AsyncIterator[Service]:
    """A service with this document, listed."""
    async with Upstream() as upstream, Outgoing() as outgoing:
        made = Service(upstream, outgoing, folder, options)
        try:
            if content is not None:
                made.publish(content)
                await made.list()
            yield made
        finally:
            await made.source.close()


def echo(request: Received) -> bytes:
    """A service that shows the request as it got it."""
    return json_reply(
        {"method": request.method, "target": request.target, "headers": request.headers, "body": request.body.decode()}
    )
