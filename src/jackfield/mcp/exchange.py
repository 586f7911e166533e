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
from jackfield.protocol.mcp import HEADER_MISMATCH, UNSUPPORTED_VERSION
from jackfield.protocol.sse import encode_event

BACKLOG = 1_000
"""Messages that may wait for one client."""
RpcOutcome = bytes | RpcError
"""What a request came to: the bytes of its result, or an error."""
_STOPPED = RpcError(INTERNAL_ERROR, "The gateway stopped before this was answered. See the record of the call.")
HTTP_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
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
        "call_off",
        "interim",
        "is_called_off",
        "receipt",
        "request",
        "work",
    )

    def __init__(self, request: RpcRequest) -> None:
        self.request = request
        self.work: asyncio.Task[RpcOutcome] | None = None
        self.call_off: Callable[[], None] | None = None
        """Stops what the request began; None: there is nothing to stop."""
        self.is_called_off = False
        self.receipt: StreamedCall | None = None
        """Notes whether the client got the outcome of the call that it made."""
        self.interim: bytes | None = None
        """A result that ends this request and not the work: the client is to come back with more."""
        self._outbox: list[bytes] = []
        self._asked: list[asyncio.Future[Any]] = []
        self._successor: McpExchange | None = None
        self._waiter: asyncio.Future[bool] | None = None

    def say(self, message: bytes) -> None:
        """Something for the client before its answer. Never blocks."""
        if self._successor is not None:
            self._successor.say(message)
            return
        self._outbox.append(message)
        self.wake()

    def ask(self, message: bytes, answer: "asyncio.Future[Any]") -> None:
        """Something that the client is to answer, unless it hangs up."""
        self._asked.append(answer)
        self.say(message)

    def give_interim(self, result: bytes) -> None:
        """End this request with a result that asks the client to come back."""
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
        """The client came back: what is said from now on is for the request that it came back with."""
        self._successor = successor
        successor.call_off, successor.receipt = self.call_off, self.receipt

    @property
    def has_room(self) -> bool:
        """Whether more may be said that can be done without: a client that reads slowly must not fill our memory."""
        return len(self._outbox) < BACKLOG if self._successor is None else self._successor.has_room

    def take(self) -> list[bytes]:
        """What was said and not taken yet."""
        said, self._outbox = self._outbox, []
        return said

    @property
    def has_more_than_an_answer(self) -> bool:
        """Something was said before it, or somebody has to know whether it arrives."""
        return bool(self._outbox) or (self.receipt is not None and self.receipt.is_owed)

    @property
    def settled(self) -> RpcOutcome | None:
        """What it came to, once it has come to something."""
        if self.work is not None and self.work.done():
            return _STOPPED if self.work.cancelled() else self.work.result()
        return self.interim

    def cancel(self) -> None:
        """The client does not want it any more."""
        self.is_called_off = True
        if self.call_off is not None:
            self.call_off()

    def let_go(self) -> None:
        """The client is gone and answers nothing any more."""
        for answer in self._asked:
            if not answer.done():
                answer.set_result(None)

    async def wait(self, *, within: float) -> bool:
        """Until there is something to send or something else woke us; False: nothing did for `within` seconds."""
        if self._outbox or self.settled is not None:
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
    """The whole answer as JSON."""
    if not isinstance(settled, RpcError):
        assert request_id is not None
        return raw_json_response(response(request_id, settled))
    status = settled.status or (HTTP_STATUS.get(settled.number, 200) if modern else 200)
    return raw_json_response(error_response(request_id, settled), status=status)


class ExchangeResponse:
    """Sends what an exchange says and comes to. A client that hangs up is not waited with."""

    def __init__(self, exchange: McpExchange, *, streams: Streams, modern: bool, takes_events: bool) -> None:
        self._exchange = exchange
        self._streams = streams
        self._modern = modern
        self._takes_events = takes_events
        self._has_begun = False

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        exchange = self._exchange
        gone = self._streams.watch(receive)
        gone.add_done_callback(exchange.wake)
        try:
            if not await self._send_what_comes_before(send, gone):
                self._hung_up()
            elif await self._send_answer(send, gone) and exchange.receipt is not None:
                await exchange.receipt.sent()
        finally:
            await self._streams.release(gone)
            if exchange.receipt is not None and exchange.interim is None:
                await exchange.receipt.end()

    async def _send_what_comes_before(self, send: Send, gone: "asyncio.Task[None]") -> bool:
        """Until the answer is there. False: the client hung up. A server that stops sees its calls to their end."""
        exchange = self._exchange
        while True:
            was_woken = await exchange.wait(within=PING_EVERY)
            if gone.done() and not gone.cancelled():
                return False
            said = exchange.take()
            if said and self._takes_events:
                await self._begin(send)
                if not await send_whole(send, b"".join(map(_event, said)), gone=gone) and not gone.cancelled():
                    return False
            elif exchange.settled is not None:
                return True
            elif self._takes_events and not was_woken:
                await self._begin(send)
                await send(part(PING))

    async def _begin(self, send: Send) -> None:
        if not self._has_begun:
            self._has_begun = True
            await send({"type": "http.response.start", "status": 200, "headers": list(EVENT_HEADERS)})

    async def _send_answer(self, send: Send, gone: "asyncio.Task[None]") -> bool:
        """The answer itself; whether it has left."""
        settled = self._exchange.settled
        assert settled is not None
        reply = outcome_response(self._exchange.request.id, settled, modern=self._modern)
        if not self._has_begun:
            await send(reply.start())
        body = _event(reply.body) if self._has_begun else reply.body
        has_left = await send_whole(send, body, gone=gone) or gone.cancelled()
        await send({"type": "http.response.body", "body": b""})
        return has_left

    def _hung_up(self) -> None:
        """From 2026-07-28 on that is how a request is called off; before, a client says so, and may only be cut off."""
        self._exchange.let_go()
        if self._modern:
            self._exchange.cancel()


def _event(message: bytes) -> bytes:
    return encode_event(message, event="message")
