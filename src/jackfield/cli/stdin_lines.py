"""Stdin read without a thread that would outlive the command."""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncGenerator

from jackfield.protocol.lines import LineSplitter

READ_SIZE = 65_536
MAX_LINE = 16 * 1024 * 1024


async def stdin_lines() -> AsyncGenerator[str, None]:
    """The lines of stdin until it ends."""
    descriptor = sys.stdin.fileno()
    splitter = LineSplitter(limit=MAX_LINE)
    while chunk := await read_chunk(descriptor):
        for line in splitter.feed(chunk):
            if isinstance(line, bytes):
                yield _text(line)
    if splitter.partial:
        yield _text(splitter.partial)


async def read_chunk(descriptor: int) -> bytes:
    """The next bytes, when there are some; none at the end."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # a file is always ready and cannot be polled
        await _ready(descriptor)
    return os.read(descriptor, READ_SIZE)


async def _ready(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    try:
        loop.add_reader(descriptor, lambda: None if ready.done() else ready.set_result(None))
    except PermissionError:
        return  # such as /dev/null: always ready
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")
