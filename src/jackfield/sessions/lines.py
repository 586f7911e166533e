"""Lines out of bytes, however they are cut, none longer than a limit. Pure.

Above: the socket, and what a program prints. A line that is too long is told as such and skipped to its end, so that
the next one is read as if nothing had been.
"""

import time
from collections.abc import Callable

from msgspec import Struct


class TooLong(Struct, frozen=True):
    """In the place of a line that was longer than the limit."""

    limit: int


class LineReader:
    """Feed it pieces; it gives the lines that are whole, without their ends."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._is_skipping = False

    def feed(self, piece: bytes) -> list[bytes | TooLong]:
        lines: list[bytes | TooLong] = []
        *ends, last = piece.split(b"\n")
        for end in ends:
            self._take(end, lines)
            if not self._is_skipping:
                lines.append(bytes(self._rest))
            self._rest.clear()
            self._is_skipping = False
        self._take(last, lines)
        return lines

    @property
    def unfinished(self) -> int:
        """How many bytes wait for the end of their line."""
        return len(self._rest)

    def rest(self) -> bytes:
        """What came after the last line end."""
        return bytes(self._rest)

    def _take(self, part: bytes, lines: list[bytes | TooLong]) -> None:
        if self._is_skipping:
            return
        if len(self._rest) + len(part) > self._limit:
            self._is_skipping = True
            self._rest.clear()
            lines.append(TooLong(self._limit))
        else:
            self._rest += part


class Pace:
    """So many lines a second, after twice as many at once; who is faster has to wait, and nobody else with it."""

    def __init__(self, per_second: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._left = 2 * per_second
        self._at = clock()

    def take(self) -> float:
        """One more line; the seconds to wait before it is taken in."""
        now = self._clock()
        self._left = min(2 * self._per_second, self._left + (now - self._at) * self._per_second) - 1
        self._at = now
        return max(0.0, -self._left / self._per_second)
