import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import cast

import msgspec
import pytest

from bench import chat_model
from bench.stream_load import Stream, StreamJob, carry_out
from bench.subjects import http_request

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[int]:
    """A server whose every connection has come to its end when the block has; its port."""
    under_way: set[asyncio.Task[None]] = set()

    async def tracked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        under_way.add(cast("asyncio.Task[None]", asyncio.current_task()))
        await answer(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(tracked, "127.0.0.1", 0)
    async with server, asyncio.timeout(10):
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*under_way)


def saying(*pieces: bytes) -> AbstractAsyncContextManager[int]:
    """A server that answers with these bytes, piece by piece, and hangs up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)

    return serving(answer)


def asked(wish: str) -> str:
    body = msgspec.json.encode({"messages": [{"role": "user", "content": wish}]})
    return http_request("POST", "/v1/chat/completions", body=body)


async def test_every_token_of_every_stream_is_counted_and_its_age_is_known() -> None:
    async with serving(chat_model.serve) as port:
        job = StreamJob(port=port, request=asked("tokens=5 pace=0.01"), key="content", streams=3, times=2)
        report = await carry_out(job, [])

    assert (report.ended, report.tokens) == (6, 30)
    assert report.token_us >= 10_000
    assert 0 < report.age_p50_us <= report.age_p99_us < 1_000_000
    assert 0 < report.first_ms <= report.begun_ms + 1_000


async def test_held_streams_have_told_a_token_and_are_closed_by_the_next_job() -> None:
    held: list[Stream] = []
    async with serving(chat_model.serve) as port:
        job = StreamJob(port=port, request=asked("tokens=1 hold"), key="content", streams=4, hold=True)
        report = await carry_out(job, held)
        assert (report.ended, report.tokens, len(held)) == (0, 4, 4)
        after = await carry_out(StreamJob(port=port, request=asked("tokens=2"), key="content"), held)

    assert (after.ended, after.tokens, held) == (1, 2, [])


async def test_a_stream_in_odd_pieces_is_read_to_its_end() -> None:
    pieces = (b'10\r\ndata: "delta":"t1', b'23 "\n', b"\n\r\n", b"e\r\ndata: [DONE]\n\n\r\n", b"0\r\n", b"\r\n")
    async with saying(HEAD, *pieces) as port:
        report = await carry_out(StreamJob(port=port, request=asked("tokens=1"), key="delta"), [])

    assert (report.ended, report.tokens) == (1, 1)


@pytest.mark.parametrize(
    "pieces", [(b'data: "delta":"t123 "\n\n\r\n0\r\n\r\n',), (b'data: "delta":"t123 "\n\n',), (b"data: [DONE]\n\n",)]
)
async def test_a_stream_that_does_not_end_as_it_should_fails_the_job(pieces: tuple[bytes, ...]) -> None:
    async with saying(HEAD, *pieces) as port:
        with pytest.raises((RuntimeError, ConnectionError)):
            await carry_out(StreamJob(port=port, request=asked("tokens=1"), key="delta"), [])
