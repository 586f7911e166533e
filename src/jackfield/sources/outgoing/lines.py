"""Kept connections that speak plain HTTP/1.1: one request, one answer to read as it comes in.

Above: `client.py`, for sources that make many small requests to one place (MCP). Below: `network.py` says which
addresses may be reached, asyncio connects, httptools parses. It takes about a fifth of httpcore2's CPU per request,
because a line does nothing but that: no redirects (its answer may be one), no decompression (it asks for none), no
HTTP/2. As in `transport.py`, a line belongs to one permission, so a foreign url never rides on one it could not open.
"""

import asyncio
import os
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import cast

import httptools
from msgspec import Struct

from jackfield.sources.outgoing.errors import (
    OutgoingBadAnswer,
    OutgoingError,
    OutgoingFailed,
    OutgoingNotSent,
    OutgoingUnreachable,
)
from jackfield.sources.outgoing.network import GIVE_WAY_SECONDS, GuardedNetwork
from jackfield.sources.outgoing.urls import Origin

KEPT_SECONDS = 4.0
"""Less than the five seconds after which many servers hang up, so that a kept connection is rarely a dead one."""
KEPT_LINES = 100
MAX_HEAD = 64 * 1024
READ_AHEAD = 1024 * 1024
"""Bytes of a body that may wait for their reader before the server has to."""
_FIRST_FINAL_STATUS = 200


class Place(Struct, frozen=True):
    """Where a request goes."""

    origin: Origin
    host: str
    target: str


Key = tuple[Origin, bool]


class Lines:
    """All lines, those in use and those kept."""

    def __init__(
        self, *, network: Callable[[bool], GuardedNetwork], tls: Callable[[], Awaitable[ssl.SSLContext]]
    ) -> None:
        self._network = network
        self._tls = tls
        self._kept: dict[Key, deque[Line]] = {}
        self._all: set[Line] = set()

    async def send(
        self, method: str, place: Place, *, headers: Mapping[str, str], content: bytes | None, named: bool
    ) -> "LineAnswer":
        """Send one request; the answer's body is still to be read. Raises `OutgoingError`; the caller bounds it all."""
        message = _message(method, place, headers, content)
        key = (place.origin, named)
        line = self._kept_line(key) or await self._connect(key)
        return await line.ask(message)

    def close(self) -> None:
        for line in tuple(self._all):
            line.abort()

    def _kept_line(self, key: Key) -> "Line | None":
        kept = self._kept.get(key)
        while kept:
            line = kept.pop()
            if line.take():
                return line
        return None

    def _keep(self, line: "Line") -> None:
        kept = self._kept.setdefault(line.key, deque())
        kept.append(line)
        if len(kept) > KEPT_LINES:
            kept.popleft().abort()

    def _forget(self, line: "Line") -> None:
        self._all.discard(line)
        kept = self._kept.get(line.key)
        if kept is not None and line in kept:
            kept.remove(line)
            if not kept:
                del self._kept[line.key]

    async def _connect(self, key: Key) -> "Line":
        origin, named = key
        try:
            addresses = await self._network(named).reachable(origin.host, origin.port)
        except OutgoingUnreachable as fault:
            raise OutgoingNotSent(fault.message) from None
        tls = await self._tls() if origin.scheme == "https" else None
        faults: list[str] = []
        for position, address in enumerate(addresses, start=1):
            try:
                async with asyncio.timeout(None if position == len(addresses) else GIVE_WAY_SECONDS):
                    return await self._line(key, str(address), tls)
            except TimeoutError:
                faults.append(f"{address} (no answer)")
            except ssl.SSLError as fault:
                faults.append(f"{address} ({fault.reason or 'no TLS'})")
            except OSError as fault:
                faults.append(f"{address} ({os.strerror(fault.errno) if fault.errno else fault})")
        raise OutgoingNotSent(
            f"The host '{origin.host}' could not be reached at port {origin.port}: {', '.join(faults)}. "
            "Check that it is up."
        )

    async def _line(self, key: Key, address: str, tls: ssl.SSLContext | None) -> "Line":
        origin, _ = key
        _, line = await asyncio.get_running_loop().create_connection(
            lambda: Line(key, keep=self._keep, gone=self._forget),
            address,
            origin.port,
            ssl=tls,
            server_hostname=origin.host if tls is not None else None,
        )
        self._all.add(line)
        return line


class Line(asyncio.Protocol):
    """One connection, with at most one answer in the making."""

    def __init__(self, key: Key, *, keep: Callable[["Line"], None], gone: Callable[["Line"], None]) -> None:
        self.key = key
        self._keep = keep
        self._gone = gone
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._answer: LineAnswer | None = None
        self._head: asyncio.Future[LineAnswer] | None = None
        self._since_body = 0
        """Bytes that came in and were no body: headers, the framing of chunks, trailers."""
        self._headers: dict[str, str] = {}
        self._expiry: asyncio.TimerHandle | None = None

    async def ask(self, message: bytes) -> "LineAnswer":
        assert self._transport is not None
        head: asyncio.Future[LineAnswer] = asyncio.get_running_loop().create_future()
        self._head, self._since_body = head, 0
        self._transport.write(message)
        try:
            return await head
        except BaseException:
            self.abort()
            raise

    def take(self) -> bool:
        """Whether the line can be used again; from now on it is not kept any more."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        return self._transport is not None and not self._transport.is_closing()

    def release(self, *, reusable: bool) -> None:
        """The answer is read, or nobody wants the rest of it."""
        self._answer = None
        if not reusable or self._transport is None or self._transport.is_closing():
            self.abort()
            return
        self._expiry = asyncio.get_running_loop().call_later(KEPT_SECONDS, self.abort)
        self._keep(self)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def pause(self, *, wanted: bool) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading() if wanted else self._transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._head is None and self._answer is None:
            self.abort()  # nobody asked
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
        if self._expiry is not None:
            self._expiry.cancel()
        self._gone(self)
        if self._answer is not None and self._answer.ends_with_line and exc is None:
            self._answer.complete(reusable=False)
            return
        why = "the connection was closed before the answer ended" if exc is None else str(exc)
        self._fail(OutgoingUnreachable(f"The connection to {self.key[0]} failed: {why}."))

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is None:
            return  # a trailer
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        headers, self._headers = self._headers, {}
        status = self._parser.get_status_code()
        if status < _FIRST_FINAL_STATUS or self._head is None:
            return  # 100 Continue and the like: the answer follows
        ends_with_line = "content-length" not in headers and "transfer-encoding" not in headers
        self._answer = LineAnswer(self, status=status, headers=headers, ends_with_line=ends_with_line)
        if not self._head.done():
            self._head.set_result(self._answer)
        self._head = None

    def on_body(self, part: bytes) -> None:
        self._since_body = 0
        if self._answer is not None:
            self._answer.take(part)

    def on_message_complete(self) -> None:
        if self._answer is not None:
            self._answer.complete(reusable=self._parser.should_keep_alive())

    def _fail(self, fault: OutgoingError) -> None:
        if self._head is not None and not self._head.done():
            self._head.set_exception(fault)
        if self._answer is not None:
            self._answer.fail(fault)
        self._head = self._answer = None
        self.abort()


class LineAnswer:
    """An answer whose head is here and whose body comes in. Named as httpx2's, so that either can be read alike."""

    def __init__(self, line: Line, *, status: int, headers: dict[str, str], ends_with_line: bool) -> None:
        self.status_code = status
        self.headers = headers
        self.ends_with_line = ends_with_line
        """No length is given: the body ends when the connection does."""
        self._line: Line | None = line
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._more = asyncio.Event()
        self.is_complete = False
        self._is_reusable = False
        self._fault: OutgoingError | None = None

    async def aiter_bytes(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes in. Raises `OutgoingError` where it breaks off."""
        while True:
            while self._parts:
                part = self._parts.popleft()
                self._shrink(len(part))
                yield part
            if self._fault is not None:
                raise self._fault
            if self.is_complete:
                return
            self._more.clear()
            await self._more.wait()

    async def let_end(self, *, within: float) -> None:
        """Close, but keep the line if what is still to come, and wanted by nobody, is over soon."""
        try:
            async with asyncio.timeout(within):
                async for _ in self.aiter_bytes():
                    pass
        except (TimeoutError, OutgoingError):
            pass
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Give the line back, or end it if the answer was not read to its end."""
        line, self._line = self._line, None
        if line is not None:
            line.release(reusable=self.is_complete and self._is_reusable)

    def take(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > READ_AHEAD >= self._size - len(part) and self._line is not None:
            self._line.pause(wanted=True)
        self._more.set()

    def complete(self, *, reusable: bool) -> None:
        self.is_complete, self._is_reusable = True, reusable
        self._more.set()

    def fail(self, fault: OutgoingError) -> None:
        if not self.is_complete:
            self._fault = fault
        self._is_reusable = False
        self._more.set()

    def _shrink(self, by: int) -> None:
        was = self._size
        self._size -= by
        if was > READ_AHEAD >= self._size and self._line is not None:
            self._line.pause(wanted=False)


def _message(method: str, place: Place, headers: Mapping[str, str], content: bytes | None) -> bytes:
    lines = [f"{method} {place.target} HTTP/1.1", f"host: {place.host}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if content is not None:
        lines.append(f"content-length: {len(content)}")
    if any("\n" in line or "\r" in line or "\0" in line for line in lines):
        # Which one is not said, because headers carry secrets.
        raise OutgoingFailed(f"The request to {place.origin} is not valid HTTP. Check its method and headers.")
    try:
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    except UnicodeEncodeError:
        raise OutgoingFailed(f"The request to {place.origin} has a header that is not ASCII. Correct it.") from None
    return head + content if content else head
