"""MCP over streamable HTTP, which every revision since 2025-03-26 has.

Each message is a POST, answered with JSON or a stream of events; a failed request fails alone. In the handshake era the
server may open a session, and send messages on a stream of its own (GET).
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import ClassVar, NoReturn

from msgspec import UNSET, Raw

from jackfield.outgoing import (
    Outgoing,
    OutgoingError,
    OutgoingRefused,
    StreamedResponse,
    with_answer,
)
from jackfield.protocol import jsonrpc
from jackfield.protocol.jsonrpc import INVALID_REQUEST, RpcError, RpcMessage
from jackfield.protocol.mcp import INITIALIZE, SESSION_HEADER, VERSION_HEADER
from jackfield.protocol.sse import EventParser
from jackfield.sources.authorization import Authorization
from jackfield.sources.mcp.duplex import HANDSHAKES, TELL_SECONDS, BackgroundTasks, cancellation
from jackfield.sources.mcp.http_requests import (
    EVENT_STREAM,
    FORGOTTEN,
    HttpTransport,
    body_of,
    messages_in,
    stream_messages,
)
from jackfield.sources.mcp.transport import (
    LoginRequired,
    McpClientError,
    SessionLost,
    TransportListener,
    UpstreamLost,
)

RECONNECT_SECONDS = 1.0
LONGEST_RECONNECT_SECONDS = 10.0
MAX_RESUMPTIONS = 5
STREAM_TRIES = 2
"""A server whose stream cannot be opened so often in a row is gone."""
STREAM_RETRY_SECONDS = 0.1
DRAIN_SECONDS = 0.25
"""An event stream that has given the result mostly ends with the next packet, and its connection can be kept."""
_POST_HEADERS = {"accept": f"application/json, {EVENT_STREAM}", "content-type": "application/json"}


class StreamableHttpTransport(HttpTransport):
    """Streamable HTTP."""

    legacy_only: ClassVar[bool] = False

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
        super().__init__(
            name,
            url,
            headers={**_POST_HEADERS, **headers},
            outgoing=outgoing,
            named_by=named_by,
            listener=listener,
            authorization=authorization,
        )
        self._session: str | None = None
        self._is_over = False
        """The session has ended at the server."""
        self._had_stream = False
        """The server's own stream was open once."""
        self._is_modern = False
        self._tasks = BackgroundTasks(self._log)
        self._server_stream: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Nothing to do: each request connects for itself."""

    def agreed(self, revision: str, *, is_modern: bool) -> None:
        self._is_modern = is_modern
        self._headers[VERSION_HEADER] = revision
        if self._session is not None:
            self._headers[SESSION_HEADER] = self._session
        if not is_modern:
            self._server_stream = asyncio.create_task(self._read_server_stream(), name=f"mcp stream of {self._url}")

    async def call(self, number: int, method: str, params: Raw, *, headers: Mapping[str, str]) -> Raw:
        try:
            response = await self._send("POST", self._url, headers, jsonrpc.request(number, method, params))
            try:
                if response.status >= HTTPStatus.BAD_REQUEST:
                    await self._raise_for(response)
                if method == INITIALIZE:
                    self._session = response.headers.get(SESSION_HEADER)
                if response.headers.get("content-type", "").lower().startswith(EVENT_STREAM):
                    result = await self._result_in_stream(response, number)
                else:
                    result = await self._result_in_body(response, number)
            except BaseException:
                await response.aclose()
                raise
        except asyncio.CancelledError:
            # At 2026-07-28 a closed stream cancels the request; before, it must be said.
            if not self._is_modern and method not in HANDSHAKES:
                self._tasks.start(self._tell(cancellation(number)))
            raise
        if response.is_complete:
            await response.aclose()
        else:
            self._tasks.start(response.drain(within=DRAIN_SECONDS))
        return result

    async def notify(self, method: str, params: Raw) -> None:
        await self._tell(jsonrpc.notification(method, params))

    async def close(self) -> None:
        if self._server_stream is not None:
            self._server_stream.cancel()
            await asyncio.wait([self._server_stream])
        await self._tasks.close()
        if self._session is None or self._is_over:
            return
        try:
            async with asyncio.timeout(TELL_SECONDS):
                response = await self._send("DELETE", self._url, {})
                await response.aclose()
        except (McpClientError, OutgoingError, TimeoutError) as fault:
            self._log.debug("the session was not ended: %s", fault)
        self._is_over = True

    async def _tell(self, body: bytes) -> None:
        async with asyncio.timeout(TELL_SECONDS):
            response = await self._send("POST", self._url, {}, body)
            try:
                if response.status >= HTTPStatus.BAD_REQUEST:
                    await self._raise_for(response)
            finally:
                await response.drain(within=DRAIN_SECONDS)

    async def _raise_for(self, response: StreamedResponse) -> NoReturn:
        """What an error status means: a lost session, a JSON-RPC error in the body, or plain HTTP."""
        status = response.status
        if status == HTTPStatus.NOT_FOUND and self._session is not None:
            raise SessionLost(FORGOTTEN)
        body = await body_of(response)
        for message in messages_in(body):
            if message.error is not UNSET and self._session is not None and "session" in message.error.message.lower():
                raise SessionLost(FORGOTTEN)  # some servers say it with 400
            if message.is_response:
                message.unwrap()
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise with_answer(UpstreamLost(f"The server answered HTTP {status}."), body, redact=self._redact)
        fault = RpcError(INVALID_REQUEST, f"The server answered HTTP {status}.", {"status": status})
        raise with_answer(fault, body, redact=self._redact)

    async def _result_in_body(self, response: StreamedResponse, number: int) -> Raw:
        body = await body_of(response)
        for message in messages_in(body):
            if message.id == number and message.method is None:
                return message.unwrap()
            self._dispatch(message, during=number)
        fault = RpcError(INVALID_REQUEST, f"The server answered HTTP {response.status} without a result.")
        raise with_answer(fault, body, redact=self._redact)

    async def _result_in_stream(self, response: StreamedResponse, number: int) -> Raw:
        """Read events until the result comes. A stream that ends before is resumed where the server allows it."""
        parser = EventParser()
        async with aclosing(stream_messages(response, parser)) as messages:
            async for message in messages:
                if message.is_response and message.id == number:
                    return message.unwrap()
                self._dispatch(message, during=number)
        for _ in range(MAX_RESUMPTIONS):
            if not parser.last_id or self._is_modern:
                break
            await asyncio.sleep(_reconnect_seconds(parser))
            async with aclosing(self._resumed(parser)) as messages:
                async for message in messages:
                    if message.is_response:
                        return message.unwrap()
                    self._dispatch(message, during=number)
        raise UpstreamLost("The server ended its answer before the result.")

    async def _resumed(self, parser: EventParser) -> AsyncGenerator[RpcMessage, None]:
        response = await self._send("GET", self._url, {"last-event-id": parser.last_id} if parser.last_id else {})
        try:
            if response.status >= HTTPStatus.BAD_REQUEST:
                await self._raise_for(response)
            self._had_stream = True
            async with aclosing(stream_messages(response, parser)) as messages:
                async for message in messages:
                    yield message
        finally:
            await response.aclose()

    async def _read_server_stream(self) -> None:
        """The server's own stream, for as long as it offers one. When it cannot be reopened, the server is gone."""
        parser = EventParser()
        failures = 0
        while failures < STREAM_TRIES:
            began = time.monotonic()
            try:
                async with aclosing(self._resumed(parser)) as messages:
                    async for message in messages:
                        self._dispatch(message, during=None)
            except (RpcError, LoginRequired, OutgoingRefused):
                return  # it offers none
            except UpstreamLost as fault:
                if isinstance(fault, SessionLost) and not self._had_stream:
                    return  # some servers answer 404 to what they do not offer
                failures = 1 if time.monotonic() - began > RECONNECT_SECONDS else failures + 1
                if isinstance(fault, SessionLost) or failures == STREAM_TRIES:
                    self._is_over = True
                    self._listener.lost(fault)
                    return
                await asyncio.sleep(STREAM_RETRY_SECONDS)
            else:
                failures = 0
                await asyncio.sleep(_reconnect_seconds(parser))

    def _dispatch(self, message: RpcMessage, *, during: int | None) -> None:
        if message.method is not None:
            self._tasks.dispatch(message, self._listener, during=during, send=self._tell)


def _reconnect_seconds(parser: EventParser) -> float:
    wanted = RECONNECT_SECONDS if parser.retry_ms is None else parser.retry_ms / 1000
    return min(max(wanted, 0.01), LONGEST_RECONNECT_SECONDS)
