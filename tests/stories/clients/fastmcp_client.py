# /// script
# requires-python = ">=3.11"
# dependencies = ["fastmcp==4.1.2"]
# ///
"""FastMCP's client at a gateway: `fastmcp_client.py URL KEY` prints what it saw, as JSON. Run by uv, not imported."""

import asyncio
import json
import sys

from fastmcp import Client  # type: ignore[import-not-found] # installed by uv for this file alone
from fastmcp.client.transports import StreamableHttpTransport  # type: ignore[import-not-found] # the same


async def main(url: str, key: str) -> None:
    told: list[str | None] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    transport = StreamableHttpTransport(f"{url}/mcp", headers={"Authorization": f"Bearer {key}"})
    async with Client(transport) as client:
        names = [tool.name for tool in await client.list_tools()]
        added = await client.call_tool("add", {"a": 2, "b": 3})
        failed = await client.call_tool("boom", {"reason": "out of luck"}, raise_on_error=False)
        stepped = await client.call_tool("steps", {"count": 2}, progress_handler=tell)
    saw = {
        "names": names,
        "added": added.content[0].text,
        "failed": [failed.is_error, failed.content[0].text],
        "stepped": [stepped.content[0].text, *told],
    }
    sys.stdout.write(json.dumps(saw))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
