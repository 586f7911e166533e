"""The road to one gateway: requests, when they are sent again, and the errors that answers stand for.

Above: `tools.py`, `calls.py` and `streams.py`, which know the paths. Below: httpx2 and `failures.py`.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import quote

import httpx2
import msgspec
from msgspec import Struct

from jackfield.errors import JackfieldError
from jackfield.protocol.backoff import backoff
from jackfield.sdk.address import Address
from jackfield.sdk.failures import GatewayFault, GatewayUnreachable, NoAnswer, refusal, seconds

CONNECT_WITHIN = 10.0
QUIET_STREAM = 90.0
"""Seconds without a byte after which a stream counts as broken; the gateway pings every 15."""
KEEP_ALIVE = 30.0
"""Seconds an idle connection is kept: fewer than the gateway's 75, so that no request meets one that is closing."""
_RETRY_LATER = frozenset({429, 503})
_REDIRECTS = range(300, 400)
T = TypeVar("T")


class Patience(Struct, frozen=True, kw_only=True):
    """How long requests wait and how often they are sent again."""

    timeout: float | None = 60.0
    """Seconds until an answer must come. Calls have their own: the gateway's deadline, unless the caller gives one."""
    retries: int = 2
    """How often a request is sent again after a lost connection, if sending it twice does no harm."""
    retry_after: float = 0.0
    """Seconds that a refusal's `Retry-After` may ask us to wait before the next try. 0: refusals are final."""


class Message(Struct, frozen=True, kw_only=True):
    """One request, before it is sent."""

    method: str
    path: str
    params: dict[str, str | int] = {}
    body: bytes | None = None
    headers: dict[str, str] = {}
    repeatable: bool = False
    """Whether a second copy changes nothing: a GET, or a POST with an idempotency key."""
    also: tuple[int, ...] = ()
    """Statuses that are answers to this request though they are not 2xx."""


def part(text: str) -> str:
    """Something as one part of a path. Dots alone would lead elsewhere: to the space, when a member is meant."""
    return quote(text, safe="") if text.strip(".") else "%2E" * len(text)


def get(path: str, params: Mapping[str, str | int | None] | None = None, *, also: tuple[int, ...] = ()) -> Message:
    """A GET with those parameters that are not None."""
    given = {name: value for name, value in (params or {}).items() if value is not None}
    return Message(method="GET", path=path, params=given, repeatable=True, also=also)


class Connection:
    """The connections to one gateway, in two pools.

    Calls and streams may be open for long and fill theirs; what is asked beside them, such as the answer that ends a
    call, must not wait for that.
    """

    def __init__(
        self, address: Address, *, patience: Patience, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        self.url = address.url
        self._address = address
        self._patience = patience
        self._transport = transport
        # Loading the certificate authorities takes longer than a call; plain http has no use for them.
        trust = httpx2.create_ssl_context() if address.url.startswith("https") else _no_trust()
        self._short = self._pool(trust)
        self._long = self._pool(trust)

    def _pool(self, trust: ssl.SSLContext) -> httpx2.AsyncClient:
        key = self._address.key
        return httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx2.Timeout(None, connect=CONNECT_WITHIN),
            limits=httpx2.Limits(max_connections=256, max_keepalive_connections=32, keepalive_expiry=KEEP_ALIVE),
            # The operator's proxy is for the world outside, not for a gateway on this machine.
            trust_env=not self._address.is_local,
            verify=trust,
            transport=self._transport,
        )

    @asynccontextmanager
    async def apart(self) -> AsyncIterator["Connection"]:
        """The same road with pools of its own, for whoever must not be held up by other requests of this client."""
        if self._transport is not None:
            yield self
            return
        other = Connection(self._address, patience=self._patience)
        try:
            yield other
        finally:
            await other.close()

    async def close(self) -> None:
        await self._short.aclose()
        await self._long.aclose()

    async def ask(self, message: Message) -> httpx2.Response:
        """The gateway's answer within the client's timeout, or the error it stands for."""
        async with self.deadline(self._patience.timeout, message):
            return await self._send_until_answered(message, self._short)

    async def send(self, message: Message, *, within: float | None) -> httpx2.Response:
        """The same for a request that the gateway may hold: within `within` seconds, or as long as the gateway does."""
        async with self.deadline(within, message):
            return await self._send_until_answered(message, self._long)

    async def _send_until_answered(self, message: Message, pool: httpx2.AsyncClient) -> httpx2.Response:
        attempt = 0
        while True:
            error: JackfieldError
            try:
                response = await pool.send(self._request(message))
            except httpx2.TransportError as fault:
                error = self._lost(fault)
                pause = backoff(attempt) if message.repeatable else None
            else:
                if response.is_success or response.status_code in message.also:
                    return response
                error = self._error(response)
                pause = self._asked_to_wait(response)
            if pause is None or attempt >= self._patience.retries:
                raise error
            attempt += 1
            await asyncio.sleep(pause)

    @asynccontextmanager
    async def stream(self, message: Message, *, last_id: str = "") -> AsyncIterator[httpx2.Response]:
        """An open event stream, to be read with `aiter_bytes`. Raises when it cannot be opened and when it breaks."""
        request = self._request(message, timeout=httpx2.Timeout(None, connect=CONNECT_WITHIN, read=QUIET_STREAM))
        request.headers["Accept"] = "text/event-stream"
        if last_id:
            request.headers["Last-Event-ID"] = last_id
        try:
            response = await self._long.send(request, stream=True)
            try:
                if not response.is_success:
                    await response.aread()
                    raise self._error(response)
                yield response
            finally:
                await response.aclose()
        except httpx2.TransportError as fault:
            raise self._lost(fault) from fault

    @asynccontextmanager
    async def deadline(self, within: float | None, message: Message) -> AsyncIterator[None]:
        """`NoAnswer` when the block takes longer than `within` seconds."""
        limit = asyncio.timeout(within)
        try:
            async with limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            raise NoAnswer(
                f"The gateway at {self.url} did not answer {message.method} {message.path} within {within:g} s. "
                "What was asked may still happen; look at the calls before you ask again."
            ) from None

    def decode(self, body: bytes | str, into: type[T]) -> T:
        """An answer's body as one of our types; `GatewayFault` when it is something else."""
        try:
            return msgspec.json.decode(body, type=into)
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise GatewayFault(
                f"{self.url} answered with something that is no {into.__name__.strip('_')} ({fault}). "
                "See whether that url is a Jackfield gateway, and of which version."
            ) from None

    def _request(self, message: Message, *, timeout: httpx2.Timeout | None = None) -> httpx2.Request:
        headers = message.headers if message.body is None else {"Content-Type": "application/json", **message.headers}
        return self._long.build_request(
            message.method,
            f"{self.url}{message.path}",
            params=message.params or None,
            content=message.body,
            headers=headers,
            timeout=timeout or self._long.timeout,
        )

    def _lost(self, fault: httpx2.TransportError) -> GatewayUnreachable:
        if isinstance(fault, (httpx2.ConnectError, httpx2.ConnectTimeout)):
            return GatewayUnreachable(
                f"No gateway answers at {self.url}. "
                "Start one with 'jackfield serve', or set JACKFIELD_URL to where it is."
            )
        why = str(fault).rstrip(".") or type(fault).__name__
        return GatewayUnreachable(
            f"The connection to the gateway at {self.url} broke: {why}. See whether it still runs."
        )

    def _error(self, response: httpx2.Response) -> JackfieldError:
        if response.status_code in _REDIRECTS:
            place = response.headers.get("Location", "another place")
            return GatewayFault(f"{self.url} points to {place}. Use that as the gateway's url if it is yours.")
        return refusal(
            response.status_code, response.content, url=self.url, retry_after=response.headers.get("Retry-After")
        )

    def _asked_to_wait(self, response: httpx2.Response) -> float | None:
        """How long to wait before another try; None when there is to be none."""
        header = response.headers.get("Retry-After")
        if header is None or response.status_code not in _RETRY_LATER:
            return None
        wait = seconds(header)
        return wait if wait <= self._patience.retry_after else None


def _no_trust() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
