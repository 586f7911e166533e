"""The other gateway processes behind the same port: requests are handed to them, and they are asked and told things.

Each process listens at a Unix socket that is called like its gateway, in a folder that only they can enter. What comes
there is a request of the port, handed over as it is, with who made it in one header more.
Above: `server.py`. Below: httpx2, and the app of each process.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import httpx2
import msgspec
from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jackfield.calls.events import CallEvent
from jackfield.errors import Unavailable
from jackfield.gateway.handed import Place
from jackfield.http.bodies import ClientGone
from jackfield.http.neighbours import has_body

log = logging.getLogger("jackfield")

HANDED_OVER = "jackfield.handed_over"
"""In the ASGI scope of a request that another process of this port has handed over."""
TOLD = "/-/told"
MOST_UNTOLD = 1_000
ANSWERS_WITHIN = 2.0
_CLIENT = b"jackfield-client"
_OURS = frozenset({_CLIENT, b"connection", b"keep-alive", b"te", b"upgrade"})
"""Headers that concern one connection, or are ours."""
_WRITTEN_ANEW = _OURS | {b"date", b"transfer-encoding"}
_GONE = Unavailable("The gateway worker that had this ended before it answered. What it did is on record; try again.")


class News(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one process tells all others; one of these."""

    event: CallEvent | None = None
    """Something that happened to a call and is in no row."""
    reload: str | None = None
    """Why the config is to be read anew."""
    serves: tuple[str, frozenset[str]] | None = None
    """A gateway, and the tools that tool servers connected to it offer."""


class Client(Struct, frozen=True):
    """Who made a request that is handed over."""

    address: tuple[str, int] | None
    scheme: str


class Siblings:
    """The other processes, as one of them sees them."""

    def __init__(self, place: Place, own_id: str) -> None:
        self.place = place
        self._folder = place.folder
        self._own_id = own_id
        self._transports: dict[str, httpx2.AsyncHTTPTransport] = {}
        self._untold: dict[str, deque[bytes]] = {}
        self._sending: dict[str, asyncio.Task[None]] = {}

    @property
    def own_socket(self) -> Path:
        return self._folder / self._own_id

    @property
    def others(self) -> list[str]:
        return sorted(path.name for path in self._folder.iterdir() if path.name != self._own_id)

    def has(self, gateway_id: str) -> bool:
        """Whether it is one of them, and lives as far as is known."""
        return gateway_id != self._own_id and (self._folder / gateway_id).exists()

    def take_killed(self) -> list[str]:
        """Those that were killed, each named to one who asks only: nobody listens at their sockets any more."""
        killed: list[str] = []
        for gateway_id in self.others:
            with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
                probe.setblocking(False)  # noqa: FBT003 - the socket's own interface
                try:
                    probe.connect(str(self._folder / gateway_id))
                except ConnectionRefusedError:
                    (self._folder / gateway_id).unlink()
                    killed.append(gateway_id)
        return killed

    async def hand_over(self, gateway_id: str, scope: Scope, receive: Receive, send: Send) -> bool:
        """Have it respond. False: it is gone, and nothing has been sent or received."""
        read = asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                more = message.get("more_body", False)
                yield message.get("body", b"")
            read.set()

        async def until_gone() -> None:
            await read.wait()
            while (await receive())["type"] != "http.disconnect":
                continue

        sends_body = has_body(scope["headers"])
        if not sends_body:
            read.set()
        request = _request(scope, body() if sends_body else None)
        responding = asyncio.create_task(self._respond(gateway_id, request, send))
        gone = asyncio.create_task(until_gone())
        try:
            await asyncio.wait((responding, gone), return_when=asyncio.FIRST_COMPLETED)
            return not responding.done() or responding.result()
        except ClientGone:
            return True
        finally:
            for task in (responding, gone):
                task.cancel()
            await asyncio.wait((responding, gone))

    async def _respond(self, gateway_id: str, request: httpx2.Request, send: Send) -> bool:
        has_begun = False
        try:
            response = await self._transport(gateway_id).handle_async_request(request)
            try:
                headers = [
                    (name.lower(), value) for name, value in response.headers.raw if name.lower() not in _WRITTEN_ANEW
                ]
                has_begun = True
                await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
                assert isinstance(response.stream, httpx2.AsyncByteStream)
                async for part in response.stream:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
            finally:
                await response.aclose()
        except httpx2.ConnectError:
            await self._forget(gateway_id)
            return False
        except httpx2.TransportError as fault:
            log.warning("a gateway worker ended while it answered a request that was handed to it: %r", fault)
            if has_begun:
                raise
            await _send_gone(send)
        return True

    async def ask(self, path: str, headers: list[tuple[bytes, bytes]]) -> list[bytes]:
        """What each of the others answers to a GET; those that do not in time are left out."""
        asked = [self._ask_one(one, path, headers) for one in self.others]
        return [body for body in await asyncio.gather(*asked) if body is not None]

    async def _ask_one(self, gateway_id: str, path: str, headers: list[tuple[bytes, bytes]]) -> bytes | None:
        given = [(name, value) for name, value in headers if name not in _OURS]
        request = httpx2.Request("GET", f"http://sibling{path}", headers=given)
        try:
            async with asyncio.timeout(ANSWERS_WITHIN):
                response = await self._transport(gateway_id).handle_async_request(request)
                try:
                    body = await response.aread()
                finally:
                    await response.aclose()
        except httpx2.ConnectError:
            await self._forget(gateway_id)
            return None
        except (TimeoutError, httpx2.TransportError) as fault:
            log.warning("a gateway worker did not answer %s: %r", path, fault)
            return None
        return body if response.status_code == httpx2.codes.OK else None

    def tell(self, news: News) -> None:
        """Tell all of them, in order, soon. Never blocks; while one does not listen the oldest are dropped."""
        encoded = msgspec.json.encode(news)
        for gateway_id in self.others:
            self._untold.setdefault(gateway_id, deque(maxlen=MOST_UNTOLD)).append(encoded)
            if gateway_id not in self._sending:
                self._sending[gateway_id] = asyncio.create_task(self._tell(gateway_id))

    async def _tell(self, gateway_id: str) -> None:
        while untold := self._untold.pop(gateway_id, None):
            request = httpx2.Request("POST", f"http://sibling{TOLD}", content=b"\n".join(untold))
            try:
                async with asyncio.timeout(ANSWERS_WITHIN):
                    response = await self._transport(gateway_id).handle_async_request(request)
                    await response.aclose()
            except httpx2.ConnectError:
                await self._forget(gateway_id)
            except (TimeoutError, httpx2.TransportError) as fault:
                log.debug("a gateway worker was not told something: %r", fault)
        del self._sending[gateway_id]

    async def close(self) -> None:
        for task in tuple(self._sending.values()):
            task.cancel()
        for transport in self._transports.values():
            await transport.aclose()

    def _transport(self, gateway_id: str) -> httpx2.AsyncHTTPTransport:
        transport = self._transports.get(gateway_id)
        if transport is None:
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=30.0)
            transport = httpx2.AsyncHTTPTransport(uds=str(self._folder / gateway_id), limits=limits)
            self._transports[gateway_id] = transport
        return transport

    async def _forget(self, gateway_id: str) -> None:
        """It was killed. Its socket stays until it is known to be dead in the database, too."""
        transport = self._transports.pop(gateway_id, None)
        if transport is not None:
            await transport.aclose()


class SiblingApp:
    """The app as the other processes reach it."""

    def __init__(self, app: ASGIApp, *, hear: Callable[[News], None]) -> None:
        self._app = app
        self._hear = hear

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] == TOLD:
            await self._take(receive, send)
            return
        headers = dict(scope["headers"])
        if _CLIENT in headers:
            client = msgspec.json.decode(headers[_CLIENT], type=Client)
            scope["client"], scope["scheme"] = client.address, client.scheme
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name != _CLIENT]
        scope[HANDED_OVER] = True
        await self._app(scope, receive, send)

    async def _take(self, receive: Receive, send: Send) -> None:
        parts: list[bytes] = []
        more = True
        while more:
            message: Message = await receive()
            if message["type"] == "http.disconnect":
                return
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        for news in b"".join(parts).split(b"\n"):
            self._hear(msgspec.json.decode(news, type=News))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def _request(scope: Scope, body: AsyncIterator[bytes] | None) -> httpx2.Request:
    """The request as it came, and who made it."""
    client = Client(tuple(scope["client"]) if scope.get("client") else None, scope["scheme"])
    headers = [(name, value) for name, value in scope["headers"] if name not in _OURS]
    headers.append((_CLIENT, msgspec.json.encode(client)))
    path = scope.get("raw_path") or scope["path"].encode()
    if query := scope["query_string"]:
        path += b"?" + query
    url = httpx2.URL("http://sibling").copy_with(raw_path=path)
    return httpx2.Request(scope["method"], url, headers=headers, content=body)


async def _send_gone(send: Send) -> None:
    body = msgspec.json.encode({"error": {"type": "api_error", "code": _GONE.code, "message": _GONE.message}})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body})
