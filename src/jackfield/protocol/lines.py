"""Lines out of chunks of bytes. Standard library only."""


class TooLong:
    """Takes the place of a line that was longer than the limit."""


TOO_LONG = TooLong()


class LineSplitter:
    """Splits chunks into lines without their ends. Skips a line that is longer than `limit` and yields `TOO_LONG`."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._partial = bytearray()
        self._is_skipping = False

    def feed(self, chunk: bytes) -> list[bytes | TooLong]:
        """The lines that this chunk completes."""
        if not self._partial and not self._is_skipping and 0 <= chunk.find(b"\n") == len(chunk) - 1 <= self._limit:
            return [chunk[:-1]]  # one whole line, as nearly always
        lines: list[bytes | TooLong] = []
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._append(end, lines)
            if not self._is_skipping:
                lines.append(bytes(self._partial))
            self._partial.clear()
            self._is_skipping = False
        self._append(rest, lines)
        return lines

    @property
    def partial(self) -> bytes:
        """What came after the last line end."""
        return bytes(self._partial)

    @property
    def pending(self) -> int:
        """How many bytes that is."""
        return len(self._partial)

    def _append(self, part: bytes, lines: list[bytes | TooLong]) -> None:
        if self._is_skipping:
            return
        if len(self._partial) + len(part) > self._limit:
            self._is_skipping = True
            self._partial.clear()
            lines.append(TOO_LONG)
        else:
            self._partial += part
