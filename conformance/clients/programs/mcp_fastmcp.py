"""FastMCP's client: uses everything that the server behind the gateway has."""

import asyncio
import json
import os

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from mcp import MCPError
from mcp.types import PromptReference


async def main() -> None:
    asked = []
    told = []

    async def elicit(message: str, response_type: object, params: object, context: object) -> dict[str, str]:
        asked.append(message)
        return {"name": "Ada"}

    async def report(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    url, headers = f"{os.environ['JACKFIELD_URL']}/mcp", {"x-api-key": os.environ["JACKFIELD_KEY"]}
    async with Client(StreamableHttpTransport(url, headers=headers), elicitation_handler=elicit) as client:
        tools = await client.list_tools()
        called = await client.call_tool("rich", {"text": "hello"})
        await client.call_tool("progress", {}, progress_handler=report)
        answer = await client.call_tool("ask", {})
        failed = await client.call_tool("fail", {}, raise_on_error=False)
        resources = await client.list_resources()
        templates = await client.list_resource_templates()
        read = (await client.read_resource("rich://item/7"))[0]
        blob = (await client.read_resource("rich://blob"))[0]
        try:
            await client.read_resource("rich://nothing")
            missing = ""
        except MCPError as fault:
            missing = str(fault)
        prompts = await client.list_prompts()
        got = await client.get_prompt("rich", {"topic": "fields"})
        completed = await client.complete(
            PromptReference(type="ref/prompt", name="rich"), {"name": "topic", "value": "f"}
        )
    kinds = [block.type for block in called.content]
    checks = {
        "lists tools": any(tool.name == "rich" and tool.icons for tool in tools),
        "calls a tool": called.structured_content == {"text": "hello", "half": 0.5},
        "images, audio, links": kinds == ["text", "image", "audio", "resource_link", "resource"],
        "progress": told == [0.25, 0.5, 1],
        "elicitation": len(asked) == 1 and answer.structured_content["content"] == {"name": "Ada"},
        "a tool that fails": failed.is_error,
        "lists resources": any(str(one.uri) == "rich://text" and one.size == 5 for one in resources),
        "lists templates": len(templates) == 2,
        "reads a resource": read.text == "Item 7",
        "reads bytes": blob.blob.startswith("iVBOR"),
        "a resource that is not there": "not found" in missing,
        "lists prompts": any(one.name == "rich" and len(one.arguments) == 2 for one in prompts),
        "gets a prompt": got.messages[0].content.text == "About fields",
        "completes an argument": completed.values == ["f0", "f1", "f2"],
    }
    print(json.dumps(checks))


asyncio.run(main())
