"""What a worker says on stderr, when it says more than anybody can read."""

import os

from jackfield.workers.logs import MAX_LINES, LogPipe, WorkerLog


class CountingLog(WorkerLog):
    """Knows how many lines were looked at."""

    def __init__(self) -> None:
        super().__init__("tool", redact=str)
        self.looked_at = 0

    def add(self, raw: bytes, *, worker: int, left_out: int = 0) -> None:
        self.looked_at += 1
        super().add(raw, worker=worker, left_out=left_out)


async def heard(said: bytes) -> CountingLog:
    """The log of a worker that said this at once."""
    reading, writing = os.pipe()
    log = CountingLog()
    pipe = LogPipe(reading, log, worker=1)
    assert os.write(writing, said) == len(said)
    os.close(writing)
    pipe.close()
    return log


async def test_lines_that_nobody_would_ever_see_are_counted_and_not_looked_at() -> None:
    """A worker that floods its stderr costs the gateway no more than the lines that are kept."""
    log = await heard(b"".join(b"%d\n" % number for number in range(10_000)))
    kept = log.lines(limit=MAX_LINES)
    assert [line.text for line in kept] == [str(number) for number in range(9_000, 10_000)]
    assert kept[-1].number == 10_000
    assert log.looked_at == MAX_LINES


async def test_a_line_that_only_looks_like_a_span_is_a_line() -> None:
    log = await heard(b'{"span": ' + b"[" * 5_000 + b"\nnext\n")
    assert [(line.text[:8], line.span) for line in log.lines(limit=10)] == [('{"span":', None), ("next", None)]
