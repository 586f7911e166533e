"""A gateway in this process, reached over HTTP without a network.

httpx2's own ASGI transport buffers whole responses; this one streams.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from starlette.types import ASGIApp

from jackfield.gateway.gateway import Gateway
from jackfield.gateway.logs import set_up_logging
from jackfield.gateway.server import build_app
from jackfield.http.streams import Streams
from jackfield.settings import Settings

SOURCES_TIMEOUT = 10.0
"""Seconds to wait for sources to come up; slower ones count as down."""
BUFFERED_CHUNKS = 64
"""Chunks of a response that may wait for a slow reader."""


@asynccontextmanager
async def gateway_transport(settings: Settings) -> AsyncIterator["StreamingTransport"]:
    """Run a gateway as long as the block."""
    set_up_logging(
        settings.log_format, secrets=lambda: settings.secrets.used, tokens=settings.secrets.tokens, level=logging.ERROR
    )
    streams = Streams()
    async with Gateway(settings) as gateway:
        await gateway.source_registry.settled(within=SOURCES_TIMEOUT)
        try:
            yield StreamingTransport(build_app(gateway, streams=streams))
        finally:
            streams.close()


class StreamingTransport(httpx2.AsyncBaseTransport):
    """Sends requests to an ASGI app and streams its responses."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._serving: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        exchange = _Exchange(b"".join([chunk async for chunk in request.stream]))
        task = asyncio.create_task(exchange.serve(self._app, _scope(request)))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            status, headers = await exchange.started
        except asyncio.CancelledError:
            await exchange.aclose()
            raise
        return httpx2.Response(status, headers=headers, stream=exchange)

    async def aclose(self) -> None:
        if self._serving:
            await asyncio.wait(self._serving, timeout=1)


class _Exchange(httpx2.AsyncByteStream):
    """One request and its response: the ASGI channel on one side, the body stream on the other."""

    def __init__(self, body: bytes) -> None:
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[tuple[int, list[tuple[bytes, bytes]]]] = loop.create_future()
        self._body: bytes | None = body
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue(BUFFERED_CHUNKS)
        self._closed = asyncio.Event()

    async def serve(self, app: ASGIApp, scope: dict[str, Any]) -> None:
        try:
            await app(scope, self._receive, self._send)
        except Exception as fault:
            if self.started.done():
                raise
            self.started.set_exception(fault)
        finally:
            if not self._closed.is_set():
                await self._chunks.put(None)

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._closed.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if self._closed.is_set():
            return
        if message["type"] == "http.response.start":
            self.started.set_result((message["status"], list(message["headers"])))
        elif message.get("body"):
            await self._chunks.put(message["body"])

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (chunk := await self._chunks.get()) is not None:
            yield chunk

    async def aclose(self) -> None:
        """The client disconnected or has read everything; what the app still sends is dropped."""
        self._closed.set()
        while not self._chunks.empty():
            self._chunks.get_nowait()


def _scope(request: httpx2.Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.partition(b"?")[0],
        "query_string": request.url.query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "server": (request.url.host, request.url.port),
        "client": ("127.0.0.1", 0),
    }
