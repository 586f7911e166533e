"""A crowd that follows one space, beside the same crowd at a bare event stream."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from msgspec import Struct

from bench.budget import Bench
from bench.crowd_load import CrowdJob, CrowdReport
from bench.figures import KILOBYTES, MICROSECONDS, MILLISECONDS, Bar, Figure, Line, Sample, take_turns
from bench.processes import (
    KEY,
    BenchError,
    CrowdLoad,
    Server,
    running_crowd_load,
    running_gateway,
    running_server,
)
from bench.subjects import http_request

FOLLOWERS = 1_000
PER_SECOND = 20
IDLE = 10_000
COST = 1.5
JSON = {"content-type": "application/json"}


class Side(Struct, frozen=True):
    """One server with its own crowd."""

    server: Server
    load: CrowdLoad
    stream: str
    say: str

    def job(self, *, followers: int, messages: int = 0) -> CrowdReport:
        return self.load.run(
            CrowdJob(
                port=self.server.port,
                follow=http_request("GET", self.stream),
                say=self.say,
                headers=f"Authorization: Bearer {KEY}\r\n",
                followers=followers,
                messages=messages,
                pace=1 / PER_SECOND,
            )
        )

    def deliver(self, messages: int, *, of: Callable[[CrowdReport, float], float]) -> Sample:
        """So many messages to all, and what handing out one of them cost the server, for each who got it."""
        before = self.server.cpu_seconds
        report = self.job(followers=FOLLOWERS, messages=messages)
        after = self.server.cpu_seconds
        if before is None or after is None:
            raise BenchError("There is no /proc here, so processor time cannot be read.")
        cpu_us = (after - before) / report.deliveries * 1e6
        return Sample(value=of(report, cpu_us), cpu_us=cpu_us)


def measure(bench: Bench) -> list[Line]:
    """What an event costs for each who follows, how old it is when it comes, and what ten thousand idle ones hold."""
    folder = bench.folder / "spaces"
    folder.mkdir()
    (folder / "jackfield.toml").write_text("", encoding="utf-8")
    with ExitStack() as stack:
        gateway = stack.enter_context(running_gateway(folder, tools=0))
        gateway.post("/api/spaces", b'{"id":"crowd"}', JSON)
        ours = Side(
            gateway,
            stack.enter_context(running_crowd_load()),
            "/api/spaces/crowd/stream",
            "/api/spaces/crowd/messages",
        )
        bare = stack.enter_context(running_server("-m", "bench.bare_stream"))
        reference = Side(bare, stack.enter_context(running_crowd_load()), "/stream", "/publish")
        idle = _idle(ours)
        return [*_crowd(bench, ours, reference), idle]


def _crowd(bench: Bench, ours: Side, reference: Side) -> list[Line]:
    messages = int(bench.budget.seconds * PER_SECOND)
    says = f"{FOLLOWERS:,} follow one space, {PER_SECOND} messages a second"
    for side in (ours, reference):
        side.job(followers=FOLLOWERS)
    costs, bare_costs = take_turns(
        bench.budget.rounds,
        partial(ours.deliver, messages, of=lambda _report, cpu_us: cpu_us),
        partial(reference.deliver, messages, of=lambda _report, cpu_us: cpu_us),
    )
    ages, bare_ages = take_turns(
        bench.budget.rounds,
        partial(ours.deliver, messages, of=lambda report, _cpu_us: report.age_p99_ms),
        partial(reference.deliver, messages, of=lambda report, _cpu_us: report.age_p99_ms),
    )
    bare_is = "a queue each behind bare Starlette"
    return [
        Line(
            says=f"{says}: processor time per event and follower",
            ours=Figure(unit=MICROSECONDS, samples=costs),
            reference=Figure(unit=MICROSECONDS, samples=bare_costs),
            reference_is=bare_is,
            bar=Bar(limit=COST),
            note="each message is posted over HTTP, checked, numbered and on disk before it is handed out",
        ),
        Line(
            says=f"{says}: age of an event on arrival, p99",
            ours=Figure(unit=MILLISECONDS, samples=ages),
            reference=Figure(unit=MILLISECONDS, samples=bare_ages),
            reference_is=bare_is,
            note=f"from the request that says it; the last of {FOLLOWERS:,} writes goes out when all others have",
        ),
    ]


def _idle(ours: Side) -> Line:
    """What the process grows by when so many follow a space in which nothing happens; then all hear of something."""
    ours.job(followers=100, messages=5)
    before = ours.server.resident_kb
    opened = ours.job(followers=IDLE)
    after = ours.server.resident_kb
    if before is None or after is None:
        raise BenchError("There is no /proc here, so memory cannot be read.")
    told = ours.job(followers=IDLE, messages=1)
    ours.job(followers=0)
    return Line(
        says=f"memory of one idle follower, of {IDLE:,}",
        ours=Figure(unit=KILOBYTES, samples=(Sample(value=(after - before) / (IDLE - 100)),)),
        note=f"all {IDLE:,} were connected after {opened.opened_ms / 1000:.1f} s; a message then reached all of them, "
        f"the last after {told.age_p99_ms:,.0f} ms",
    )
