"""Requests to one gateway: sending, retrying, decoding, and reading event streams.

Above: the resources of the client (`tools.py`, `calls.py`, …), which know the paths. Below: httpx2 and `errors.py`.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
import msgspec
from msgspec import Struct

from jackfield.errors import JackfieldError, Unavailable
from jackfield.protocol.backoff import RetryDelays, backoff
from jackfield.protocol.sse import EventParser, ServerEvent
from jackfield.sdk.address import Address
from jackfield.sdk.errors import GatewayFault, GatewayUnreachable, NoAnswer, refusal, retry_seconds

CONNECT_TIMEOUT = 10.0
STREAM_TIMEOUT = 90.0
"""Seconds without a byte after which a stream counts as broken; the gateway pings every 15."""
KEEP_ALIVE = 30.0
"""Seconds an idle connection is kept: less than the gateway's 75, so that no request meets one that is closing."""
LONGEST_PAUSE = 30.0
_RETRY_LATER = frozenset({429, 503})
_REDIRECTS = range(300, 400)
_log = logging.getLogger("jackfield.sdk")
T = TypeVar("T")


class ApiRequest(Struct, frozen=True, kw_only=True):
    """One request before it is sent."""

    method: str
    path: str
    params: dict[str, str | int] = {}
    body: bytes | None = None
    headers: dict[str, str] = {}
    repeatable: bool = False
    """Whether it may be sent twice: a GET, or a POST with an idempotency key."""
    accepted: tuple[int, ...] = ()
    """Statuses other than 2xx that are not errors."""


def get(path: str, params: Mapping[str, str | int | None] | None = None) -> ApiRequest:
    """A GET with those parameters that are not None."""
    return ApiRequest(method="GET", path=path, params=given(params or {}), repeatable=True)


def send_json(
    method: str, path: str, body: Mapping[str, Any], *, repeatable: bool = False, headers: dict[str, str] | None = None
) -> ApiRequest:
    """A request with a JSON object."""
    encoded = msgspec.json.encode(body)
    return ApiRequest(method=method, path=path, body=encoded, repeatable=repeatable, headers=headers or {})


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def segment(text: str) -> str:
    """`text` as one path segment. Dots alone are escaped too: `..` would name the parent."""
    return quote(text, safe="") if text.strip(".") else "%2E" * len(text)


class GatewayConnection:
    """Connections to one gateway, in two pools.

    Calls and streams may stay open for long and exhaust theirs; short requests, such as the answer that ends a call,
    must not wait for them.
    """

    def __init__(
        self,
        address: Address,
        *,
        timeout: float | None = 60.0,
        retries: int = 2,
        retry_after: float = 0.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = address.url
        self._address = address
        self._timeout = timeout
        self._retries = retries
        self._retry_after = retry_after
        self._transport = transport
        # Loading the certificate authorities takes longer than a call; plain http has no use for them.
        is_https = address.url.startswith("https")
        trust = httpx2.create_ssl_context() if is_https else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._short = self._pool(trust)
        self._long = self._pool(trust)

    def _pool(self, trust: ssl.SSLContext) -> httpx2.AsyncClient:
        key = self._address.key
        return httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
            limits=httpx2.Limits(max_connections=256, max_keepalive_connections=32, keepalive_expiry=KEEP_ALIVE),
            trust_env=not self._address.is_local,  # no proxy for a gateway on this machine
            verify=trust,
            transport=self._transport,
        )

    @asynccontextmanager
    async def dedicated(self) -> AsyncIterator["GatewayConnection"]:
        """A second connection to the same gateway that other requests of this client cannot hold up."""
        if self._transport is not None:
            yield self
            return
        other = GatewayConnection(
            self._address, timeout=self._timeout, retries=self._retries, retry_after=self._retry_after
        )
        try:
            yield other
        finally:
            await other.close()

    async def close(self) -> None:
        await self._short.aclose()
        await self._long.aclose()

    async def fetch(self, request: ApiRequest, into: type[T], key: str | None = None) -> T:
        """The response decoded as `into`; with `key`, the value under that key of the response's object."""
        return self.decode((await self.send(request)).content, into, key)

    async def send(self, request: ApiRequest) -> httpx2.Response:
        """The response within the client's timeout. Raises the error that it stands for."""
        async with self.deadline(self._timeout, request):
            return await self._send_with_retries(request, self._short)

    async def send_long(self, request: ApiRequest, *, timeout: float | None) -> httpx2.Response:
        """`send` for a request that the gateway may hold open; without a timeout, for as long as it does."""
        async with self.deadline(timeout, request):
            return await self._send_with_retries(request, self._long)

    async def _send_with_retries(self, request: ApiRequest, pool: httpx2.AsyncClient) -> httpx2.Response:
        attempt = 0
        while True:
            error: JackfieldError
            try:
                response = await pool.send(self._built(request))
            except httpx2.TransportError as fault:
                error = self._unreachable(fault)
                pause = backoff(attempt) if request.repeatable else None
            else:
                if response.is_success or response.status_code in request.accepted:
                    return response
                error = self._error(response)
                pause = self._retry_pause(response)
            if pause is None or attempt >= self._retries:
                raise error
            attempt += 1
            await asyncio.sleep(pause)

    @asynccontextmanager
    async def stream(
        self, request: ApiRequest, *, last_id: str = "", accept: str = "text/event-stream"
    ) -> AsyncIterator[httpx2.Response]:
        """An open event stream for `read_events`. Raises when it cannot be opened and when it breaks."""
        built = self._built(request, timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT, read=STREAM_TIMEOUT))
        built.headers["Accept"] = accept
        if last_id:
            built.headers["Last-Event-ID"] = last_id
        try:
            response = await self._long.send(built, stream=True)
            try:
                if not response.is_success:
                    await response.aread()
                    raise self._error(response)
                yield response
            finally:
                await response.aclose()
        except httpx2.TransportError as fault:
            raise self._unreachable(fault) from fault

    async def download(self, request: ApiRequest) -> AsyncGenerator[bytes, None]:
        """The body of a response in pieces, as they come. Raises when it breaks off."""
        async with self.stream(request, accept="*/*") as response:
            async for piece in response.aiter_bytes():
                yield piece

    async def follow(self, request: ApiRequest) -> AsyncGenerator[ServerEvent, None]:
        """The events of an endless stream, reopened after the last event id when it breaks.

        Opening it the first time must succeed, so that a wrong url or key is reported at once. Afterwards an
        unreachable gateway is waited for; one that refuses ends the stream with its error.
        """
        parser = EventParser()
        opened = False
        delays = RetryDelays()
        while True:
            try:
                async with self.stream(request, last_id=parser.last_id) as response:
                    opened = True
                    async for event in read_events(response, parser):
                        delays.reset()
                        yield event
                why = "The gateway ended it."
            except (GatewayUnreachable, GatewayFault, Unavailable) as fault:
                if not opened:
                    raise
                why = fault.message
            pause = max((parser.retry_ms or 0) / 1000, delays.next())
            parser.restart()
            _log.warning("The stream %s broke. %s Reconnecting.", request.path, why)
            await asyncio.sleep(min(pause, LONGEST_PAUSE))

    @asynccontextmanager
    async def deadline(self, seconds: float | None, request: ApiRequest) -> AsyncIterator[None]:
        """`NoAnswer` when the block takes longer than this."""
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            raise NoAnswer(
                f"The gateway at {self.url} did not answer {request.method} {request.path} within {seconds:g} s. "
                "The request may still take effect; look at the calls before you send it again."
            ) from None

    def decode(self, body: bytes | str, into: type[T], key: str | None = None) -> T:
        """A body as one of our types. Raises `GatewayFault` for anything else."""
        try:
            if key is None:
                return msgspec.json.decode(body, type=into)
            value: T = getattr(msgspec.json.decode(body, type=_envelope(key, into)), key)
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise GatewayFault(
                f"The response of {self.url} is not a valid {into.__name__} ({fault}). "
                "Check that the url is a Jackfield gateway, and its version."
            ) from None
        return value

    def _built(self, request: ApiRequest, *, timeout: httpx2.Timeout | None = None) -> httpx2.Request:
        headers = request.headers if request.body is None else {"Content-Type": "application/json", **request.headers}
        return self._long.build_request(
            request.method,
            f"{self.url}{request.path}",
            params=request.params or None,
            content=request.body,
            headers=headers,
            timeout=timeout or self._long.timeout,
        )

    def _unreachable(self, fault: httpx2.TransportError) -> GatewayUnreachable:
        if isinstance(fault, (httpx2.ConnectError, httpx2.ConnectTimeout)):
            return GatewayUnreachable(
                f"No gateway answers at {self.url}. "
                "Start one with 'jackfield serve', or set JACKFIELD_URL to where it is."
            )
        why = str(fault).rstrip(".") or type(fault).__name__
        return GatewayUnreachable(
            f"The connection to the gateway at {self.url} broke: {why}. Check that it is still running."
        )

    def _error(self, response: httpx2.Response) -> JackfieldError:
        if response.status_code in _REDIRECTS:
            place = response.headers.get("Location", "another place")
            return GatewayFault(f"{self.url} redirects to {place}. Use that as the gateway's url if it is yours.")
        retry_after = response.headers.get("Retry-After")
        return refusal(response.status_code, response.content, url=self.url, retry_after=retry_after)

    def _retry_pause(self, response: httpx2.Response) -> float | None:
        """Seconds to wait as the response asks; None: no retry."""
        header = response.headers.get("Retry-After")
        if header is None or response.status_code not in _RETRY_LATER:
            return None
        pause = retry_seconds(header)
        return pause if pause <= self._retry_after else None


async def read_events(
    response: httpx2.Response, parser: EventParser | None = None
) -> AsyncGenerator[ServerEvent, None]:
    """The events of one open stream until it ends."""
    parser = parser or EventParser()
    async for chunk in response.aiter_bytes():
        for event in parser.feed(chunk):
            yield event


def _envelope(key: str, into: Any) -> type[Struct]:
    """An object with one key, of which all others are ignored."""
    known = _ENVELOPES.get((key, into))
    if known is None:
        known = _ENVELOPES[key, into] = msgspec.defstruct("Envelope", [(key, into)], frozen=True)
    return known


_ENVELOPES: dict[tuple[str, Any], type[Struct]] = {}
