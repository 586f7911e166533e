"""The load of spaces: a process of its own in which a crowd follows one stream, and which says something to all.

    python -m bench.crowd_load        # one JSON job a line on stdin, one JSON report a line on stdout

HTTP/1.1 by hand, like `load.py`. A message carries the moment it was sent, so its age on arrival is the whole way:
the request, the disk, the stream. Followers stay from one job to the next. Above: `processes.py`.
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

PATIENCE = 60.0
AT_ONCE = 200
"""Connections that are being made at the same time."""
_TOLD = re.compile(rb'"t(\d{20}) ')
_END = b"\n\n"


class CrowdJob(Struct, frozen=True, kw_only=True):
    """How many shall follow, then what is said to them."""

    port: int
    follow: str
    """The whole request for a stream, ASCII."""
    say: str
    """The path to which messages are posted."""
    headers: str
    """Of that request: whole lines."""
    followers: int
    """So many, once this job is done; those that are there stay."""
    messages: int = 0
    pace: float = 0.05


class CrowdReport(Struct, frozen=True, kw_only=True):
    """What came."""

    deliveries: int
    expected: int
    age_p50_ms: float
    age_p99_ms: float
    opened_ms: float
    """For all new followers to be connected."""


class Crowd:
    """What the followers share."""

    def __init__(self) -> None:
        self.ages = array("q")
        self.awaited = 0
        self.is_done = asyncio.Event()

    def expect(self, events: int) -> None:
        self.awaited = events
        self.is_done.clear()

    def got(self) -> None:
        self.awaited -= 1
        if self.awaited == 0:
            self.is_done.set()


class Follower(asyncio.Protocol):
    """One open stream."""

    def __init__(self, crowd: Crowd, request: bytes) -> None:
        self._crowd = crowd
        self._request = request
        self._is_connected = False
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        data = self._rest + data
        whole = data.rfind(_END) + 2 if _END in data else 0
        self._rest = data[whole:]
        if not self._is_connected and b"connected" in data[:whole]:
            self._is_connected = True
            self._crowd.got()
        for sent in _TOLD.findall(data, 0, whole):
            self._crowd.ages.append(now - int(sent))
            self._crowd.got()


class Speaker(asyncio.Protocol):
    """The connection on which messages are posted, one after the other."""

    def __init__(self) -> None:
        self.answered = asyncio.Event()
        self.status = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"HTTP/1.1 "):
            self.status = int(data[9:12])
            self.answered.set()


class Load:
    """The followers that stay, and the jobs."""

    def __init__(self) -> None:
        self._crowd = Crowd()
        self._followers: list[Follower] = []

    async def carry_out(self, job: CrowdJob) -> CrowdReport:
        began = time.monotonic_ns()
        await self._gather(job)
        opened_ms = (time.monotonic_ns() - began) / 1e6
        self._crowd.ages = array("q")
        expected = len(self._followers) * job.messages
        if expected:
            await self._speak(job, expected)
        ages = sorted(self._crowd.ages)
        return CrowdReport(
            deliveries=len(ages),
            expected=expected,
            age_p50_ms=percentile(ages, 0.5) / 1e6 if ages else 0.0,
            age_p99_ms=percentile(ages, 0.99) / 1e6 if ages else 0.0,
            opened_ms=opened_ms,
        )

    async def _gather(self, job: CrowdJob) -> None:
        for follower in self._followers[job.followers :]:
            follower.transport.abort()
        del self._followers[job.followers :]
        loop, request = asyncio.get_running_loop(), job.follow.encode("ascii")
        while (missing := job.followers - len(self._followers)) > 0:
            some = min(missing, AT_ONCE)
            self._crowd.expect(some)
            made = await asyncio.gather(
                *(
                    loop.create_connection(lambda: Follower(self._crowd, request), "127.0.0.1", job.port)
                    for _ in range(some)
                )
            )
            self._followers += [follower for _, follower in made]
            async with asyncio.timeout(PATIENCE):
                await self._crowd.is_done.wait()

    async def _speak(self, job: CrowdJob, expected: int) -> None:
        loop = asyncio.get_running_loop()
        _, speaker = await loop.create_connection(Speaker, "127.0.0.1", job.port)
        self._crowd.expect(expected)
        due = loop.time()
        for _ in range(job.messages):
            await asyncio.sleep(max(0.0, due - loop.time()))
            due += job.pace
            body = b'{"content":"t%020d what is said here"}' % time.monotonic_ns()
            head = f"POST {job.say} HTTP/1.1\r\nHost: 127.0.0.1\r\n{job.headers}Content-Type: application/json\r\n"
            speaker.answered.clear()
            speaker.transport.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            async with asyncio.timeout(PATIENCE):
                await speaker.answered.wait()
            if speaker.status != 201:
                raise RuntimeError(f"a message was answered with {speaker.status}")
        async with asyncio.timeout(PATIENCE):
            await self._crowd.is_done.wait()
        speaker.transport.close()


def main() -> None:
    """Jobs from stdin until it is closed."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        load: Load | None = None
        for line in sys.stdin.buffer:
            load = load or runner.run(_make_load())
            report = runner.run(load.carry_out(msgspec.json.decode(line, type=CrowdJob)))
            sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
            sys.stdout.buffer.flush()


async def _make_load() -> Load:
    return Load()


if __name__ == "__main__":
    main()
