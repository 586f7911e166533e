"""The reference of spaces: what Starlette and uvicorn need to hand one event to everybody who listens, and no more.

    python -m bench.bare_stream        # prints its port

`GET /stream` is an endless event stream with a queue each, `POST /publish` encodes one event once and puts it into
every queue. Nothing is kept, checked or numbered for good; the server's settings are the gateway's.
"""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator

import msgspec
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route


def make_app() -> Starlette:
    """Both doors, as a tutorial would write them."""
    queues: set[asyncio.Queue[bytes]] = set()
    published = 0

    async def frames(queue: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
        try:
            yield b'data: {"type":"connected"}\n\n'
            while True:
                yield await queue.get()
        finally:
            queues.discard(queue)

    async def stream(_request: Request) -> Response:
        queue: asyncio.Queue[bytes] = asyncio.Queue(1000)
        queues.add(queue)
        return StreamingResponse(frames(queue), media_type="text/event-stream")

    async def publish(request: Request) -> Response:
        nonlocal published
        published += 1
        message = {"type": "space.message", "seq": published, "message": msgspec.json.decode(await request.body())}
        frame = b"id: %d\ndata: %s\n\n" % (published, msgspec.json.encode(message))
        for queue in queues:
            queue.put_nowait(frame)
        return Response(b"{}", status_code=201, media_type="application/json")

    return Starlette(routes=[Route("/stream", stream), Route("/publish", publish, methods=["POST"])])


def main() -> None:
    """Serve until told to stop."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(
        make_app(),
        loop="uvloop",
        http="httptools",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    main()
