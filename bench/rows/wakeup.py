"""From an accepted result to the waiter that has it, with a crowd of other calls pending beside it."""

import asyncio
import sqlite3
import time
from contextlib import closing
from functools import partial
from pathlib import Path

from msgspec import Raw

from bench.budget import Bench
from bench.figures import MILLISECONDS, Bar, Figure, Line, Sample, percentile, take_turns
from bench.inprocess import open_store, runner
from jackfield.calls import transactions as call_tx
from jackfield.calls.waiting import slot_of, start_and_wait
from jackfield.model.call import Call, CallStatus, done
from jackfield.model.ids import new_id
from jackfield.store.bus import Bus
from jackfield.store.sqlite import SqliteStore

CROWD = 100_000
TURNS = 200
WITHIN_MS = 2.0

# Pending for a day, so that no timer is due while we measure.
FILL = """
INSERT INTO calls (id, run_id, tool, source, tool_version, arguments, principal, status, delivery, first_reply,
    idempotent, attempt, timeout_ms, expires_in_ms, created_at, expires_at)
WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < :calls)
SELECT printf('call_%012x%016x', n, n), printf('run_%012x%016x', n, n), 'ask', 'space', '0', '{}', 'admin', 'pending',
    'inbox', 'pending', 0, 0, 30000, 86400000, unixepoch() * 1000, unixepoch() * 1000 + 86400000
FROM counted
"""


def measure(bench: Bench) -> list[Line]:
    """Milliseconds between the acknowledgement of a result and the return of who waits for it: the p50 of a round."""
    path = bench.folder / "crowd.db"
    with runner() as loop, open_store(loop, path) as store:
        _fill(path)
        ours, reference = take_turns(
            bench.budget.rounds, lambda: loop.run(_through_the_store(store)), lambda: loop.run(_raw_bus())
        )
    return [
        Line(
            says=f"accepted result to its waiter, p50, {CROWD:,} other calls pending, SQLite",
            ours=Figure(unit=MILLISECONDS, samples=ours),
            reference=Figure(unit=MILLISECONDS, samples=reference),
            reference_is="the bus alone",
            bar=Bar(limit=WITHIN_MS, of_ratio=False),
            note="one read per wake-up, none while it waits",
        )
    ]


def _fill(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(FILL, {"calls": CROWD})


async def _through_the_store(store: SqliteStore) -> Sample:
    took: list[float] = []
    for _ in range(TURNS):
        call = _waiting_call()
        began = asyncio.Event()
        wait = asyncio.create_task(_returned_at(store, call, began))
        await began.wait()
        await store.write(partial(call_tx.settle_submitted, call.id, done("here"), large_result=store.large_result))
        accepted = time.perf_counter()
        took.append((await wait - accepted) * 1000)
    return Sample(value=percentile(sorted(took), 0.5))


async def _returned_at(store: SqliteStore, call: Call, began: asyncio.Event) -> float:
    started = await start_and_wait(
        store,
        call.id,
        start=lambda: store.write(partial(call_tx.start_call, call)),
        on_start=lambda _call: began.set(),
        on_flip=lambda _moved: None,
    )
    returned = time.perf_counter()
    assert started.call is not None
    assert slot_of(started.call) is not None
    return returned


async def _raw_bus() -> Sample:
    bus = Bus()
    took: list[float] = []

    async def woken_at(ready: asyncio.Event) -> float:
        with bus.listen("call") as written:
            ready.set()
            await written.wait()
            return time.perf_counter()

    for _ in range(TURNS):
        ready = asyncio.Event()
        wait = asyncio.create_task(woken_at(ready))
        await ready.wait()
        published = time.perf_counter()
        bus.publish("call")
        took.append((await wait - published) * 1000)
    return Sample(value=percentile(sorted(took), 0.5))


def _waiting_call() -> Call:
    return Call(
        id=new_id("call"),
        run_id=new_id("run"),
        tool="ext",
        source="external",
        tool_version="0",
        arguments=Raw(b"{}"),
        principal="admin",
        status=CallStatus.WAITING,
        waiter="gw_bench",
        agent="ada",
    )
