"""The load of streams: a process of its own that asks for streams and notes when each token came.

    python -m bench.stream_load        # one JSON job a line on stdin, one JSON report a line on stdout

HTTP/1.1 by hand, like `load.py`. A token carries the moment its model sent it, so its age on arrival is what the way
took. Above: `processes.py`.
"""

import asyncio
import re
import sys
import time
from array import array
from typing import cast

import msgspec
import uvloop
from msgspec import Struct

from bench.figures import percentile
from bench.load import Crowd

_LAST_CHUNK = b"\r\n0\r\n\r\n"
_DONE = b"data: [DONE]\n\n"
PATIENCE = 60.0


class StreamJob(Struct, frozen=True, kw_only=True):
    """Streams to ask for: so many at once, each connection so often."""

    port: int
    request: str
    """Whole, ASCII."""
    key: str
    """The key of the JSON string that a token is in, where it is told."""
    streams: int = 1
    times: int = 1
    hold: bool = False
    """Leave the streams open once each has told a token; they are closed when the next job comes."""


class StreamReport(Struct, frozen=True, kw_only=True):
    """What came."""

    ended: int
    """Streams that told `[DONE]` and closed as they should."""
    tokens: int
    first_ms: float
    """From the request to the first token, p50."""
    begun_ms: float
    """From the first request to when every stream has told a token."""
    age_p50_us: float
    """How old tokens are on arrival, from when every stream has begun."""
    age_p99_us: float
    token_us: float
    """Between the first and the last token of a stream, by the tokens between them, p50 of the streams."""


class Streams(Crowd):
    """One job under way: what its connections share."""

    def __init__(self, job: StreamJob) -> None:
        super().__init__()
        self.request = job.request.encode("ascii")
        self.token = re.compile(b'"%b":"t(\\d+) "' % job.key.encode("ascii"))
        self.hold = job.hold
        self.firsts, self.ages, self.paces = array("q"), array("q"), array("d")
        self.to_begin = job.streams
        self.began_at = self.begun_at = 0
        self.tokens = 0
        self.ended = 0


class Stream(asyncio.Protocol):
    """One connection that asks for streams, one after the other."""

    def __init__(self, streams: Streams, times: int) -> None:
        self._streams = streams
        self._left = times
        self._transport: asyncio.Transport | None = None
        self._data = b""
        self._sent_at = self._first_at = self._last_at = 0
        self._tokens = 0
        self._is_done = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are not asyncio's by class

    def begin(self) -> None:
        self._streams.open += 1
        self._ask()

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        data = self._data + data
        whole = data.rfind(b"\n\n") + 2 if b"\n\n" in data else 0
        for sent in self._streams.token.findall(data, 0, whole):
            self._token(int(sent), now)
        self._is_done = self._is_done or _DONE in data
        self._data = data[whole:]
        if self._data.endswith(_LAST_CHUNK):
            self._ended()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._leave(exc or ConnectionError("the server closed a stream before its end"))

    def close(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    def _ask(self) -> None:
        assert self._transport is not None
        self._left -= 1
        self._tokens = 0
        self._is_done = False
        self._data = b""
        self._sent_at = time.monotonic_ns()
        self._transport.write(self._streams.request)

    def _token(self, sent: int, now: int) -> None:
        streams = self._streams
        streams.tokens += 1
        self._tokens += 1
        self._last_at = now
        if self._tokens == 1:
            self._first_at = now
            streams.firsts.append(now - self._sent_at)
            streams.to_begin -= 1
            streams.begun_at = now
            if streams.hold:
                streams.leave(None)
        elif streams.to_begin <= 0:
            streams.ages.append(now - sent)

    def _ended(self) -> None:
        streams = self._streams
        if not self._tokens or not self._is_done:
            self._leave(RuntimeError(f"a stream closed after {self._tokens} tokens without [DONE]"))
            return
        streams.ended += 1
        if self._tokens > 1:
            streams.paces.append((self._last_at - self._first_at) / (self._tokens - 1))
        if self._left:
            self._ask()
        else:
            self._leave(None)

    def _leave(self, fault: Exception | None) -> None:
        self.close()
        self._streams.leave(fault)


async def carry_out(job: StreamJob, held: list[Stream]) -> StreamReport:
    """All connections at once, until each has had its streams, or its first token if they are to be held."""
    for stream in held:
        stream.close()
    held.clear()
    loop = asyncio.get_running_loop()
    streams = Streams(job)
    made = [
        (await loop.create_connection(lambda: Stream(streams, job.times), "127.0.0.1", job.port))[1]
        for _ in range(job.streams)
    ]
    streams.began_at = time.monotonic_ns()
    for stream in made:
        stream.begin()
    async with asyncio.timeout(PATIENCE):
        await streams.is_over
    if job.hold:
        held += made
    firsts, ages, paces = sorted(streams.firsts), sorted(streams.ages), sorted(streams.paces)
    return StreamReport(
        ended=streams.ended,
        tokens=streams.tokens,
        first_ms=percentile(firsts, 0.5) / 1e6,
        begun_ms=(streams.begun_at - streams.began_at) / 1e6,
        age_p50_us=percentile(ages, 0.5) / 1e3 if ages else 0.0,
        age_p99_us=percentile(ages, 0.99) / 1e3 if ages else 0.0,
        token_us=percentile(paces, 0.5) / 1e3 if paces else 0.0,
    )


def main() -> None:
    """Jobs from stdin until it is closed."""
    held: list[Stream] = []
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for line in sys.stdin.buffer:
            report = runner.run(carry_out(msgspec.json.decode(line, type=StreamJob), held))
            sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
