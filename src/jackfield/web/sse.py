"""Server-sent events: one stream of JSON messages with heartbeats, ended by either side.

Above: the doors that stream. Below: `streams.py`, which knows when to stop.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import Any

from msgspec import Struct
from starlette.types import Receive, Scope, Send

from jackfield.web.answers import NO_STORE, Header, encode
from jackfield.web.sending import part, send_whole
from jackfield.web.streams import Streams, next_of, stop

PING_EVERY = 15.0
EVENT_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    NO_STORE,
    (b"x-accel-buffering", b"no"),
)


class Message(Struct, frozen=True, kw_only=True):
    """One event: what it is called, what it carries, and its id if a client can come back with it."""

    data: Any
    event: str | None = None
    id: str | None = None
    on_sent: Callable[[], Awaitable[None]] | None = None
    """What to do as soon as the message has left."""

    def encoded(self) -> bytes:
        """The event's lines. `data` is one: a line break in JSON is white space, as in a result that came indented."""
        head = b""
        if self.id is not None:
            head += b"id: %s\n" % self.id.encode()
        if self.event is not None:
            head += b"event: %s\n" % self.event.encode()
        data = encode(self.data)
        if b"\n" in data or b"\r" in data:
            data = data.replace(b"\n", b" ").replace(b"\r", b" ")
        return b"%sdata: %s\n\n" % (head, data)


class Comment(Struct, frozen=True):
    """A line that clients skip. The first one says that from here on nothing is missed."""

    text: str

    def encoded(self) -> bytes:
        return b": %s\n\n" % self.text.encode()


CONNECTED = Comment("connected")
PING = Comment("ping").encoded()


class EventStream:
    """An answer that goes on until the messages, the client or the server end it."""

    def __init__(
        self,
        messages: AsyncGenerator[Message | Comment],
        *,
        streams: Streams,
        first: Message | Comment | None = None,
        headers: Iterable[Header] = (),
        ping_every: float | None = None,
    ) -> None:
        """`first` is a message that the door has already taken from `messages`."""
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
        coming = asyncio.ensure_future(self._take_first())
        try:
            while True:
                done, _ = await asyncio.wait(
                    (coming, gone), timeout=self._ping_every, return_when=asyncio.FIRST_COMPLETED
                )
                if gone in done:
                    return
                if coming not in done:
                    await send(part(PING))
                    continue
                message = coming.result()
                if message is None:
                    return
                if not await send_whole(send, message.encoded(), gone=gone):
                    return
                if isinstance(message, Message) and message.on_sent is not None:
                    await message.on_sent()
                coming = asyncio.ensure_future(next_of(self._messages))
        finally:
            await stop(coming)
            await self._messages.aclose()
            await self._streams.release(gone)

    async def _take_first(self) -> Message | Comment | None:
        return await next_of(self._messages) if self._first is None else self._first
