"""MCP's Python SDK 1.x: uses everything that the server behind the gateway has."""

import asyncio
import json
import os

from mcp import ClientSession, McpError, types
from mcp.client.streamable_http import streamablehttp_client
from pydantic import AnyUrl


async def main() -> None:
    asked = []
    told = []

    async def elicit(context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params)
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    updated = asyncio.get_running_loop().create_future()

    async def listen(message: object) -> None:
        note = getattr(message, "root", None)
        if isinstance(note, types.ResourceUpdatedNotification) and not updated.done():
            updated.set_result(str(note.params.uri))

    async def report(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    url, headers = f"{os.environ['JACKFIELD_URL']}/mcp", {"x-api-key": os.environ["JACKFIELD_KEY"]}
    async with (
        streamablehttp_client(url, headers=headers) as (reading, writing, _),
        ClientSession(reading, writing, elicitation_callback=elicit, message_handler=listen) as session,
    ):
        await session.initialize()
        tools = (await session.list_tools()).tools
        called = await session.call_tool("rich", {"text": "hello"})
        await session.call_tool("progress", {}, progress_callback=report)
        answer = await session.call_tool("ask", {})
        failed = await session.call_tool("fail", {})
        resources = (await session.list_resources()).resources
        templates = (await session.list_resource_templates()).resourceTemplates
        read = (await session.read_resource(AnyUrl("rich://item/7"))).contents[0]
        blob = (await session.read_resource(AnyUrl("rich://blob"))).contents[0]
        try:
            await session.read_resource(AnyUrl("rich://nothing"))
            missing = 0
        except McpError as fault:
            missing = fault.error.code
        await session.subscribe_resource(AnyUrl("rich://text"))
        await session.call_tool("touch", {})
        changed = await asyncio.wait_for(updated, 10)
        prompts = (await session.list_prompts()).prompts
        got = await session.get_prompt("rich", {"topic": "fields"})
        ref = types.PromptReference(type="ref/prompt", name="rich")
        completed = await session.complete(ref, {"name": "topic", "value": "f"})
    kinds = [block.type for block in called.content]
    checks = {
        "lists tools": any(tool.name == "rich" and tool.icons and tool.outputSchema for tool in tools),
        "calls a tool": called.structuredContent == {"text": "hello", "half": 0.5},
        "images, audio, links": kinds == ["text", "image", "audio", "resource_link", "resource"],
        "progress": told == [0.25, 0.5, 1],
        "elicitation": len(asked) == 1 and answer.structuredContent["content"] == {"name": "Ada"},
        "a tool that fails": failed.isError,
        "lists resources": any(str(one.uri) == "rich://text" and one.size == 5 for one in resources),
        "lists templates": any(one.uriTemplate == "rich://item/{id}" for one in templates),
        "reads a resource": read.text == "Item 7",
        "reads bytes": blob.blob.startswith("iVBOR"),
        "a resource that is not there": missing == -32002,
        "a resource that changes": changed == "rich://text",
        "lists prompts": any(one.name == "rich" and len(one.arguments) == 2 for one in prompts),
        "gets a prompt": got.messages[0].content.text == "About fields",
        "completes an argument": completed.completion.values == ["f0", "f1", "f2"],
    }
    print(json.dumps(checks))


asyncio.run(main())
