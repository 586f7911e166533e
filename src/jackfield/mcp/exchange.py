"""One request and its response: messages sent before the result, cancellation, and the HTTP response that carries it.

Above: `api.py` and `server.py`. Below: asyncio and ASGI. The response is JSON unless something is sent before the
result, or 15 seconds pass in silence: then it becomes an event stream.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import Receive, Scope, Send

from jackfield.calls.receipts import StreamedCall
from jackfield.http.response import BytesResponse, part, raw_json_response, send_whole
from jackfield.http.sse import EVENT_HEADERS, PING, PING_EVERY
from jackfield.http.streams import Streams
from jackfield.mcp.resumption import ResumableStream
from jackfield.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RequestId,
    RpcError,
    RpcRequest,
    error_response,
    response,
)
from jackfield.protocol.mcp import HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION
from jackfield.protocol.sse import encode_event

BACKLOG = 1_000
"""Messages that may wait for one client."""
RpcOutcome = bytes | RpcError
"""A request's outcome: the bytes of its result, or an error."""
_STOPPED = RpcError(INTERNAL_ERROR, "The gateway stopped before this was answered. See the record of the call.")
HTTP_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""The HTTP status of an error since 2026-07-28; all others come with 200, as all do in the handshake era."""


class McpExchange:
    """A request that is being answered. Used on the event loop only."""

    __slots__ = (
        "_asked",
        "_outbox",
        "_successor",
        "_waiter",
        "interim",
        "is_cancelled",
        "on_cancel",
        "receipt",
        "request",
        "work",
    )

    def __init__(self, request: RpcRequest) -> None:
        self.request = request
        self.work: asyncio.Task[RpcOutcome] | None = None
        self.on_cancel: Callable[[], None] | None = None
        """Cancels the call, if there is one."""
        self.is_cancelled = False
        self.receipt: StreamedCall | None = None
        """Confirms whether the client received the outcome."""
        self.interim: bytes | None = None
        """A result that ends this request but not the work: the client comes back with input."""
        self._outbox: list[bytes] = []
        self._asked: list[asyncio.Future[Any]] = []
        self._successor: McpExchange | None = None
        self._waiter: asyncio.Future[bool] | None = None

    def send(self, message: bytes) -> None:
        """Queue a message that is sent before the result. Never blocks."""
        if self._successor is not None:
            self._successor.send(message)
            return
        self._outbox.append(message)
        self.wake()

    def ask(self, message: bytes, answer: "asyncio.Future[Any]") -> None:
        """Queue a question to the client."""
        self._asked.append(answer)
        self.send(message)

    def give_interim(self, result: bytes) -> None:
        """End this request with a result that asks the client for input."""
        if self._successor is not None:
            self._successor.give_interim(result)
            return
        self.interim = result
        self.wake()

    @property
    def latest(self) -> RpcRequest:
        """The request that is open now: this one, or the last that the client came back with."""
        return self.request if self._successor is None else self._successor.latest

    def hand_over(self, successor: "McpExchange") -> None:
        """The client came back: send later messages to its new request."""
        self._successor = successor
        successor.on_cancel, successor.receipt = self.on_cancel, self.receipt

    @property
    def has_room(self) -> bool:
        """Whether optional messages may be queued: a slow client must not fill our memory."""
        return len(self._outbox) < BACKLOG if self._successor is None else self._successor.has_room

    def drain(self) -> list[bytes]:
        """Take the queued messages."""
        said, self._outbox = self._outbox, []
        return said

    @property
    def needs_stream(self) -> bool:
        """Messages are queued before the result, or its delivery must be confirmed."""
        return bool(self._outbox) or (self.receipt is not None and self.receipt.is_owed)

    @property
    def outcome(self) -> RpcOutcome | None:
        """The outcome, once there is one."""
        if self.work is not None and self.work.done():
            return _STOPPED if self.work.cancelled() else self.work.result()
        return self.interim

    def cancel(self) -> None:
        """Cancelled by the client."""
        self.is_cancelled = True
        if self.on_cancel is not None:
            self.on_cancel()

    def abandon_questions(self) -> None:
        """The client is gone: its open questions get no answer."""
        for answer in self._asked:
            if not answer.done():
                answer.set_result(None)

    async def wait(self, *, within: float) -> bool:
        """Wait for a message, the outcome or a wake-up; False on timeout."""
        if self._outbox or self.outcome is not None:
            return True
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(within, self._give_up_waiting)
        try:
            return await self._waiter
        finally:
            timer.cancel()

    def _give_up_waiting(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(False)

    def wake(self, _: object = None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(True)


def outcome_response(request_id: RequestId | None, settled: RpcOutcome, *, modern: bool) -> BytesResponse:
    """The outcome as JSON."""
    if not isinstance(settled, RpcError):
        assert request_id is not None
        return raw_json_response(response(request_id, settled))
    status = settled.status or (HTTP_STATUS.get(settled.number, 200) if modern else 200)
    return raw_json_response(error_response(request_id, settled), status=status)


class ExchangeResponse:
    """The HTTP response of an exchange: JSON or an event stream.

    `stream`: in a session, where a client can come back to it. `after`: the client has come back, and has the events up
    to this number.
    """

    def __init__(
        self,
        exchange: McpExchange,
        *,
        streams: Streams,
        modern: bool,
        takes_events: bool,
        stream: ResumableStream | None = None,
        primes: bool = False,
        after: int | None = None,
    ) -> None:
        self._exchange = exchange
        self._streams = streams
        self._modern = modern
        self._takes_events = takes_events
        self._stream = stream
        self._primes = primes
        self._after = after
        self._has_begun = False

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        exchange, stream = self._exchange, self._stream
        if stream is not None:
            stream.attach(self)
        gone = self._streams.watch(receive)
        gone.add_done_callback(exchange.wake)
        was_sent = False
        try:
            if await self._send_first(send, gone) and await self._send_until_outcome(send, gone):
                was_sent = await self._send_outcome(send, gone)
            if was_sent and exchange.receipt is not None:
                await exchange.receipt.sent()
        finally:
            await self._streams.release(gone)
            await self._end(was_sent=was_sent)

    async def _send_first(self, send: Send, gone: "asyncio.Task[None]") -> bool:
        """Begin the stream, where its client can come back to it, with what it has missed."""
        stream = self._stream
        if stream is None or (self._after is None and not self._primes):
            return True
        await self._begin(send)
        first = stream.prime() if self._after is None else b"".join(stream.after(self._after))
        return not first or await send_whole(send, first, gone=gone) or gone.cancelled()

    async def _send_until_outcome(self, send: Send, gone: "asyncio.Task[None]") -> bool:
        """Send messages until there is an outcome. False: the client disconnected, or came back over another
        connection. Shutdown lets calls finish.
        """
        exchange = self._exchange
        while True:
            was_woken = await exchange.wait(within=PING_EVERY)
            if (gone.done() and not gone.cancelled()) or self._is_replaced:
                return False
            said = exchange.drain()
            if said and self._takes_events:
                await self._begin(send)
                frames = b"".join(map(self._event, said))
                if not await send_whole(send, frames, gone=gone) and not gone.cancelled():
                    return False
            elif exchange.outcome is not None:
                return True
            elif self._takes_events and not was_woken:
                await self._begin(send)
                await send(part(PING))

    async def _begin(self, send: Send) -> None:
        if not self._has_begun:
            self._has_begun = True
            await send({"type": "http.response.start", "status": 200, "headers": list(EVENT_HEADERS)})

    async def _send_outcome(self, send: Send, gone: "asyncio.Task[None]") -> bool:
        """Send the outcome; whether it was sent whole."""
        settled = self._exchange.outcome
        assert settled is not None
        reply = outcome_response(self._exchange.request.id, settled, modern=self._modern)
        if not self._has_begun:
            await send(reply.start())
        body = self._outcome_event(reply.body) if self._has_begun else reply.body
        has_left = not body or await send_whole(send, body, gone=gone) or gone.cancelled()
        await send({"type": "http.response.body", "body": b""})
        return has_left

    def _event(self, message: bytes) -> bytes:
        return _event(message) if self._stream is None else self._stream.frame(message)

    def _outcome_event(self, message: bytes) -> bytes:
        stream = self._stream
        if stream is None:
            return _event(message)
        has_it = self._after is not None and stream.is_over and self._after >= (stream.outcome_number or 0)
        return b"" if has_it else stream.outcome(message)

    @property
    def _is_replaced(self) -> bool:
        return self._stream is not None and self._stream.owner is not self

    async def _end(self, *, was_sent: bool) -> None:
        """The response is over. A client that can come back has a while to do so."""
        exchange, stream = self._exchange, self._stream
        if self._is_replaced:
            return
        if stream is not None and self._has_begun and not self._streams.is_closing:
            stream.detach(self, on_lapse=None if was_sent else self._lapsed)
            return
        if stream is not None:
            stream.lapse()
        if not was_sent:
            self._disconnected()
        if exchange.receipt is not None and exchange.interim is None:
            await exchange.receipt.end()

    def _lapsed(self) -> None:
        """The client did not come back."""
        self._disconnected()
        if self._exchange.receipt is not None:
            self._streams.keep(self._exchange.receipt.end(), name="MCP receipt")

    def _disconnected(self) -> None:
        """Since 2026-07-28 disconnecting cancels; earlier clients send a notification."""
        self._exchange.abandon_questions()
        if self._modern and self._exchange.outcome is None:
            self._exchange.cancel()


def _event(message: bytes) -> bytes:
    return encode_event(message, event="message")
