"""A gateway inside this process as an HTTP client sees it, streams included.

Above: `inside.py`. Below: the ASGI app. httpx2's own transport for apps collects an answer before it gives it, so
nothing that streams would ever arrive.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from starlette.types import ASGIApp

AHEAD = 64
"""Pieces of an answer that may wait for a client that reads slowly."""


class StreamingTransport(httpx2.AsyncBaseTransport):
    """Sends requests straight to an app and gives its answers piece by piece."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._serving: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        visit = _Visit(b"".join([piece async for piece in request.stream]))
        task = asyncio.create_task(visit.serve(self._app, _scope(request)))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            status, headers = await visit.started
        except asyncio.CancelledError:
            await visit.aclose()
            raise
        return httpx2.Response(status, headers=headers, stream=visit)

    async def aclose(self) -> None:
        if self._serving:
            await asyncio.wait(self._serving, timeout=1)


class _Visit(httpx2.AsyncByteStream):
    """One request being served: both ends of the ASGI channel, and the body as the client reads it."""

    def __init__(self, body: bytes) -> None:
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[tuple[int, list[tuple[bytes, bytes]]]] = loop.create_future()
        self._body: bytes | None = body
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(AHEAD)
        self._gone = asyncio.Event()

    async def serve(self, app: ASGIApp, scope: dict[str, Any]) -> None:
        try:
            await app(scope, self._receive, self._send)
        except Exception as fault:
            if self.started.done():
                raise
            self.started.set_exception(fault)
        finally:
            if not self._gone.is_set():
                await self._pieces.put(None)

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if self._gone.is_set():
            return
        if message["type"] == "http.response.start":
            self.started.set_result((message["status"], list(message["headers"])))
        elif message.get("body"):
            await self._pieces.put(message["body"])

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            yield piece

    async def aclose(self) -> None:
        """The client hangs up, or has read all. What the app still sends goes nowhere."""
        self._gone.set()
        while not self._pieces.empty():
            self._pieces.get_nowait()


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
