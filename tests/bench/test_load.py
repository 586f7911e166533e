import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from bench.load import Job, carry_out
from bench.subjects import http_request

HEAD = "HTTP/1.1 {status} OK\r\ncontent-type: text/plain\r\n{length}\r\n"


@asynccontextmanager
async def answering(*pieces: bytes, closes: bool = False) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that answers every request with these bytes, piece by piece; its port, and what it was sent."""
    seen: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                seen.append(await reader.readuntil(b"\r\n\r\n"))
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if closes:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], seen


def job(port: int, *paths: str, most: int = 20, connections: int = 4) -> Job:
    requests = [http_request("GET", path) for path in paths or ("/",)]
    return Job(port=port, requests=requests, connections=connections, seconds=20, most=most)


async def test_every_request_is_answered_before_the_round_ends_and_each_request_has_its_turn() -> None:
    head = HEAD.format(status=200, length="content-length: 5\r\n").encode()
    async with answering(head + b"hello") as (port, seen):
        report = await carry_out(job(port, "/a", "/b"))

    assert report.answers == 20
    assert report.statuses == {"200": 20}
    assert report.last_answer.endswith("\r\n\r\nhello")
    assert 0 < report.p50_ms <= report.p99_ms
    assert sorted(line.split()[1] for line in seen) == [b"/a"] * 10 + [b"/b"] * 10


async def test_an_answer_may_come_in_pieces_and_its_length_header_in_any_case() -> None:
    head = HEAD.format(status=200, length="Content-Length: 10\r\n").encode()
    async with answering(head[:20], head[20:], b"hello", b"hello") as (port, _):
        report = await carry_out(job(port))

    assert report.statuses == {"200": 20}


async def test_a_304_has_no_body_and_other_statuses_are_counted_as_they_are() -> None:
    async with answering(HEAD.format(status=304, length="").encode()) as (port, _):
        report = await carry_out(job(port))

    assert report.statuses == {"304": 20}


async def test_a_server_that_hangs_up_ends_the_round_with_an_error() -> None:
    head = HEAD.format(status=200, length="content-length: 5\r\n").encode()
    async with answering(head + b"hel", closes=True) as (port, _):
        with pytest.raises(ConnectionError):
            await carry_out(job(port, connections=1))


async def test_with_a_session_each_a_connection_keeps_to_its_own_request() -> None:
    head = HEAD.format(status=200, length="content-length: 5\r\n").encode()
    async with answering(head + b"hello") as (port, seen):
        sessions = job(port, "/a", "/b", most=3, connections=1)
        await carry_out(msgspec.structs.replace(sessions, session_each=True))

    assert [line.split()[1] for line in seen] == [b"/a", b"/a", b"/a"]
