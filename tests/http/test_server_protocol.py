"""Whole responses leave in one write, and are otherwise what uvicorn sends: the same app, with and without ours."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from jackfield.http.response import PIECE, BytesResponse, Header
from jackfield.http.server_protocol import ServerProtocol
from tests.requirement import requirement

REQUEST = b"%b / HTTP/1.1\r\nHost: here\r\n\r\n"


class Wire(asyncio.Transport):
    """What a connection was told to write, write by write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        """Nothing is read here."""

    def resume_reading(self) -> None:
        """Nothing is read here."""


async def answered(
    kind: type[HttpToolsProtocol], sent: bytes, *, body: bytes = b"{}", headers: Iterable[Header] = ()
) -> Wire:
    """What a server of this kind writes when it is sent these bytes and answers with this body."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await BytesResponse(200, ((b"content-type", b"application/json"), *headers), body)(scope, receive, send)

    state = ServerState()
    state.default_headers = [(b"date", b"Thu, 19 Nov 2026 12:00:00 GMT")]
    protocol = kind(uvicorn.Config(app, lifespan="off", log_config=None), server_state=state, app_state={})
    wire = Wire()
    protocol.connection_made(wire)
    protocol.data_received(sent)
    while state.tasks:
        await asyncio.wait(state.tasks)
        await asyncio.sleep(0)  # a pipelined request begins when the one before it is answered
    protocol.connection_lost(None)
    return wire


@requirement("SPEED-one-write")
async def test_a_whole_response_is_one_write() -> None:
    wire = await answered(ServerProtocol, REQUEST % b"GET", body=b'{"a": 1}')
    assert len(wire.writes) == 1
    assert wire.writes[0].endswith(b'content-length: 8\r\n\r\n{"a": 1}')


@pytest.mark.parametrize(
    "sent",
    [
        REQUEST % b"GET",
        REQUEST % b"HEAD",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: here\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
        (REQUEST % b"GET") * 3,
    ],
    ids=["get", "head", "http-1.0", "close", "expect", "pipelined"],
)
@pytest.mark.parametrize("body", [b"", b"{}", b"x" * PIECE], ids=["empty", "small", "large"])
@requirement("SPEED-one-write")
async def test_the_bytes_are_those_that_uvicorn_sends(sent: bytes, body: bytes) -> None:
    ours, theirs = [await answered(kind, sent, body=body) for kind in (ServerProtocol, HttpToolsProtocol)]
    assert b"".join(ours.writes) == b"".join(theirs.writes)
    assert ours.is_closed == theirs.is_closed


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb", b"a\x00b"])
@requirement("SPEED-one-write")
async def test_no_header_can_become_two(value: bytes) -> None:
    wire = await answered(ServerProtocol, REQUEST % b"GET", headers=((b"x-name", value),))
    assert wire.writes == []
    assert wire.is_closed
