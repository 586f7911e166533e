"""The HTTP side of `jackfield mcp`: the `/mcp` of a gateway, for one client on stdio.

Adds the headers of each protocol revision and keeps the session of a client that initialized one. A restarted gateway
does not know the session; then the client's handshake is repeated, and what it subscribed to.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec
from msgspec import Struct

from jackfield.errors import JackfieldError
from jackfield.protocol.backoff import backoff
from jackfield.protocol.jsonrpc import SERVER_ERROR, RequestId, RpcError, RpcRequest, notification
from jackfield.protocol.mcp import (
    HEADER_MISMATCH,
    INITIALIZE,
    NAMED_BY,
    VERSION_KEY,
    declared_headers,
    header_text,
    param_headers,
)
from jackfield.protocol.sse import EventParser
from jackfield.sdk import Client, GatewayUnreachable
from jackfield.sdk.connection import read_events, segment

log = logging.getLogger(__name__)

PATH = "/mcp"
SUBSCRIBE = "resources/subscribe"
UNSUBSCRIBE = "resources/unsubscribe"
SET_LEVEL = "logging/setLevel"
RESUME_SECONDS = 20.0
"""How long a broken stream is tried to be resumed; the gateway keeps it for 30."""
MOST_KEPT = 1_000
"""Requests that are repeated in a new session: as many as a session has subscriptions."""


_ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
_NOT_FOUND = 404
_ACCEPTED = 202


class GatewayGone(Exception):
    """The gateway is unreachable, or the connection was lost."""


class _Error(Struct):
    code: int | str = SERVER_ERROR
    message: str = ""
    data: Any = None


class _ErrorResponse(Struct):
    """An error response of JSON-RPC or of the REST API."""

    error: _Error
    jsonrpc: str = ""


class _Initialized(Struct):
    protocol_version: str = msgspec.field(name="protocolVersion")


class _InitializeResponse(Struct):
    result: _Initialized


class McpGateway:
    """One gateway, with a session for clients of the revisions that have one."""

    def __init__(
        self, http: httpx2.AsyncClient, client: Client, *, headers: Mapping[str, str], group: str | None = None
    ) -> None:
        """`group`: only its tools."""
        self._http = http
        self._path = PATH if group is None else f"{PATH}/{segment(group)}"
        self._client = client
        self._headers = {**_ACCEPT, **headers}
        self._handshake: bytes | None = None
        self._session: dict[str, str] = {}
        self._kept: dict[tuple[str, str], bytes] = {}
        """What the client set in its session, by method and URI, to be repeated in a new one."""
        self.renewals = 0
        """How many times there was a new session."""
        self._renewing = asyncio.Lock()
        self._listened: dict[str, str] = {}
        self._listening = EventParser()

    @property
    def has_session(self) -> bool:
        return bool(self._session)

    @property
    def subscriptions(self) -> list[str]:
        """The URIs that the client follows."""
        return [uri for method, uri in self._kept if method == SUBSCRIBE]

    async def request(self, request: RpcRequest, line: bytes) -> AsyncGenerator[bytes]:
        """Every message for a request, the response last. Raises `RpcError` for an error."""
        headers = _modern_headers(request) or self._session
        if headers is self._session:
            self._keep(request, line)
        try:
            async for message in self._request_once(request, line, headers):
                yield message
        except _SessionLost:
            await self.renew_session()
            async for message in self._request_once(request, line, self._session):
                yield message
        except RpcError as error:
            if error.number != HEADER_MISMATCH or request.method != "tools/call":
                raise
            # A client on stdio sends no headers; add those that the tool's schema asks for.
            async for message in self._request_once(request, line, {**headers, **await self._param_headers(request)}):
                yield message

    def _keep(self, request: RpcRequest, line: bytes) -> None:
        uri = str(request.params.get("uri", ""))
        if request.method == SET_LEVEL or (request.method == SUBSCRIBE and len(self._kept) < MOST_KEPT):
            self._kept[request.method, uri] = line
        elif request.method == UNSUBSCRIBE:
            self._kept.pop((SUBSCRIBE, uri), None)

    async def batch(self, line: bytes) -> bytes:
        """The responses to several messages in one, which revision 2025-03-26 has; empty: there are none."""
        async with self._sent("POST", line, self._session) as response:
            body: bytes = await response.aread()
            return body

    async def _request_once(
        self, request: RpcRequest, line: bytes, headers: Mapping[str, str]
    ) -> AsyncGenerator[bytes]:
        stream = _RequestStream(request)
        try:
            async with self._sent("POST", line, headers) as response:
                if response.is_error:
                    raise await _fault(response, had_session="Mcp-Session-Id" in headers)
                if request.method == INITIALIZE:
                    self._handshake = line
                    self._keep_session(response.headers, await response.aread())
                if not response.headers.get("content-type", "").startswith("text/event-stream"):
                    yield await response.aread()
                    return
                async for message in stream.messages(response):
                    yield message
        except GatewayGone:
            if not stream.can_be_resumed:
                raise
        if stream.can_be_resumed:
            async for message in self._resumed(stream):
                yield message

    async def _resumed(self, stream: "_RequestStream") -> AsyncGenerator[bytes]:
        """The rest of a request's stream that broke. The request itself is not sent again: its call may be running."""
        end, attempt = time.monotonic() + RESUME_SECONDS, 0
        while stream.can_be_resumed:
            await asyncio.sleep(backoff(attempt))
            attempt += 1
            stream.parser.restart()
            headers = {**self._session, "Last-Event-ID": stream.parser.last_id}
            try:
                async with self._sent("GET", b"", headers) as response:
                    if not response.is_error:
                        async for message in stream.messages(response):
                            end, attempt = time.monotonic() + RESUME_SECONDS, 0
                            yield message
            except GatewayGone:
                if time.monotonic() > end:
                    raise
            else:
                if response.is_error:
                    raise GatewayGone(f"The gateway has lost the request (HTTP {response.status_code}). See its log.")

    async def notify(self, line: bytes) -> None:
        """Send a message that has no response."""
        async with self._sent("POST", line, self._session) as response:
            if response.status_code != _ACCEPTED:
                log.warning("the gateway did not accept a message: HTTP %d", response.status_code)

    async def listen(self) -> AsyncGenerator[bytes | None]:
        """The gateway's own messages until the stream breaks; None first, when it is open."""
        async with self._sent("GET", b"", self._session) as response:
            if response.is_error:
                return
            yield None
            async for event in read_events(response):
                if event.data:
                    yield event.data.encode()

    async def renew_session(self) -> bool:
        """Repeat the handshake if the gateway does not know the session. Returns whether there is a new one."""
        async with self._renewing:
            if self._handshake is None or await self._is_known():
                return False
            async with self._sent("POST", self._handshake, {}) as response:
                if response.is_error:
                    return False
                self._keep_session(response.headers, await response.aread())
            await self.notify(notification("notifications/initialized"))
            for line in [*self._kept.values()]:
                async with self._sent("POST", line, self._session) as response:
                    await response.aread()
            self.renewals += 1
            return True

    async def _is_known(self) -> bool:
        """Whether the gateway knows the session; assumed if it is unreachable."""
        ping = b'{"jsonrpc":"2.0","id":"jackfield-mcp","method":"ping"}'
        try:
            async with self._sent("POST", ping, self._session) as response:
                return response.status_code != _NOT_FOUND
        except GatewayGone:
            return True

    async def end_session(self, *, within: float) -> None:
        if not self.has_session:
            return
        try:
            async with asyncio.timeout(within), self._sent("DELETE", b"", self._session):
                pass
        except (GatewayGone, TimeoutError):
            log.debug("the session was not closed; the gateway will expire it")

    def _keep_session(self, headers: httpx2.Headers, body: bytes) -> None:
        session_id = headers.get("mcp-session-id")
        if session_id is None:
            return
        version = msgspec.json.decode(body, type=_InitializeResponse).result.protocol_version
        self._session = {"Mcp-Session-Id": session_id, "MCP-Protocol-Version": version}

    async def _param_headers(self, request: RpcRequest) -> dict[str, str]:
        try:
            tool = await self._client.tools.get(str(request.params.get("name")))
        except GatewayUnreachable as fault:
            raise GatewayGone(fault.message) from None
        except JackfieldError:
            return {}
        arguments = request.params.get("arguments")
        return param_headers(declared_headers(tool.parameters), arguments if isinstance(arguments, dict) else {})

    @asynccontextmanager
    async def _sent(self, method: str, body: bytes, headers: Mapping[str, str]) -> AsyncGenerator[httpx2.Response]:
        """One request, whose response is read in the block. Raises `GatewayGone` if the connection fails."""
        try:
            async with self._http.stream(
                method, self._path, content=body or None, headers={**self._headers, **headers}
            ) as response:
                yield response
        except httpx2.TransportError as fault:
            raise _gone(self._http, fault) from None


class _Envelope(Struct):
    id: RequestId | None = None
    method: str | None = None


class _RequestStream:
    """The events of one request, over as many connections as they take."""

    def __init__(self, request: RpcRequest) -> None:
        self._request = request
        self.parser = EventParser()
        self._is_over = False

    @property
    def can_be_resumed(self) -> bool:
        """Whether the response is not there yet, and events have ids."""
        return not self._is_over and bool(self.parser.last_id)

    async def messages(self, response: httpx2.Response) -> AsyncGenerator[bytes]:
        async for event in read_events(response, self.parser):
            if event.data:
                self._is_over = _is_response_to(self._request, event.data)
                yield event.data.encode()
            if self._is_over:
                return


def _is_response_to(request: RpcRequest, data: str) -> bool:
    try:
        message = msgspec.json.decode(data, type=_Envelope)
    except msgspec.DecodeError:
        return False
    return message.method is None and message.id == request.id


class _SessionLost(Exception):
    """The gateway does not know the session."""


def _gone(http: httpx2.AsyncClient, fault: httpx2.TransportError) -> GatewayGone:
    why = str(fault) or type(fault).__name__
    return GatewayGone(
        f"The gateway at {str(http.base_url).rstrip('/')} is unreachable or closed the connection: {why}."
    )


async def _fault(response: httpx2.Response, *, had_session: bool) -> Exception:
    """The error of a response."""
    if response.status_code == _NOT_FOUND and had_session:
        return _SessionLost()
    try:
        answer = msgspec.json.decode(await response.aread(), type=_ErrorResponse)
    except msgspec.DecodeError:
        return GatewayGone(f"{response.url} responded with HTTP {response.status_code}. Is it a gateway?")
    code = answer.error.code if isinstance(answer.error.code, int) else SERVER_ERROR
    return RpcError(code, answer.error.message, msgspec.UNSET if answer.error.data is None else answer.error.data)


def _modern_headers(request: RpcRequest) -> dict[str, str]:
    """The headers of a request of 2026-07-28; none for earlier revisions."""
    version = request.meta.get(VERSION_KEY)
    if request.method == INITIALIZE or not isinstance(version, str):
        return {}
    headers = {"MCP-Protocol-Version": header_text(version), "Mcp-Method": header_text(request.method)}
    subject = request.params.get(NAMED_BY.get(request.method, "name"))
    return {**headers, "Mcp-Name": header_text(subject)} if isinstance(subject, str) else headers
