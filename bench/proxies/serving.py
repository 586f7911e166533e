"""Serve an ASGI app on a free port that is printed, as fast as uvicorn does it."""

import socket
import sys

import uvicorn
from starlette.applications import Starlette


async def serve(app: Starlette) -> None:
    """Until told to stop."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(
        app, loop="uvloop", http="httptools", log_level="error", access_log=False, timeout_graceful_shutdown=1
    )
    await uvicorn.Server(config).serve(sockets=[listener])
