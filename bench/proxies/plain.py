"""The plain SDK proxy: `python -m bench.proxies.plain URL`. A server, a client that all calls share, nothing else."""

import sys
from typing import Any

import mcp.types as t
import uvloop
from mcp import Client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from bench.proxies.serving import serve

Ctx = ServerRequestContext[Any, Any]


async def main(url: str) -> None:
    """Pass lists and calls on."""
    async with Client(url) as upstream:

        async def list_tools(_: Ctx, __: t.PaginatedRequestParams | None) -> t.ListToolsResult:
            return await upstream.session.list_tools()

        async def call_tool(_: Ctx, params: t.CallToolRequestParams) -> t.CallToolResult:
            return await upstream.session.call_tool(params.name, params.arguments)

        async def list_resources(_: Ctx, params: t.PaginatedRequestParams | None) -> t.ListResourcesResult:
            return await upstream.session.list_resources(params=params)

        async def read_resource(_: Ctx, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
            return await upstream.session.read_resource(params.uri)

        async def get_prompt(_: Ctx, params: t.GetPromptRequestParams) -> t.GetPromptResult:
            return await upstream.session.get_prompt(params.name, params.arguments)

        server: Server[Any] = Server(
            "plain",
            on_list_tools=list_tools,
            on_call_tool=call_tool,
            on_list_resources=list_resources,
            on_read_resource=read_resource,
            on_get_prompt=get_prompt,
        )
        await serve(server.streamable_http_app(json_response=True))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
