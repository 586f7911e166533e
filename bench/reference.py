"""The reference over HTTP: what Starlette, msgspec and uvicorn do for the same requests when nothing is done with them.

    python -m bench.reference [MANIFEST]        # prints its port

The same server settings as the gateway's. Execute decodes the same body and encodes an answer of the same shape; it
checks, decides and records nothing. The manifest is a file's bytes.
"""

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
import uvloop
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

ETAG = '"reference"'


class Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What execute is sent."""

    arguments: dict[str, Any] = {}
    agent: str | None = None
    space_id: str | None = None
    run_id: str | None = None
    chat_id: str | None = None


class Answer(Struct, frozen=True, kw_only=True):
    """What execute answers."""

    success: bool
    call_id: str
    run_id: str
    status: str
    result: Any
    error: None
    execution_time_ms: float


_decode = msgspec.json.Decoder(Body).decode
_encode = msgspec.json.Encoder().encode


async def echo(request: Request) -> Response:
    """The arguments are the result."""
    body = _decode(await request.body())
    answer = Answer(
        success=True,
        call_id="call_0199d0c5a7f0a1b2c3d4e5f60718",
        run_id="run_0199d0c5a7f0a1b2c3d4e5f60718",
        status="completed",
        result=body.arguments,
        error=None,
        execution_time_ms=0.123456789,
    )
    return Response(_encode(answer), media_type="application/json")


def make_app(manifest: bytes) -> Starlette:
    """Both doors, as Starlette's own documentation would write them."""

    async def give_manifest(request: Request) -> Response:
        headers = {"ETag": ETAG, "Cache-Control": "public, max-age=60"}
        if request.headers.get("if-none-match") == ETAG:
            return Response(status_code=304, headers=headers)
        return Response(manifest, media_type="application/json", headers=headers)

    return Starlette(
        routes=[
            Route("/api/v1/tools/{name}/execute", echo, methods=["POST"]),
            Route("/api/v1/tools", give_manifest),
        ]
    )


def main() -> None:
    """Serve until told to stop."""
    manifest = Path(sys.argv[1]).read_bytes() if len(sys.argv) > 1 else b"{}"
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(
        make_app(manifest),
        loop="uvloop",
        http="httptools",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=2048,
        timeout_keep_alive=75,
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    main()
