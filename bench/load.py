"""The load: a process of its own that sends requests as fast as answers come, and says what it saw.

    python -m bench.load        # one JSON job a line on stdin, one JSON report a line on stdout

HTTP/1.1 by hand: on two cores a full client would be slower than the servers it measures. Each connection sends the
next request when it has the whole answer to the last one; nothing is pipelined. Above: `processes.py`.
"""

import asyncio
import re
import sys
import time
from array import array
from functools import partial
from typing import cast

import msgspec
import uvloop
from msgspec import Struct

from bench.figures import percentile

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"\r\ncontent-length:"
_CHUNKED = b"\r\ntransfer-encoding: chunked"
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_WITHOUT_BODY = frozenset({204, 304})
_SHOWN = 4096
UNIQUE = "u00000000000"
"""Where a request carries a value of its own, if its job counts them."""
_VALUE = re.compile(rb"u\d{11}")
_PATIENCE = 30.0


class Job(Struct, frozen=True, kw_only=True):
    """What to send, where, and for how long."""

    port: int
    requests: list[str]
    """Whole requests, ASCII; sent one after the other, over and over."""
    connections: int
    seconds: float
    most: int = 1_000_000
    """Requests after which it ends before its time."""
    session_each: bool = False
    """Each connection sends only the request of its own number, instead of all in turn."""
    unique: int = 0
    """How often the value of a request (`UNIQUE`, which is replaced for each) has to be in its answer. With it, wrong
    answers are counted and their times are not; a connection that is lost is counted, and the others go on."""
    has: str = ""
    """What else has to be in an answer."""
    patience: float = _PATIENCE
    """Seconds after the job's time in which the last answers have to come."""


class Report(Struct, frozen=True, kw_only=True):
    """What came back."""

    answers: int
    seconds: float
    statuses: dict[str, int]
    p50_ms: float
    p99_ms: float
    last_answer: str
    """One answer whole, or its beginning, to see that it is what it should be."""
    wrong: int = 0
    """Answers that were errors, or had not the value of their request."""
    crossed: int = 0
    """Answers that had the value of another request."""
    missing: int = 0
    """Connections that were lost, or whose last answer did not come."""
    wrong_answer: str = ""
    """One of the wrong or crossed ones."""


class Crowd:
    """Connections under way for one job."""

    def __init__(self) -> None:
        self.open = 0
        self.is_over = asyncio.get_running_loop().create_future()

    def leave(self, fault: Exception | None) -> None:
        """A connection is done. The last one ends the job, or the first that failed."""
        self.open -= 1
        if self.is_over.done():
            return
        if fault is not None:
            self.is_over.set_exception(fault)
        elif self.open == 0:
            self.is_over.set_result(None)


class Round(Crowd):
    """One job under way: what its connections share."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.requests = [request.encode("ascii") for request in job.requests]
        self.session_each = job.session_each
        self.sent = 0
        self.took_ns = array("q")
        self.statuses: dict[int, int] = {}
        self.last_answer = b""
        self.unique, self.has = job.unique, job.has.encode("ascii")
        self.wrong = self.crossed = self.lost = 0
        self.wrong_answer = b""
        self.most = job.most
        self.began = time.perf_counter_ns()
        self.ends = self.began + int(job.seconds * 1e9)

    def next_request(self, now: int, connection: int) -> bytes | None:
        """What that connection sends next; nothing once the time or the count is up."""
        if now >= self.ends or self.sent >= self.most:
            return None
        self.sent += 1
        return self.requests[(connection if self.session_each else self.sent) % len(self.requests)]

    def leave(self, fault: Exception | None) -> None:
        if fault is not None and self.unique:
            self.lost += 1
            self.wrong_answer = self.wrong_answer or repr(fault).encode()
            fault = None
        super().leave(fault)

    def is_right(self, value: bytes, status: int, answer: bytes) -> bool:
        """Whether it is the answer to the request with this value; if not, it is counted."""
        if any(other != value for other in _VALUE.findall(answer)):
            self.crossed += 1
        elif status != 200 or answer.count(value) < self.unique or self.has not in answer:
            self.wrong += 1
        else:
            return True
        self.wrong_answer = self.wrong_answer or answer[:_SHOWN]
        return False


class Connection(asyncio.Protocol):
    """One keep-alive connection."""

    def __init__(self, round_: Round, number: int) -> None:
        self._round = round_
        self._number = number
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._missing = 0
        """Bytes of the answer's body that have not come yet; 0 while its head is awaited."""
        self._chunks: bytes | None = None
        """The end of a body without a length, as far as it has come; an answer that takes long is streamed."""
        self._status = 0
        self._sent_at = 0
        self._value = b""
        """What this request has and no other."""
        self._answer: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are not asyncio's by class

    def begin(self) -> None:
        self._round.open += 1
        self._send(time.perf_counter_ns())

    def data_received(self, data: bytes) -> None:
        if self._value:
            self._answer.append(data)
        self._take(data)

    def _take(self, data: bytes) -> None:
        if self._chunks is not None:
            self._chunks = self._chunks[-len(_LAST_CHUNK) :] + data
            if self._chunks.endswith(_LAST_CHUNK):
                self._chunks = None
                self._answered()
            return
        if self._missing:
            self._missing -= len(data)
            if len(self._round.last_answer) < _SHOWN:
                self._round.last_answer += data[:_SHOWN]
        else:
            data = self._head + data
            end = data.find(_END_OF_HEAD)
            if end < 0:
                self._head = data
                return
            self._head = b""
            self._status = int(data[9:12])
            self._round.last_answer = data
            if _CHUNKED in data[:end].lower():
                self._chunks = b""
                if len(data) > end + len(_END_OF_HEAD):
                    self._take(data[end + len(_END_OF_HEAD) :])
                return
            self._missing = self._length(data[:end]) - (len(data) - end - len(_END_OF_HEAD))
        if self._missing == 0:
            self._answered()
        elif self._missing < 0:
            self._leave(RuntimeError("an answer is longer than its Content-Length"))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._leave(exc or ConnectionError("the server closed a connection"))

    def close(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def _send(self, now: int) -> None:
        request = self._round.next_request(now, self._number)
        if request is None:
            self._leave(None)
            return
        assert self._transport is not None
        if self._round.unique:
            self._value = b"u%011d" % self._round.sent
            request = request.replace(UNIQUE.encode(), self._value)
        self._sent_at = now
        self._transport.write(request)

    def _answered(self) -> None:
        now = time.perf_counter_ns()
        statuses, took = self._round.statuses, self._round.took_ns
        statuses[self._status] = statuses.get(self._status, 0) + 1
        if not self._value or self._round.is_right(self._value, self._status, b"".join(self._answer)):
            took.append(now - self._sent_at)
        self._answer.clear()
        self._send(now)

    def _length(self, head: bytes) -> int:
        if self._status in _WITHOUT_BODY:
            return 0
        start = head.lower().index(_LENGTH) + len(_LENGTH)
        return int(head[start:].partition(b"\r")[0])

    def _leave(self, fault: Exception | None) -> None:
        self.close()
        self._round.leave(fault)


async def carry_out(job: Job) -> Report:
    """All connections at once, until the time is up and the last answer has come."""
    loop = asyncio.get_running_loop()
    round_ = Round(job)
    made = [
        await loop.create_connection(partial(Connection, round_, number), "127.0.0.1", job.port)
        for number in range(job.connections)
    ]
    round_.began = time.perf_counter_ns()
    round_.ends = round_.began + int(job.seconds * 1e9)
    for _, connection in made:
        connection.begin()
    missing = await _end(round_, [connection for _, connection in made], job)
    seconds = (time.perf_counter_ns() - round_.began) / 1e9
    took_ms = sorted(took / 1e6 for took in round_.took_ns)
    return Report(
        answers=len(took_ms),
        seconds=seconds,
        statuses={str(status): count for status, count in round_.statuses.items()},
        p50_ms=percentile(took_ms, 0.5) if took_ms else 0.0,
        p99_ms=percentile(took_ms, 0.99) if took_ms else 0.0,
        last_answer=round_.last_answer[:2000].decode("latin-1"),
        wrong=round_.wrong,
        crossed=round_.crossed,
        missing=missing,
        wrong_answer=round_.wrong_answer.decode("latin-1"),
    )


async def _end(round_: Round, connections: list[Connection], job: Job) -> int:
    """When the last answer has come: how many have not, if that is to be counted."""
    try:
        async with asyncio.timeout(job.seconds + job.patience):
            await round_.is_over
    except TimeoutError:
        if not job.unique:
            raise
        unanswered = round_.open
        for connection in connections:
            connection.close()
        return round_.lost + unanswered
    return round_.lost


def main() -> None:
    """Jobs from stdin until it is closed."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for line in sys.stdin.buffer:
            report = runner.run(carry_out(msgspec.json.decode(line, type=Job)))
            sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
