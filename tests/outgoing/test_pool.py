"""The connection pool: what goes over its connections, when they are used again, and that the guard holds for them."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator

import pytest

from jackfield.outgoing import (
    Outgoing,
    OutgoingBadAnswer,
    OutgoingBadUrl,
    OutgoingError,
    OutgoingFailed,
    OutgoingRefused,
    OutgoingUnreachable,
    pool,
)
from jackfield.outgoing.pool import READ_AHEAD
from tests.outgoing.names import Names
from tests.outgoing.test_client import CERTIFICATE, NAMES, server_side
from tests.sources.upstream import Received, Upstream, redirect, reply
from tests.waiting import TIMEOUT, eventually_async

BOUND = TIMEOUT


@pytest.fixture
async def server() -> AsyncIterator[Upstream]:
    async with Upstream() as upstream:
        upstream.answers["/ok"] = reply(200, b"fine", x_kind="plain")
        yield upstream


@pytest.fixture
async def outgoing() -> AsyncIterator[Outgoing]:
    async with Outgoing(("open.example",), resolve=Names(NAMES)) as client:
        yield client


async def asked(
    outgoing: Outgoing, url: str, *, named_by: str | None = None, content: bytes | None = None
) -> tuple[int, bytes]:
    async with asyncio.timeout(BOUND):
        answer = await outgoing.send("POST", url, headers={"x-a": "b"}, content=content, named_by=named_by)
        try:
            return answer.status, b"".join([part async for part in answer.aiter_bytes()])
        finally:
            await answer.aclose()


async def test_a_request_says_who_and_what_and_its_connection_is_kept(server: Upstream, outgoing: Outgoing) -> None:
    url = server.at("open.example") + "/ok?x=1"
    for _ in range(3):
        assert await asked(outgoing, url, content=b'{"a":1}') == (200, b"fine")
    assert server.connections == 1
    first = server.received[0]
    assert (first.method, first.target, first.body) == ("POST", "/ok?x=1", b'{"a":1}')
    assert first.headers["host"] == f"open.example:{server.port}"
    assert first.headers["user-agent"].startswith("jackfield/")
    assert (first.headers["x-a"], first.headers["content-length"]) == ("b", "7")


async def test_many_requests_at_once_have_a_connection_each_and_all_are_kept(
    server: Upstream, outgoing: Outgoing
) -> None:
    url = server.at("open.example") + "/ok"
    answers = await asyncio.gather(*(asked(outgoing, url) for _ in range(20)))
    assert answers == [(200, b"fine")] * 20
    assert server.connections <= 20
    before = server.connections
    await asyncio.gather(*(asked(outgoing, url) for _ in range(10)))
    assert server.connections == before


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n2\r\nfi\r\n2\r\nne\r\n0\r\n\r\n", b"fine"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 X\r\ncontent-length: 4\r\n\r\nfine", b"fine"),
        (b"HTTP/1.1 200 X\r\nconnection: close\r\ncontent-length: 4\r\n\r\nfine", b"fine"),
        (b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", b""),
    ],
)
async def test_an_answer_may_be_framed_in_any_way_of_http(
    answer: bytes, body: bytes, server: Upstream, outgoing: Outgoing
) -> None:
    server.answers["/x"] = lambda _: (answer[n : n + 1] for n in range(len(answer)))
    for _ in range(2):
        assert await asked(outgoing, server.at("open.example") + "/x") == (200, body)
    assert server.connections == (2 if b"close" in answer else 1)


async def test_a_body_without_a_length_ends_with_its_connection(outgoing: Outgoing) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 X\r\n\r\nto the end")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert await asked(outgoing, f"http://open.example:{port}/") == (200, b"to the end")


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (b"nonsense\r\n\r\n", OutgoingBadAnswer, "did not answer in HTTP"),
        (b"HTTP/1.1 200 X\r\n" + b"a: b\r\n" * 20_000, OutgoingBadAnswer, "more headers than are allowed"),
        (
            b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 20_000,
            OutgoingBadAnswer,
            "more headers than are allowed",
        ),
        (b"", OutgoingUnreachable, "closed before the answer ended"),
        (b"HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nhalf", OutgoingUnreachable, "failed"),
    ],
)
async def test_an_answer_that_is_none_is_said_to_be_so(
    answer: bytes, error: type[OutgoingError], words: str, server: Upstream, outgoing: Outgoing
) -> None:
    def broken(_: Received) -> Iterator[bytes]:
        yield answer
        raise ConnectionError

    server.answers["/x"] = broken
    with pytest.raises(error, match=words):
        await asked(outgoing, server.at("open.example") + "/x")
    assert await asked(outgoing, server.at("open.example") + "/ok") == (200, b"fine")


async def test_an_answer_that_nobody_reads_on_ends_its_connection(server: Upstream, outgoing: Outgoing) -> None:
    def endless(_: Received) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n"
        while True:
            yield b"10000\r\n" + b"x" * 0x10000 + b"\r\n"

    server.answers["/x"] = endless
    async with asyncio.timeout(BOUND):
        answer = await outgoing.send("GET", server.at("open.example") + "/x", headers={})
        await asyncio.sleep(0.2)
        assert answer.size <= READ_AHEAD + 0x100000, "the server waits for the reader"
        await answer.aclose()
        await eventually_async(lambda: not server._tasks)


async def test_the_rest_of_an_answer_that_ends_soon_keeps_its_connection(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/x"] = reply(200, b"x" * 3_000_000)
    url = server.at("open.example") + "/x"
    async with asyncio.timeout(BOUND):
        for _ in range(2):
            answer = await outgoing.send("GET", url, headers={})
            await answer.drain(within=5)
    assert server.connections == 1


async def test_closed_addresses_are_closed_for_streams_too(server: Upstream, outgoing: Outgoing) -> None:
    closed = server.at("closed.example") + "/ok"
    with pytest.raises(OutgoingRefused, match=r"closed\.example"):
        await asked(outgoing, closed)
    assert await asked(outgoing, closed, named_by=closed) == (200, b"fine")
    with pytest.raises(OutgoingRefused):
        await asked(outgoing, closed)  # and does not ride on the connection that the name opened
    with pytest.raises(OutgoingRefused):
        await asked(outgoing, closed, named_by="http://other.example/")


async def test_a_redirect_is_followed_by_the_same_rules(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/here"] = redirect(server.at("open.example") + "/ok", 307)
    server.answers["/away"] = redirect(server.at("closed.example") + "/ok", 307)
    assert await asked(outgoing, server.at("open.example") + "/here", content=b"{}") == (200, b"fine")
    assert server.received[-1].body == b"{}"
    with pytest.raises(OutgoingRefused):
        await asked(outgoing, server.at("open.example") + "/away")


async def test_what_http_cannot_say_is_refused_without_showing_it(server: Upstream, outgoing: Outgoing) -> None:
    for headers in ({"x": "s3cret\r\nevil: 1"}, {"x": "s3cret ☕"}):
        with pytest.raises(OutgoingFailed) as caught:
            await outgoing.send("GET", server.at("open.example") + "/ok", headers=headers)
        assert "s3cret" not in str(caught.value)
    with pytest.raises(OutgoingBadUrl):
        await outgoing.send("GET", "http://user:s3cret@open.example/", headers={})
    assert server.received == []


async def test_tls_is_checked(server: Upstream) -> None:
    trusting = ssl.create_default_context(cafile=CERTIFICATE)
    async with Upstream(tls=server_side()) as secure:
        secure.answers["/ok"] = reply(200, b"fine")
        url = secure.at("weather.example") + "/ok"
        async with Outgoing(resolve=Names(NAMES)) as outgoing:
            with pytest.raises(OutgoingUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
                await asked(outgoing, url, named_by=url)
        async with Outgoing(resolve=Names(NAMES), tls=trusting) as outgoing:
            assert await asked(outgoing, url, named_by=url) == (200, b"fine")
            wrong = secure.at("db.internal") + "/ok"
            with pytest.raises(OutgoingUnreachable):
                await asked(outgoing, wrong, named_by=wrong)


async def test_nobody_listening_is_said_without_the_address_of_a_foreign_name(outgoing: Outgoing) -> None:
    with pytest.raises(OutgoingUnreachable, match=r"'open\.example' could not be reached at port 1: Conn"):
        await asked(outgoing, "http://open.example:1/")


async def test_a_connection_that_is_idle_for_too_long_is_closed(
    server: Upstream, outgoing: Outgoing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.05)
    url = server.at("open.example") + "/ok"
    await asked(outgoing, url)
    await eventually_async(lambda: not outgoing._pool._all)
    await asked(outgoing, url)
    assert server.connections == 2
