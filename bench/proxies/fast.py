# /// script
# requires-python = ">=3.11"
# dependencies = ["fastmcp==4.1.2", "httptools", "uvloop"]
# ///
"""FastMCP's proxy with one client that all calls share: run by uv with the packages above, as `fast.py URL`."""

import sys

import uvloop
from fastmcp import Client  # type: ignore[import-not-found] # installed by uv for this file alone
from fastmcp.server import create_proxy  # type: ignore[import-not-found] # the same
from serving import serve  # type: ignore[import-not-found] # its neighbour, as a script finds it


async def main(url: str) -> None:
    """A client that is connected already is shared; given the url alone, FastMCP connects anew for every call."""
    async with Client(url) as upstream:
        await serve(create_proxy(upstream).http_app(path="/mcp", json_response=True))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
