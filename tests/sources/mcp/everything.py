"""A real MCP server in a process of its own, made with the SDK: every kind of answer, both eras, three transports.

    python everything.py stdio|http [--port N] [--legacy] [--state FOLDER]

`--legacy` refuses the newer handshake, as servers of 2025 do. In the folder it leaves what tests look for: files that
say that a tool hangs or was stopped. This module is run, not imported: importing the SDK takes a second.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import mcp.types as t
import uvicorn
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

Ctx = ServerRequestContext[Any, Any]
Answer = t.CallToolResult | t.InputRequiredResult
Handler = Callable[[Ctx, t.CallToolRequestParams], Awaitable[Answer]]
PAGE = 5
PIXEL = "iVBORw0KGgo="
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


def schema(**properties: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }


def said(*content: t.ContentBlock, **more: Any) -> t.CallToolResult:
    return t.CallToolResult(content=list(content), **more)


def text(words: str, **more: Any) -> t.TextContent:
    return t.TextContent(text=words, **more)


class Everything:
    """The tools, and what happened to them."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self.bus)
        self.connections: set[Any] = set()
        self.tools: dict[str, tuple[t.Tool, Handler]] = {}
        self.calls = 0
        self.level = ""
        self.tasks: set[asyncio.Task[None]] = set()
        for name, input_schema, handler in (
            ("echo", schema(text="string"), self.echo),
            ("weather", schema(city="string"), self.weather),
            ("picture", NOTHING, self.picture),
            ("mixed", NOTHING, self.mixed),
            ("resources", NOTHING, self.resources),
            ("chart", NOTHING, self.chart),
            ("fail", NOTHING, self.fail),
            ("boom", NOTHING, self.boom),
            ("steps", NOTHING, self.steps),
            ("hang", NOTHING, self.hang),
            ("ask", NOTHING, self.ask),
            ("think", NOTHING, self.think),
            ("inquire", NOTHING, self.inquire),
            ("capable", NOTHING, self.capable),
            ("about", NOTHING, self.about),
            ("announce", schema(text="string"), self.announce),
            ("grow", schema(name="string"), self.grow),
            ("environment", NOTHING, self.environment),
            ("start_child", NOTHING, self.start_child),
            ("die", NOTHING, self.die),
            ("count", NOTHING, self.count),
        ):
            self.add(name, input_schema, handler)

    def add(self, name: str, input_schema: dict[str, Any], handler: Handler) -> None:
        tool = t.Tool(name=name, description=f"The tool {name}", input_schema=input_schema)
        if name in {"weather", "chart"}:
            tool.output_schema = schema(celsius="number")
        if name == "weather":
            tool.title = "Weather"
            tool.input_schema["properties"]["city"]["x-mcp-header"] = "City"
        if name == "count":
            tool.annotations = t.ToolAnnotations(idempotent_hint=True, title="Counter")
        self.tools[name] = (tool, handler)

    async def on_list(self, _: Ctx, params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
        start = int(params.cursor) if params is not None and params.cursor else 0
        names = sorted(self.tools)
        more = str(start + PAGE) if start + PAGE < len(names) else None
        return t.ListToolsResult(tools=[self.tools[name][0] for name in names[start : start + PAGE]], next_cursor=more)

    async def on_call(self, ctx: Ctx, params: t.CallToolRequestParams) -> Answer:
        self.calls += 1
        if params.name not in self.tools:
            raise MCPError(t.INVALID_PARAMS, f"Unknown tool: {params.name}")
        return await self.tools[params.name][1](ctx, params)

    async def on_resources(self, _: Ctx, __: t.PaginatedRequestParams | None) -> t.ListResourcesResult:
        uris = ("slow://book", "asking://book")
        return t.ListResourcesResult(resources=[t.Resource(uri=uri, name=uri.partition(":")[0]) for uri in uris])

    async def on_read(
        self, ctx: Ctx, params: t.ReadResourceRequestParams
    ) -> t.ReadResourceResult | t.InputRequiredResult:
        """One resource takes for ever, the other asks for a name."""
        if str(params.uri) not in {"slow://book", "asking://book"}:
            raise MCPError(t.INVALID_PARAMS, "Resource not found")
        if str(params.uri) == "slow://book":
            await ctx.session.report_progress(1, 2, "half a page")
            await self.hang(ctx, t.CallToolRequestParams(name="hang"))
        answer = await self.ask(ctx, params)
        if isinstance(answer, t.InputRequiredResult):
            return answer
        (block,) = answer.content
        assert isinstance(block, t.TextContent)
        return t.ReadResourceResult(contents=[t.TextResourceContents(uri=params.uri, text=block.text)])

    async def on_prompts(self, _: Ctx, __: t.PaginatedRequestParams | None) -> t.ListPromptsResult:
        return t.ListPromptsResult(prompts=[t.Prompt(name="slow"), t.Prompt(name="asking")])

    async def on_prompt(self, ctx: Ctx, params: t.GetPromptRequestParams) -> t.GetPromptResult | t.InputRequiredResult:
        """As with the resources."""
        if params.name == "slow":
            await ctx.session.report_progress(1, 2, "half a page")
            await self.hang(ctx, t.CallToolRequestParams(name="hang"))
        answer = await self.ask(ctx, params)
        if isinstance(answer, t.InputRequiredResult):
            return answer
        (block,) = answer.content
        return t.GetPromptResult(messages=[t.PromptMessage(role="user", content=block)])

    async def echo(self, _: Ctx, params: t.CallToolRequestParams) -> Answer:
        return said(text((params.arguments or {})["text"]))

    async def weather(self, ctx: Ctx, _: t.CallToolRequestParams) -> Answer:
        if ctx.request is not None and ctx.protocol_version >= "2026":
            assert ctx.request.headers["mcp-param-city"] == "=?base64?WsO8cmljaA==?="
        return said(text('{\n  "celsius": 21.5\n}'), structured_content={"celsius": 21.5})

    async def picture(self, _: Ctx, __: t.CallToolRequestParams) -> Answer:
        return said(
            t.ImageContent(data=PIXEL, mime_type="image/png"), t.AudioContent(data="AAAA", mime_type="audio/wav")
        )

    async def mixed(self, _: Ctx, __: t.CallToolRequestParams) -> Answer:
        note = text("for people", annotations=t.Annotations(audience=["user"], priority=0.5))
        return said(note, text("more"), structured_content={"n": 1}, _meta={"acme/trace": "t1"})

    async def resources(self, _: Ctx, __: t.CallToolRequestParams) -> Answer:
        inner = t.TextResourceContents(uri="file:///notes.txt", mime_type="text/plain", text="notes")
        return said(t.ResourceLink(uri="file:///a.txt", name="a"), t.EmbeddedResource(resource=inner))

    async def chart(self, _: Ctx, __: t.CallToolRequestParams) -> Answer:
        """An answer that its output schema speaks about, and a picture that it does not."""
        return said(t.ImageContent(data=PIXEL, mime_type="image/png"), structured_content={"celsius": 3})

    async def fail(self, _: Ctx, __: t.CallToolRequestParams) -> Answer:
        return said(text("no luck"), is_error=True)

    async def boom(self, _: Ctx, __: t.CallToolRequestParams) -> Answer:
        raise MCPError(-32050, "the engine fell off")

    async def steps(self, ctx: Ctx, _: t.CallToolRequestParams) -> Answer:
        for step in (1, 2, 3):
            await ctx.session.report_progress(step, 3, f"step {step}")
        with contextlib.suppress(Exception):
            await ctx.session.send_log_message("warning", {"disk": "full"}, "engine", ctx.request_id)
        return said(text("done"))

    async def hang(self, _: Ctx, __: t.CallToolRequestParams) -> Answer:
        (self.state / "hanging").touch()
        try:
            await asyncio.Event().wait()
        finally:
            (self.state / "stopped").touch()
        return said()

    async def ask(self, ctx: Ctx, params: Any) -> Answer:
        """Ask for a name, as the era does it."""
        wanted: Any = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        if ctx.protocol_version < "2026":
            answer = await ctx.session.elicit_form("Who is it?", wanted, ctx.request_id)
            return said(text(f"{answer.action} {json.dumps(answer.content)}"))
        if params.input_responses is None:
            request = t.ElicitRequest(params=t.ElicitRequestFormParams(message="Who is it?", requested_schema=wanted))
            return t.InputRequiredResult(input_requests={"who": request}, request_state="state-1")
        assert params.request_state == "state-1"
        answered: Any = params.input_responses["who"]
        return said(text(f"{answered.action} {json.dumps(answered.content)}"))

    async def think(self, ctx: Ctx, params: t.CallToolRequestParams) -> Answer:
        """Ask for a model's answer, as the era does it."""
        question = [t.SamplingMessage(role="user", content=text("What is two and two?"))]
        if ctx.protocol_version < "2026":
            reply = await ctx.session.create_message(question, max_tokens=50, related_request_id=ctx.request_id)
            return said(text(json.dumps(reply.model_dump(mode="json")["content"])))
        if params.input_responses is None:
            request = t.CreateMessageRequest(params=t.CreateMessageRequestParams(messages=question, max_tokens=50))
            return t.InputRequiredResult(input_requests={"thought": request}, request_state="state-2")
        thought: Any = params.input_responses["thought"]
        return said(text(json.dumps(thought.model_dump(mode="json")["content"])))

    async def inquire(self, ctx: Ctx, params: t.CallToolRequestParams) -> Answer:
        """Ask everything that a client can be asked: in the newer era at once, in the older one by one."""
        wanted: Any = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"default": 7}}}
        form = t.ElicitRequest(params=t.ElicitRequestFormParams(message="Who is it?", requested_schema=wanted))
        message = t.SamplingMessage(role="user", content=text("What is two and two?"))
        thought = t.CreateMessageRequest(params=t.CreateMessageRequestParams(messages=[message], max_tokens=50))
        asked: dict[str, Any] = {"who": form, "thought": thought, "folders": t.ListRootsRequest()}
        if ctx.protocol_version < "2026":
            related = ServerMessageMetadata(related_request_id=ctx.request_id)
            kinds: dict[str, Any] = {
                "who": t.ElicitResult,
                "thought": t.CreateMessageResult,
                "folders": t.ListRootsResult,
            }
            send = ctx.session.send_request
            answers = {key: await send(one, kinds[key], metadata=related) for key, one in asked.items()}
        elif params.input_responses is None:
            return t.InputRequiredResult(input_requests=asked, request_state="state-3")
        else:
            answers = dict(params.input_responses)
        dumped = {key: one.model_dump(mode="json", exclude_none=True) for key, one in answers.items()}
        return said(text(json.dumps(dumped, sort_keys=True)))

    async def capable(self, ctx: Ctx, _: t.CallToolRequestParams) -> Answer:
        """Refuse a client that has no roots; tell of one that has what it declares."""
        declared = ctx.session.client_params.capabilities if ctx.session.client_params else None
        if ctx.protocol_version >= "2026":
            declared = ctx.session.client_capabilities
        if declared is None or declared.roots is None:
            needed: dict[str, Any] = {"requiredCapabilities": {"roots": {}}}
            raise MCPError(t.MISSING_REQUIRED_CLIENT_CAPABILITY, "It works in your folders", needed)
        return said(text(json.dumps(declared.model_dump(mode="json", exclude_none=True), sort_keys=True)))

    async def about(self, ctx: Ctx, params: t.CallToolRequestParams) -> Answer:
        """What came with the request; and `_meta` wherever a server can put some."""
        meta: dict[str, Any] = {**(params.meta or {})}
        await ctx.session.send_notification(
            t.ProgressNotification(
                params=t.ProgressNotificationParams(
                    progress_token=meta.get("progressToken") or meta["progress_token"],
                    progress=1,
                    _meta={"acme/of": "progress"},
                )
            ),
            ctx.request_id,
        )
        await ctx.session.send_log_message("debug", {"deep": ["down"]}, "engine", ctx.request_id)
        known = {"meta": meta, "level": self.level}
        return said(text(json.dumps(known), _meta={"acme/of": "content"}), _meta={"acme/of": "result"})

    async def announce(self, _: Ctx, params: t.CallToolRequestParams) -> Answer:
        """Log something to everybody of the older era, later, outside any call."""

        async def later() -> None:
            for connection in list(self.connections):
                await connection.log("error", (params.arguments or {})["text"])

        asyncio.get_running_loop().call_later(0.2, lambda: self.tasks.add(asyncio.create_task(later())))
        return said(text("later"))

    async def on_level(self, _: Ctx, params: t.SetLevelRequestParams) -> t.EmptyResult:
        self.level = params.level
        return t.EmptyResult()

    async def grow(self, ctx: Ctx, params: t.CallToolRequestParams) -> Answer:
        """Offer one tool more, and say so to both eras."""
        self.add((params.arguments or {})["name"], schema(text="string"), self.echo)
        await self.bus.publish(ToolsListChanged())
        for connection in list(self.connections):
            await connection.send_tool_list_changed()
        return said(text(ctx.protocol_version))

    async def environment(self, _: Ctx, __: t.CallToolRequestParams) -> Answer:
        return said(text(json.dumps({"env": dict(os.environ), "cwd": str(Path.cwd())})))

    async def start_child(self, _: Ctx, __: t.CallToolRequestParams) -> Answer:
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)  # noqa: ASYNC220 - it returns at once
        return said(text(f"{os.getpid()} {child.pid}"))

    async def die(self, _: Ctx, __: t.CallToolRequestParams) -> Answer:
        os._exit(3)

    async def count(self, _: Ctx, __: t.CallToolRequestParams) -> Answer:
        return said(text(str(self.calls)))


class Fixture(Server[Any]):
    """Tells the older era that its tools may change, which the SDK's HTTP app does not."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **more: Any
    ) -> Any:
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, *args, **more)


def build(everything: Everything, *, legacy: bool) -> Fixture:
    server = Fixture(
        "everything",
        version="1.0",
        on_list_tools=everything.on_list,
        on_call_tool=everything.on_call,
        on_subscriptions_listen=everything.listen,
        on_set_logging_level=everything.on_level,
        on_list_resources=everything.on_resources,
        on_read_resource=everything.on_read,
        on_list_prompts=everything.on_prompts,
        on_get_prompt=everything.on_prompt,
    )

    async def watch(ctx: Ctx, call_next: Callable[[Ctx], Awaitable[Any]]) -> Any:
        if legacy and ctx.method == "server/discover":
            raise MCPError(t.METHOD_NOT_FOUND, "Method not found")
        connection: Any = ctx.session._connection
        if ctx.protocol_version < "2026" and ctx.method != "initialize":
            everything.connections.add(connection)
        return await call_next(ctx)

    server.middleware.append(watch)
    return server


def app_of(server: Fixture) -> Starlette:
    http = server.streamable_http_app(streamable_http_path="/mcp")
    sse = SseServerTransport("/sse/messages/")

    class Stream:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            async with sse.connect_sse(scope, receive, send) as (reader, writer):
                await server.run(reader, writer, server.create_initialization_options())

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with server.session_manager.run():
            yield

    routes = [
        Route("/sse", Stream(), methods=["GET"]),
        Mount("/sse/messages/", app=sse.handle_post_message),
        Mount("/", app=http),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


async def serve_stdio(server: Fixture, *, legacy: bool) -> None:
    sys.stdout.write("this line is no message\n")
    sys.stdout.flush()
    sys.stderr.write("hello from stderr\n")
    sys.stderr.flush()
    async with stdio_server() as (reader, writer), anyio.create_task_group() as tasks:
        forward, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        tasks.start_soon(_without_discovery if legacy else _all, reader, writer, forward)
        await server.run(incoming, writer, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _all(reader: Any, _: Any, forward: Any) -> None:
    async with forward:
        async for message in reader:
            await forward.send(message)


async def _without_discovery(reader: Any, writer: Any, forward: Any) -> None:
    """The SDK takes a first `server/discover` for the whole connection's era, so it must not see it."""
    async with forward:
        async for message in reader:
            if getattr(message.message, "method", "") == "server/discover":
                error = t.ErrorData(code=t.METHOD_NOT_FOUND, message="Method not found")
                answer = t.JSONRPCError(jsonrpc="2.0", id=message.message.id, error=error)
                await writer.send(SessionMessage(answer))
            else:
                await forward.send(message)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("transport", choices=["stdio", "http"])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--legacy", action="store_true")
    parser.add_argument("--state", type=Path, default=Path.cwd())
    given = parser.parse_args()
    server = build(Everything(given.state), legacy=given.legacy)
    if given.transport == "stdio":
        asyncio.run(serve_stdio(server, legacy=given.legacy))
    else:
        uvicorn.run(app_of(server), host="127.0.0.1", port=given.port, log_level="warning", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    main()
