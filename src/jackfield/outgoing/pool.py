"""A pool of HTTP/1.1 connections: one request, one response to read as it comes in.

asyncio connects and httptools parses; docs/why.md has what httpx2 and aiohttp cost beside it. No redirects and no
decompression, which `client.py` does. A connection belongs to an origin and a permission, so a foreign url never uses
one that only the operator's config could open.
"""

import asyncio
import os
import re
import ssl
import time
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from typing import cast

import httptools
import httpx2

from jackfield.outgoing.errors import (
    OutgoingBadAnswer,
    OutgoingError,
    OutgoingFailed,
    OutgoingNotSent,
    OutgoingUnreachable,
)
from jackfield.outgoing.guard import Guard
from jackfield.outgoing.urls import HttpOrigin, RequestTarget

IDLE_SECONDS = 4.0
"""Less than the five seconds after which many servers hang up, so that an idle connection is rarely a dead one."""
MAX_IDLE = 100
"""Idle connections of one origin."""
GIVE_WAY_SECONDS = 2.0
"""After this long without a connection, the next address of the same host is tried."""
MAX_HEAD = 64 * 1024
READ_AHEAD = 1024 * 1024
"""Bytes of a body that may wait for their reader before the server has to."""
_FIRST_FINAL_STATUS = 200
_WITHOUT_BODY = frozenset({204, 304})
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_NAME = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_HEAD = re.compile(rf"{_NAME} [\x21-\x7e]+ HTTP/1\.1\r\n(?:{_NAME}:[\t\x20-\x7e]*\r\n)+\r\n")

Key = tuple[HttpOrigin, bool]
"""An origin, and whether the operator's config names it."""


class ConnectionPool:
    """All connections, in use and idle."""

    def __init__(self, guard: Guard, *, tls: ssl.SSLContext | None = None) -> None:
        self._guard = guard
        self._tls = tls
        self._tls_lock = asyncio.Lock()
        self._idle: dict[Key, deque[HttpConnection]] = {}
        self._all: set[HttpConnection] = set()
        self._sweeping: asyncio.TimerHandle | None = None

    async def send(
        self, method: str, target: RequestTarget, *, headers: Mapping[str, str], content: bytes | None, named: bool
    ) -> "StreamedResponse":
        """Send one request; its response's body is still to be read. Raises `OutgoingError`; the caller bounds it."""
        message = _encoded(method, target, headers, content)
        key = (target.origin, named)
        idle = self._idle.get(key)
        while idle:
            connection = idle.pop()
            if not connection.transport.is_closing() and time.monotonic() - connection.idle_since < IDLE_SECONDS:
                break
            connection.transport.abort()
        else:
            connection = await self._connect(key)
        return await connection.send(message, target, is_head=method == "HEAD")

    async def reach(self, origin: HttpOrigin, *, named: bool) -> None:
        """Connect, with TLS where the origin has it, and hang up. Raises `OutgoingError`; the caller bounds it."""
        connection = await self._connect((origin, named))
        connection.transport.close()

    def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in tuple(self._all):
            connection.transport.abort()

    def release(self, connection: "HttpConnection", *, reusable: bool) -> None:
        """A response is read, or nobody wants the rest of it: keep its connection if it can be used again."""
        connection.response = None
        if not reusable or connection.transport.is_closing():
            connection.transport.abort()
            return
        connection.idle_since = time.monotonic()
        idle = self._idle.setdefault(connection.key, deque())
        idle.append(connection)
        if len(idle) > MAX_IDLE:
            idle.popleft().transport.abort()
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._sweep)

    def forget(self, connection: "HttpConnection") -> None:
        """The connection is closed."""
        self._all.discard(connection)
        idle = self._idle.get(connection.key)
        if idle is not None and connection in idle:
            idle.remove(connection)
            if not idle:
                del self._idle[connection.key]

    def _sweep(self) -> None:
        """Close connections that were idle for too long, and look again while there are others."""
        self._sweeping = None
        ends = time.monotonic() - IDLE_SECONDS
        for idle in self._idle.values():
            while idle and idle[0].idle_since <= ends:
                idle.popleft().transport.abort()
        self._idle = {key: idle for key, idle in self._idle.items() if idle}
        if self._idle:
            oldest = min(idle[0].idle_since for idle in self._idle.values())
            self._sweeping = asyncio.get_running_loop().call_later(max(0.1, oldest - ends), self._sweep)

    async def _connect(self, key: Key) -> "HttpConnection":
        (origin, named), loop = key, asyncio.get_running_loop()
        try:
            addresses = await self._guard.reachable(origin.host, origin.port, named=named)
        except OutgoingUnreachable as fault:
            raise OutgoingNotSent(fault.message) from None
        tls = await self._tls_context() if origin.scheme == "https" else None
        faults: list[str] = []
        for position, address in enumerate(addresses, start=1):
            try:
                async with asyncio.timeout(None if position == len(addresses) else GIVE_WAY_SECONDS):
                    _, connection = await loop.create_connection(
                        lambda: HttpConnection(key, self),
                        str(address),
                        origin.port,
                        ssl=tls,
                        server_hostname=origin.host if tls is not None else None,
                    )
            except OSError as fault:  # TimeoutError and ssl.SSLError are OSErrors
                tells_address = named and str(address) != origin.host
                faults.append(f"{address} ({_reason(fault)})" if tells_address else _reason(fault))
            else:
                self._all.add(connection)
                return connection
        raise OutgoingNotSent(
            f"The host '{origin.host}' could not be reached at port {origin.port}: "
            f"{', '.join(dict.fromkeys(faults))}. Check that it is up."
        )

    async def _tls_context(self) -> ssl.SSLContext:
        """Loading the machine's certificates takes 0.1 s: once, at the first https url, and off the event loop."""
        async with self._tls_lock:
            if self._tls is None:
                self._tls = await asyncio.to_thread(httpx2.create_ssl_context)
            return self._tls


class HttpConnection(asyncio.Protocol):
    """One connection, with at most one request in flight."""

    transport: asyncio.Transport

    def __init__(self, key: Key, pool: ConnectionPool) -> None:
        self.key = key
        self.pool = pool
        self.idle_since = 0.0
        self.response: StreamedResponse | None = None
        """The one that is being read."""
        self._parser = httptools.HttpResponseParser(self)
        self._target: RequestTarget | None = None
        self._is_head = False
        self._head: asyncio.Future[StreamedResponse] | None = None
        self._headers: dict[str, str] = {}
        self._since_body = 0
        """Bytes received that were not body: headers, the framing of chunks, trailers."""

    async def send(self, message: bytes, target: RequestTarget, *, is_head: bool) -> "StreamedResponse":
        head: asyncio.Future[StreamedResponse] = asyncio.get_running_loop().create_future()
        self._head, self._target, self._is_head, self._since_body = head, target, is_head, 0
        self.transport.write(message)
        try:
            return await head
        except BaseException:
            self.transport.abort()
            raise

    def pause(self, *, wanted: bool) -> None:
        if not self.transport.is_closing():
            self.transport.pause_reading() if wanted else self.transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._head is None and self.response is None:
            self.transport.abort()  # nobody asked
            return
        self._since_body += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as fault:
            self._fail(OutgoingBadAnswer(f"{self.key[0]} did not answer in HTTP: {fault}"))
            return
        if self._since_body > MAX_HEAD:
            self._fail(OutgoingBadAnswer(f"{self.key[0]} answered with more headers than are allowed."))

    def connection_lost(self, exc: Exception | None) -> None:
        self.pool.forget(self)
        if self.response is not None and self.response.ends_with_connection and exc is None:
            self.response.complete(reusable=False)
            return
        why = "the connection was closed before the answer ended" if exc is None else str(exc)
        self._fail(OutgoingUnreachable(f"The connection to {self.key[0]} failed: {why}."))

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is None:
            return  # a trailer
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        headers, self._headers = self._headers, {}
        status = self._parser.get_status_code()
        if status < _FIRST_FINAL_STATUS or self._head is None:
            return  # 100 Continue and the like: the response follows
        assert self._target is not None
        has_length = "content-length" in headers or "transfer-encoding" in headers
        self.response = StreamedResponse(
            self, self._target, status=status, headers=headers, ends_with_connection=not has_length
        )
        if self._is_head or (has_length and status in _WITHOUT_BODY):
            self.response.complete(reusable=False)  # the parser waits for a body that such a response never has
        if not self._head.done():
            self._head.set_result(self.response)
        self._head = None

    def on_body(self, part: bytes) -> None:
        self._since_body = 0
        response = self.response
        if response is None or response.is_complete:
            return  # nobody reads it, or it is a body where there should be none
        response.parts.append(part)
        response.size += len(part)
        if response.size > READ_AHEAD >= response.size - len(part):
            self.pause(wanted=True)
        response.more.set()

    def on_message_complete(self) -> None:
        if self.response is not None:
            self.response.complete(reusable=self._parser.should_keep_alive())

    def _fail(self, fault: OutgoingError) -> None:
        if self._head is not None and not self._head.done():
            self._head.set_exception(fault)
        if self.response is not None:
            self.response.fail(fault)
        self._head = self.response = None
        self.transport.abort()


class StreamedResponse:
    """A response whose head has arrived; its body is read as it comes in."""

    def __init__(
        self,
        connection: HttpConnection,
        target: RequestTarget,
        *,
        status: int,
        headers: dict[str, str],
        ends_with_connection: bool,
    ) -> None:
        self.target = target
        """Where it came from, after redirects."""
        self.status = status
        self.headers = headers
        """By name in lower case; several of one name are joined by commas."""
        self.ends_with_connection = ends_with_connection
        """No length is given: the body ends when the connection does."""
        self.is_complete = False
        self._connection: HttpConnection | None = connection
        self.parts: deque[bytes] = deque()
        """Of the body, not read yet."""
        self.size = 0
        """Bytes of the parts."""
        self.more = asyncio.Event()
        self._is_reusable = False
        self._fault: OutgoingError | None = None

    @property
    def url(self) -> str:
        return self.target.url

    async def aiter_bytes(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes in. Raises `OutgoingError` where it breaks off."""
        while part := await self._next():
            yield part

    async def read(self, max_bytes: int) -> bytes:
        """The whole body. Raises `OutgoingBadAnswer` where it has more than `max_bytes`."""
        parts: list[bytes] = []
        room = max_bytes
        while part := await self._next():
            room -= len(part)
            if room < 0:
                raise OutgoingBadAnswer(
                    f"{self.target.origin} answered with more than the {max_bytes:,} bytes allowed."
                )
            parts.append(part)
        return b"".join(parts)

    async def _next(self) -> bytes:
        """The next part of the body; empty at its end."""
        while not self.parts:
            if self._fault is not None:
                raise self._fault
            if self.is_complete:
                return b""
            self.more.clear()
            await self.more.wait()
        part = self.parts.popleft()
        was, self.size = self.size, self.size - len(part)
        if was > READ_AHEAD >= self.size and self._connection is not None:
            self._connection.pause(wanted=False)
        return part

    async def drain(self, *, within: float) -> None:
        """Close, but keep the connection if the rest of the body, which nobody wants, is over soon."""
        try:
            async with asyncio.timeout(within):
                async for _ in self.aiter_bytes():
                    pass
        except (TimeoutError, OutgoingError):
            pass
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Give the connection back, or end it if the body was not read to its end."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.pool.release(connection, reusable=self.is_complete and self._is_reusable)

    def complete(self, *, reusable: bool) -> None:
        if not self.is_complete:
            self.is_complete, self._is_reusable = True, reusable
            self.more.set()

    def fail(self, fault: OutgoingError) -> None:
        if not self.is_complete:
            self._fault = fault
        self._is_reusable = False
        self.more.set()


def _encoded(method: str, target: RequestTarget, headers: Mapping[str, str], content: bytes | None) -> bytes:
    lines = [f"{method} {target.path} HTTP/1.1"]
    if "host" not in map(str.lower, headers):
        lines.append(f"host: {target.host}")
    lines += map("%s: %s".__mod__, headers.items())
    if content is not None or method in _WITH_BODY:
        lines.append(f"content-length: {len(content or b'')}")
    head = "\r\n".join([*lines, "", ""])
    # Which header is at fault is not said, because headers carry secrets.
    if not head.isascii():
        raise OutgoingFailed(f"The request to {target.origin} has a header that is not ASCII. Correct it.")
    if head.count("\n") != len(lines) + 1 or not _HEAD.fullmatch(head):
        raise OutgoingFailed(f"The request to {target.origin} is not valid HTTP. Check its method and headers.")
    return head.encode("ascii") + (content or b"")


def _reason(fault: OSError) -> str:
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"{fault.reason}: {fault.verify_message}"
    if isinstance(fault, ssl.SSLError):
        return fault.reason or "no TLS"
    if fault.errno:
        return os.strerror(fault.errno)
    return str(fault) or "no answer"
