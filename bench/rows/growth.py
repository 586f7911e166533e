"""The cost of a call as records gather: the same calls with 1,000,000 of them on record, and with 100."""

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec

from bench.budget import Bench
from bench.figures import MICROSECONDS, Bar, Figure, Line, Sample, take_turns
from bench.inprocess import calling, cost, gateway_here, open_store, runner
from bench.subjects import ECHO, write_echo_project

FEW = 100
SHARE = 4
"""Rounds are that much shorter and more: each leaves its own calls on record, and few must stay few."""

# Ids as `new_id` makes them, ten a millisecond up to now, in the order in which calls come in.
FILL = """
INSERT INTO calls (id, run_id, tool, source, tool_version, arguments, principal, status, delivery, result,
    idempotent, attempt, owner, timeout_ms, expires_in_ms, created_at, finished_at, duration_ms)
WITH RECURSIVE
    counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < :calls),
    timed (n, ms) AS (SELECT n, CAST(unixepoch() AS INTEGER) * 1000 - (:calls - n) / 10 FROM counted)
SELECT printf('call_%012x%s', ms, lower(hex(randomblob(8)))), printf('run_%012x%s', ms, lower(hex(randomblob(8)))),
    'echo', 'local', '0123456789abcdef0123456789abcdef', :arguments, 'admin', 'completed', 'inline', :arguments,
    0, 1, 'gw_before', 30000, 86400000, ms, ms + 1, 0.5
FROM timed ORDER BY 1
"""


def measure(bench: Bench) -> list[Line]:
    """Microseconds per call through the pipeline, 64 at once, durably."""
    budget, folder = bench.budget, write_echo_project(bench.folder / "growth")
    with runner() as loop:
        for name, calls in (("few", FEW), ("many", budget.recorded)):
            with open_store(loop, folder / f"{name}.db"):
                pass
            fill(folder / f"{name}.db", calls=calls)
        with (
            gateway_here(loop, folder, store="sqlite:///few.db") as few,
            gateway_here(loop, folder, store="sqlite:///many.db") as many,
        ):
            measured = partial(cost, at_once=budget.connections, seconds=budget.seconds / SHARE)

            def cost_with_few() -> Sample:
                forget(folder / "few.db", all_but=FEW)
                return loop.run(measured(calling(few.pipeline)))

            ours, reference = take_turns(
                budget.rounds * SHARE, lambda: loop.run(measured(calling(many.pipeline))), cost_with_few
            )
    return [
        Line(
            says=f"one call in process, SQLite, with {budget.recorded:,} calls on record",
            ours=Figure(unit=MICROSECONDS, samples=ours),
            reference=Figure(unit=MICROSECONDS, samples=reference),
            reference_is=f"with {FEW} on record",
            bar=Bar(limit=1.1),
        )
    ]


def forget(database: Path, *, all_but: int) -> None:
    """Delete what the last round left."""
    with closing(sqlite3.connect(database, timeout=10)) as connection, connection:
        connection.execute(
            "DELETE FROM calls WHERE id NOT IN (SELECT id FROM calls ORDER BY id LIMIT :kept)", {"kept": all_but}
        )


def fill(database: Path, *, calls: int) -> None:
    """Put that many settled calls on record, quickly: indexes are left out and made again over all of them."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -262144"):
            connection.execute(f"PRAGMA {pragma}")
        indexes = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'calls' AND sql IS NOT NULL"
        ).fetchall()
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}")
        connection.execute(FILL, {"calls": calls, "arguments": msgspec.json.encode(ECHO).decode()})
        for _, sql in indexes:
            connection.execute(sql)
