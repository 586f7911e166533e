"""An MCP server with one tool, as the SDK makes them: `python -m bench.proxies.upstream`."""

from typing import Any

import mcp.types as t
import uvloop
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from bench.proxies.serving import serve

Ctx = ServerRequestContext[Any, Any]
ECHO = t.Tool(
    name="echo",
    description="Give the text back.",
    input_schema={
        "type": "object",
        "properties": {"text": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["text", "count"],
    },
)


async def list_tools(_: Ctx, __: t.PaginatedRequestParams | None) -> t.ListToolsResult:
    return t.ListToolsResult(tools=[ECHO])


async def call_tool(_: Ctx, params: t.CallToolRequestParams) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(text=(params.arguments or {})["text"])])


if __name__ == "__main__":
    server: Server[Any] = Server("upstream", on_list_tools=list_tools, on_call_tool=call_tool)
    uvloop.run(serve(server.streamable_http_app(json_response=True)))
