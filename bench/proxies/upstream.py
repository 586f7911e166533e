"""An MCP server with tools, a prompt and resources, as the SDK makes them.

`python -m bench.proxies.upstream [RESOURCES [TOOLS [NAME]]]`: none and one by default; NAME is that of the first tool.
"""

import sys
from typing import Any

import mcp.types as t
import uvloop
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from bench.proxies.serving import serve

Ctx = ServerRequestContext[Any, Any]
RESOURCE_COUNT, TOOL_COUNT, NAME, *_ = [*sys.argv[1:], *("0", "1", "echo")[len(sys.argv) - 1 :]]
ECHO = t.Tool(
    name=NAME,
    description="Give the text back.",
    input_schema={
        "type": "object",
        "properties": {"text": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["text", "count"],
    },
)
TOOLS = [ECHO, *(ECHO.model_copy(update={"name": f"{NAME}_{n:03}"}) for n in range(1, int(TOOL_COUNT)))]


GREET = t.Prompt(name="greet", description="A greeting.", arguments=[t.PromptArgument(name="name", required=True)])
PAGE = 1_000
RESOURCES = [
    t.Resource(uri=f"notes:///{n:05}.txt", name=f"note-{n}", description=f"Note number {n}.", mime_type="text/plain")
    for n in range(int(RESOURCE_COUNT))
]


async def list_tools(_: Ctx, __: t.PaginatedRequestParams | None) -> t.ListToolsResult:
    return t.ListToolsResult(tools=TOOLS)


async def call_tool(_: Ctx, params: t.CallToolRequestParams) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(text=(params.arguments or {})["text"])])


async def list_resources(_: Ctx, params: t.PaginatedRequestParams | None) -> t.ListResourcesResult:
    start = int((params and params.cursor) or 0)
    following = str(start + PAGE) if start + PAGE < len(RESOURCES) else None
    return t.ListResourcesResult(resources=RESOURCES[start : start + PAGE], next_cursor=following)


async def read_resource(_: Ctx, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
    text = t.TextResourceContents(uri=params.uri, mime_type="text/plain", text=f"The text of {params.uri}")
    return t.ReadResourceResult(contents=[text])


async def list_prompts(_: Ctx, __: t.PaginatedRequestParams | None) -> t.ListPromptsResult:
    return t.ListPromptsResult(prompts=[GREET])


async def get_prompt(_: Ctx, params: t.GetPromptRequestParams) -> t.GetPromptResult:
    said = t.TextContent(text=f"Greet {(params.arguments or {})['name']}.")
    return t.GetPromptResult(messages=[t.PromptMessage(role="user", content=said)])


if __name__ == "__main__":
    server: Server[Any] = Server(
        "upstream",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )
    uvloop.run(serve(server.streamable_http_app(json_response=True)))
