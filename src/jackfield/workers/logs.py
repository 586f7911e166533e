"""The stderr of worker processes: the newest lines for `jackfield logs`, some of them in the gateway's own log.

The pipe is always read, however much comes, so that a verbose tool never blocks.
Above: `worker.py`, MCP servers on stdio. Below: a pipe.
"""

import asyncio
import json
import logging
import os
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from jackfield.model.redaction import CUT
from jackfield.model.text import counted

logger = logging.getLogger("jackfield.workers")

MAX_LINES = 1_000
END_LINES = 50
MAX_LINE = 8_192
"""Bytes kept of a line; the rest is replaced by a note."""
MARGIN = 4_096
"""Bytes read beyond that, so that a secret at the cut is recognized before the line is cut."""
MAX_CHUNKS = 16
LOGGED_PER_SECOND = 20
"""Lines of one worker that go into the gateway's own log; the others are only in the worker's."""
_CHUNK = 65_536


class LogLine(Struct, frozen=True, omit_defaults=True):
    """One line, and its span if it was written with `jackfield_tool.log`."""

    number: int
    """Counts all lines of the file's workers since the gateway started."""
    at: int
    text: str
    worker: int
    span: dict[str, Any] | None = None


class WorkerLog:
    """The newest lines of all workers of one file, whichever process or version wrote them."""

    def __init__(self, name: str, *, redact: Callable[[str], str]) -> None:
        self._name = name
        self._redact = redact
        self._lines: deque[LogLine] = deque(maxlen=MAX_LINES)
        self._count = 0
        self._told = 0
        self._second = 0

    def lines(self, *, limit: int, after: int = 0) -> list[LogLine]:
        """The newest lines after the line with that number, oldest first."""
        return [line for line in self._lines if line.number > after][-limit:]

    @property
    def end(self) -> str:
        """The newest lines of the process that wrote last."""
        newest = list(self._lines)[-END_LINES:]
        return "\n".join(line.text for line in newest if line.worker == newest[-1].worker)

    def add(self, raw: bytes, *, worker: int, left_out: int = 0) -> None:
        said = raw.decode(errors="replace").rstrip("\r")
        whole = self._redact(f"{said}{CUT}" if left_out else said)  # before the mark, half of a secret is recognized
        text = whole[:MAX_LINE]
        left_out += len(whole) - len(text)
        if left_out:
            text = f"{text.removesuffix(CUT)} {CUT} [{counted(left_out, 'byte')} left out]"
        span = None if left_out else _span(text)
        at = time.time_ns() // 1_000_000
        self._count += 1
        self._lines.append(LogLine(number=self._count, at=at, text=text, worker=worker, span=span))
        self._pass_on(text, is_span=span is not None, second=at // 1000)

    def skip(self, lines: int) -> None:
        """Count lines that were dropped unread."""
        self._count += lines

    def _pass_on(self, text: str, *, is_span: bool, second: int) -> None:
        if second != self._second:
            self._second, self._told = second, 0
        self._told += 1
        if self._told <= LOGGED_PER_SECOND:
            logger.log(logging.INFO if is_span else logging.DEBUG, "%s: %s", self._name, text)
        elif self._told == LOGGED_PER_SECOND + 1:
            logger.info("%s says more than is shown here; see: jackfield logs %s", self._name, self._name)


class LogPipe:
    """Reads one worker's stderr until it ends."""

    def __init__(self, fd: int, log: WorkerLog, *, worker: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._log = log
        self._worker = worker
        self._line = bytearray()
        self._left_out = 0
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(fd, self._readable)

    def close(self) -> None:
        """Read what is in the pipe, then close it."""
        self.drain()
        if self._fd >= 0:
            self._end()

    def drain(self) -> None:
        """Read what is in the pipe now, within bounds."""
        for _ in range(MAX_CHUNKS):
            if self._fd < 0 or not self._readable():
                return

    def _readable(self) -> bool:
        """Read a chunk; False if there is none."""
        try:
            chunk = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if not chunk:
            self._end()
            return False
        *whole, rest = chunk.split(b"\n")
        if len(whole) > MAX_LINES:  # the others would be pushed out at once
            self._drop_line()
            self._log.skip(len(whole) - MAX_LINES)
            whole = whole[-MAX_LINES:]
        for part in whole:
            self._take(part)
            self._finish()
        self._take(rest)
        return True

    def _take(self, part: bytes) -> None:
        room = MAX_LINE + MARGIN - len(self._line)
        self._line += part[:room]
        self._left_out += max(0, len(part) - room)

    def _finish(self) -> None:
        if self._line:
            self._log.add(bytes(self._line), worker=self._worker, left_out=self._left_out)
        self._drop_line()

    def _drop_line(self) -> None:
        self._line.clear()
        self._left_out = 0

    def _end(self) -> None:
        self._finish()
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1


def _span(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and "span" in value else None
