"""A warm call of a worker, at the pool: beside the bare channel, and beside a process for each call."""

import asyncio
import subprocess
import time
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from typing import TypeVar

import uv

from bench.budget import Bench
from bench.figures import MICROSECONDS, MILLISECONDS, RATE, Bar, Figure, Line, Sample, take_turns
from bench.inprocess import runner
from bench.workers import TOOL_FILE, Asker, RawEcho, a_pool, one_by_one, one_call, pipelined, raw_echo, request
from jackfield.workers.pool import WorkerPool

TURNS = 1_000
PIPELINED = 10_000
AT_ONCE = 64
CROWD = 1_000
NAP = 0.05
SIZES = {"100 B": 100, "10 kB": 10_000}
KINDS = {"echo": ("async", 1.5), "threaded": ("threaded", 4.0)}
RUN_ONCE = TOOL_FILE + '\nif __name__ == "__main__":\n    print(asyncio.run(echo("x")))\n'

T = TypeVar("T")


def measure(bench: Bench) -> list[Line]:
    """Round trips one by one, many at once, beside `uv run`, and with a crowd that sleeps."""
    with runner() as loop, _entered(loop, a_pool(bench.folder)) as pool, _entered(loop, raw_echo()) as raw:
        lines = [
            _round_trip(bench, loop, pool, raw, function=function, size=size) for function in KINDS for size in SIZES
        ]
        return [*lines, _throughput(bench, loop, pool, raw), _uv_run(bench, loop, pool), _crowd(bench, loop, pool)]


def _round_trip(
    bench: Bench, loop: asyncio.Runner, pool: WorkerPool, raw: RawEcho, *, function: str, size: str
) -> Line:
    kind, bar = KINDS[function]
    ours, bare = _asker(pool, function, SIZES[size]), _bare(raw, SIZES[size])
    measured, reference = take_turns(
        bench.budget.rounds,
        lambda: loop.run(one_by_one(ours, turns=TURNS)),
        lambda: loop.run(one_by_one(bare, turns=TURNS)),
    )
    return Line(
        says=f"warm worker call at the pool, {size}, {kind}, p50",
        ours=Figure(unit=MICROSECONDS, samples=measured),
        reference=Figure(unit=MICROSECONDS, samples=reference),
        reference_is="the raw socketpair, echoed by a blocking child",
        bar=Bar(limit=bar),
    )


def _throughput(bench: Bench, loop: asyncio.Runner, pool: WorkerPool, raw: RawEcho) -> Line:
    ours, bare = _asker(pool, "echo", SIZES["100 B"]), _bare(raw, SIZES["100 B"])
    measured, reference = take_turns(
        bench.budget.rounds,
        lambda: loop.run(pipelined(ours, at_once=AT_ONCE, turns=PIPELINED)),
        lambda: loop.run(pipelined(bare, at_once=AT_ONCE, turns=PIPELINED)),
    )
    return Line(
        says=f"worker calls, 100 B, async, {AT_ONCE} on their way",
        ours=Figure(unit=RATE, samples=measured),
        reference=Figure(unit=RATE, samples=reference),
        reference_is="the raw socketpair",
        bar=Bar(limit=0.5, at_least=True),
    )


def _uv_run(bench: Bench, loop: asyncio.Runner, pool: WorkerPool) -> Line:
    file = bench.folder / "once.py"
    file.write_text(RUN_ONCE, encoding="utf-8")
    ours = _asker(pool, "echo", 1)
    measured, reference = take_turns(
        bench.budget.rounds,
        lambda: loop.run(one_by_one(ours, turns=TURNS // 10)),
        partial(_one_process, str(file)),
    )
    return Line(
        says="warm worker call beside a process for each call",
        ours=Figure(unit=MICROSECONDS, samples=measured),
        reference=Figure(unit=MICROSECONDS, samples=reference),
        reference_is="`uv run` with everything installed",
        bar=Bar(limit=1 / 20),
    )


def _one_process(file: str) -> Sample:
    began = time.perf_counter()
    subprocess.run([uv.find_uv_bin(), "run", "--quiet", "--script", file], check=True, capture_output=True)
    return Sample(value=(time.perf_counter() - began) * 1e6)


def _crowd(bench: Bench, loop: asyncio.Runner, pool: WorkerPool) -> Line:
    """All of them on one worker at one time; alone, one would take as long as its nap."""
    (measured,) = take_turns(bench.budget.rounds, lambda: loop.run(_all_at_once(pool)))
    return Line(
        says=f"{CROWD:,} calls of {NAP * 1000:.0f} ms in flight on one worker, until the last is back",
        ours=Figure(unit=MILLISECONDS, samples=measured),
    )


async def _all_at_once(pool: WorkerPool) -> Sample:
    ids = [f"call_{number}" for number in range(CROWD)]
    began = time.perf_counter()
    await asyncio.gather(*(one_call(pool, name, request(name, "sleep", seconds=NAP)) for name in ids))
    return Sample(value=(time.perf_counter() - began) * 1000)


def _asker(pool: WorkerPool, function: str, length: int) -> Asker:
    text = "x" * length
    return lambda turn: one_call(pool, f"call_{turn}", request(f"call_{turn}", function, text=text))


def _bare(raw: RawEcho, length: int) -> Asker:
    line = request("call_1", "echo", text="x" * length)
    return lambda _turn: raw.ask(line)


@contextmanager
def _entered(loop: asyncio.Runner, context: AbstractAsyncContextManager[T]) -> Generator[T]:
    entered = loop.run(context.__aenter__())
    try:
        yield entered
    finally:
        loop.run(context.__aexit__(None, None, None))
