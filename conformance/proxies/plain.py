"""The plain SDK proxy: `python -m conformance.proxies.plain URL`. Every method that the SDK has, passed on as it comes.

One client that all callers share, with every capability declared, so that the server asks; questions of the newer era
go to the caller as the results they are. It keeps nothing and decides nothing.
"""

import sys
import warnings
from typing import Any

import mcp.types as t
import uvloop
from mcp import Client, MCPError
from mcp.client.context import ClientRequestContext
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

from bench.proxies.serving import serve

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


async def _refused(context: ClientRequestContext, params: Any) -> Any:  # noqa: ARG001 - the names are the SDK's
    """A shared client cannot tell for whom a request of the older era is."""
    raise MCPError(t.INVALID_REQUEST, "This proxy does not know whom to ask")


async def _no_roots(context: ClientRequestContext) -> Any:  # noqa: ARG001 - likewise
    raise MCPError(t.INVALID_REQUEST, "This proxy does not know whom to ask")


async def main(url: str) -> None:
    """Connect, then serve."""
    warnings.simplefilter("ignore")  # what the SDK calls deprecated is passed on as well
    client = Client(
        url, sampling_callback=_refused, list_roots_callback=_no_roots, elicitation_callback=_refused, cache=None
    )
    async with client as upstream:
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
        await serve(server.streamable_http_app())


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
