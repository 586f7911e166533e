"""Execute over HTTP: the whole road of a call, recorded durably, beside a server that only echoes."""

from functools import partial
from pathlib import Path

from bench.budget import Bench
from bench.durability import written
from bench.figures import RATE, Bar, Figure, Line, take_turns
from bench.load import Job
from bench.processes import BenchError, Load, Server, running_gateway, running_load, running_reference
from bench.subjects import echo_request, write_echo_project

COUNTED = 2_000
"""Calls in which writes are counted; few enough that the log is not started over meanwhile."""
TRIES = 5


def measure(bench: Bench) -> list[Line]:
    """Answers a second at 64 connections."""
    budget, folder = bench.budget, write_echo_project(bench.folder / "execute")
    with running_gateway(folder, tools=1) as gateway, running_reference() as bare, running_load() as load:
        ours, reference = (
            Job(
                port=server.port,
                requests=[echo_request()],
                connections=budget.connections,
                seconds=budget.seconds,
            )
            for server in (gateway, bare)
        )
        _check(load, gateway, ours)
        sides = take_turns(budget.rounds, partial(load.rate, gateway, ours), partial(load.rate, bare, reference))
        note = _durable_writes(load, ours, folder / ".jackfield" / "jackfield.db")
    return [
        Line(
            says=f"execute over HTTP, {budget.connections} at once, recorded durably",
            ours=Figure(unit=RATE, samples=sides[0]),
            reference=Figure(unit=RATE, samples=sides[1]),
            reference_is="bare Starlette + msgspec echo",
            bar=Bar(limit=0.4, at_least=True),
            note=note,
        )
    ]


def _check(load: Load, gateway: Server, job: Job) -> None:
    """One answer, to see that calls are executed at all."""
    once = Job(port=gateway.port, requests=job.requests, connections=1, seconds=10, most=1)
    answer = load.run(once, expect=200).last_answer
    if '"status":"completed"' not in answer:
        raise BenchError(f"The echo tool did not complete: {answer}")


def _durable_writes(load: Load, job: Job, database: Path) -> str:
    counting = Job(
        port=job.port, requests=job.requests, connections=job.connections, seconds=job.seconds + 10, most=COUNTED
    )
    for _ in range(TRIES):
        before = written(database)
        answers = load.run(counting, expect=200).answers
        after = written(database)
        if after.log == before.log:
            rows, commits = (after.calls - before.calls) / answers, (after.commits - before.commits) / answers
            return (
                f"durable writes per call: {rows:g} row, {commits:.3f} commits with one fsync each "
                f"(group commit: {1 / commits:.1f} calls share one), counted over {answers:,} calls"
            )
    return f"durable writes could not be counted: the log was started over in each of {TRIES} tries"
