"""Server-sent events: one stream of JSON messages with heartbeats, ended by either side.

Above: the handlers that stream. Below: `streams.py`, which knows when to stop.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, TypeVar

from msgspec import Struct
from starlette.types import Receive, Scope, Send

from jackfield.http.response import NO_STORE, Header, encode, part, send_whole
from jackfield.http.streams import Streams, stop
from jackfield.protocol.sse import encode_event

T = TypeVar("T")
PING_EVERY = 15.0
EVENT_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    NO_STORE,
    (b"x-accel-buffering", b"no"),
)


class EventMessage(Struct, frozen=True, kw_only=True):
    """One event: what it is called, what it carries, and its id if a client can come back with it."""

    data: Any
    event: str | None = None
    id: str | None = None
    on_sent: Callable[[], Awaitable[None]] | None = None
    """What to do as soon as the message has left."""

    def encoded(self) -> bytes:
        return encode_event(encode(self.data), id=self.id, event=self.event)


class Comment(Struct, frozen=True):
    """A line that clients skip. The first one says that from here on nothing is missed."""

    text: str

    def encoded(self) -> bytes:
        return b": %s\n\n" % self.text.encode()


CONNECTED = Comment("connected")
PING = Comment("ping").encoded()


class EventStream:
    """An answer that goes on until the messages, the client or the server end it.

    What is bytes has been encoded already, for many streams at once. One task asks for the next message and sends it;
    nothing is made per message but what the message needs.
    """

    def __init__(
        self,
        messages: AsyncGenerator[EventMessage | Comment | bytes],
        *,
        streams: Streams,
        first: EventMessage | Comment | None = None,
        headers: Iterable[Header] = (),
        ping_every: float | None = None,
    ) -> None:
        """`first` is a message that the handler has already taken from `messages`."""
        self._messages = messages
        self._streams = streams
        self._first = first
        self._headers = (*EVENT_HEADERS, *headers)
        self._ping_every = PING_EVERY if ping_every is None else ping_every

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": list(self._headers)})
        if scope["method"] != "HEAD":
            await self._pump(receive, send)
        await send({"type": "http.response.body", "body": b""})

    async def _pump(self, receive: Receive, send: Send) -> None:
        gone = self._streams.watch(receive)
        pulse = Pulse(send, every=self._ping_every)
        waiting = Interruptible(gone)
        message: EventMessage | Comment | bytes | None = self._first
        try:
            if message is None:
                message = await waiting.next_of(self._messages)
            while message is not None:
                frame = message if isinstance(message, bytes) else message.encoded()
                await pulse.pause()
                if not await send_whole(send, frame, gone=gone):
                    return
                if isinstance(message, EventMessage) and message.on_sent is not None:
                    await message.on_sent()
                pulse.go_on()
                message = await waiting.next_of(self._messages)
        finally:
            await pulse.stop()
            await self._messages.aclose()
            await self._streams.release(gone)


class Interruptible:
    """Waits for the next of some items in the caller's own task, as long as the client is there.

    A task per item, to be waited for beside the client, would cost more than sending the item does.
    """

    def __init__(self, gone: "asyncio.Future[None]") -> None:
        self._gone = gone
        self._waiter: asyncio.Task[object] | None = None
        self._is_interrupted = False
        gone.add_done_callback(self._interrupt)

    async def next_of(self, items: AsyncIterator[T]) -> T | None:
        """The next item; None after the last one, and when the client has gone."""
        if self._gone.done():
            return None
        task = asyncio.current_task()
        assert task is not None
        self._waiter = task
        try:
            return await anext(items, None)
        except asyncio.CancelledError:
            if self._is_interrupted and task.cancelling() == 1:
                return None
            raise
        finally:
            if self._is_interrupted:
                task.uncancel()
            self._waiter = None

    def _interrupt(self, _gone: "asyncio.Future[None]") -> None:
        if self._waiter is not None:
            self._is_interrupted = True
            self._waiter.cancel()


class Pulse:
    """Pings that show a quiet stream to be alive. One timer a stream, which messages do not touch."""

    def __init__(self, send: Send, *, every: float) -> None:
        self._send = send
        self._every = every
        self._loop = asyncio.get_running_loop()
        self._quiet_since = self._loop.time()
        self._is_paused = False
        self._ping: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(every, self._tick)

    async def pause(self) -> None:
        """A message is about to leave: no ping may fall into it, and one that is under way goes first."""
        self._is_paused = True
        if self._ping is not None:
            await asyncio.wait((self._ping,))

    def go_on(self) -> None:
        self._quiet_since = self._loop.time()
        self._is_paused = False

    async def stop(self) -> None:
        self._timer.cancel()
        if self._ping is not None:
            await stop(self._ping)

    def _tick(self) -> None:
        left = self._quiet_since + self._every - self._loop.time()
        if left <= 0:
            if not self._is_paused and self._ping is None:
                self._ping = asyncio.ensure_future(self._send_ping())
            self._quiet_since = self._loop.time()
            left = self._every
        self._timer = self._loop.call_later(left, self._tick)

    async def _send_ping(self) -> None:
        try:
            await self._send(part(PING))
        finally:
            self._ping = None
