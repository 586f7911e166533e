"""A real HTTP server on loopback whose every byte a test decides: redirects, bombs, silence, broken answers."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import Self

import msgspec
from msgspec import Struct

from tests.waiting import eventually_async


class Received(Struct, frozen=True, kw_only=True):
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def json(self) -> object:
        return msgspec.json.decode(self.body)


Respond = Callable[[Received], bytes | Iterator[bytes] | Awaitable[bytes]]


class Upstream:
    """`async with Upstream() as server`: `server.answers["/path"]` is bytes, or a function of the request."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.answers: dict[str, bytes | Respond] = {}
        self.received: list[Received] = []
        self.connections = 0
        self.arrived = asyncio.Event()
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._readers: list[asyncio.StreamReader] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return self.at("127.0.0.1")

    def at(self, host: str) -> str:
        """This server's url under another name."""
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    @property
    def targets(self) -> list[str]:
        return [request.target for request in self.received]

    async def drained(self) -> None:
        """Comes back when the clients have closed every connection they made."""
        await eventually_async(lambda: all(reader.at_eof() for reader in self._readers))

    async def hung_up(self, target: str) -> None:
        """Comes back when the client that asked for `target` has closed its connection."""
        [request] = [request for request in self.received if request.target == target]
        await eventually_async(self._readers[request.connection - 1].at_eof)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._readers.append(reader)
        self.connections += 1
        number = self.connections
        try:
            while (request := await _receive(reader, number)) is not None:
                self.received.append(request)
                self.arrived.set()
                await self._respond(request, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _respond(self, request: Received, writer: asyncio.StreamWriter) -> None:
        answer = self.answers.get(request.target.partition("?")[0], reply(404, b"no such path"))
        made = answer if isinstance(answer, bytes) else answer(request)
        if isinstance(made, Awaitable):
            made = await made
        for part in [made] if isinstance(made, bytes) else made:
            writer.write(part)
            await writer.drain()


async def _receive(reader: asyncio.StreamReader, connection: int) -> Received | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method=method, target=target, headers=headers, body=body, connection=connection)


def reply(status: int = 200, body: bytes = b"", **headers: str) -> bytes:
    """An HTTP answer; `content_type="text/html"` is the header `content-type`."""
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def json_reply(value: object, status: int = 200) -> bytes:
    return reply(status, msgspec.json.encode(value), content_type="application/json")


def redirect(location: str, status: int = 302) -> bytes:
    return reply(status, b"", location=location)


async def never(_: Received) -> bytes:
    """Takes the request and says nothing, for as long as the test lasts."""
    await asyncio.Event().wait()
    return b""
