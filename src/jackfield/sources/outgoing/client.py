"""The client that every source asks: one request, one whole answer, within bounds. Above: the sources. Below:
`transport.py`.
"""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Mapping
from contextlib import aclosing
from functools import lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Self

import httpx2
import msgspec
from msgspec import Struct

from jackfield.sources.outgoing.addresses import parse_allowed
from jackfield.sources.outgoing.errors import OutgoingBadAnswer, OutgoingBadUrl, OutgoingFailed, OutgoingTimedOut
from jackfield.sources.outgoing.lines import LineAnswer, Lines, Place
from jackfield.sources.outgoing.network import Resolve, resolve_by_system
from jackfield.sources.outgoing.transport import OUR_HEADERS, GuardedTransport, Pools
from jackfield.sources.outgoing.urls import named_origin, origin_of, parse_url, take_user, with_params

MAX_BYTES = 10 * 1024 * 1024
DEFAULT_SECONDS = 30.0
_SPARE = {"user-agent": OUR_HEADERS["user-agent"], "accept-encoding": "identity"}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Answer(Struct, frozen=True, kw_only=True):
    """A whole answer, whatever its status."""

    status: int
    headers: httpx2.Headers
    content: bytes
    """The body, decompressed."""
    url: str
    """Where it came from, after redirects."""


StreamedAnswer = LineAnswer | httpx2.Response
"""An answer whose body is read as it comes in: `status_code`, `headers`, `aiter_bytes`, `aclose`."""


class Outgoing:
    """All requests that the gateway makes.

    `allow` is `[outgoing] allow`. `resolve` and `tls` are for tests, and for who brings DNS or certificates along.
    """

    def __init__(
        self,
        allow: tuple[str, ...] = (),
        *,
        resolve: Resolve = resolve_by_system,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._pools = Pools(allow=tuple(parse_allowed(entry) for entry in allow), resolve=resolve, tls=tls)
        self._lines = Lines(network=self._pools.network, tls=self._pools.tls_context)

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: tuple[tuple[str, str], ...] = (),
        json: Any = None,
        content: bytes | None = None,
        timeout: float = DEFAULT_SECONDS,
        max_bytes: int = MAX_BYTES,
        named_by: str | None = None,
    ) -> Answer:
        """Send one request and read its answer. Raises an `OutgoingError` when there is none.

        `named_by` is the url in the operator's config that asks for this: its origin may be reached wherever it is.
        `json` is sent as a JSON body, None as none. `timeout` (seconds) bounds it all, redirects included, and
        `max_bytes` the decompressed answer.
        """
        message = _message(method, url, headers=headers, params=params, json=json, content=content)
        try:
            async with asyncio.timeout(timeout):
                response = await self._transport(named_by).handle_async_request(message)
                body = await _read(response, max_bytes)
        except TimeoutError:
            raise OutgoingTimedOut(f"{origin_of(message.url)} did not answer within {timeout:g} s.") from None
        return Answer(
            status=response.status_code, headers=response.headers, content=body, url=str(response.request.url)
        )

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        content: bytes | None = None,
        named_by: str | None = None,
    ) -> StreamedAnswer:
        """Send one request and return its answer with the body still to be read. The caller bounds and closes it.

        For who asks one place again and again: the connection is kept and little is done. Nothing is added to `headers`
        but who we are, and the answer is not compressed. Redirects are followed as ever.
        """
        place = place_of(url)
        named = named_by is not None and named_origin(named_by) == place.origin
        answer = await self._lines.send(method, place, headers={**_SPARE, **headers}, content=content, named=named)
        if answer.status_code not in _REDIRECTS or "location" not in answer.headers:
            return answer
        await answer.aclose()
        message = _message(method, url, headers={**_SPARE, **headers}, params=(), json=None, content=content)
        return await self._transport(named_by).handle_async_request(message)

    def client(
        self,
        named_by: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: httpx2.Timeout | float | None = DEFAULT_SECONDS,
    ) -> httpx2.AsyncClient:
        """A guarded httpx2 client, for libraries that take one (the MCP SDK). It may stream; the caller bounds it.

        Closing it leaves the shared connections open. Redirects are followed beneath it, by the same rules.
        """
        return httpx2.AsyncClient(
            transport=self._transport(named_by),
            headers=_with_ours(headers),
            timeout=timeout,
            cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=())),
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        self._lines.close()
        await self._pools.close()

    def _transport(self, named_by: str | None) -> GuardedTransport:
        return GuardedTransport(self._pools, named=None if named_by is None else named_origin(named_by))


@lru_cache(maxsize=1024)
def place_of(url: str) -> Place:
    """Where a url leads, taken apart once. A user and password in it are not for a place: they raise."""
    parsed = parse_url(url)
    if parsed.userinfo:
        raise OutgoingBadUrl("The url has a user or password in it. Send them as a header.")
    return Place(origin_of(parsed), parsed.netloc.decode("ascii"), parsed.raw_path.decode("ascii"))


def _message(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None,
    params: tuple[tuple[str, str], ...],
    json: Any,
    content: bytes | None,
) -> httpx2.Request:
    target, user = take_user(parse_url(url))
    try:
        sent = _with_ours(headers)
        if user is not None:
            sent.setdefault("authorization", f"Basic {b64encode(':'.join(user).encode()).decode()}")
        if json is not None:
            sent.setdefault("content-type", "application/json")
            content = msgspec.json.encode(json)
        return httpx2.Request(method, with_params(target, params), headers=sent, content=content)
    except httpx2.InvalidURL as fault:
        raise OutgoingFailed(f"The request to {origin_of(target)} cannot be made: {fault}") from None
    except UnicodeError:
        raise OutgoingFailed(
            f"The request to {origin_of(target)} has a header that is not ASCII. Correct it."
        ) from None


def _with_ours(headers: Mapping[str, str] | None) -> httpx2.Headers:
    """Our headers with `headers` over them, whatever the case of their names."""
    merged = httpx2.Headers(OUR_HEADERS)
    merged.update(headers)
    return merged


async def _read(response: httpx2.Response, max_bytes: int) -> bytes:
    origin = origin_of(response.request.url)
    parts: list[bytes] = []
    size = 0
    try:
        async with aclosing(response.aiter_bytes()) as incoming:
            async for part in incoming:
                size += len(part)
                if size > max_bytes:
                    raise OutgoingBadAnswer(f"{origin} answered with more than the {max_bytes:,} bytes allowed.")
                parts.append(part)
    except httpx2.DecodingError:
        raise OutgoingBadAnswer(f"{origin} answered with a body that cannot be decompressed.") from None
    finally:
        await response.aclose()
    return b"".join(parts)
