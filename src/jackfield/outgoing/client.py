"""`Outgoing`, the HTTP client of the gateway: requests within bounds, redirects, decompression."""

import asyncio
import ssl
import zlib
from base64 import b64encode
from collections.abc import Mapping
from contextlib import aclosing
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Self

import httpx2
import msgspec
from msgspec import Struct

from jackfield.outgoing.errors import OutgoingBadAnswer, OutgoingBadUrl, OutgoingTimedOut
from jackfield.outgoing.guard import Guard, Resolve, parse_allowed, resolve_by_system
from jackfield.outgoing.pool import ConnectionPool, StreamedResponse
from jackfield.outgoing.urls import (
    HttpOrigin,
    RequestTarget,
    named_origin,
    origin_of,
    parse_url,
    take_user,
    target_of,
    with_params,
)

MAX_BYTES = 10 * 1024 * 1024
MAX_REDIRECTS = 5
DEFAULT_SECONDS = 30.0
OUR_HEADERS = {
    "accept": "application/json, */*;q=0.5",
    "accept-encoding": "gzip, deflate",
    "user-agent": f"jackfield/{version('jackfield')}",
}
"""What every request carries unless it says otherwise, and all that a redirect carries to another origin."""
_STREAM_HEADERS = {"user-agent": OUR_HEADERS["user-agent"], "accept-encoding": "identity"}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LONGEST_CACHED = 1_000
_BODY_HEADERS = ("content-type", "content-encoding")


class OutgoingResponse(Struct, frozen=True, kw_only=True):
    """A complete response, whatever its status."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    content: bytes
    """The body, decompressed."""
    url: str
    """Where it came from, after redirects."""


class OutgoingRequest(Struct, frozen=True):
    """One request as it is sent."""

    method: str
    target: RequestTarget
    headers: Mapping[str, str]
    content: bytes | None = None


class Outgoing:
    """All requests that the gateway makes to urls of sources.

    `allow` is `[outgoing] allow`. `resolve` and `tls` are for tests and for a DNS or certificates of your own.
    """

    def __init__(
        self, allow: tuple[str, ...] = (), *, resolve: Resolve = resolve_by_system, tls: ssl.SSLContext | None = None
    ) -> None:
        guard = Guard(tuple(parse_allowed(entry) for entry in allow), resolve=resolve)
        self._pool = ConnectionPool(guard, tls=tls)

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
        max_redirects: int = MAX_REDIRECTS,
    ) -> OutgoingResponse:
        """Send one request and read its response. Raises `OutgoingError` when there is none.

        `named_by` is the url in the operator's config that asks for this: its origin may be reached wherever it is.
        `json` is sent as a JSON body, None as none. `timeout` (seconds) bounds it all, redirects included, and
        `max_bytes` the decompressed body. With `max_redirects=0` a redirect is refused, for bodies that are secret.
        """
        message = _message(method, url, headers=headers or {}, params=params, json=json, content=content)
        try:
            async with asyncio.timeout(timeout):
                response = await self._send(message, named_by, max_redirects)
                body = await _body(response, max_bytes)
        except TimeoutError:
            raise OutgoingTimedOut(f"{message.target.origin} did not answer within {timeout:g} s.") from None
        return OutgoingResponse(status=response.status, headers=response.headers, content=body, url=response.target.url)

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        content: bytes | None = None,
        named_by: str | None = None,
    ) -> StreamedResponse:
        """Send one request and return its response with the body still to be read. The caller bounds and closes it.

        Only User-Agent is added to `headers`, whose names are in lower case, and the response is not compressed.
        """
        target = target_of(url)
        if target is None:
            raise OutgoingBadUrl("The url has a user or password in it. Send them as a header.")
        return await self._send(OutgoingRequest(method, target, {**_STREAM_HEADERS, **headers}, content), named_by)

    async def reach(self, url: str, *, timeout: float = DEFAULT_SECONDS) -> str:
        """Open a connection to a url's server, with TLS where it is https, and send nothing. Returns its origin.

        Raises `OutgoingError` where the server may not or cannot be connected to.
        """
        origin = origin_of(parse_url(url))
        try:
            async with asyncio.timeout(timeout):
                await self._pool.reach(origin, named=False)
        except TimeoutError:
            raise OutgoingTimedOut(f"{origin} took no connection within {timeout:g} s. Check that it is up.") from None
        return str(origin)

    async def close(self) -> None:
        """Close every connection."""
        self._pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _send(
        self, message: OutgoingRequest, named_by: str | None, max_redirects: int = MAX_REDIRECTS
    ) -> StreamedResponse:
        """Send it and follow its redirects, each checked like a new url."""
        first = message.target.origin
        named: HttpOrigin | None = None if named_by is None else named_origin(named_by)
        for _ in range(max_redirects + 1):
            if message.target.origin != named:
                named = None  # the config's permission ends where its origin is left, and does not come back
            response = await self._pool.send(
                message.method,
                message.target,
                headers=message.headers,
                content=message.content,
                named=named is not None,
            )
            if response.status not in _REDIRECTS or "location" not in response.headers:
                return response
            await response.aclose()
            message = redirected(message, status=response.status, location=response.headers["location"])
        raise OutgoingBadAnswer(f"{first} redirected more than {max_redirects} times, last to {message.target.origin}.")


def redirected(message: OutgoingRequest, *, status: int, location: str) -> OutgoingRequest:
    """The request that a redirect asks for. Pure; whether its url may be reached is checked when it connects.

    Methods and bodies as browsers do it: 303 becomes GET, 301 and 302 turn POST into GET, 307 and 308 repeat the
    request. To another origin go our own headers only.
    """
    origin = message.target.origin
    try:
        url, _ = take_user(parse_url(httpx2.URL(message.target.url).join(location)))
    except (OutgoingBadUrl, httpx2.InvalidURL) as fault:
        raise OutgoingBadAnswer(f"{origin} redirected to nowhere. {fault}") from None
    target = RequestTarget.of(url)
    becomes_get = (status == HTTPStatus.SEE_OTHER and message.method != "HEAD") or (
        status in (HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.FOUND) and message.method == "POST"
    )
    content = None if becomes_get else message.content
    stays = target.origin == origin
    about_body = {name: value for name, value in message.headers.items() if name.lower() in _BODY_HEADERS}
    headers = {name: value for name, value in message.headers.items() if name not in about_body}
    headers = headers if stays else dict(OUR_HEADERS)
    if content is not None:
        headers |= about_body if stays else {n: v for n, v in about_body.items() if n.lower() == "content-type"}
    return OutgoingRequest("GET" if becomes_get else message.method, target, headers, content)


def merged(ours: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Our headers with those given over them, whatever the case of their names."""
    names = set(map(str.lower, given))
    kept = ours if names.isdisjoint(ours) else {name: value for name, value in ours.items() if name not in names}
    return {**kept, **given}


def _message(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    params: tuple[tuple[str, str], ...],
    json: Any,
    content: bytes | None,
) -> OutgoingRequest:
    target, user = target_of(url) if len(url) <= _LONGEST_CACHED else None, None
    if target is None or params:
        bare, user = take_user(parse_url(url))
        target = RequestTarget.of(with_params(bare, params))
    ours = dict(OUR_HEADERS)
    if user is not None:
        ours["authorization"] = f"Basic {b64encode(':'.join(user).encode()).decode()}"
    if json is not None:
        ours["content-type"], content = "application/json", msgspec.json.encode(json)
    return OutgoingRequest(method.upper(), target, merged(ours, headers), content)


async def _body(response: StreamedResponse, max_bytes: int) -> bytes:
    """The whole body, decompressed as it comes in and within the same limit, so that a bomb cannot go off."""
    encodings = response.headers.get("content-encoding", "").lower().split(",")
    decoders = [_Decoder(name) for name in map(str.strip, reversed(encodings)) if name in ("gzip", "deflate")]
    origin = response.target.origin
    try:
        if not decoders:
            return await response.read(max_bytes)
        body = bytearray()
        async with aclosing(response.aiter_bytes()) as parts:
            async for part in parts:
                for decoder in decoders:
                    part = decoder.decode(part, most=max_bytes - len(body) + 1)  # noqa: PLW2901 - what the next one gets
                body += part
                if len(body) > max_bytes:
                    raise OutgoingBadAnswer(f"{origin} answered with more than the {max_bytes:,} bytes allowed.")
        return bytes(body)
    except zlib.error:
        raise OutgoingBadAnswer(f"{origin} answered with a body that cannot be decompressed.") from None
    finally:
        await response.aclose()


class _Decoder:
    """One content encoding. `deflate` may come without zlib's header, as some servers send it."""

    def __init__(self, encoding: str) -> None:
        self._may_be_raw = encoding == "deflate"
        self._decompress = zlib.decompressobj(zlib.MAX_WBITS | (16 if encoding == "gzip" else 0)).decompress

    def decode(self, data: bytes, *, most: int) -> bytes:
        """At most `most` bytes; whoever gets that many stops reading."""
        may_be_raw, self._may_be_raw = self._may_be_raw, False
        try:
            return self._decompress(data, most)
        except zlib.error:
            if not may_be_raw:
                raise
            self._decompress = zlib.decompressobj(-zlib.MAX_WBITS).decompress
            return self._decompress(data, most)
