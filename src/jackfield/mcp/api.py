"""`/mcp` over HTTP: POST carries one message, GET opens a session's stream, DELETE ends a session.

Above: the URL map. Below: `server.py` and `exchange.py`. Each message says which era of the protocol it belongs to.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from jackfield.catalog.catalog import Catalog
from jackfield.catalog.groups import Groups
from jackfield.http.bodies import read_bytes
from jackfield.http.request import Request
from jackfield.http.response import EmptyResponse, Response, raw_json_response
from jackfield.http.routing import SSE_MEDIA, HeaderParameter, ResponseSpec, Route
from jackfield.http.sse import EventStream
from jackfield.mcp.exchange import ExchangeResponse, McpExchange, outcome_response
from jackfield.mcp.headers import VERSION_HEADER, check_version, client_capabilities
from jackfield.mcp.notifications import FollowedTasks, session_messages, subscription_messages, wanted_by
from jackfield.mcp.server import McpServer
from jackfield.mcp.sessions import Caller, McpSession
from jackfield.mcp.tools_list import HEADER as SEARCH_HEADER
from jackfield.mcp.tools_list import search_above
from jackfield.model.ids import owner_of
from jackfield.model.principal import Scope
from jackfield.protocol.errors import MethodNotAllowed
from jackfield.protocol.json_bodies import DEEPEST, UNREADABLE, check_depth, check_media_type
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
from jackfield.protocol.mcp import (
    HANDSHAKE,
    INITIALIZE,
    LATEST_HANDSHAKE,
    MODERN,
    VERSION_KEY,
    WITH_BATCHES,
    header_value,
)

SESSION_HEADER = b"mcp-session-id"
LAST_EVENT = b"last-event-id"
FORBIDDEN_STATUS = 403


_VERSION = HeaderParameter(name="MCP-Protocol-Version", description="The revision of MCP that the client speaks")
_SESSION = HeaderParameter(name="Mcp-Session-Id", description="The session, for revisions up to 2025-11-25")
_FAULT = "A JSON-RPC error that says what is wrong with the message"
_NO_SESSION = "A JSON-RPC error: no such session here, or no such method"


AnyMessage = RpcRequest | RpcNotification | RpcResponse
Challenge = Callable[[Request, str], str]
"""What `WWW-Authenticate` says where the token of a request lacks a scope."""


class McpApi:
    """Handlers of `/mcp`."""

    def __init__(
        self, server: McpServer, catalog: Catalog, *, search_tools_above: Callable[[], int], challenge: Challenge | None
    ) -> None:
        self._server = server
        self._challenge = challenge
        self._catalog = catalog
        self._search_tools_above = search_tools_above

    async def post_mcp(self, request: Request) -> Response:
        """One message of JSON-RPC: a request, a notification, or the answer to something that was asked."""
        check_media_type(request.headers.get(b"content-type"))
        message: AnyMessage | None = None
        try:
            accept = request.headers.get(b"accept")
            takes_events = accept == _BOTH or accepts_events(accept)
            body = await read_bytes(request)
            if body.lstrip()[:1] == b"[":
                return await self._post_batch(request, body)
            message = read_message(body)
            await self._lead_home(request, message)
            if is_modern(message, request.headers.get(VERSION_HEADER)):
                return await self._post_modern(request, message, takes_events=takes_events)
            return await self._post_in_session(request, message, takes_events=takes_events)
        except RpcError as error:
            return outcome_response(message.id if isinstance(message, RpcRequest) else None, error, modern=True)

    async def _lead_home(self, request: Request, message: AnyMessage) -> None:
        """What the message is about may live in another process behind this port."""
        if not request.has_neighbours or not isinstance(message, RpcRequest):
            return
        state = message.params.get("requestState")
        if isinstance(state, str):
            request.hand_over(owner_of(state))
        request.hand_over(await self._server.home_of(message))

    async def get_mcp(self, request: Request) -> Response:
        """The stream of a session: what it is told outside any request."""
        if header_value(request.headers.get(VERSION_HEADER)) not in (None, *HANDSHAKE):
            raise MethodNotAllowed(f"From revision {MODERN} on there is no GET. Use {LISTEN}.", allowed="POST")
        try:
            session = self._session(request)
        except RpcError as error:
            return outcome_response(None, error, modern=True)
        last = request.header(LAST_EVENT)
        found = None if last is None else session.events.find(last)
        if found is not None and found[0].exchange is not None:
            stream, number = found
            return ExchangeResponse(
                found[0].exchange,
                streams=request.streams,
                modern=False,
                takes_events=True,
                stream=stream,
                after=number,
            )
        after = None if found is None else found[1]
        messages = session_messages(self._catalog, request.principal, session, self._server.core_tasks, after=after)
        return EventStream(messages, streams=request.streams)

    async def delete_mcp(self, request: Request) -> Response:
        """The end of a session."""
        try:
            self._server.sessions.end(self._session(request))
        except RpcError as error:
            return outcome_response(None, error, modern=True)
        return EmptyResponse(204)

    async def _post_batch(self, request: Request, body: bytes) -> Response:
        """Answer every request of the batch, all at once."""
        session = self._session(request)
        if session.revision != WITH_BATCHES:
            raise RpcError(INVALID_REQUEST, f"Only revision {WITH_BATCHES} has batches. Send each message by itself.")
        messages = [message_of(incoming) for incoming in _read_batch(body)]
        asked = [message for message in messages if isinstance(message, RpcRequest)]
        if any(one.method == INITIALIZE for one in asked):
            raise RpcError(INVALID_REQUEST, "'initialize' cannot be part of a batch.")
        caller = self._caller(request, session.revision, session=session)
        exchanges = [McpExchange(one) for one in asked]
        for exchange in exchanges:
            self._begin(request, exchange, caller)
        for message in messages:
            if not isinstance(message, RpcRequest):
                session.take(message)
        if not exchanges:
            return EmptyResponse(202)
        settled = await asyncio.gather(*(exchange.work for exchange in exchanges if exchange.work is not None))
        bodies = [
            outcome_response(one.request.id, what, modern=False).body
            for one, what in zip(exchanges, settled, strict=True)
        ]
        return raw_json_response(b"[%b]" % b",".join(bodies))

    def _begin(self, request: Request, exchange: McpExchange, caller: Caller) -> None:
        """Start the work. It goes on if the client disconnects."""
        work = self._server.answer(caller, exchange)
        exchange.work = request.streams.keep(work, name=f"MCP {exchange.request.method[:40]}")
        exchange.work.add_done_callback(exchange.wake)
        if caller.session is not None:
            caller.session.keep(exchange)

    def _session(self, request: Request) -> McpSession:
        """The session that the request names."""
        session_id = request.header(SESSION_HEADER)
        if session_id is None:
            raise RpcError(
                INVALID_REQUEST, f"The request has no Mcp-Session-Id. Send '{INITIALIZE}' first.", status=400
            )
        session = self._server.sessions.find(session_id, request.principal)
        if session is None:
            raise RpcError(INVALID_REQUEST, f"There is no such session here. Send '{INITIALIZE}' again.", status=404)
        return session

    def _caller(
        self,
        request: Request,
        revision: str,
        *,
        session: McpSession | None = None,
        capabilities: dict[str, object] | None = None,
        takes_events: bool = False,
    ) -> Caller:
        searches = request.headers.get(SEARCH_HEADER)
        configured = self._search_tools_above()
        return Caller(
            principal=request.principal,
            revision=revision,
            is_modern=revision == MODERN,
            capabilities=session.capabilities if session is not None else capabilities or {},
            session=session,
            search_above=configured if searches is None else search_above(searches, configured=configured),
            headers=request.headers,
            takes_events=takes_events,
        )

    async def _post_modern(self, request: Request, message: AnyMessage, *, takes_events: bool) -> Response:
        if isinstance(message, RpcResponse):
            raise RpcError(INVALID_REQUEST, f"Revision {MODERN} has no responses of clients. Send a request.")
        if isinstance(message, RpcNotification):
            # Notifications mean nothing over HTTP: closing a request cancels it.
            check_version(header_value(request.headers.get(VERSION_HEADER)) or "")
            return _ACCEPTED
        capabilities = client_capabilities(message, request.headers)
        if message.method == LISTEN:
            return await self._listen(request, message, capabilities, takes_events=takes_events)
        caller = self._caller(request, MODERN, capabilities=capabilities, takes_events=takes_events)
        return await self._respond_to(request, McpExchange(message), caller)

    async def _listen(
        self, request: Request, message: RpcRequest, capabilities: dict[str, Any], *, takes_events: bool
    ) -> Response:
        if not takes_events:
            raise RpcError(INVALID_REQUEST, f"{LISTEN} is answered with events. Accept text/event-stream.", status=406)
        caller, tasks = self._caller(request, MODERN, capabilities=capabilities), self._server.tasks
        task_ids = wanted_by(message).task_ids
        followed = FollowedTasks(tasks, None if task_ids is None else await tasks.followable(task_ids, caller))
        messages = subscription_messages(self._catalog, self._server.followers, message, caller, followed)
        return EventStream(messages, streams=request.streams)

    async def _post_in_session(self, request: Request, message: AnyMessage, *, takes_events: bool) -> Response:
        if isinstance(message, RpcRequest) and message.method == INITIALIZE:
            return self._initialize(request, message)
        session = self._session(request)
        if isinstance(message, RpcRequest):
            caller = self._caller(request, session.revision, session=session, takes_events=takes_events)
            exchange = McpExchange(message)
            if takes_events and prefers_events(request.headers.get(b"accept")):
                self._begin(request, exchange, caller)
                return self._stream(request, exchange, caller)
            return await self._respond_to(request, exchange, caller)
        session.take(message)
        return _ACCEPTED

    def _initialize(self, request: Request, message: RpcRequest) -> Response:
        result, session = self._server.initialize(message, self._caller(request, LATEST_HANDSHAKE))
        reply = outcome_response(message.id, result, modern=False)
        reply.headers = (*reply.headers, (SESSION_HEADER, session.id.encode()))
        return reply

    async def _respond_to(self, request: Request, exchange: McpExchange, caller: Caller) -> Response:
        """Start the work. An early result is a plain response; otherwise `ExchangeResponse` sends it."""
        self._begin(request, exchange, caller)
        await exchange.wait(within=SOON)
        settled = exchange.outcome
        if settled is None or exchange.needs_stream:
            return self._stream(request, exchange, caller)
        reply = outcome_response(exchange.request.id, settled, modern=caller.is_modern)
        if reply.status == FORBIDDEN_STATUS and self._challenge is not None:
            challenge = self._challenge(request, Scope.CALL.value)
            reply.headers = (*reply.headers, (b"www-authenticate", challenge.encode()))
        return reply

    def _stream(self, request: Request, exchange: McpExchange, caller: Caller) -> Response:
        session = caller.session if caller.takes_events else None
        return ExchangeResponse(
            exchange,
            streams=request.streams,
            modern=caller.is_modern,
            takes_events=caller.takes_events,
            stream=None if session is None else session.events.open(exchange),
            primes=session is not None and session.revision == LATEST_HANDSHAKE,
        )


MOST = 100

_decode_batch = msgspec.json.Decoder(list[UncheckedMessage]).decode


def _read_batch(body: bytes) -> list[UncheckedMessage]:
    try:
        incoming = _decode_batch(body)
    except msgspec.ValidationError:
        raise RpcError(INVALID_REQUEST, "The batch holds something that is not an object.") from None
    except UNREADABLE as fault:
        raise RpcError(PARSE_ERROR, f"The body is not valid JSON: {fault}.") from None
    if not 1 <= len(incoming) <= MOST:
        raise RpcError(INVALID_REQUEST, f"A batch has 1 to {MOST} messages. Send several.")
    return incoming


LISTEN = "subscriptions/listen"
SOON = 0.05
"""Seconds in which most calls finish: until then the connection is not watched."""
_BOTH = b"application/json, text/event-stream"
_ACCEPTED = EmptyResponse(202, ((b"content-length", b"0"),))

_decode = msgspec.json.Decoder(UncheckedMessage).decode


def read_message(body: bytes) -> AnyMessage:
    """The one message of a body."""
    try:
        incoming = _decode(body)
        if body.count(b"{") + body.count(b"[") > DEEPEST:
            check_depth((incoming.params,))
    except msgspec.ValidationError:
        raise RpcError(INVALID_REQUEST, "The body is not a JSON-RPC object. Send one.") from None
    except UNREADABLE as fault:
        raise RpcError(PARSE_ERROR, f"The body is not valid JSON: {fault}.") from None
    return message_of(incoming)


def is_modern(message: AnyMessage, version: bytes | None) -> bool:
    """Whether it is of revision 2026-07-28 or claims to be of a later one."""
    if version is not None and header_value(version) not in HANDSHAKE:
        return True
    return isinstance(message, RpcRequest) and message.method != INITIALIZE and VERSION_KEY in message.meta


def accepts_events(accept: bytes | None) -> bool:
    """Whether the client takes a stream of events too; JSON it must take."""
    if accept is None:
        return False
    kinds = {kind.partition(b";")[0].strip().lower() for kind in accept.split(b",")}
    if not kinds & {b"application/json", b"application/*", b"*/*"}:
        message = "Answers are JSON or events. Send 'Accept: application/json, text/event-stream'."
        raise RpcError(INVALID_REQUEST, message, status=406)
    return bool(kinds & {b"text/event-stream", b"text/*", b"*/*"})


def prefers_events(accept: bytes | None) -> bool:
    """Whether the client names a stream before JSON: then it gets one that it can resume, however short the call."""
    if accept is None or accept == _BOTH:
        return False
    events = accept.find(b"text/event-stream")
    return events >= 0 and not 0 <= accept.find(b"application/json") < events


def routes(
    server: McpServer,
    catalog: Catalog,
    *,
    groups: Groups,
    search_tools_above: Callable[[], int],
    challenge: Challenge | None = None,
) -> list[Route]:
    """Every method of `/mcp`, and the same for each group at `/mcp/NAME`."""
    whole = _routes(McpApi(server, catalog, search_tools_above=search_tools_above, challenge=challenge))
    return [*whole, *(_in_group(route, groups) for route in whole)]


def _in_group(route: Route, groups: Groups) -> Route:
    """The route for one group: whoever asks has, for this request, nothing but what is in it."""

    async def handle(request: Request) -> Response:
        request.principal = groups.narrowed(request.principal, request.part("group"))
        return await route.handler(request)

    return msgspec.structs.replace(
        route,
        path=f"{route.path}/{{group}}",
        handler=handle,
        operation=f"{route.handler.__name__}_group",
        summary=f"{route.summary}; of one group",
        errors=tuple({*route.errors, 404} - route.responses.keys()),
    )


def _routes(api: McpApi) -> list[Route]:
    return [
        Route(
            method="POST",
            path="/mcp",
            handler=api.post_mcp,
            for_sessions=True,
            takes_tokens=True,
            tag="MCP",
            summary="One message of the Model Context Protocol; `tools/call` needs the scope `call`",
            headers=(
                _VERSION,
                _SESSION,
                HeaderParameter(
                    name="Jackfield-Search-Above",
                    description="List `search_tools` instead of the tools when there are more than so many; 0: never",
                ),
            ),
            body=dict[str, Any],
            responses={
                200: ResponseSpec(
                    description="The JSON-RPC response, or events of which it is the last",
                    type=dict[str, Any],
                    streams=True,
                    headers={"Mcp-Session-Id": "The new session, in the answer to `initialize`"},
                ),
                202: ResponseSpec(description="A notification or a response was taken"),
                400: ResponseSpec(description=_FAULT, type=dict[str, Any]),
                403: ResponseSpec(description="The key may not do this", type=dict[str, Any]),
                404: ResponseSpec(description=_NO_SESSION, type=dict[str, Any]),
                406: ResponseSpec(description="The client does not accept JSON", type=dict[str, Any]),
            },
        ),
        Route(
            method="GET",
            path="/mcp",
            handler=api.get_mcp,
            for_sessions=True,
            takes_tokens=True,
            tag="MCP",
            summary="The stream of a session, for revisions up to 2025-11-25",
            headers=(_VERSION, _SESSION),
            responses={
                200: ResponseSpec(description="`notifications/tools/list_changed`, as it happens", media=SSE_MEDIA),
                400: ResponseSpec(description=_FAULT, type=dict[str, Any]),
                404: ResponseSpec(description=_NO_SESSION, type=dict[str, Any]),
            },
        ),
        Route(
            method="DELETE",
            path="/mcp",
            handler=api.delete_mcp,
            for_sessions=True,
            takes_tokens=True,
            tag="MCP",
            summary="End a session, for revisions up to 2025-11-25",
            headers=(_SESSION,),
            responses={
                204: ResponseSpec(description="It is over"),
                400: ResponseSpec(description=_FAULT, type=dict[str, Any]),
                404: ResponseSpec(description=_NO_SESSION, type=dict[str, Any]),
            },
        ),
    ]
