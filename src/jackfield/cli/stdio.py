"""Messages as lines: from stdin, and to the stdout that this process had when it began.

Above: `mcp.py`. Below: file descriptors and one thread for each direction, because a pipe cannot be waited for on every
system. While a `Stdio` is open, descriptor 1 is stderr: what a tool prints must not get between the messages.
"""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

PIECE = 64 * 1024
LONGEST_LINE = 64 * 1024 * 1024


class Stdio:
    """Both directions. Open it before the event loop, so that nothing is printed meanwhile."""

    def __init__(self, source: int = 0, target: int = 1) -> None:
        self._source = source
        self._target = target
        self._out = -1
        self._lines: asyncio.Queue[bytes | None] | None = None
        self._writing: asyncio.Lock | None = None

    def __enter__(self) -> Self:
        sys.stdout.flush()
        self._out = os.dup(self._target)
        os.dup2(2, self._target)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.dup2(self._out, self._target)
        os.close(self._out)

    async def lines(self) -> AsyncIterator[bytes]:
        """Every line that comes, until the client hangs up."""
        loop = asyncio.get_running_loop()
        lines = self._lines = asyncio.Queue()
        # A thread that only reads need not be waited for: it ends with the process.
        threading.Thread(target=self._read, args=(loop, lines), name="stdin", daemon=True).start()
        while (line := await lines.get()) is not None:
            yield line

    def hang_up(self) -> None:
        """As if the client had."""
        if self._lines is not None:
            self._lines.put_nowait(None)

    def _read(self, loop: asyncio.AbstractEventLoop, lines: "asyncio.Queue[bytes | None]") -> None:
        rest = b""
        while piece := self._piece():
            *whole, rest = (rest + piece).split(b"\n")
            for line in (line.strip() for line in whole):
                if line and not _handed(loop, lines, line):
                    return
            if len(rest) > LONGEST_LINE:
                break
        if rest.strip():
            _handed(loop, lines, rest.strip())
        _handed(loop, lines, None)

    def _piece(self) -> bytes:
        try:
            return os.read(self._source, PIECE)
        except OSError:
            return b""

    async def write(self, message: bytes) -> None:
        """One message, whole, after those before it."""
        if self._writing is None:
            self._writing = asyncio.Lock()
        # A line break can only stand between the parts of a JSON text, never within a string.
        line = message.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"
        async with self._writing:
            await asyncio.to_thread(self._write, line)

    def _write(self, line: bytes) -> None:
        view = memoryview(line)
        while view:
            view = view[os.write(self._out, view) :]


def _handed(loop: asyncio.AbstractEventLoop, lines: "asyncio.Queue[bytes | None]", line: bytes | None) -> bool:
    """Hand a line to the loop; False: the loop is gone."""
    try:
        loop.call_soon_threadsafe(lines.put_nowait, line)
    except RuntimeError:
        return False
    return True
