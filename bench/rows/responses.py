"""A response's stream through the gateway, beside the same model server asked directly."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import msgspec
from msgspec import Struct

from bench.budget import Bench
from bench.figures import KILOBYTES, MICROSECONDS, MILLISECONDS, Bar, Figure, Line, Sample, take_turns
from bench.processes import (
    BenchError,
    Server,
    StreamLoad,
    running_chat_model,
    running_gateway,
    running_server,
    running_stream_load,
)
from bench.stream_load import StreamJob, StreamReport
from bench.subjects import http_request

CONFIG = """\
[models.fast]
provider = "openai"
base_url = "http://127.0.0.1:{port}/v1"
model = "fast"
"""
FIRST_MS = 2.0
TOKEN_US = 50.0
PACED_US = 50.0
ASKED = 100
LONG = 4_000
APART = 0.002
CROWD = 500
PACE = 0.1


class Sides(Struct, frozen=True):
    """The same model by both ways, and who asks."""

    load: StreamLoad
    gateway: Server
    model: Server
    relay: Server
    """Before the model, passing bytes on: what any process on the way costs."""

    def ours(self, wish: str, *, streams: int = 1, times: int = 1, hold: bool = False) -> StreamReport:
        body = msgspec.json.encode({"model": "fast", "input": wish, "stream": True})
        request = http_request("POST", "/v1/responses", body=body)
        return self.load.run(
            StreamJob(port=self.gateway.port, request=request, key="delta", streams=streams, times=times, hold=hold)
        )

    def timed(self, wish: str, *, tokens: int, of: Callable[[StreamReport], float]) -> Sample:
        """One stream, with what each of its tokens cost the gateway."""
        before = self.gateway.cpu_seconds
        value = of(self.ours(wish))
        after = self.gateway.cpu_seconds
        cpu = None if before is None or after is None else (after - before) / tokens * 1e6
        return Sample(value=value, cpu_us=cpu)

    def direct(self, wish: str, *, streams: int = 1, times: int = 1) -> StreamReport:
        return self._of(self.model, wish, streams=streams, times=times)

    def relayed(self, wish: str) -> StreamReport:
        return self._of(self.relay, wish)

    def _of(self, server: Server, wish: str, *, streams: int = 1, times: int = 1) -> StreamReport:
        body = msgspec.json.encode({"model": "fast", "messages": [{"role": "user", "content": wish}], "stream": True})
        request = http_request("POST", "/v1/chat/completions", body=body)
        return self.load.run(StreamJob(port=server.port, request=request, key="content", streams=streams, times=times))


def measure(bench: Bench) -> list[Line]:
    """First token, tokens as fast as they go, a crowd of streams, and what an idle one holds."""
    folder = bench.folder / "responses"
    folder.mkdir()
    with ExitStack() as stack:
        sides = _opened(stack, folder)
        idle = _idle(sides)  # before the crowd leaves freed memory behind
        return [
            _first_token(bench, sides),
            _tokens(bench, sides),
            _one_at_a_time(bench, sides),
            *_crowd(bench, sides),
            idle,
        ]


def _opened(stack: ExitStack, folder: Path) -> Sides:
    model = stack.enter_context(running_chat_model())
    (folder / "jackfield.toml").write_text(CONFIG.format(port=model.port), encoding="utf-8")
    gateway = stack.enter_context(running_gateway(folder, tools=0))
    relay = stack.enter_context(running_server("-m", "bench.bare_relay", str(model.port)))
    return Sides(stack.enter_context(running_stream_load()), gateway, model, relay)


def _first_token(bench: Bench, sides: Sides) -> Line:
    ours, direct = take_turns(
        bench.budget.rounds,
        lambda: Sample(value=sides.ours("tokens=1", times=ASKED).first_ms),
        lambda: Sample(value=sides.direct("tokens=1", times=ASKED).first_ms),
    )
    return Line(
        says="first token of a response, added by the gateway, p50",
        ours=_added(MILLISECONDS, ours, direct),
        bar=Bar(limit=FIRST_MS, of_ratio=False),
        note=f"{_middle(ours):.2f} ms through the gateway, {_middle(direct):.2f} ms from the model server directly; "
        "the response is checked, begun and put on its way to the store meanwhile",
    )


def _tokens(bench: Bench, sides: Sides) -> Line:
    wish = f"tokens={LONG}"
    ours, direct = take_turns(
        bench.budget.rounds,
        lambda: sides.timed(wish, tokens=LONG, of=lambda report: report.token_us),
        lambda: Sample(value=sides.direct(wish).token_us),
    )
    return Line(
        says=f"each of {LONG:,} tokens as fast as they go, added by the gateway",
        ours=_added(MICROSECONDS, ours, direct),
        bar=Bar(limit=TOKEN_US, of_ratio=False),
        note=f"{_middle(ours):.1f} µs a token through the gateway, {_middle(direct):.1f} µs directly; CPU per call is "
        "the gateway's per token",
    )


def _one_at_a_time(bench: Bench, sides: Sides) -> Line:
    """Tokens with time between them: each wakes every process on its way."""
    tokens = int(bench.budget.seconds / 2 / APART)
    wish = f"tokens={tokens} pace={APART}"
    ours, direct, relayed = take_turns(
        bench.budget.rounds,
        lambda: sides.timed(wish, tokens=tokens, of=lambda report: report.age_p50_us),
        lambda: Sample(value=sides.direct(wish).age_p50_us),
        lambda: Sample(value=sides.relayed(wish).age_p50_us),
    )
    return Line(
        says="a token every 2 ms, its age on arrival, added by the gateway, p50",
        ours=_added(MICROSECONDS, ours, direct),
        bar=Bar(limit=PACED_US, of_ratio=False),
        note=f"{_middle(ours):.0f} µs through the gateway, {_middle(direct):.0f} µs directly, {_middle(relayed):.0f} "
        "µs through a relay that looks at nothing: each token wakes one process more. CPU per call is the gateway's "
        "per token",
    )


def _crowd(bench: Bench, sides: Sides) -> list[Line]:
    """Streams side by side, a token each every tenth of a second: how old tokens are when they come."""
    wish = f"tokens=20 pace={PACE}"
    rounds = range(3 if bench.budget.rounds > 3 else 1)
    taken = [(sides.ours(wish, streams=CROWD), sides.direct(wish, streams=CROWD)) for _ in rounds]
    ours, direct = [one for one, _ in taken], [other for _, other in taken]
    says = f"age of a token on arrival, {CROWD} streams under way, a token each every {PACE * 1000:.0f} ms"
    begun = median(one.begun_ms for one in ours)
    ended = f"all {CROWD} came to their end; asked for at once, all had begun after {begun:,.0f} ms"
    return [
        Line(
            says=f"{says}, {part}",
            ours=Figure(unit=MILLISECONDS, samples=tuple(Sample(value=age(one) / 1000) for one in ours)),
            reference=Figure(unit=MILLISECONDS, samples=tuple(Sample(value=age(one) / 1000) for one in direct)),
            reference_is="the model server directly",
            note=note,
        )
        for part, age, note in (
            ("p50", _p50, ended),
            ("p99", _p99, ""),
        )
    ]


def _idle(sides: Sides) -> Line:
    """What the process grows by when so many streams wait for their next token."""
    sides.ours("tokens=1", times=ASKED)
    before = sides.gateway.resident_kb
    sides.ours("tokens=1 hold", streams=CROWD, hold=True)
    after = sides.gateway.resident_kb
    if before is None or after is None:
        raise BenchError("There is no /proc here, so memory cannot be read.")
    return Line(
        says=f"memory of one idle stream, of {CROWD}",
        ours=Figure(unit=KILOBYTES, samples=(Sample(value=max((after - before) / CROWD, 0.1)),)),
        note=f"the gateway's process grew from {before / 1024:.0f} to {after / 1024:.0f} MB; each is a stream to the "
        "client and one from the model server",
    )


def _added(unit: str, ours: tuple[Sample, ...], direct: tuple[Sample, ...]) -> Figure:
    """What the gateway adds, round by round; what is lost in the noise counts as nothing."""
    pairs = zip(ours, direct, strict=True)
    return Figure(
        unit=unit,
        samples=tuple(Sample(value=max(one.value - other.value, 0.001), cpu_us=one.cpu_us) for one, other in pairs),
    )


def _middle(samples: tuple[Sample, ...]) -> float:
    return median(sample.value for sample in samples)


def _p50(report: StreamReport) -> float:
    return report.age_p50_us


def _p99(report: StreamReport) -> float:
    return report.age_p99_us
