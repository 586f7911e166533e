"""`/mcp` as HTTP sees it: POST carries one message, GET opens a session's stream, DELETE ends a session.

Above: `routes.py`. Below: `methods.py`, and what carries an exchange. Which era a message is of, the message says.
"""

import msgspec

from jackfield.http.bodies import read_bytes
from jackfield.http.request import Request
from jackfield.http.response import EmptyResponse, Response
from jackfield.http.sse import EventStream
from jackfield.mcp.answering import ExchangeAnswer, settled_reply
from jackfield.mcp.batches import post_batch
from jackfield.mcp.caller import Caller
from jackfield.mcp.envelope import VERSION_HEADER, check_version, client_capabilities
from jackfield.mcp.exchange import McpExchange
from jackfield.mcp.listening import session_messages, subscription_messages, wants_tool_changes
from jackfield.mcp.visitors import SESSION_HEADER, begin, caller_of, session_of
from jackfield.protocol.errors import MethodNotAllowed
from jackfield.protocol.json_bodies import DEEPEST, check_depth, check_media_type
from jackfield.protocol.jsonrpc import (
    INVALID_REQUEST,
    PARSE_ERROR,
    RpcError,
    RpcNotification,
    RpcRequest,
    RpcResponse,
    UncheckedMessage,
    message_of,
)
from jackfield.protocol.mcp import HANDSHAKE, INITIALIZE, LATEST_HANDSHAKE, MODERN, VERSION_KEY, header_value

LISTEN = "subscriptions/listen"
SOON = 0.05
"""Seconds in which most calls are over: their answer is sent without anybody watching the connection meanwhile."""
_BOTH = b"application/json, text/event-stream"
_ACCEPTED = EmptyResponse(202, ((b"content-length", b"0"),))

AnyMessage = RpcRequest | RpcNotification | RpcResponse
_decode = msgspec.json.Decoder(UncheckedMessage).decode


async def post_mcp(visit: Request) -> Response:
    """One message of JSON-RPC: a request, a notification, or the answer to something that was asked."""
    check_media_type(visit.headers.get(b"content-type"))
    message: AnyMessage | None = None
    try:
        takes_events = accepts_events(visit.headers.get(b"accept"))
        body = await read_bytes(visit)
        if body.lstrip()[:1] == b"[":
            return await post_batch(visit, body)
        message = read_message(body)
        if is_modern(message, visit.headers.get(VERSION_HEADER)):
            return await _post_modern(visit, message, takes_events=takes_events)
        return await _post_in_session(visit, message, takes_events=takes_events)
    except RpcError as error:
        return settled_reply(message.id if isinstance(message, RpcRequest) else None, error, modern=True)


async def get_mcp(visit: Request) -> Response:
    """The stream of a session: what it is told outside any request."""
    if header_value(visit.headers.get(VERSION_HEADER)) not in (None, *HANDSHAKE):
        raise MethodNotAllowed(f"From revision {MODERN} on there is no GET. Use {LISTEN}.", allowed="POST")
    try:
        session = session_of(visit)
    except RpcError as error:
        return settled_reply(None, error, modern=True)
    messages = session_messages(visit.gateway.catalog, visit.principal, session)
    return EventStream(messages, streams=visit.streams)


async def delete_mcp(visit: Request) -> Response:
    """The end of a session."""
    try:
        visit.reception.mcp.sessions.end(session_of(visit))
    except RpcError as error:
        return settled_reply(None, error, modern=True)
    return EmptyResponse(204)


def read_message(body: bytes) -> AnyMessage:
    """The one message of a body."""
    try:
        incoming = _decode(body)
        if body.count(b"{") + body.count(b"[") > DEEPEST:
            check_depth((incoming.params,))
    except msgspec.ValidationError:
        raise RpcError(INVALID_REQUEST, "The body is not a JSON-RPC object. Send one.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise RpcError(PARSE_ERROR, f"The body is not valid JSON: {fault}.") from None
    return message_of(incoming)


def is_modern(message: AnyMessage, version: bytes | None) -> bool:
    """Whether it is of revision 2026-07-28 or claims to be of a later one."""
    if version is not None and header_value(version) not in HANDSHAKE:
        return True
    return isinstance(message, RpcRequest) and message.method != INITIALIZE and VERSION_KEY in message.meta


def accepts_events(accept: bytes | None) -> bool:
    """Whether the client takes a stream of events too; JSON it must take."""
    if accept is None or accept == _BOTH:
        return accept is not None
    kinds = {kind.partition(b";")[0].strip().lower() for kind in accept.split(b",")}
    if not kinds & {b"application/json", b"application/*", b"*/*"}:
        message = "Answers are JSON or events. Send 'Accept: application/json, text/event-stream'."
        raise RpcError(INVALID_REQUEST, message, status=406)
    return bool(kinds & {b"text/event-stream", b"text/*", b"*/*"})


async def _post_modern(visit: Request, message: AnyMessage, *, takes_events: bool) -> Response:
    if isinstance(message, RpcResponse):
        raise RpcError(INVALID_REQUEST, f"Revision {MODERN} has no responses of clients. Send a request.")
    if isinstance(message, RpcNotification):
        # There is nothing that one could mean over HTTP: a request is called off by closing it.
        check_version(header_value(visit.headers.get(VERSION_HEADER)) or "")
        return _ACCEPTED
    capabilities = client_capabilities(message, visit.headers)
    if message.method == LISTEN:
        return _listen(visit, message, takes_events=takes_events)
    caller = caller_of(visit, MODERN, capabilities=capabilities, takes_events=takes_events)
    return await _exchanged(visit, McpExchange(message), caller)


def _listen(visit: Request, request: RpcRequest, *, takes_events: bool) -> Response:
    if not takes_events:
        raise RpcError(INVALID_REQUEST, f"{LISTEN} is answered with events. Accept text/event-stream.", status=406)
    wants_tool_changes(request)
    messages = subscription_messages(visit.gateway.catalog, visit.principal, request)
    return EventStream(messages, streams=visit.streams)


async def _post_in_session(visit: Request, message: AnyMessage, *, takes_events: bool) -> Response:
    if isinstance(message, RpcRequest) and message.method == INITIALIZE:
        return _shake_hands(visit, message)
    session = session_of(visit)
    if isinstance(message, RpcRequest):
        caller = caller_of(visit, session.revision, session=session, takes_events=takes_events)
        return await _exchanged(visit, McpExchange(message), caller)
    session.take(message)
    return _ACCEPTED


def _shake_hands(visit: Request, request: RpcRequest) -> Response:
    result, session = visit.reception.mcp.shake_hands(request, caller_of(visit, LATEST_HANDSHAKE))
    reply = settled_reply(request.id, result, modern=False)
    reply.headers = (*reply.headers, (SESSION_HEADER, session.id.encode()))
    return reply


async def _exchanged(visit: Request, exchange: McpExchange, caller: Caller) -> Response:
    """Begin to answer. What comes soon and alone is a plain answer; the rest is seen to while it is sent."""
    begin(visit, exchange, caller)
    await exchange.wait(within=SOON)
    settled = exchange.settled
    if settled is None or exchange.has_more_than_an_answer:
        return ExchangeAnswer(exchange, streams=visit.streams, caller=caller)
    return settled_reply(exchange.request.id, settled, modern=caller.is_modern)
