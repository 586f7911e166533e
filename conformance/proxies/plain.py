"""The plain SDK proxy: `python -m conformance.proxies.plain URL [legacy]`. Every method of the SDK, passed on as it is.

One client that all callers share, which declares no capability; questions of the newer era go to the caller as the
results they are. It keeps nothing and decides nothing.
"""

import asyncio
import socket
import sys
import warnings
from typing import Any

import mcp.types as t
import uvicorn
from mcp import Client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

Ctx = ServerRequestContext[Any, Any]
Page = t.PaginatedRequestParams | None


class Forwarding:
    """The handlers, one per method."""

    def __init__(self, upstream: Client) -> None:
        self._session = upstream.session
        self.listen = ListenHandler(InMemorySubscriptionBus())

    async def list_tools(self, _: Ctx, params: Page) -> t.ListToolsResult:
        return await self._session.list_tools(params=params)

    async def call_tool(self, ctx: Ctx, params: t.CallToolRequestParams) -> t.CallToolResult | t.InputRequiredResult:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            await ctx.session.report_progress(progress, total, message)

        return await self._session.call_tool(
            params.name,
            params.arguments,
            progress_callback=report,
            input_responses=params.input_responses,
            request_state=params.request_state,
            allow_input_required=True,
        )

    async def list_resources(self, _: Ctx, params: Page) -> t.ListResourcesResult:
        return await self._session.list_resources(params=params)

    async def list_templates(self, _: Ctx, params: Page) -> t.ListResourceTemplatesResult:
        return await self._session.list_resource_templates(params=params)

    async def read_resource(
        self, _: Ctx, params: t.ReadResourceRequestParams
    ) -> t.ReadResourceResult | t.InputRequiredResult:
        return await self._session.read_resource(
            str(params.uri),
            input_responses=params.input_responses,
            request_state=params.request_state,
            allow_input_required=True,
        )

    async def list_prompts(self, _: Ctx, params: Page) -> t.ListPromptsResult:
        return await self._session.list_prompts(params=params)

    async def get_prompt(self, _: Ctx, params: t.GetPromptRequestParams) -> t.GetPromptResult | t.InputRequiredResult:
        return await self._session.get_prompt(
            params.name,
            params.arguments,
            input_responses=params.input_responses,
            request_state=params.request_state,
            allow_input_required=True,
        )

    async def complete(self, _: Ctx, params: t.CompleteRequestParams) -> t.CompleteResult:
        context = params.context.arguments if params.context else None
        return await self._session.complete(params.ref, params.argument.model_dump(), context)


async def main(url: str, mode: str = "auto") -> None:
    """Connect, then serve."""
    warnings.simplefilter("ignore")  # what the SDK calls deprecated is passed on as well
    async with Client(url, mode=mode, cache=None) as upstream:
        passing = Forwarding(upstream)
        server: Server[Any] = Server(
            "plain",
            on_list_tools=passing.list_tools,
            on_call_tool=passing.call_tool,
            on_list_resources=passing.list_resources,
            on_list_resource_templates=passing.list_templates,
            on_read_resource=passing.read_resource,
            on_list_prompts=passing.list_prompts,
            on_get_prompt=passing.get_prompt,
            on_completion=passing.complete,
            on_subscriptions_listen=passing.listen,
        )
        listener = socket.create_server(("127.0.0.1", 0))
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        # h11, as the fixture itself: it strips blanks around a header's value
        config = uvicorn.Config(
            server.streamable_http_app(), http="h11", log_level="error", timeout_graceful_shutdown=1
        )
        await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
