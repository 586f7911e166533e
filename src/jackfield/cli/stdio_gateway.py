"""The `/mcp` of a gateway, asked over HTTP in the name of one client on stdio.

Above: `stdio_bridge.py`. Below: httpx2. Adds the headers of each era, keeps the session of a client that shook hands.
A gateway that was started anew does not know the session: then hands are shaken again, as the client did at first.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec
from msgspec import Struct

from jackfield.mcp.param_headers import header_text, headers_for
from jackfield.mcp.revisions import VERSION_KEY
from jackfield.mcp.wire import HEADER_MISMATCH, INITIALIZE, RpcError, RpcRequest, notification
from jackfield.sdk.connection import read_events

log = logging.getLogger(__name__)

PATH = "/mcp"

REFUSED = -32000
_ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
_NOT_FOUND = 404
_NO_ANSWER = 202


class GatewayGone(Exception):
    """The gateway cannot be reached, or the connection to it broke."""


class _Error(Struct):
    code: int | str = REFUSED
    message: str = ""
    data: Any = None


class _Answer(Struct):
    """What an answer with an error has, in JSON-RPC's shape or in that of the gateway's other doors."""

    error: _Error
    jsonrpc: str = ""


class _Initialized(Struct):
    protocol_version: str = msgspec.field(name="protocolVersion")


class _InitializeAnswer(Struct):
    result: _Initialized


class _Tool(Struct):
    parameters: dict[str, Any]


class McpGateway:
    """One gateway and, for a client of the handshake era, one session on it."""

    def __init__(self, http: httpx2.AsyncClient, *, headers: Mapping[str, str]) -> None:
        self._http = http
        self._headers = {**_ACCEPT, **headers}
        self._handshake: bytes | None = None
        self._session: dict[str, str] = {}
        self._renewing = asyncio.Lock()

    @property
    def has_session(self) -> bool:
        return bool(self._session)

    async def ask(self, request: RpcRequest, line: bytes) -> AsyncGenerator[bytes]:
        """Every message that comes for a request, its answer last. An answer that is an error raises `RpcError`."""
        headers = _modern_headers(request) or self._session
        try:
            async for message in self._ask_once(request, line, headers):
                yield message
        except _SessionLost:
            await self.renew_session()
            async for message in self._ask_once(request, line, self._session):
                yield message
        except RpcError as error:
            if error.code != HEADER_MISMATCH or request.method != "tools/call":
                raise
            # A client on stdio sends no headers; those that the tool's schema asks for are made here.
            async for message in self._ask_once(request, line, {**headers, **await self._param_headers(request)}):
                yield message

    async def _ask_once(self, request: RpcRequest, line: bytes, headers: Mapping[str, str]) -> AsyncGenerator[bytes]:
        async with self._sent("POST", line, headers) as response:
            if response.is_error:
                raise await _fault(response, had_session="Mcp-Session-Id" in headers)
            if request.method == INITIALIZE:
                self._handshake = line
                self._keep_session(response.headers, await response.aread())
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                async for event in read_events(response):
                    yield event.data.encode()
            else:
                yield await response.aread()

    async def tell(self, line: bytes) -> None:
        """A message that wants no answer."""
        async with self._sent("POST", line, self._session) as response:
            if response.status_code != _NO_ANSWER:
                log.warning("the gateway did not take a message: HTTP %d", response.status_code)

    async def listen(self) -> AsyncGenerator[bytes | None]:
        """What the gateway says unasked, as long as the stream holds; None when it stands."""
        async with self._sent("GET", b"", self._session) as response:
            if response.is_error:
                return
            yield None
            async for event in read_events(response):
                yield event.data.encode()

    async def renew_session(self) -> bool:
        """Shake hands again if the gateway has forgotten the session; whether that was so and is mended."""
        async with self._renewing:
            if self._handshake is None or await self._is_known():
                return False
            async with self._sent("POST", self._handshake, {}) as response:
                if response.is_error:
                    return False
                self._keep_session(response.headers, await response.aread())
            await self.tell(notification("notifications/initialized"))
            return True

    async def _is_known(self) -> bool:
        """Whether the session still stands. A gateway that is away is not known to have forgotten it."""
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
            log.debug("the session was not ended; the gateway forgets it by itself")

    def _keep_session(self, headers: httpx2.Headers, body: bytes) -> None:
        session_id = headers.get("mcp-session-id")
        if session_id is None:
            return
        version = msgspec.json.decode(body, type=_InitializeAnswer).result.protocol_version
        self._session = {"Mcp-Session-Id": session_id, "MCP-Protocol-Version": version}

    async def _param_headers(self, request: RpcRequest) -> dict[str, str]:
        path = f"/api/v1/tools/{quote(str(request.params.get('name')), safe='')}"
        try:
            response = await self._http.get(path)
        except httpx2.TransportError as fault:
            raise _gone(self._http, fault) from None
        if response.is_error:
            return {}
        arguments = request.params.get("arguments")
        schema = msgspec.json.decode(response.content, type=_Tool).parameters
        return headers_for(schema, arguments if isinstance(arguments, dict) else {})

    @asynccontextmanager
    async def _sent(self, method: str, body: bytes, headers: Mapping[str, str]) -> AsyncGenerator[httpx2.Response]:
        """One request; the answer is read in the block. A connection that breaks, then or before, is `GatewayGone`."""
        try:
            async with self._http.stream(
                method, PATH, content=body or None, headers={**self._headers, **headers}
            ) as response:
                yield response
        except httpx2.TransportError as fault:
            raise _gone(self._http, fault) from None


class _SessionLost(Exception):
    """The gateway does not know the session."""


def _gone(http: httpx2.AsyncClient, fault: httpx2.TransportError) -> GatewayGone:
    why = str(fault) or type(fault).__name__
    return GatewayGone(f"The gateway at {str(http.base_url).rstrip('/')} is away or broke off: {why}.")


async def _fault(response: httpx2.Response, *, had_session: bool) -> Exception:
    """What an answer with an error status stands for."""
    if response.status_code == _NOT_FOUND and had_session:
        return _SessionLost()
    try:
        answer = msgspec.json.decode(await response.aread(), type=_Answer)
    except msgspec.DecodeError:
        return GatewayGone(f"{response.url} answered with HTTP {response.status_code}. Is a gateway there?")
    code = answer.error.code if isinstance(answer.error.code, int) else REFUSED
    return RpcError(code, answer.error.message, msgspec.UNSET if answer.error.data is None else answer.error.data)


def _modern_headers(request: RpcRequest) -> dict[str, str]:
    """What a request of 2026-07-28 says in headers too; nothing for one of the handshake era."""
    version = request.meta.get(VERSION_KEY)
    if request.method == INITIALIZE or not isinstance(version, str):
        return {}
    headers = {"MCP-Protocol-Version": header_text(version), "Mcp-Method": header_text(request.method)}
    subject = request.params.get("uri" if request.method == "resources/read" else "name")
    return {**headers, "Mcp-Name": header_text(subject)} if isinstance(subject, str) else headers
