"""HTTP requests to an MCP server, with a login where the source has one, and the messages in their responses.

Above: `http.py` and `sse.py`. Below: the outgoing client. A login's headers are asked for before each request.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import aclosing

from jackfield.errors import LoginNeeded, SourceUnavailable
from jackfield.model.redaction import SecretForms
from jackfield.outgoing import (
    Outgoing,
    OutgoingBadAnswer,
    OutgoingError,
    OutgoingNotSent,
    OutgoingRefused,
    StreamedResponse,
)
from jackfield.protocol import jsonrpc
from jackfield.protocol.jsonrpc import NotAMessage, RpcMessage
from jackfield.protocol.sse import EventParser, ServerEvent
from jackfield.sources.authorization import Authorization, send_authorized
from jackfield.sources.mcp.transport import (
    MAX_MESSAGE,
    LoginRequired,
    NotDelivered,
    TransportListener,
    UpstreamLost,
)

EVENT_STREAM = "text/event-stream"
FORGOTTEN = "The server has forgotten our session."


class HttpTransport:
    """One server at one url. `named_by` is the url of the operator's config, None for a foreign one."""

    def __init__(
        self,
        name: str,
        url: str,
        *,
        headers: Mapping[str, str],
        outgoing: Outgoing,
        named_by: str | None,
        listener: TransportListener,
        authorization: Authorization | None = None,
    ) -> None:
        self._log = logging.getLogger(f"jackfield.mcp.{name}")
        self._url = url
        self._headers = {header.lower(): value for header, value in headers.items()}
        self._redact = SecretForms(word for value in headers.values() for word in (value, *value.split())).text
        self._outgoing = outgoing
        self._named_by = named_by
        self._listener = listener
        self._authorization = authorization

    def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Awaitable[StreamedResponse]:
        """Send a request, with the login if there is one. Raises `McpClientError` or `OutgoingRefused`."""
        send = self._send_once if self._authorization is None else self._send_authorized
        return send(method, url, headers, body)

    async def _send_authorized(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> StreamedResponse:
        def send(login: Mapping[str, str]) -> Awaitable[StreamedResponse]:
            more = {name.lower(): value for name, value in login.items()}
            return self._send_once(method, url, {**headers, **more}, body)

        assert self._authorization is not None
        try:
            return await send_authorized(self._authorization, method, url, send, drop=StreamedResponse.aclose)
        except LoginNeeded as needed:
            raise LoginRequired(needed) from None
        except SourceUnavailable as fault:  # the login's own server cannot be reached
            raise NotDelivered(fault.message) from None

    async def _send_once(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> StreamedResponse:
        try:
            return await self._outgoing.send(
                method, url, headers={**self._headers, **headers}, content=body, named_by=self._named_by
            )
        except OutgoingRefused:
            raise
        except OutgoingNotSent as fault:
            raise NotDelivered(fault.message) from None
        except OutgoingError as fault:
            raise UpstreamLost(fault.message) from None


async def body_of(response: StreamedResponse) -> bytes:
    """The whole body."""
    try:
        return await response.read(MAX_MESSAGE)
    except OutgoingBadAnswer:
        raise UpstreamLost(f"The server answered with more than the {MAX_MESSAGE:,} bytes allowed.") from None
    except OutgoingError as fault:
        raise UpstreamLost(fault.message) from None


def messages_in(body: bytes) -> list[RpcMessage]:
    """The messages in a whole body; none where it has none."""
    try:
        return jsonrpc.parse(body) if body else []
    except NotAMessage:
        return []


async def stream_messages(response: StreamedResponse, parser: EventParser) -> AsyncGenerator[RpcMessage, None]:
    """The messages in a stream of events. What is no message is skipped."""
    async with aclosing(events_of(response, parser)) as events:
        async for event in events:
            try:
                found = jsonrpc.parse(event.data) if event.data else []
            except NotAMessage:
                continue
            for message in found:
                yield message


async def events_of(response: StreamedResponse, parser: EventParser) -> AsyncGenerator[ServerEvent, None]:
    parser.restart()
    size = 0
    try:
        async with aclosing(response.aiter_bytes()) as parts:
            async for part in parts:
                events = parser.feed(part)
                size = 0 if events else size + len(part)
                if size > MAX_MESSAGE:
                    raise UpstreamLost(f"The server sent an event of more than the {MAX_MESSAGE:,} bytes allowed.")
                for event in events:
                    yield event
    except OutgoingError as fault:
        raise UpstreamLost(fault.message) from None
