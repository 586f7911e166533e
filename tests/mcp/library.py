"""An MCP server with resources, templates and prompts, made with the SDK and served in the test's own loop.

async with library() as shelf:
    shelf.url, shelf.resources, shelf.read, …
"""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp.types as t
import uvicorn
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
)

from tests.harness.process import free_port
from tests.waiting import eventually_async

Ctx = ServerRequestContext[Any, Any]


class Library:
    """What the server offers; tests change it."""

    def __init__(self, name: str = "library") -> None:
        self.name = name
        self.port = free_port()
        self.texts = {"note://one": "The first note.", "note://two": "The second note."}
        self.prompts = [
            t.Prompt(
                name="review",
                title="Review",
                description="Reviews code.",
                arguments=[t.PromptArgument(name="code", description="What to review", required=True)],
            )
        ]
        self.templates = [
            t.ResourceTemplate(
                uri_template="note://by/{name}", name="by name", title="Notes", description="A note by its name."
            )
        ]
        self.tools: list[t.Tool] = []
        self.reads: list[str] = []
        self.may_answer = asyncio.Event()
        """Reads wait for it."""
        self.may_answer.set()
        self.bus = InMemorySubscriptionBus()
        self.subscribed: list[str] = []
        self.connections: dict[str, list[Any]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def list_resources(self, _ctx: Ctx, _params: Any) -> t.ListResourcesResult:
        listed = [
            t.Resource(uri=uri, name=uri.rpartition("/")[2], mime_type="text/plain", size=len(text))
            for uri, text in self.texts.items()
        ]
        return t.ListResourcesResult(resources=listed)

    async def list_templates(self, _ctx: Ctx, _params: Any) -> t.ListResourceTemplatesResult:
        return t.ListResourceTemplatesResult(resource_templates=self.templates)

    async def list_prompts(self, _ctx: Ctx, _params: Any) -> t.ListPromptsResult:
        return t.ListPromptsResult(prompts=self.prompts)

    async def list_tools(self, _ctx: Ctx, _params: Any) -> t.ListToolsResult:
        return t.ListToolsResult(tools=self.tools)

    async def read(self, _ctx: Ctx, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
        uri = str(params.uri)
        self.reads.append(uri)
        await self.may_answer.wait()
        if self.texts.get(uri) == "!":
            raise MCPError(-32050, "The shelf fell over")
        if self.texts.get(uri) == "...":
            await asyncio.Event().wait()
        if uri == "note://picture":
            blob = base64.b64encode(b"\x00\x01").decode()
            return t.ReadResourceResult(contents=[t.BlobResourceContents(uri=uri, blob=blob, mime_type="image/png")])
        text = f"A note by {uri.rpartition('/')[2]}." if uri.startswith("note://by/") else self.texts.get(uri)
        if text is None:
            raise MCPError(-32002, "Resource not found", {"uri": uri})
        return t.ReadResourceResult(contents=[t.TextResourceContents(uri=uri, text=text, mime_type="text/plain")])

    async def get(self, _ctx: Ctx, params: t.GetPromptRequestParams) -> t.GetPromptResult:
        code = (params.arguments or {}).get("code", "")
        message = t.PromptMessage(role="user", content=t.TextContent(text=f"Please review {code}."))
        return t.GetPromptResult(description="A review", messages=[message])

    async def complete(self, _ctx: Ctx, params: t.CompleteRequestParams) -> t.CompleteResult:
        values = [one for one in ("alpha", "beta", "alphabet") if one.startswith(params.argument.value)]
        return t.CompleteResult(completion=t.Completion(values=values, total=len(values), has_more=False))

    async def subscribe(self, ctx: Ctx, params: t.SubscribeRequestParams) -> t.EmptyResult:
        self.subscribed.append(str(params.uri))
        self.connections.setdefault(str(params.uri), []).append(ctx.session._connection)
        return t.EmptyResult()

    async def unsubscribe(self, _ctx: Ctx, params: t.UnsubscribeRequestParams) -> t.EmptyResult:
        self.subscribed.remove(str(params.uri))
        return t.EmptyResult()

    async def announce(self) -> None:
        """Tell clients of 2026-07-28 that the lists changed."""
        await self.bus.publish(ResourcesListChanged())
        await self.bus.publish(PromptsListChanged())

    async def update(self, uri: str, text: str) -> None:
        """Change a resource, and tell who follows it."""
        self.texts[uri] = text
        await self.bus.publish(ResourceUpdated(uri=uri))
        for connection in self.connections.get(uri, ()):
            await connection.send_resource_updated(uri)

    def server(self) -> Server[Any]:
        return Server(
            self.name,
            instructions="Read the notes first.",
            on_list_tools=self.list_tools,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.get,
            on_completion=self.complete,
            on_subscribe_resource=self.subscribe,
            on_unsubscribe_resource=self.unsubscribe,
            on_subscriptions_listen=ListenHandler(self.bus),
        )


@asynccontextmanager
async def library(name: str = "library", *, made: Library | None = None) -> AsyncIterator[Library]:
    shelf = made or Library(name)
    config = uvicorn.Config(shelf.server().streamable_http_app(), port=shelf.port, log_level="error", lifespan="on")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    await eventually_async(lambda: server.started)
    try:
        yield shelf
    finally:
        server.should_exit = True
        await serving
