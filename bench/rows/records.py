"""Durable call records: the store's own way beside what SQLite gives to a loop that does nothing else."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from bench.budget import Bench
from bench.figures import RATE, Figure, Line, Sample, take_turns
from bench.inprocess import cost, open_store, runner
from bench.subjects import ECHO
from jackfield.calls import transactions as call_tx
from jackfield.calls.rows import identity_values, outcome_values
from jackfield.calls.transactions import final_status
from jackfield.model.call import Call, CallStatus, done
from jackfield.model.ids import new_id
from jackfield.store.inserts import WORDS
from jackfield.store.scripts import load_statements
from jackfield.store.sqlite import SETUP, SqliteStore

ARGUMENTS = Raw(msgspec.json.encode(ECHO))
OUTCOME = done(ECHO)


def measure(bench: Bench) -> list[Line]:
    """Records a second, 64 under way at once; the same rows, the same indexes, the same syncs on all sides."""
    budget, folder = bench.budget, bench.folder
    at_once, seconds = budget.connections, budget.seconds / 2
    with (
        runner() as loop,
        open_store(loop, folder / "ours.db") as store,
        _raw_database(loop, folder / "batches.db") as batches,
        _raw_database(loop, folder / "singles.db") as singles,
    ):
        ours, by_batch, one_by_one = take_turns(
            budget.rounds,
            lambda: loop.run(_through_the_store(store, at_once=at_once, seconds=seconds)),
            partial(_raw_loop, batches, at_once=at_once, seconds=seconds),
            partial(_raw_loop, singles, at_once=1, seconds=seconds),
        )
    return [
        Line(
            says=f"durable call records, {at_once} at once",
            ours=Figure(unit=RATE, samples=ours),
            reference=Figure(unit=RATE, samples=samples),
            reference_is=f"sqlite3 loop, {how}",
        )
        for how, samples in ((f"executemany, a commit per {at_once}", by_batch), ("a commit per row", one_by_one))
    ]


@contextmanager
def _raw_database(loop: asyncio.Runner, path: Path) -> Generator[sqlite3.Connection]:
    """A database with our tables and indexes, opened as our writer opens it."""
    with open_store(loop, path):
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for pragma in SETUP:
            connection.execute(pragma)
        yield connection


async def _through_the_store(store: SqliteStore, *, at_once: int, seconds: float) -> Sample:
    def record() -> asyncio.Future[Call]:
        return store.write(
            call_tx.SettledCall(_call(), OUTCOME, age_ms=1, duration_ms=1.0, large_result=store.large_result)
        )

    sample = await cost(record, at_once=at_once, seconds=seconds)
    return Sample(value=1e6 / sample.value, cpu_us=sample.cpu_us)


def _raw_loop(connection: sqlite3.Connection, *, at_once: int, seconds: float) -> Sample:
    """`at_once` rows in one transaction, over and over."""
    sql, row = _insert()
    done, began, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(sql, [row() for _ in range(at_once)])
        connection.execute("COMMIT")
        done += at_once
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    return Sample(value=done / wall, cpu_us=cpu / done * 1e6)


def _insert() -> tuple[str, Callable[[], tuple[Any, ...]]]:
    """The store's own statement without reading anything back, and its values, of which only the ids are new."""
    statement = load_statements(WORDS, "?")["insert_settled_call"]
    call = _call()
    values = identity_values(call) | outcome_values(OUTCOME)
    values |= {"status": final_status(OUTCOME).value, "age_ms": 1, "duration_ms": 1.0}
    assert statement.parameters[:2] == ("id", "run_id")
    rest = tuple(values[name] for name in statement.parameters[2:])
    return statement.sql.partition(" RETURNING ")[0], lambda: (new_id("call"), new_id("run"), *rest)


def _call() -> Call:
    return Call(
        id=new_id("call"),
        run_id=new_id("run"),
        tool="echo",
        source="local",
        tool_version="0" * 32,
        arguments=ARGUMENTS,
        principal="admin",
        status=CallStatus.RUNNING,
        attempt=1,
        owner="gw_bench",
    )
