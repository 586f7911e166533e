"""An exchange as an HTTP answer: JSON where the answer is all there is to say, a stream of events where there is more.

Above: the door. Below: `exchange.py` and the ASGI channel. Which of the two it becomes is decided late: by the first
thing that is said before the answer, or after a quarter of a minute of silence, when proxies begin to lose patience.
"""

import asyncio

from starlette.types import Receive, Scope, Send

from jackfield.http.response import BytesResponse, part, raw_json_response, send_whole
from jackfield.http.sse import EVENT_HEADERS, PING, PING_EVERY
from jackfield.http.streams import Streams
from jackfield.mcp.exchange import McpExchange, Settled
from jackfield.mcp.sessions import Caller
from jackfield.protocol.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RequestId,
    RpcError,
    error_response,
    response,
)
from jackfield.protocol.mcp import HEADER_MISMATCH, UNSUPPORTED_VERSION
from jackfield.protocol.sse import encode_event

HTTP_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""The HTTP status of an error since 2026-07-28; all others come with 200, as all do in the handshake era."""


def settled_reply(request_id: RequestId | None, settled: Settled, *, modern: bool) -> BytesResponse:
    """The whole answer as JSON."""
    if not isinstance(settled, RpcError):
        assert request_id is not None
        return raw_json_response(response(request_id, settled))
    status = settled.status or (HTTP_STATUS.get(settled.number, 200) if modern else 200)
    return raw_json_response(error_response(request_id, settled), status=status)


class ExchangeAnswer:
    """Sends what an exchange says and comes to. A client that hangs up is not waited with."""

    def __init__(self, exchange: McpExchange, *, streams: Streams, caller: Caller) -> None:
        self._exchange = exchange
        self._streams = streams
        self._modern = caller.is_modern
        self._takes_events = caller.takes_events
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
        reply = settled_reply(self._exchange.request.id, settled, modern=self._modern)
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
