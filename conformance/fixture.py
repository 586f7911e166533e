"""The MCP server that the suite expects: its tools, by the names that its scenarios call.

    python -m conformance.fixture [--legacy]        # prints its port

Made with the SDK, so that what it says on the wire is its authors' and not ours. `--legacy` refuses the newer
handshake. It has no resources and no prompts: a gateway for tools passes none on.
"""

import argparse
import asyncio
import socket
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import mcp.types as t
import uvicorn
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

from conformance.questions import ASKING, MODERN, Asking, answers_to
from conformance.samples import SCHEMA_2020_12, WITH_HEADERS, audio, image, resource, strings

Ctx = ServerRequestContext[Any, Any]
Answer = t.CallToolResult | t.InputRequiredResult
Handler = Callable[[Ctx, t.CallToolRequestParams], Awaitable[Answer]]
PAUSE = 0.05


def said(*content: t.ContentBlock | str, **more: Any) -> t.CallToolResult:
    blocks = [t.TextContent(text=block) if isinstance(block, str) else block for block in content]
    return t.CallToolResult(content=blocks, **more)


CONTENT: dict[str, t.CallToolResult] = {
    "test_simple_text": said("This is a simple text response for testing."),
    "test_image_content": said(image()),
    "test_audio_content": said(audio()),
    "test_embedded_resource": said(resource("test://embedded-resource", "This is an embedded resource content.")),
    "test_multiple_content_types": said(
        "Multiple content types test:",
        image(),
        resource("test://mixed-content-resource", '{"test":"data","value":123}', kind="application/json"),
    ),
    "test_error_handling": said("This tool intentionally returns an error for testing", is_error=True),
    "test_reconnection": said("Still here"),
}


class Fixture:
    """The tools; `test_trigger_tool_change` adds one."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self.bus)
        self.connections: set[Any] = set()
        self.tools: dict[str, tuple[t.Tool, Handler]] = {}
        for name, result in CONTENT.items():
            self._offer(name, _always(result))
        self._offer("test_tool_with_progress", _progress)
        self._offer("test_tool_with_logging", _logging)
        self._offer("test_logging_tool", _logging)
        self._offer("test_missing_capability", _missing_capability)
        self._offer("test_trigger_tool_change", self._change)
        self._offer("json_schema_2020_12_tool", _always(said("It fits")), schema=SCHEMA_2020_12)
        self._offer("test_x_mcp_header", _always(said("Heard")), schema=WITH_HEADERS)
        for name, asking in ASKING.items():
            self._offer(name, _asks(asking), schema=strings(*asking.arguments))

    def _offer(self, name: str, handler: Handler, *, schema: dict[str, Any] | None = None) -> None:
        described = t.Tool(name=name, description=f"The suite's {name}", input_schema=schema or strings())
        self.tools[name] = (described, handler)

    async def on_list(self, _: Ctx, __: t.PaginatedRequestParams | None) -> t.ListToolsResult:
        return t.ListToolsResult(tools=[self.tools[name][0] for name in sorted(self.tools)])

    async def on_call(self, ctx: Ctx, params: t.CallToolRequestParams) -> Answer:
        if params.name not in self.tools:
            raise MCPError(t.INVALID_PARAMS, f"Unknown tool: {params.name}")
        return await self.tools[params.name][1](ctx, params)

    async def _change(self, _: Ctx, __: t.CallToolRequestParams) -> Answer:
        """One tool more, told to both eras."""
        self._offer(f"added_{len(self.tools)}", _always(said("Added")))
        await self.bus.publish(ToolsListChanged())
        for connection in list(self.connections):
            await connection.send_tool_list_changed()
        return said("Changed")


def _always(result: t.CallToolResult) -> Handler:
    async def answer(_: Ctx, __: t.CallToolRequestParams) -> Answer:
        return result

    return answer


def _asks(asking: Asking) -> Handler:
    async def answer(ctx: Ctx, params: t.CallToolRequestParams) -> Answer:
        answers = await answers_to(asking.rounds, ctx, params)
        return said(f"{asking.words}: {answers}") if isinstance(answers, dict) else answers

    return answer


async def _progress(ctx: Ctx, _: t.CallToolRequestParams) -> Answer:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100, f"{done} of 100")
        await asyncio.sleep(PAUSE)
    return said("Done")


async def _logging(ctx: Ctx, _: t.CallToolRequestParams) -> Answer:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", line, related_request_id=ctx.request_id)
        await asyncio.sleep(PAUSE)
    return said("Logged")


async def _missing_capability(ctx: Ctx, _: t.CallToolRequestParams) -> Answer:
    if not ctx.session.check_client_capability(t.ClientCapabilities(sampling=t.SamplingCapability())):
        needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(t.MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool asks for a model's answer", needed)
    return said("The client has it")


class FixtureServer(Server[Any]):
    """Tells the older era that its tools may change, which the SDK's HTTP app does not."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **more: Any
    ) -> Any:
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, *args, **more)


def build(fixture: Fixture, *, legacy: bool) -> FixtureServer:
    server = FixtureServer(
        "fixture",
        version="1.0",
        on_list_tools=fixture.on_list,
        on_call_tool=fixture.on_call,
        on_subscriptions_listen=fixture.listen,
    )

    async def watch(ctx: Ctx, call_next: Callable[[Ctx], Awaitable[Any]]) -> Any:
        if legacy and ctx.method == "server/discover":
            raise MCPError(t.METHOD_NOT_FOUND, "Method not found")
        if ctx.protocol_version < MODERN and ctx.method != "initialize":
            fixture.connections.add(ctx.session._connection)  # noqa: SLF001 - the SDK has no other way to it
        return await call_next(ctx)

    server.middleware.append(watch)
    return server


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--legacy", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # the suite asks for what the SDK calls deprecated
    app = build(Fixture(), legacy=given.legacy).streamable_http_app(streamable_http_path="/mcp")
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    main()
