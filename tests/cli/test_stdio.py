"""Messages as lines: whole ones come, whole ones go, and what else is printed stays out of their way."""

import asyncio
import os
from collections.abc import Iterator

import pytest

from jackfield.cli.mcp import Stdio


@pytest.fixture
def pipes() -> Iterator[tuple[int, int, int, int]]:
    """Ends to read from and to write to: the client's words, and what the client hears."""
    from_client, client_writes = os.pipe()
    client_reads, to_client = os.pipe()
    ends = (from_client, client_writes, client_reads, to_client)
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue  # the test has closed it


async def test_lines_come_whole_however_they_are_cut(pipes: tuple[int, int, int, int]) -> None:
    source, writes, _, target = pipes
    with Stdio(source, target) as stdio:
        for piece in (b"one\ntw", b"o\n\r\n  three  \nlast", b" words"):
            os.write(writes, piece)
        os.close(writes)
        async with asyncio.timeout(5):
            assert [line async for line in stdio.lines()] == [b"one", b"two", b"three", b"last words"]


async def test_messages_go_out_as_one_line_each(pipes: tuple[int, int, int, int]) -> None:
    source, _, reads, target = pipes
    with Stdio(source, target) as stdio:
        await asyncio.gather(stdio.write(b'{\n"a":\r\n1}'), stdio.write(b"{}"))
        assert sorted(os.read(reads, 100).splitlines()) == [b'{ "a":  1}', b"{}"]


async def test_what_is_printed_meanwhile_goes_to_stderr(
    pipes: tuple[int, int, int, int], capfd: pytest.CaptureFixture[str]
) -> None:
    source, _, reads, target = pipes
    with Stdio(source, target) as stdio:
        os.write(target, b"printed\n")
        await stdio.write(b"{}")
    assert os.read(reads, 100) == b"{}\n"
    assert capfd.readouterr().err == "printed\n"
    os.write(target, b"afterwards it is stdout again\n")
    assert os.read(reads, 100) == b"afterwards it is stdout again\n"


async def test_hanging_up_ends_the_lines(pipes: tuple[int, int, int, int]) -> None:
    source, writes, _, target = pipes
    with Stdio(source, target) as stdio:
        lines = stdio.lines()
        os.write(writes, b"one\n")
        async with asyncio.timeout(5):
            assert await anext(lines) == b"one"
            stdio.hang_up()
            assert [line async for line in lines] == []
