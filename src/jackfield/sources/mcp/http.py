"""Streamable HTTP: one POST per message, the answer as JSON or as a stream of events. Every revision since 2025-03-26.

Above: `upstream.py`. Below: `outgoing`, the guarded client. A failed request is that request's failure and nobody
else's. In the handshake era the server may give us a session, and talk to us on a stream of its own (GET).
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

from jackfield.protocol.sse import EventParser
from jackfield.sources.mcp import messages
from jackfield.sources.mcp.duplex import TELL_SECONDS, BackgroundTasks, DuplexRequests, answer_to, cancelled
from jackfield.sources.mcp.messages import Message
from jackfield.sources.mcp.transport import (
    INVALID_REQUEST,
    MAX_MESSAGE,
    McpClientError,
    NotDelivered,
    RpcError,
    SessionLost,
    TransportListener,
    UpstreamLost,
)
from jackfield.sources.outgoing import (
    Outgoing,
    OutgoingBadUrl,
    OutgoingError,
    OutgoingNotSent,
    OutgoingRefused,
    StreamedResponse,
)
from jackfield.sources.outgoing.urls import named_origin

SESSION = "mcp-session-id"
REVISION = "mcp-protocol-version"
RECONNECT_SECONDS = 1.0
LONGEST_RECONNECT_SECONDS = 10.0
RESUMPTIONS = 5
FORGOTTEN = "The server has forgotten our session."
SOON_SECONDS = 0.1
DRAIN_SECONDS = 0.25
TRIES = 2
"""A server whose stream cannot be opened so often in a row is gone."""
_OURS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class StreamableHttpTransport:
    """One server at one url."""

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
        self._log = logging.getLogger(f"jackfield.mcp.{name}")
        self._url = url
        self._headers = {**_OURS, **headers}
        self._outgoing = outgoing
        self._named_by = named_by
        self._listener = listener
        self._session: str | None = None
        self._is_over = False
        """The session has ended at the server."""
        self._has_stream = False
        """The server's own stream was open once."""
        self._is_modern = False
        self._errands = BackgroundTasks(self._log)
        self._server_stream: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Nothing to do: there is no connection but that of each request."""

    def agreed(self, revision: str, *, is_modern: bool) -> None:
        self._is_modern = is_modern
        self._headers[REVISION] = revision
        if self._session is not None:
            self._headers[SESSION] = self._session
        if not is_modern:
            self._server_stream = asyncio.create_task(self._hear_server(), name=f"mcp stream of {self._url}")

    async def call(self, number: int, method: str, params: Raw, *, headers: Mapping[str, str]) -> Raw:
        try:
            answer = await self._post(messages.request(number, method, params), headers=headers)
            try:
                if method == "initialize":
                    self._session = answer.headers.get(SESSION)
                result = await self._answer(answer, number)
            except BaseException:
                await answer.aclose()
                raise
        except asyncio.CancelledError:
            # At 2026-07-28 a stream that closes is the sign; before, it must be said.
            if not self._is_modern and method not in ("initialize", "server/discover"):
                self._errands.start(self._tell(cancelled(number)))
            raise
        await self._done_with(answer)
        return result

    async def notify(self, method: str, params: Raw) -> None:
        await self._tell(messages.notification(method, params))

    async def close(self) -> None:
        if self._server_stream is not None:
            self._server_stream.cancel()
            await asyncio.wait([self._server_stream])
        await self._errands.close()
        if self._session is not None and not self._is_over:
            await self._end_session()

    async def _post(self, body: bytes, *, headers: Mapping[str, str]) -> StreamedResponse:
        answer = await self._send("POST", headers, body)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            try:
                await self._refuse(answer)
            finally:
                await answer.aclose()
        return answer

    async def _done_with(self, answer: StreamedResponse) -> None:
        """A stream that has said all we want mostly ends with the next packet, and its connection can be kept."""
        if not answer.is_complete:
            self._errands.start(answer.drain(within=DRAIN_SECONDS))
        else:
            await answer.aclose()

    async def _send(self, method: str, headers: Mapping[str, str], body: bytes | None = None) -> StreamedResponse:
        try:
            return await self._outgoing.send(
                method, self._url, headers={**self._headers, **headers}, content=body, named_by=self._named_by
            )
        except OutgoingRefused:
            raise
        except OutgoingNotSent as fault:
            raise NotDelivered(fault.message) from None
        except OutgoingError as fault:
            raise UpstreamLost(fault.message) from None

    async def _refuse(self, answer: StreamedResponse) -> NoReturn:
        """What a status that is no answer says: a lost session, an error of the protocol in the body, or plain HTTP."""
        status = answer.status
        if status == HTTPStatus.NOT_FOUND and self._session is not None:
            raise SessionLost(FORGOTTEN)
        for message in await _messages_of(answer):
            if message.error is not UNSET and self._session is not None and "session" in message.error.message.lower():
                raise SessionLost(FORGOTTEN)  # some servers say it with 400
            if message.is_response:
                message.taken()
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise UpstreamLost(f"The server answered HTTP {status}.")
        raise RpcError(f"The server answered HTTP {status}.", number=INVALID_REQUEST, data={"status": status})

    async def _answer(self, answer: StreamedResponse, number: int) -> Raw:
        if _is_stream(answer):
            return await self._answer_in_stream(answer, number)
        for message in await _messages_of(answer):
            if message.is_response and message.id == number:
                return message.taken()
            self._take(message, during=number)
        raise RpcError(f"The server answered HTTP {answer.status} without a result.", number=INVALID_REQUEST)

    async def _answer_in_stream(self, answer: StreamedResponse, number: int) -> Raw:
        """Read events until the answer comes. A stream that ends before is resumed where the server allows it."""
        parser = EventParser()
        async with aclosing(_events(answer, parser)) as events:
            async for message in events:
                if message.is_response and message.id == number:
                    return message.taken()
                self._take(message, during=number)
        for _ in range(RESUMPTIONS):
            if not parser.last_id or self._is_modern:
                break
            await asyncio.sleep(_pause(parser))
            async with aclosing(self._resumed(parser)) as events:
                async for message in events:
                    if message.is_response:
                        return message.taken()
                    self._take(message, during=number)
        raise UpstreamLost("The server ended its answer before the result.")

    async def _resumed(self, parser: EventParser) -> AsyncGenerator[Message, None]:
        answer = await self._send("GET", {"last-event-id": parser.last_id} if parser.last_id else {})
        try:
            if answer.status >= HTTPStatus.BAD_REQUEST:
                await self._refuse(answer)
            self._has_stream = True
            async with aclosing(_events(answer, parser)) as events:
                async for message in events:
                    yield message
        finally:
            await answer.aclose()

    async def _hear_server(self) -> None:
        """The server's own stream, for as long as it offers one. When it cannot be had again, the server is gone."""
        parser = EventParser()
        failures = 0
        while failures < TRIES:
            began = time.monotonic()
            try:
                async with aclosing(self._resumed(parser)) as events:
                    async for message in events:
                        self._take(message, during=None)
            except (RpcError, OutgoingRefused):
                return  # it offers none
            except UpstreamLost as fault:
                if isinstance(fault, SessionLost) and not self._has_stream:
                    return  # some servers say 404 to what they do not offer
                failures = 1 if time.monotonic() - began > RECONNECT_SECONDS else failures + 1
                if isinstance(fault, SessionLost) or failures == TRIES:
                    self._is_over = True
                    self._listener.lost(fault)
                    return
                await asyncio.sleep(SOON_SECONDS)
            else:
                failures = 0
                await asyncio.sleep(_pause(parser))

    def _take(self, message: Message, *, during: int | None) -> None:
        if message.method is None:
            return
        if message.id is None:
            self._listener.notified(message.method, message.params, during=during)
        elif self._errands.has_room:
            self._errands.start(self._reply(message.id, message.method, message.params, during))

    async def _reply(self, number: int | str, method: str, params: Raw, during: int | None) -> None:
        await self._tell(await answer_to(self._listener, number, method, params, during=during))

    async def _tell(self, body: bytes) -> None:
        async with asyncio.timeout(TELL_SECONDS):
            await self._done_with(await self._post(body, headers={}))

    async def _end_session(self) -> None:
        try:
            async with asyncio.timeout(TELL_SECONDS):
                answer = await self._send("DELETE", {})
                await answer.aclose()
        except (McpClientError, OutgoingError, TimeoutError) as fault:
            self._log.debug("the session was not ended: %s", fault)
        self._is_over = True


def _is_stream(answer: StreamedResponse) -> bool:
    kind: str = answer.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower() == "text/event-stream"


async def _messages_of(answer: StreamedResponse) -> list[Message]:
    """The messages in a whole body; none where it has none."""
    body = bytearray()
    async with aclosing(_bytes(answer)) as parts:
        async for part in parts:
            body += part
            if len(body) > MAX_MESSAGE:
                raise UpstreamLost(f"The server answered with more than the {MAX_MESSAGE:,} bytes allowed.")
    try:
        return messages.parse(bytes(body)) if body else []
    except messages.NotAMessage:
        return []


async def _events(answer: StreamedResponse, parser: EventParser) -> AsyncGenerator[Message, None]:
    """The messages in a stream of events. What is no message is skipped."""
    parser.restart()
    size = 0
    async with aclosing(_bytes(answer)) as parts:
        async for part in parts:
            events = parser.feed(part)
            size = 0 if events else size + len(part)
            if size > MAX_MESSAGE:
                raise UpstreamLost(f"The server sent an event of more than the {MAX_MESSAGE:,} bytes allowed.")
            for event in events:
                try:
                    found = messages.parse(event.data) if event.data else []
                except messages.NotAMessage:
                    continue
                for message in found:
                    yield message


async def _bytes(answer: StreamedResponse) -> AsyncGenerator[bytes, None]:
    try:
        async for part in answer.aiter_bytes():
            yield part
    except OutgoingError as fault:
        raise UpstreamLost(fault.message) from None


def _pause(parser: EventParser) -> float:
    wanted = RECONNECT_SECONDS if parser.retry_ms is None else parser.retry_ms / 1000
    return min(max(wanted, 0.01), LONGEST_RECONNECT_SECONDS)


class SseTransport:
    """One server at one url."""

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
        self._url = url
        self._headers = dict(headers)
        self._outgoing = outgoing
        self._named_by = named_by
        self._listener = listener
        self._exchange = DuplexRequests(name, send=self._post, listener=listener)
        self._endpoint: str | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        answer = await self._send("GET", self._url, {"accept": "text/event-stream"})
        if answer.status != HTTPStatus.OK:
            await answer.aclose()
            raise UpstreamLost(
                f"The server answered HTTP {answer.status} where a stream was expected. "
                'If it is a newer server, set transport = "http".'
            )
        named = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(answer, named), name=f"mcp stream of {self._url}")
        self._endpoint = await named

    def agreed(self, revision: str, *, is_modern: bool) -> None:  # noqa: ARG002 - only one era goes over this
        self._headers["mcp-protocol-version"] = revision

    async def call(self, number: int, method: str, params: Raw, *, headers: Mapping[str, str]) -> Raw:  # noqa: ARG002 - its revisions have none
        return await self._exchange.call(number, method, params)

    async def notify(self, method: str, params: Raw) -> None:
        await self._exchange.notify(method, params)

    async def close(self) -> None:
        await self._exchange.close()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def _read(self, answer: StreamedResponse, named: "asyncio.Future[str]") -> None:
        try:
            await self._hear(answer, named)
            fault = UpstreamLost("The server ended its stream.")
        except OutgoingError as error:
            fault = UpstreamLost(error.message)
        except UpstreamLost as error:
            fault = error
        finally:
            await answer.aclose()
        if not named.done():
            named.set_exception(fault)
        self._exchange.lose(fault)
        self._listener.lost(fault)

    async def _hear(self, answer: StreamedResponse, named: "asyncio.Future[str]") -> None:
        parser = EventParser()
        size = 0
        async for part in answer.aiter_bytes():
            events = parser.feed(part)
            size = 0 if events else size + len(part)
            if size > MAX_MESSAGE:
                raise UpstreamLost(f"The server sent an event of more than the {MAX_MESSAGE:,} bytes allowed.")
            for event in events:
                if event.type == "endpoint" and not named.done():
                    named.set_result(_endpoint(self._url, event.data))
                elif event.type == "message":
                    self._exchange.feed(event.data)

    async def _post(self, body: bytes) -> None:
        assert self._endpoint is not None
        answer = await self._send("POST", self._endpoint, {"content-type": "application/json"}, body)
        await answer.aclose()
        if answer.status == HTTPStatus.NOT_FOUND:
            raise SessionLost("The server has forgotten our session.")
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise UpstreamLost(f"The server answered HTTP {answer.status} to a message.")

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


def _endpoint(url: str, said: str) -> str:
    """Where messages go. A server may only name a place at its own origin, since our headers go there."""
    endpoint = urljoin(url, said)
    try:
        same = named_origin(endpoint) == named_origin(url)
    except OutgoingBadUrl:
        same = False
    if not same:
        raise UpstreamLost("The server named a place for messages that is not its own.")
    return endpoint
