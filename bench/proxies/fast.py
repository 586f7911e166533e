# /// script
# requires-python = ">=3.11"
# dependencies = ["fastmcp==4.1.2", "httptools", "uvloop"]
# ///
"""FastMCP's proxy, run by uv with the packages above: `fast.py [--guide] URL [URL]`.

With one client that all calls share, and JSON answers; with `--guide` as its guide makes it: the address alone.
"""

import sys

import uvloop
from fastmcp import Client  # type: ignore[import-not-found] # installed by uv for this file alone
from fastmcp.server import create_proxy  # type: ignore[import-not-found] # the same
from serving import serve  # type: ignore[import-not-found] # its neighbour, as a script finds it


async def main(*arguments: str) -> None:
    """A client that is connected already is shared; given the address alone, FastMCP connects anew for every call."""
    urls = [argument for argument in arguments if argument != "--guide"]
    target = urls[0] if len(urls) == 1 else {"mcpServers": {f"s{n}": {"url": url} for n, url in enumerate(urls)}}
    if "--guide" in arguments:
        await serve(create_proxy(target).http_app(path="/mcp"))
        return
    async with Client(target) as upstream:
        await serve(create_proxy(upstream).http_app(path="/mcp", json_response=True))


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
