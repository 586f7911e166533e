# /// script
# requires-python = ">=3.11"
# dependencies = ["aiohttp", "uvloop"]
# ///
"""aiohttp's client for `bench.clients`: run by uv with the packages above, as `aiohttp_client.py URL BODY`."""

import sys

import aiohttp  # type: ignore[import-not-found] # installed by uv for this file alone
import uvloop
from rounds import IN_FLIGHT, serve_rounds  # type: ignore[import-not-found] # its neighbour, as a script finds it


async def main(url: str, body: str) -> None:
    """One session, as its documentation advises; no address check beneath it."""
    content, headers = body.encode(), {"content-type": "application/json"}
    connector = aiohttp.TCPConnector(limit=IN_FLIGHT)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def call() -> None:
            async with session.post(url, data=content, headers=headers) as response:
                await response.read()

        await serve_rounds(call)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
