"""MCP over HTTP: streamable HTTP (every revision since 2025-03-26), and HTTP with SSE (2024-11-05).

With streamable HTTP each message is a POST, answered with JSON or a stream of events; a failed request fails alone.
In the handshake era the server may open a session, and send messages on a stream of its own (GET). With SSE the server
has one stream, on which it first says where messages are posted.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import ClassVar, NoReturn
from urllib.parse import urljoin

from msgspec import UNSET, Raw

from jackfield.outgoing import (
    Outgoing,
    OutgoingBadAnswer,
    OutgoingBadUrl,
    OutgoingError,
    OutgoingNotSent,
    OutgoingRefused,
    StreamedResponse,
)
from jackfield.outgoing.urls import named_origin
from jackfield.protocol import jsonrpc
from jackfield.protocol.jsonrpc import INVALID_REQUEST, NotAMessage, RpcError, RpcMessage
from jackfield.protocol.mcp import INITIALIZE, SESSION_HEADER, VERSION_HEADER
from jackfield.protocol.sse import EventParser, ServerEvent
from jackfield.sources.mcp.duplex import HANDSHAKES, TELL_SECONDS, BackgroundTasks, DuplexRequests, cancellation
from jackfield.sources.mcp.transport import (
    MAX_MESSAGE,
    McpClientError,
    NotDelivered,
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
FORGOTTEN = "The server has forgotten our session."
EVENT_STREAM = "text/event-stream"
_POST_HEADERS = {"accept": f"application/json, {EVENT_STREAM}", "content-type": "application/json"}


class _HttpTransport:
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
    ) -> None:
        self._log = logging.getLogger(f"jackfield.mcp.{name}")
        self._url = url
        self._headers = {header.lower(): value for header, value in headers.items()}
        self._outgoing = outgoing
        self._named_by = named_by
        self._listener = listener

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
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


class StreamableHttpTransport(_HttpTransport):
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
    ) -> None:
        super().__init__(
            name, url, headers={**_POST_HEADERS, **headers}, outgoing=outgoing, named_by=named_by, listener=listener
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
        for message in await _messages_of(response):
            if message.error is not UNSET and self._session is not None and "session" in message.error.message.lower():
                raise SessionLost(FORGOTTEN)  # some servers say it with 400
            if message.is_response:
                message.unwrap()
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise UpstreamLost(f"The server answered HTTP {status}.")
        raise RpcError(INVALID_REQUEST, f"The server answered HTTP {status}.", {"status": status})

    async def _result_in_body(self, response: StreamedResponse, number: int) -> Raw:
        for message in await _messages_of(response):
            if message.id == number and message.method is None:
                return message.unwrap()
            self._dispatch(message, during=number)
        raise RpcError(INVALID_REQUEST, f"The server answered HTTP {response.status} without a result.")

    async def _result_in_stream(self, response: StreamedResponse, number: int) -> Raw:
        """Read events until the result comes. A stream that ends before is resumed where the server allows it."""
        parser = EventParser()
        async with aclosing(_stream_messages(response, parser)) as messages:
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
            async with aclosing(_stream_messages(response, parser)) as messages:
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
            except (RpcError, OutgoingRefused):
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


class SseTransport(_HttpTransport):
    """HTTP with SSE."""

    legacy_only: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        url: str,
        *,
        headers: Mapping[str, str],
        outgoing: Outgoing,
        named_by: str | None,
        listener: TransportListener,
    ) -> None:
        super().__init__(name, url, headers=headers, outgoing=outgoing, named_by=named_by, listener=listener)
        self._requests = DuplexRequests(name, send=self._post, listener=listener)
        self._endpoint: str | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        response = await self._send("GET", self._url, {"accept": EVENT_STREAM})
        if response.status != HTTPStatus.OK:
            await response.aclose()
            raise UpstreamLost(
                f"The server answered HTTP {response.status} where a stream was expected. "
                'If it is a newer server, set transport = "http".'
            )
        endpoint = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(response, endpoint), name=f"mcp stream of {self._url}")
        self._endpoint = await endpoint

    def agreed(self, revision: str, *, is_modern: bool) -> None:  # noqa: ARG002 - only one era goes over this
        self._headers[VERSION_HEADER] = revision

    async def call(self, number: int, method: str, params: Raw, *, headers: Mapping[str, str]) -> Raw:  # noqa: ARG002 - its revisions have none
        return await self._requests.call(number, method, params)

    async def notify(self, method: str, params: Raw) -> None:
        await self._requests.notify(method, params)

    async def close(self) -> None:
        await self._requests.close()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def _read(self, response: StreamedResponse, endpoint: "asyncio.Future[str]") -> None:
        try:
            async with aclosing(_events(response, EventParser())) as events:
                async for event in events:
                    if event.type == "endpoint" and not endpoint.done():
                        endpoint.set_result(_endpoint(self._url, event.data))
                    elif event.type == "message":
                        self._requests.feed(event.data)
            fault = UpstreamLost("The server ended its stream.")
        except UpstreamLost as error:
            fault = error
        finally:
            await response.aclose()
        if not endpoint.done():
            endpoint.set_exception(fault)
        self._requests.lose(fault)
        self._listener.lost(fault)

    async def _post(self, body: bytes) -> None:
        assert self._endpoint is not None
        response = await self._send("POST", self._endpoint, {"content-type": "application/json"}, body)
        await response.aclose()
        if response.status == HTTPStatus.NOT_FOUND:
            raise SessionLost(FORGOTTEN)
        if response.status >= HTTPStatus.BAD_REQUEST:
            raise UpstreamLost(f"The server answered HTTP {response.status} to a message.")


def _endpoint(url: str, said: str) -> str:
    """Where messages go. Only a url of the server's own origin is taken, since our headers go there."""
    endpoint = urljoin(url, said)
    try:
        same = named_origin(endpoint) == named_origin(url)
    except OutgoingBadUrl:
        same = False
    if not same:
        raise UpstreamLost("The server named a message endpoint on another origin.")
    return endpoint


async def _messages_of(response: StreamedResponse) -> list[RpcMessage]:
    """The messages in a whole body; none where it has none."""
    try:
        body = await response.read(MAX_MESSAGE)
    except OutgoingBadAnswer:
        raise UpstreamLost(f"The server answered with more than the {MAX_MESSAGE:,} bytes allowed.") from None
    except OutgoingError as fault:
        raise UpstreamLost(fault.message) from None
    try:
        return jsonrpc.parse(body) if body else []
    except NotAMessage:
        return []


async def _stream_messages(response: StreamedResponse, parser: EventParser) -> AsyncGenerator[RpcMessage, None]:
    """The messages in a stream of events. What is no message is skipped."""
    async with aclosing(_events(response, parser)) as events:
        async for event in events:
            try:
                found = jsonrpc.parse(event.data) if event.data else []
            except NotAMessage:
                continue
            for message in found:
                yield message


async def _events(response: StreamedResponse, parser: EventParser) -> AsyncGenerator[ServerEvent, None]:
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


def _reconnect_seconds(parser: EventParser) -> float:
    wanted = RECONNECT_SECONDS if parser.retry_ms is None else parser.retry_ms / 1000
    return min(max(wanted, 0.01), LONGEST_RECONNECT_SECONDS)
