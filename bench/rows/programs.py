"""Programs: how soon one is over that does nothing, and what a call costs in one, beside a worker's `call_tool`."""

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec

from bench.budget import Bench
from bench.figures import MICROSECONDS, MILLISECONDS, Bar, Figure, Line, Sample, percentile, take_turns
from bench.inprocess import gateway_here, runner
from bench.processes import BenchError
from bench.subjects import ECHO, ECHO_FILE
from jackfield.calls.requests import CallRequest
from jackfield.gateway.gateway import Gateway
from jackfield.identity.keys import ADMIN
from jackfield.model.call import CallStatus

CALLS = 300
STARTS = 20
CONFIG = """\
[programs]
enabled = true
max_calls = 100_000

[sources.local]
kind = "files"
path = "tools/*.py"
"""
WORKER_FILE = f'''\
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""Calls the other tool, one call after another."""

import time

from jackfield_tool import call_tool


async def in_worker(times: int) -> float:
    """Seconds that so many calls took."""
    began = time.perf_counter()
    for _ in range(times):
        await call_tool("echo", **{ECHO!r})
    return time.perf_counter() - began
'''
LOOP = f"""\
for _ in range(%d):
    await tools.echo(**{ECHO!r})
"""


def measure(bench: Bench) -> list[Line]:
    """One after another, on each store."""
    lines: list[Line] = []
    with runner() as loop:
        for name, store in (("memory store", "memory:"), ("SQLite", "sqlite:///programs.db")):
            folder = _project(bench.folder / f"programs-{name[:6]}")
            with gateway_here(loop, folder, store=store) as gateway:
                lines += _on(bench, loop, gateway, name)
    return lines


def _on(bench: Bench, loop: asyncio.Runner, gateway: Gateway, name: str) -> list[Line]:
    begun, (inner, worker) = (
        take_turns(bench.budget.rounds, lambda: loop.run(_starts(gateway)))[0],
        take_turns(
            bench.budget.rounds, lambda: loop.run(_inner_calls(gateway)), lambda: loop.run(_worker_calls(gateway))
        ),
    )
    return [
        Line(
            says=f"a program that does nothing, warm, from call to record, {name}, p50",
            ours=Figure(unit=MILLISECONDS, samples=begun),
            bar=Bar(limit=30, of_ratio=False),
        ),
        Line(
            says=f"one call in a program, one after another, {name}",
            ours=Figure(unit=MICROSECONDS, samples=inner),
            reference=Figure(unit=MICROSECONDS, samples=worker),
            reference_is="`call_tool` in a worker",
            bar=Bar(limit=1.5),
        ),
    ]


async def _starts(gateway: Gateway) -> Sample:
    took = sorted([await _timed(gateway, "return 1") for _ in range(STARTS)])
    return Sample(value=percentile(took, 0.5) * 1000)


async def _inner_calls(gateway: Gateway) -> Sample:
    """Less what a program takes that makes none."""
    empty = min([await _timed(gateway, LOOP % 0) for _ in range(3)])
    cpu = time.process_time()
    took = await _timed(gateway, LOOP % CALLS) - empty
    return Sample(value=took / CALLS * 1e6, cpu_us=(time.process_time() - cpu) / CALLS * 1e6)


async def _worker_calls(gateway: Gateway) -> Sample:
    cpu = time.process_time()
    took = await _result(gateway, "in_worker", {"times": CALLS})
    return Sample(value=float(took) / CALLS * 1e6, cpu_us=(time.process_time() - cpu) / CALLS * 1e6)


async def _timed(gateway: Gateway, code: str) -> float:
    """Seconds that a program took which could begin at once."""
    if gateway.programs is not None:
        await gateway.programs.warm()
    began = time.perf_counter()
    await _result(gateway, "run_program", {"code": code})
    return time.perf_counter() - began


async def _result(gateway: Gateway, tool: str, arguments: dict[str, Any]) -> Any:
    call = await gateway.pipeline.call(CallRequest(tool=tool, arguments=arguments, principal=ADMIN, within_ms=120_000))
    if call.status is not CallStatus.COMPLETED:
        raise BenchError(f"{tool} was not measured: {call.error}")
    return msgspec.json.decode(call.result or b"null")


def _project(folder: Path) -> Path:
    tools = folder / "tools"
    tools.mkdir(parents=True)
    (folder / "jackfield.toml").write_text(CONFIG, encoding="utf-8")
    (tools / "echo.py").write_text(ECHO_FILE, encoding="utf-8")
    (tools / "worker.py").write_text(WORKER_FILE, encoding="utf-8")
    return folder
