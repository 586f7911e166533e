"""A small real HTTP server that answers what a test tells it to: for what a healthy gateway never does."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests import waiting

Handler = Callable[[Request], Awaitable[Response]]
METHODS = ["GET", "POST", "PUT", "DELETE"]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One request that came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class ScriptedGateway:
    """Answers each path with the handlers given for it, in order; the last one stays."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    """Set when the server is told to stop, so that an endless stream can end."""
    _script: dict[str, list[Handler]] = field(default_factory=dict)

    def on(self, path: str, *handlers: Handler) -> None:
        self._script[path] = list(handlers)

    async def answer(self, request: Request) -> Response:
        raw = request.scope["raw_path"].decode("ascii")
        self.seen.append(
            Seen(
                method=request.method,
                path=raw,
                query=dict(request.query_params),
                headers=dict(request.headers),
                body=await request.body(),
            )
        )
        handlers = self._script.get(raw)
        if not handlers:
            return JSONResponse({"nothing": "here"}, status_code=500)
        handler = handlers.pop(0) if len(handlers) > 1 else handlers[0]
        return await handler(request)


def says(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Handler:
    """A handler that answers with this JSON."""

    async def handler(_request: Request) -> Response:
        return JSONResponse(value, status_code=status, headers=headers)

    return handler


def refuses(status: int, code: str, message: str = "No.", **more: Any) -> Handler:
    headers = more.pop("headers", None)
    error = {"type": "invalid_request", "code": code, "message": message, "param": None, **more}
    return says({"error": error}, status=status, headers=headers)


def streams(*chunks: bytes, then: Callable[[], Awaitable[None]] | None = None, breaks: bool = False) -> Handler:
    """A handler that sends these chunks as an event stream, then waits for `then`, then ends (or breaks off)."""

    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk
        if then is not None:
            await then()
        if breaks:
            raise ConnectionAbortedError

    async def handler(_request: Request) -> Response:
        return StreamingResponse(body(), media_type="text/event-stream")

    return handler


until = waiting.eventually_async


@contextmanager
def serving() -> Iterator[ScriptedGateway]:
    gateway = ScriptedGateway()
    app = Starlette(routes=[Route("/{path:path}", gateway.answer, methods=METHODS)])
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1024)
    gateway.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = uvicorn.Config(
        app, log_level="critical", ws="none", lifespan="off", timeout_graceful_shutdown=1, timeout_keep_alive=120
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield gateway
    finally:
        gateway.ended.set()
        server.should_exit = True
        thread.join(10)
        listener.close()
        assert not thread.is_alive(), "the scripted gateway did not stop"


class BreakingServer:
    """A raw listener that drops the first two connections after their request and answers from the third on."""

    def __init__(self) -> None:
        self.connections = 0
        self._server: asyncio.Server | None = None
        self.url = ""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await reader.readuntil(b"\r\n\r\n")
        if self.connections > 2:
            body = b'{"tools": [{"name": "add"}], "call_id": "c", "status": "completed"}'
            head = (
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
            )
            writer.write(head % len(body) + body)
            await writer.drain()
        writer.close()
