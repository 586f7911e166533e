"""The pipeline in process: what validating, deciding, recording and telling add to a plain call of the function."""

import time
from functools import partial
from typing import Any

import msgspec

from bench.budget import Bench
from bench.figures import MICROSECONDS, Figure, Line, Sample, take_turns
from bench.inprocess import calling, cost, gateway_here, runner
from bench.subjects import ECHO, ECHO_FILE, write_echo_project

BATCH = 1_000


def measure(bench: Bench) -> list[Line]:
    """Microseconds per call, 64 at once, on each store."""
    budget, folder = bench.budget, write_echo_project(bench.folder / "pipeline")
    with (
        runner() as loop,
        gateway_here(loop, folder, store="memory:") as forgetful,
        gateway_here(loop, folder, store="sqlite:///pipeline.db") as durable,
    ):
        measured = partial(cost, at_once=budget.connections, seconds=budget.seconds / 2)
        memory, sqlite, direct = take_turns(
            budget.rounds,
            lambda: loop.run(measured(calling(forgetful.pipeline))),
            lambda: loop.run(measured(calling(durable.pipeline))),
            lambda: loop.run(_plain_calls(seconds=budget.seconds / 4)),
        )
    reference = Figure(unit=MICROSECONDS, samples=direct)
    return [
        Line(
            says=f"one call in process, {budget.connections} at once, {store}",
            ours=Figure(unit=MICROSECONDS, samples=samples),
            reference=reference,
            reference_is="the function + msgspec encode",
        )
        for store, samples in (("memory store", memory), ("SQLite", sqlite))
    ]


async def _plain_calls(*, seconds: float) -> Sample:
    """The same function, called and encoded, with nothing around it."""
    module: dict[str, Any] = {}
    exec(compile(ECHO_FILE, "echo.py", "exec"), module)
    echo = module["echo"]
    done, began, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        for _ in range(BATCH):
            msgspec.json.encode(await echo(**ECHO))
        done += BATCH
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    return Sample(value=wall / done * 1e6, cpu_us=cpu / done * 1e6)
