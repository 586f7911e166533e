# /// script
# requires-python = ">=3.11"
# dependencies = ["fastmcp==4.1.2", "httptools", "uvloop"]
# ///
"""FastMCP's proxy as its documentation makes it: run by uv with the packages above, as `fast.py URL`."""

import socket
import sys

import uvicorn
import uvloop
from fastmcp.server import create_proxy  # type: ignore[import-not-found] # installed by uv for this file alone


async def main(url: str) -> None:
    """Given the URL, it connects anew for every session, which is what passes the server's requests on."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(create_proxy(url).http_app(path="/mcp"), log_level="error", timeout_graceful_shutdown=1)
    await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
