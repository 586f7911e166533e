"""An MCP server that takes bearer tokens, in the test's own loop.

async with guarded(app, people={"token-a": "ann"}) as server:     # `app` is any ASGI application
    server.url, server.requests, server.open_to_all, …
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import mcp.types as t
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.harness.process import free_port
from tests.waiting import eventually_async

Ctx = ServerRequestContext[Any, Any]
whose: ContextVar[str] = ContextVar("whose", default="nobody")
"""Whose token the request being answered has."""


class Seen(Struct, frozen=True):
    """One request as it arrived."""

    person: str
    http: str
    method: str
    session: str
    token: str


class GuardedServer:
    """An application behind a check of tokens. `requests` are those that passed."""

    def __init__(self, app: ASGIApp, people: dict[str, str]) -> None:
        self.app = app
        self.people = people
        """By token: whose it is."""
        self.port = free_port()
        self.requests: list[Seen] = []
        self.refused: list[Seen] = []
        self.open_to_all: set[str] = set()
        """Methods that need no token."""
        self.broken_for: set[str] = set()
        """People whose every request fails."""
        self.needs_more: set[str] = set()
        """Tokens without the scope that `tools/call` needs."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def mixed_sessions(self) -> list[str]:
        """Sessions that were used with more than one person's token."""
        people: dict[str, set[str]] = {}
        for seen in self.requests:
            if seen.session:
                people.setdefault(seen.session, set()).add(seen.person)
        return [session for session, found in people.items() if len(found) > 1]

    @property
    def ended(self) -> list[str]:
        """Whose sessions were ended by their clients."""
        return [seen.person for seen in self.requests if seen.http == "DELETE"]

    def of(self, method: str) -> list[Seen]:
        return [seen for seen in self.requests if seen.method == method]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        token = headers.get("authorization", "").removeprefix("Bearer ")
        body = await _body(receive) if scope["method"] == "POST" else b""
        method = json.loads(body).get("method", "") if body else ""
        person = self.people.get(token, "nobody")
        seen = Seen(person, scope["method"], method, headers.get("mcp-session-id", ""), token)
        if person == "nobody" and method not in self.open_to_all:
            self.refused.append(seen)
            await _refuse(send, 401, b'Bearer error="invalid_token"')
        elif person in self.broken_for:
            await _refuse(send, 500, b"")
        elif method == "tools/call" and token in self.needs_more:
            self.refused.append(seen)
            await _refuse(send, 403, b'Bearer error="insufficient_scope", scope="write"')
        else:
            self.requests.append(seen)
            whose.set(person)
            await self.app(scope, _replayed(body, receive) if scope["method"] == "POST" else receive, send)


async def _body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += bytes(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            return body


def _replayed(body: bytes, receive: Receive) -> Receive:
    is_sent = False

    async def again() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(send: Send, status: int, challenge: bytes) -> None:
    headers = [(b"www-authenticate", challenge), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def guarded(app: ASGIApp, people: dict[str, str]) -> AsyncIterator[GuardedServer]:
    made = GuardedServer(app, people)
    server = uvicorn.Server(uvicorn.Config(made, port=made.port, log_level="error", lifespan="on"))
    serving = asyncio.create_task(server.serve())
    await eventually_async(lambda: server.started)
    try:
        yield made
    finally:
        server.should_exit = True
        await serving


class People:
    """An MCP server of the SDK whose every answer says whose token it was asked with."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.connections: dict[str, Any] = {}
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.running = 0

    async def list_tools(self, _ctx: Ctx, _params: Any) -> t.ListToolsResult:
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        names = ("whoami", "steps", "wait")
        return t.ListToolsResult(tools=[t.Tool(name=name, input_schema=schema) for name in names])

    async def call(self, ctx: Ctx, params: t.CallToolRequestParams) -> t.CallToolResult:
        if params.name == "steps":
            await ctx.session.report_progress(1, 2, whose.get())
        if params.name == "wait":
            self.running += 1
            await self.may_end.wait()
            self.running -= 1
        return t.CallToolResult(content=[t.TextContent(text=whose.get())])

    async def list_resources(self, _ctx: Ctx, _params: Any) -> t.ListResourcesResult:
        return t.ListResourcesResult(resources=[t.Resource(uri="note://mine", name="mine")])

    async def read(self, _ctx: Ctx, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
        return t.ReadResourceResult(contents=[t.TextResourceContents(uri=params.uri, text=whose.get())])

    async def list_prompts(self, _ctx: Ctx, _params: Any) -> t.ListPromptsResult:
        return t.ListPromptsResult(prompts=[t.Prompt(name="mine")])

    async def get(self, _ctx: Ctx, _params: t.GetPromptRequestParams) -> t.GetPromptResult:
        message = t.PromptMessage(role="user", content=t.TextContent(text=whose.get()))
        return t.GetPromptResult(messages=[message])

    async def complete(self, _ctx: Ctx, _params: t.CompleteRequestParams) -> t.CompleteResult:
        return t.CompleteResult(completion=t.Completion(values=[whose.get()], total=1, has_more=False))

    async def subscribe(self, ctx: Ctx, _params: t.SubscribeRequestParams) -> t.EmptyResult:
        self.connections[whose.get()] = ctx.session._connection
        return t.EmptyResult()

    async def unsubscribe(self, _ctx: Ctx, _params: t.UnsubscribeRequestParams) -> t.EmptyResult:
        self.connections.pop(whose.get(), None)
        return t.EmptyResult()

    async def update(self, person: str) -> None:
        """Tell one person, in the handshake era; in the newer one everybody who follows."""
        await self.bus.publish(ResourceUpdated(uri="note://mine"))
        if person in self.connections:
            await self.connections[person].send_resource_updated("note://mine")

    @property
    def server(self) -> Server[Any]:
        return Server(
            "people",
            on_list_tools=self.list_tools,
            on_call_tool=self.call,
            on_list_resources=self.list_resources,
            on_read_resource=self.read,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.get,
            on_completion=self.complete,
            on_subscribe_resource=self.subscribe,
            on_unsubscribe_resource=self.unsubscribe,
            on_subscriptions_listen=ListenHandler(self.bus),
        )

    @property
    def app(self) -> ASGIApp:
        return self.server.streamable_http_app()

    @property
    def sse_app(self) -> ASGIApp:
        transport = SseServerTransport("/messages")
        server = self.server

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "lifespan":
                await receive()
                await send({"type": "lifespan.startup.complete"})
                await receive()
                await send({"type": "lifespan.shutdown.complete"})
            elif scope["method"] == "GET":
                async with transport.connect_sse(scope, receive, send) as streams:
                    await server.run(streams[0], streams[1], server.create_initialization_options())
            else:
                await transport.handle_post_message(scope, receive, send)

        return app
