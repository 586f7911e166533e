"""Ten thousand responses that wait for somebody: what they cost meanwhile, and how soon one goes on with its answer.

Beside them, how soon a program does that waits for a call of its own.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2

from bench.budget import Bench
from bench.figures import KILOBYTES, MILLISECONDS, RATIO, Bar, Figure, Line, Sample, percentile
from bench.inprocess import gateway_here, runner
from bench.processes import BenchError
from bench.subjects import write_echo_project
from jackfield.gateway.gateway import Gateway
from jackfield.gateway.server import build_app
from jackfield.llm.types import Delta, ModelRequest

PARKED = 10_000
ANSWERED = 40
"""In each round, one after the other."""
PROGRAMS = 5
"""The same for programs."""
BETWEEN = 1.0
"""Seconds between two programs: one process is kept ready, and the next one has to start."""
IDLE_SECONDS = 5.0
NEXT_STEP_MS = 20.0
KEY = "key-of-the-bench"
CONFIG = f"""\
[auth.keys.bench]
key = "{KEY}"
scopes = ["admin"]

[programs]
enabled = true

[models.mind]
provider = "scripted"
script = "mind.toml"

[[tools]]
name = "ask"
description = "Answered from outside."
executionType = "external"
visible = false
isAsync = true
inputSchema = {{ type = "object" }}
"""
SCRIPT = """\
[[turns]]
when = { user = "ask" }
calls = [{ tool = "ask" }]
[otherwise]
say = "Thank you."
"""
# Each row of the one that is there, under other ids: `{run}` and `{call}` make them.
CLONES = """\
CREATE TEMP TABLE numbers AS WITH RECURSIVE counted (n) AS
    (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < :count) SELECT n AS clone FROM counted;
INSERT INTO responses (id, principal, status, previous_id, resource, input, output, owner, is_background, created_at)
    SELECT {run}, principal, status, previous_id, replace(resource, :run, {run}), input, output, owner, is_background,
    created_at FROM responses, numbers WHERE id = :run;
INSERT INTO response_events
    SELECT {run}, first, last, replace(replace(events, :run, {run}), :call, {call})
    FROM response_events, numbers WHERE response_id = :run;
INSERT INTO runs (id, kind, principal, status, epoch, tries, awaited, request, created_at, parked_at)
    SELECT {run}, kind, principal, status, epoch, tries, awaited, request, created_at, parked_at
    FROM runs, numbers WHERE id = :run;
INSERT INTO steps (cycle_id, n, message, created_at)
    SELECT {run}, n, replace(replace(message, :run, {run}), :call, {call}), created_at
    FROM steps, numbers WHERE cycle_id = :run;
INSERT INTO calls (id, run_id, tool, source, tool_version, kind, arguments, principal, cycle_id, step, idx, awaited_by,
    status, idempotent, attempt, expires_at, timeout_ms, expires_in_ms, created_at)
    SELECT {call}, {run}, tool, source, tool_version, kind, arguments, principal, {run}, step, idx, {run},
    status, idempotent, attempt, expires_at, timeout_ms, expires_in_ms, created_at FROM calls, numbers WHERE id = :call
"""
RUN, CALL = "printf('resp_%028x', clone)", "printf('call_%028x', clone)"


def measure(bench: Bench) -> list[Line]:
    """Memory, statements and wake-ups, in a whole gateway on SQLite."""
    folder = write_echo_project(bench.folder / "parked")
    with (folder / "jackfield.toml").open("a", encoding="utf-8") as config:
        config.write(CONFIG)
    (folder / "mind.toml").write_text(SCRIPT, encoding="utf-8")
    path = folder / "parked.db"
    with runner() as loop, gateway_here(loop, folder, store=f"sqlite:///{path}") as gateway:
        place = Place(gateway)
        loop.run(place.park_one())
        alone = loop.run(_statements(gateway))
        before = _resident_kb()
        loop.run(asyncio.to_thread(_clone, path, place))
        many = loop.run(_statements(gateway))
        grown = max(_resident_kb() - before, 0.0) / PARKED
        took = [loop.run(place.answered(number)) for number in range(bench.budget.rounds + 1)][1:]
        programs = [loop.run(place.programs_answered()) for _ in range(bench.budget.rounds)]
        loop.run(place.client.aclose())
    return [
        Line(
            says=f"an answer to the next question to the model, p50, {PARKED:,} parked responses, SQLite",
            ours=Figure(unit=MILLISECONDS, samples=tuple(took)),
            bar=Bar(limit=NEXT_STEP_MS, of_ratio=False),
            note="from the acknowledged answer: it is claimed, its journal and stream are read, the model is asked",
        ),
        Line(
            says="an answer to the end of the program that waited for it, p50, SQLite",
            ours=Figure(unit=MILLISECONDS, samples=tuple(programs)),
            bar=Bar(limit=NEXT_STEP_MS, of_ratio=False),
            note="from the acknowledged answer: it is claimed, run again in a process that is kept ready, "
            f"and ended; {BETWEEN:.0f} s apart, since a process that is not ready has to start first",
        ),
        Line(
            says=f"memory of one parked response, of {PARKED:,}",
            ours=Figure(unit=KILOBYTES, samples=(Sample(value=max(grown, 0.001)),)),
            note="the process's growth, the cache of the database included; none has a task, a timer or an object",
        ),
        Line(
            says=f"scripts given to the store in {IDLE_SECONDS:.0f} s, nothing being done, {PARKED:,} parked responses",
            ours=Figure(unit=RATIO, samples=(Sample(value=many),)),
            reference=Figure(unit=RATIO, samples=(Sample(value=alone),)),
            reference_is="with one",
            bar=Bar(limit=1.25),
            note="the gateway's own timers; no parked response is polled",
        ),
    ]


class Place:
    """The gateway's HTTP interface, and a response that waits."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        transport = httpx2.ASGITransport(build_app(gateway))
        headers = {"x-api-key": KEY}
        self.client = httpx2.AsyncClient(transport=transport, base_url="http://localhost:8420", headers=headers)
        self.run = self.call = ""
        self._asked = asyncio.Event()

    async def park_one(self) -> None:
        model = await self._gateway.models.get("mind")
        model.stream = self._listened_to(model.stream)  # type: ignore[method-assign,assignment]
        body = {"model": "mind", "input": "ask", "background": True, "tools": [{"type": "jackfield:catalog"}]}
        self.run = (await self.client.post("/v1/responses", json=body)).json()["id"]

        async def is_parked() -> bool:
            found = (await self.client.get("/api/v1/calls", params={"run_id": self.run})).json()["calls"]
            self.call = found[0]["id"] if found else ""
            return bool(found)

        await _until(is_parked)

    def _listened_to(self, stream: Callable[[ModelRequest], Any]) -> Callable[[ModelRequest], Any]:
        async def asked(request: ModelRequest) -> AsyncGenerator[Delta]:
            self._asked.set()
            async for delta in stream(request):
                yield delta

        return asked

    async def answered(self, number: int) -> Sample:
        took = []
        for n in range(number * ANSWERED + 1, (number + 1) * ANSWERED + 1):
            self._asked.clear()
            body = {"callId": f"call_{n:028x}", "result": "here"}
            answer = await self.client.post(f"/api/runs/resp_{n:028x}/tool-results", json=body)
            accepted = time.perf_counter()
            if not answer.is_success:
                raise BenchError(f"An answer was refused: {answer.text}")
            await self._asked.wait()
            took.append((time.perf_counter() - accepted) * 1000)
        return Sample(value=percentile(sorted(took), 0.5))

    async def programs_answered(self) -> Sample:
        took = []
        for _ in range(PROGRAMS):
            body = {"arguments": {"code": "return await tools.ask()"}}
            made = (await self.client.post("/api/v1/tools/run_program/execute", json=body)).json()
            call: dict[str, Any] = {}

            async def waits(call: dict[str, Any] = call, run_id: str = made["run_id"]) -> bool:
                calls = (await self.client.get("/api/v1/calls", params={"run_id": run_id, "tool": "ask"})).json()[
                    "calls"
                ]
                call.update(calls[0] if calls else {})
                return bool(calls)

            await _until(waits)
            await asyncio.sleep(BETWEEN)
            took.append(await self._until_over(call, made["call_id"]))
        return Sample(value=percentile(sorted(took), 0.5))

    async def _until_over(self, call: dict[str, Any], program: str) -> float:
        with self._gateway.store.bus.listen(program) as written:
            body = {"callId": call["id"], "result": "here"}
            answer = await self.client.post(f"/api/runs/{call['run_id']}/tool-results", json=body)
            accepted = time.perf_counter()
            if not answer.is_success:
                raise BenchError(f"An answer was refused: {answer.text}")
            await written.wait()
            return (time.perf_counter() - accepted) * 1000


def _resident_kb() -> float:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def _clone(path: Path, place: Place) -> None:
    with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
        for statement in CLONES.replace("{run}", RUN).replace("{call}", CALL).split(";"):
            connection.execute(statement, {"count": PARKED, "run": place.run, "call": place.call})


async def _statements(gateway: Gateway) -> float:
    """How many scripts the store is given while nobody does anything."""
    store, counted = gateway.store, 0
    read, write = store.read, store.write

    def counting(act: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        def counts(script: Any) -> Awaitable[Any]:
            nonlocal counted
            counted += 1
            return act(script)

        return counts

    store.read, store.write = counting(read), counting(write)  # type: ignore[method-assign,assignment]
    try:
        await asyncio.sleep(IDLE_SECONDS)
    finally:
        store.read, store.write = read, write  # type: ignore[method-assign]
    return counted


async def _until(ask: Callable[[], Awaitable[bool]]) -> None:
    until = time.monotonic() + 30
    while not await ask():
        if time.monotonic() > until:
            raise BenchError("It did not happen within 30 s.")
        await asyncio.sleep(0.01)
