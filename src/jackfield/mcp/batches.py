"""Several messages in one body, which revision 2025-03-26 alone has.

Above: the door. Below: the same exchanges as for single messages. The answers come together, as JSON.
"""

import asyncio

import msgspec

from jackfield.http.request import Request
from jackfield.http.response import EmptyResponse, Response, raw_json_response
from jackfield.mcp.answering import settled_reply
from jackfield.mcp.exchange import McpExchange
from jackfield.mcp.visitors import begin, caller_of, session_of
from jackfield.protocol.jsonrpc import INVALID_REQUEST, PARSE_ERROR, RpcError, RpcRequest, UncheckedMessage, message_of
from jackfield.protocol.mcp import INITIALIZE, WITH_BATCHES

MOST = 100

_decode = msgspec.json.Decoder(list[UncheckedMessage]).decode


async def post_batch(visit: Request, body: bytes) -> Response:
    """Response every request of the batch, all at once."""
    session = session_of(visit)
    if session.revision != WITH_BATCHES:
        raise RpcError(INVALID_REQUEST, f"Only revision {WITH_BATCHES} has batches. Send each message by itself.")
    messages = [message_of(incoming) for incoming in _read(body)]
    requests = [message for message in messages if isinstance(message, RpcRequest)]
    if any(request.method == INITIALIZE for request in requests):
        raise RpcError(INVALID_REQUEST, "'initialize' cannot be part of a batch.")
    caller = caller_of(visit, session.revision, session=session)
    exchanges = [McpExchange(request) for request in requests]
    for exchange in exchanges:
        begin(visit, exchange, caller)
    for message in messages:
        if not isinstance(message, RpcRequest):
            session.take(message)
    if not exchanges:
        return EmptyResponse(202)
    settled = await asyncio.gather(*(exchange.work for exchange in exchanges if exchange.work is not None))
    bodies = [
        settled_reply(one.request.id, what, modern=False).body for one, what in zip(exchanges, settled, strict=True)
    ]
    return raw_json_response(b"[%b]" % b",".join(bodies))


def _read(body: bytes) -> list[UncheckedMessage]:
    try:
        incoming = _decode(body)
    except msgspec.ValidationError:
        raise RpcError(INVALID_REQUEST, "The batch holds something that is no object.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise RpcError(PARSE_ERROR, f"The body is not valid JSON: {fault}.") from None
    if not 1 <= len(incoming) <= MOST:
        raise RpcError(INVALID_REQUEST, f"A batch has 1 to {MOST} messages. Send several.")
    return incoming
