"""MCP's Python SDK 2.x, in both eras: uses everything that the server behind the gateway has."""

import asyncio
import json
import os

import httpx2
from mcp import Client, MCPError, types
from mcp.client.streamable_http import streamable_http_client


async def seen(mode: str) -> dict[str, bool]:
    asked = []
    told = []

    async def elicit(context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params)
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    updated = asyncio.get_running_loop().create_future()

    async def listen(message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification) and not updated.done():
            updated.set_result(message.params.uri)

    async def report(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    async with httpx2.AsyncClient(headers={"x-api-key": os.environ["JACKFIELD_KEY"]}, timeout=30) as http:
        transport = streamable_http_client(f"{os.environ['JACKFIELD_URL']}/mcp", http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=elicit, message_handler=listen) as client:
            tools = (await client.list_tools()).tools
            called = await client.call_tool("rich", {"text": "hello"})
            await client.call_tool("progress", {}, progress_callback=report)
            answer = await client.call_tool("ask", {})
            failed = await client.call_tool("fail", {})
            resources = (await client.list_resources()).resources
            templates = (await client.list_resource_templates()).resource_templates
            read = (await client.read_resource("rich://item/7")).contents[0]
            blob = (await client.read_resource("rich://blob")).contents[0]
            try:
                await client.read_resource("rich://nothing")
                missing = 0
            except MCPError as fault:
                missing = fault.error.code
            if mode == "legacy":
                await client.subscribe_resource("rich://text")
                await client.call_tool("touch", {})
                changed = await asyncio.wait_for(updated, 10)
            else:
                async with asyncio.timeout(10), client.listen(resource_subscriptions=["rich://text"]) as events:
                    await client.call_tool("touch", {})
                    changed = (await anext(events)).uri
            prompts = (await client.list_prompts()).prompts
            got = await client.get_prompt("rich", {"topic": "fields"})
            ref = types.PromptReference(name="rich")
            completed = await client.complete(ref, {"name": "topic", "value": "f"})
    kinds = [block.type for block in called.content]
    return {
        "lists tools": any(tool.name == "rich" and tool.icons and tool.output_schema for tool in tools),
        "calls a tool": called.structured_content == {"text": "hello", "half": 0.5},
        "images, audio, links": kinds == ["text", "image", "audio", "resource_link", "resource"],
        "progress": told == [0.25, 0.5, 1],
        "elicitation": len(asked) == 1 and answer.structured_content["content"] == {"name": "Ada"},
        "a tool that fails": failed.is_error,
        "lists resources": any(one.uri == "rich://text" and one.size == 5 for one in resources),
        "lists templates": any(one.uri_template == "rich://item/{id}" for one in templates),
        "reads a resource": read.text == "Item 7",
        "reads bytes": blob.blob.startswith("iVBOR"),
        "a resource that is not there": missing == (-32002 if mode == "legacy" else -32602),
        "a resource that changes": changed == "rich://text",
        "lists prompts": any(one.name == "rich" and len(one.arguments) == 2 for one in prompts),
        "gets a prompt": got.messages[0].content.text == "About fields",
        "completes an argument": completed.completion.values == ["f0", "f1", "f2"],
    }


async def main() -> None:
    checks = {f"{mode}: {name}": held for mode in ("legacy", "auto") for name, held in (await seen(mode)).items()}
    print(json.dumps(checks))


asyncio.run(main())
