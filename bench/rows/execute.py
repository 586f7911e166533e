"""Execute over HTTP: the whole road of a call, recorded durably, beside a server that only echoes."""

from functools import partial
from pathlib import Path

from bench.budget import Bench
from bench.durability import written
from bench.figures import MILLISECONDS, RATE, TAIL, Bar, Figure, Line, lines_beside, take_turns
from bench.load import Job
from bench.processes import BenchError, Load, Server, running_gateway, running_load, running_reference
from bench.subjects import echo_request, write_echo_project

COUNTED = 2_000
"""Calls in which writes are counted; few enough that the log is not started over meanwhile."""
TRIES = 5


ECHO_IS = "bare Starlette + msgspec echo"
ONE: dict[str, dict[str, str]] = {"SQLite": {}, "memory store": {"JACKFIELD_STORE": "memory:"}}
"""The stores on which one call is made at a time, with the environment that chooses each."""
BESIDE_ONE = {
    "CPU per call": Bar(limit=300, of_ratio=False),
    "p99 by p50": Bar(limit=TAIL, of_ratio=False),
}


def measure(bench: Bench) -> list[Line]:
    """Answers a second at 64 connections, and how long one takes at a time."""
    return [*_at_once(bench), *_one_at_a_time(bench)]


def _one_at_a_time(bench: Bench) -> list[Line]:
    """Each call waits for the writer thread, and on SQLite for an fsync of its own; there is nobody to share them."""
    lines: list[Line] = []
    with running_reference() as bare, running_load() as load:
        for store, env in ONE.items():
            folder = write_echo_project(bench.folder / f"one-{store.partition(' ')[0]}")
            with running_gateway(folder, tools=1, env=env) as gateway:
                jobs = [
                    Job(port=server.port, requests=[echo_request()], connections=1, seconds=bench.budget.seconds)
                    for server in (gateway, bare)
                ]
                _check(load, gateway, jobs[0])
                samples = take_turns(
                    bench.budget.rounds,
                    partial(load.median_ms, gateway, jobs[0]),
                    partial(load.median_ms, bare, jobs[1]),
                )
            ours, reference = (Figure(unit=MILLISECONDS, samples=side) for side in samples)
            row = f"execute over HTTP, one at a time, {store}"
            lines.append(
                Line(says=f"{row}, p50", ours=ours, reference=reference, reference_is=ECHO_IS, bar=Bar(limit=2.0))
            )
            lines += lines_beside(row, ours, reference, ECHO_IS, BESIDE_ONE)
    return lines


def _at_once(bench: Bench) -> list[Line]:
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
            reference_is=ECHO_IS,
            bar=Bar(limit=0.6, at_least=True),
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
