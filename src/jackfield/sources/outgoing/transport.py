"""Sends one request and follows its redirects, each looked at like a new url. Above: `client.py`, or an httpx2
client that was lent this transport. Below: connection pools over `network.py`.

A pool belongs to one permission: the connections of a host that the config names are in a pool of their own,
which only requests under that name are given. So a foreign url never rides on a connection it could not open.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from importlib.metadata import version

import httpcore2
import httpx2

from jackfield.sources.outgoing.addresses import Allowed
from jackfield.sources.outgoing.errors import (
    OutgoingBadAnswer,
    OutgoingBadUrl,
    OutgoingFailed,
    OutgoingTimedOut,
    OutgoingUnreachable,
)
from jackfield.sources.outgoing.network import GuardedNetwork, Resolve
from jackfield.sources.outgoing.urls import Origin, origin_of, parse_url, take_user

MAX_REDIRECTS = 5
OUR_HEADERS = {
    "accept": "application/json, */*;q=0.5",
    "accept-encoding": "gzip, deflate",
    "user-agent": f"jackfield/{version('jackfield')}",
}
"""What every request carries unless it says otherwise, and all that a redirect carries to another origin."""

_KEPT_ALIVE = 100
_KEPT_ALIVE_SECONDS = 4.0
"""Less than the five seconds after which many servers hang up, so that a kept connection is rarely a dead one."""
_BODY_HEADERS = ("content-length", "content-type", "content-encoding", "transfer-encoding")


class Pools:
    """Connections, kept apart by permission. Made at first use; closed together."""

    def __init__(self, *, allow: tuple[Allowed, ...], resolve: Resolve, tls: ssl.SSLContext | None) -> None:
        self._allow = allow
        self._resolve = resolve
        self._tls = tls
        self._tls_lock = asyncio.Lock()
        self._pools: dict[tuple[str, Origin | None], httpcore2.AsyncConnectionPool] = {}

    async def get(self, scheme: str, named: Origin | None) -> httpcore2.AsyncConnectionPool:
        """The pool for urls of `scheme` under the permission of `named`; None is a foreign url's."""
        tls = await self.tls_context() if scheme == "https" else None
        pool = self._pools.get((scheme, named))
        if pool is None:
            pool = self._pools[scheme, named] = httpcore2.AsyncConnectionPool(
                ssl_context=tls,
                # No bound here: calls are bounded by their source, and one slow host must not use up another's share.
                max_connections=None,
                max_keepalive_connections=_KEPT_ALIVE,
                keepalive_expiry=_KEPT_ALIVE_SECONDS,
                network_backend=self.network(named is not None),
            )
        return pool

    def network(self, is_named: bool) -> GuardedNetwork:  # noqa: FBT001 - the one thing a network is asked for
        """What connects, under the permission of a config url or without one."""
        return GuardedNetwork(named=is_named, allow=self._allow, resolve=self._resolve)

    async def tls_context(self) -> ssl.SSLContext:
        """Loading the machine's certificates takes 0.1 s: once, at the first https url, and off the event loop."""
        async with self._tls_lock:
            if self._tls is None:
                self._tls = await asyncio.to_thread(httpx2.create_ssl_context)
            return self._tls

    async def close(self) -> None:
        pools = list(self._pools.values())
        self._pools.clear()
        for pool in pools:
            await pool.aclose()


class GuardedTransport(httpx2.AsyncBaseTransport):
    """What an httpx2 client sends through. Its answer is never a redirect that could be followed."""

    def __init__(self, pools: Pools, *, named: Origin | None) -> None:
        self._pools = pools
        self._named = named

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        hop = _in_one_spelling(request)
        named = self._named
        for _ in range(MAX_REDIRECTS + 1):
            # The name's permission ends where the origin is left, and does not come back with the way.
            named = named if origin_of(hop.url) == named else None
            response = await self._send(hop, named)
            if not response.has_redirect_location:
                return response
            await response.aclose()
            hop = redirected(hop, status=response.status_code, location=response.headers["location"])
        raise OutgoingBadAnswer(
            f"{origin_of(request.url)} redirected more than {MAX_REDIRECTS} times, last to {origin_of(hop.url)}."
        )

    async def _send(self, request: httpx2.Request, named: Origin | None) -> httpx2.Response:
        origin = origin_of(request.url)
        pool = await self._pools.get(origin.scheme, named)
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        with _in_our_words(origin):
            answer = await pool.handle_async_request(
                httpcore2.Request(
                    method=request.method,
                    url=httpcore2.URL(
                        scheme=request.url.raw_scheme,
                        host=request.url.raw_host,
                        port=request.url.port,
                        target=request.url.raw_path,
                    ),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        return httpx2.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=_Body(answer, origin),
            extensions=answer.extensions,
            request=request,
        )


class _Body(httpx2.AsyncByteStream):
    """The answer's body as it comes in, with faults in our words."""

    def __init__(self, answer: httpcore2.Response, origin: Origin) -> None:
        self._answer = answer
        self._origin = origin

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _in_our_words(self._origin):
            async for part in self._answer.aiter_stream():
                yield part

    async def aclose(self) -> None:
        await self._answer.aclose()


def redirected(request: httpx2.Request, *, status: int, location: str) -> httpx2.Request:
    """The request that a redirect asks for. Pure; whether its url may be reached is seen when it connects.

    Methods and bodies as browsers do it: 303 becomes GET, 301 and 302 turn POST into GET, 307 and 308 repeat the
    request. To another origin go our own headers only.
    """
    url = _location(request, location)
    becomes_get = (status == httpx2.codes.SEE_OTHER and request.method != "HEAD") or (
        status in (httpx2.codes.MOVED_PERMANENTLY, httpx2.codes.FOUND) and request.method == "POST"
    )
    body = None if becomes_get else _repeatable(request)
    stays = origin_of(url) == origin_of(request.url)
    headers = httpx2.Headers(request.headers if stays else OUR_HEADERS)
    if body is None:
        for name in _BODY_HEADERS:
            headers.pop(name, None)
    elif not stays and "content-type" in request.headers:
        headers["content-type"] = request.headers["content-type"]
    return httpx2.Request(
        "GET" if becomes_get else request.method, url, headers=headers, content=body, extensions=request.extensions
    )


def _location(request: httpx2.Request, location: str) -> httpx2.URL:
    try:
        url, _ = take_user(parse_url(request.url.join(location)))
    except (OutgoingBadUrl, httpx2.InvalidURL) as fault:
        raise OutgoingBadAnswer(f"{origin_of(request.url)} redirected to nowhere. {fault}") from None
    return url


def _repeatable(request: httpx2.Request) -> bytes | None:
    if not isinstance(request.stream, httpx2.ByteStream):
        raise OutgoingBadAnswer(
            f"{origin_of(request.url)} redirected a request whose body was a stream, which cannot be sent again."
        )
    return b"".join(request.stream) or None


def _in_one_spelling(request: httpx2.Request) -> httpx2.Request:
    """The request at the url as `parse_url` spells it, so that what is compared and connected to is one thing."""
    url, _ = take_user(parse_url(request.url))
    if url == request.url:
        return request
    headers = httpx2.Headers(request.headers)
    if headers.get("host", "").encode() == request.url.netloc:
        headers["host"] = url.netloc.decode("ascii")
    return httpx2.Request(request.method, url, headers=headers, stream=request.stream, extensions=request.extensions)


@contextmanager
def _in_our_words(origin: Origin) -> Iterator[None]:
    try:
        yield
    except httpcore2.TimeoutException:
        raise OutgoingTimedOut(f"{origin} did not answer in time.") from None
    except httpcore2.NetworkError as fault:
        raise OutgoingUnreachable(f"The connection to {origin} failed: {fault}") from None
    except httpcore2.RemoteProtocolError as fault:
        raise OutgoingBadAnswer(f"{origin} did not answer in HTTP: {fault}") from None
    except httpcore2.LocalProtocolError:
        # The library's words would quote the header at fault, and headers carry secrets.
        raise OutgoingFailed(f"The request to {origin} is not valid HTTP. Check its method and headers.") from None
