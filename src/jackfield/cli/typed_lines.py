"""The lines that somebody types, or that a pipe or file brings, without a thread that would outlive the command.

Above: `chat.py`. Below: the standard input.
"""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncGenerator

PIECE = 65_536


async def typed_lines() -> AsyncGenerator[str, None]:
    """Each line without its end, until the input is over."""
    descriptor = sys.stdin.fileno()
    rest = b""
    while piece := await _piece(descriptor):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield _text(line)
    if rest:
        yield _text(rest)


async def _piece(descriptor: int) -> bytes:
    """What there is, once there is something."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # a file is always ready, and cannot be waited for
        await _ready(descriptor)
    return os.read(descriptor, PIECE)


async def _ready(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    try:
        loop.add_reader(descriptor, lambda: None if ready.done() else ready.set_result(None))
    except PermissionError:
        return  # such as /dev/null, which is always ready too
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")
