"""A response's stream on its way to a client, while the response is made.

Above: the doors. Below: ASGI. Each event is one write; between events nothing is made or looked up, since a token has
microseconds. A client that hangs up stops what is made for it alone.
"""

import asyncio
from collections import deque

from starlette.types import Receive, Scope, Send

from jackfield.http.response import part
from jackfield.http.sse import EVENT_HEADERS, PING_EVERY
from jackfield.http.streams import Streams
from jackfield.responses.run import RunningResponse
from jackfield.responses.wire import DONE, Frame

PING = b": ping\n\n"
ENDS_WITHIN = 2.0
"""Seconds that a stopping server gives a response to say how it ended."""


class Reader:
    """What has been told to one client and not sent yet."""

    __slots__ = ("_frames", "_waiter", "is_closed")

    def __init__(self) -> None:
        self._frames: deque[Frame] = deque()
        self._waiter: asyncio.Future[bool] | None = None
        self.is_closed = False

    def put(self, frames: list[Frame]) -> None:
        self._frames.extend(frames)
        self.wake()

    def close(self) -> None:
        self.is_closed = True
        self.wake()

    def wake(self, *_: object) -> None:
        self._settle(True)  # noqa: FBT003 - what a future is set to

    def take(self) -> Frame | None:
        return self._frames.popleft() if self._frames else None

    async def wait(self, seconds: float) -> bool:
        """Until something is there or somebody woke us; False when that took too long."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiter = waiter
        timer = loop.call_later(seconds, self._settle, False)  # noqa: FBT003 - what a future is set to
        try:
            return await waiter
        finally:
            timer.cancel()

    def _settle(self, was_woken: bool) -> None:  # noqa: FBT001 - what a future is set to
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(was_woken)


class LiveStream:
    """The answer that streams a response while it is made. `stops_it`: it is made for this client alone."""

    def __init__(
        self, making: RunningResponse, reader: Reader, *, gone: "asyncio.Task[None]", streams: Streams, stops_it: bool
    ) -> None:
        self._making = making
        self._reader = reader
        self._gone = gone
        self._streams = streams
        self._stops_it = stops_it

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        self._gone.add_done_callback(self._reader.wake)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": list(EVENT_HEADERS)})
            if await self._send_all(send):
                await send(part(DONE))
            await send({"type": "http.response.body", "body": b""})
        finally:
            if self._stops_it:
                self._making.cancel()
            await self._streams.release(self._gone)

    async def _send_all(self, send: Send) -> bool:
        """True when the last event has left, False when the client has."""
        reader, gone = self._reader, self._gone
        while not gone.done() or gone.cancelled():
            if (frame := reader.take()) is not None:
                await send(part(frame.as_sse))
            elif reader.is_closed:
                return True
            elif gone.done():
                if not await self._ended_with_the_server():
                    return False
            elif not await reader.wait(PING_EVERY):
                await send(part(PING))
        return False

    async def _ended_with_the_server(self) -> bool:
        """The server stops: how the response ended is still told. One in the background is not this stream's to end."""
        if self._stops_it:
            self._making.interrupt()
            await asyncio.wait((self._making.task,), timeout=ENDS_WITHIN)
        return self._reader.is_closed
