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

        server: Server[Any] = Server("plain", on_list_tools=list_tools, on_call_tool=call_tool)
        await serve(server.streamable_http_app(json_response=True))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
