"""The overview of a day with a million calls: its figures, from the rollups and from what is not rolled up yet."""

import asyncio
import sqlite3
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec

from bench.budget import Bench
from bench.figures import MILLISECONDS, Bar, Figure, Line, Sample, take_turns
from bench.inprocess import open_store, runner
from bench.subjects import ECHO
from jackfield.overview import transactions as overview_tx
from jackfield.overview.service import Overview
from jackfield.store.sqlite import SqliteStore

DAY_MINUTES = 1440
WITHIN_MS = 200

# Spread over a day up to now, of 40 tools of 8 sources, 10 keys and 5 agents; one of 50 has failed.
FILL = """
INSERT INTO calls (id, run_id, tool, source, tool_version, arguments, principal, agent, status, delivery, result,
    idempotent, attempt, owner, timeout_ms, expires_in_ms, created_at, finished_at, duration_ms)
WITH RECURSIVE
    counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < :calls),
    timed (n, ms) AS (
        SELECT n, CAST(unixepoch() AS INTEGER) * 1000 - CAST((:calls - n) * 86000000.0 / :calls AS INTEGER) FROM counted
    )
SELECT printf('call_%012x%s', ms, lower(hex(randomblob(8)))), printf('run_%012x%s', ms, lower(hex(randomblob(8)))),
    'tool_' || n % 40, 'source_' || n % 8, '0123456789abcdef0123456789abcdef', :arguments, 'key_' || n % 10,
    CASE WHEN n % 3 = 0 THEN 'agent_' || n % 5 END, CASE WHEN n % 50 = 0 THEN 'failed' ELSE 'completed' END, 'inline',
    :arguments, 0, 1, 'gw_before', 30000, 86400000, ms - 50, ms, 0.5 + n % 700
FROM timed ORDER BY 1
"""


def measure(bench: Bench) -> list[Line]:
    """Milliseconds for the last 24 hours."""
    budget, database = bench.budget, bench.folder / "overview.db"
    with runner() as loop:
        with open_store(loop, database) as store:
            pass
        fill(database, calls=budget.recorded)
        with open_store(loop, database) as store:
            loop.run(roll_up(store))
            samples = take_turns(budget.rounds, lambda: loop.run(_timed(Overview(store))))[0]
    return [
        Line(
            says=f"overview of a day with {budget.recorded:,} calls, SQLite",
            ours=Figure(unit=MILLISECONDS, samples=samples),
            bar=Bar(limit=WITHIN_MS, of_ratio=False),
        )
    ]


def fill(database: Path, *, calls: int) -> None:
    """Put a day of calls on record, quickly."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -262144"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute(FILL, {"calls": calls, "arguments": msgspec.json.encode(ECHO).decode()})


async def roll_up(store: SqliteStore) -> None:
    """As the gateway does in the background, without its pauses."""
    while (minute := await store.read(overview_tx.closed_minute)) is not None:
        await store.write(partial(overview_tx.write_minute, minute))
        await asyncio.sleep(0)


async def _timed(overview: Overview) -> Sample:
    began, cpu = time.perf_counter(), time.process_time()
    await overview.summary(DAY_MINUTES)
    return Sample(value=(time.perf_counter() - began) * 1000, cpu_us=(time.process_time() - cpu) * 1_000_000)
