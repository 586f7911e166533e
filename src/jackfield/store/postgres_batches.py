"""Many scripts in one PostgreSQL transaction, in as few round trips as their order allows.

A batch touches rows in the order of their ids: two batches that want the same rows then wait for each other in turn and
never in a circle. The row of a script is read off the values of its first statement. A script that names no row may
lock several, so it gets a transaction of its own. Runs that wait for calls come after everything else, then spaces,
then the audit log: a script that opens with one, or comes to one after its call, waits there until the others are as
far, and then the batch goes from run to run, from space to space, and at last to the audit log.
Neighbours that open with the same statement about different rows travel together, and their answers are told apart by
id; that is what makes a batch cheap.
Above: `postgres.py`. Below: asyncpg.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import asyncpg
from msgspec import Struct

from jackfield.store.scripts import EVENT, WAKE, Ask, EventRecorder, Row, Script, Statement, make_statement

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = PoolConnectionProxy[asyncpg.Record]

T = TypeVar("T")
# Values that name the row a statement waits for, if another transaction has it.
ROW_NAMES = (("id",), ("principal", "key"), ("agent", "event_id"))
LATER = ("journal_id", "space_id", "audit_gateway")
"""Values that name a row which is taken after all others, where a statement names no other: a run that waits for calls,
then a space, then the chain of the audit log."""
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
ROLLBACK_SECONDS = 5.0
_ANSWERS_WITH_ID = re.compile(r"\bRETURNING (\*|id\b)")


class CommitLost(Exception):
    """The answer to COMMIT did not come: the batch may be on disk or not."""


class Job(Struct, frozen=True, eq=False):
    """One script on its way through a writer, and who waits for it."""

    script: Callable[[], Script[Any]]
    reply: "asyncio.Future[Any]"
    topics: list[str]
    """What is published after the commit; the script may add to it."""
    recorder: EventRecorder | None = None


class StartedScript(Struct, frozen=True, eq=False):
    """A script that has said what it wants first, and has not been answered yet."""

    job: Job
    steps: Script[Any]
    statement: Statement
    arguments: list[Any]
    row: str | None
    """What it may have to wait for; None: no single row."""
    stage: int
    """When it is taken: 0 at first, else the place in `LATER`, from 1."""


class Scripts:
    """Runs scripts of known statements on a connection."""

    def __init__(self, known: Mapping[str, Statement]) -> None:
        self._known = known
        self._told_apart = {name for name, statement in known.items() if _ANSWERS_WITH_ID.search(statement.sql)}

    def begin(self, job: Job) -> StartedScript:
        """The script at its first statement; `StopIteration` with its result where it has none."""
        steps = job.script()
        ask = next(steps)
        while ask[0] == WAKE:
            job.topics.append(ask[1]["topic"])
            ask = steps.send(())
        return self._begun(job, steps, ask)

    def _begun(self, job: Job, steps: Script[Any], ask: Ask) -> StartedScript:
        statement, arguments = self._prepared(ask)
        stage = _stage_of(ask)
        row = str(_storable(ask[1][LATER[stage - 1]])) if stage else _row_of(ask)
        return StartedScript(job, steps, statement, arguments, row, stage)

    async def run(
        self, connection: "Connection", script: Callable[[], Script[T]], *, topics: list[str] | None = None
    ) -> T:
        """Run one script to its end, in whatever transaction there is."""
        steps, topics = script(), [] if topics is None else topics
        try:
            ask = next(steps)
            while True:
                ask = steps.send(await self._answer(connection, ask, topics=topics))
        except StopIteration as end:
            result: T = end.value
            return result

    async def commit(self, connection: "Connection", begun: Sequence[StartedScript]) -> list[tuple[Job, Any]]:
        """All of them in one transaction, or none: each job with what its script came to.

        `CommitLost` says that nobody knows; any other error that nothing was written.
        """
        await connection.execute(BEGIN)
        try:
            done = await self._run_all(connection, begun)
        except BaseException:
            await _roll_back(connection)
            raise
        try:
            said = await connection.execute("COMMIT")
        except Exception as fault:
            if isinstance(fault, asyncpg.PostgresError) and fault.severity_en == "ERROR":
                raise  # the server's own word that it rolled back
            drop(connection)
            raise CommitLost from fault
        assert said == "COMMIT", f"PostgreSQL answered {said} to a COMMIT"
        return done

    async def _run_all(self, connection: "Connection", begun: Sequence[StartedScript]) -> list[tuple[Job, Any]]:
        """First what concerns none of what is taken later, up to where it comes to one; then stage by stage."""
        done: list[tuple[Job, Any]] = []
        waiting = list(begun)
        for stage in range(len(LATER) + 1):
            now, waiting = [one for one in waiting if one.stage == stage], [one for one in waiting if one.stage > stage]
            for run in self._runs(now):
                for one, rows in await self._answers(connection, run):
                    come_to = await self._go_on(connection, one, rows, done)
                    waiting += [] if come_to is None else [come_to]
        return done

    def _runs(self, begun: Sequence[StartedScript]) -> Iterator[list[StartedScript]]:
        run: list[StartedScript] = []
        for one in sorted(begun, key=lambda one: one.row or ""):
            if run and not self._are_neighbours(run[-1], one):
                yield run
                run = []
            run.append(one)
        if run:
            yield run

    def _are_neighbours(self, first: StartedScript, second: StartedScript) -> bool:
        same = first.statement is second.statement and first.statement.name in self._told_apart
        return same and first.row != second.row

    async def _answers(
        self, connection: "Connection", run: list[StartedScript]
    ) -> list[tuple[StartedScript, Sequence[Row]]]:
        """What neighbours are told to what each has asked."""
        sql = run[0].statement.sql
        if len(run) == 1:
            return [(run[0], _as_rows(await connection.fetch(sql, *run[0].arguments)))]
        found = _as_rows(await connection.fetchmany(sql, [one.arguments for one in run]))
        by_id = {row["id"]: row for row in found}
        return [(one, [by_id[one.row]] if one.row in by_id else []) for one in run]

    async def _go_on(
        self,
        connection: "Connection",
        begun: StartedScript,
        rows: Sequence[Row],
        done: list[tuple[Job, Any]],
    ) -> StartedScript | None:
        """Run a script to its end, and note what it came to; or to where it asks for a row of a later stage."""
        job, steps = begun.job, begun.steps
        try:
            while True:
                ask = steps.send(rows)
                if _stage_of(ask) > begun.stage:
                    return self._begun(job, steps, ask)
                rows = await self._answer(connection, ask, topics=job.topics, recorder=job.recorder)
        except StopIteration as end:
            done.append((job, end.value))
            return None

    async def _answer(
        self, connection: "Connection", ask: Ask, *, topics: list[str], recorder: EventRecorder | None = None
    ) -> Sequence[Row]:
        if ask[0] == WAKE:
            topics.append(ask[1]["topic"])
            return ()
        if ask[0] == EVENT:
            if recorder is not None and (event := ask[1]["event"]).type in recorder.types:
                await self.run(connection, partial(recorder.script, event), topics=topics)
            return ()
        statement, arguments = self._prepared(ask)
        return _as_rows(await connection.fetch(statement.sql, *arguments))

    def _prepared(self, ask: Ask) -> tuple[Statement, list[Any]]:
        wanted, values = ask
        statement = self._known[wanted] if isinstance(wanted, str) else make_statement(wanted.name, wanted.text, "$")
        return statement, [_storable(values[name]) for name in statement.parameters]


def _row_of(ask: Ask) -> str | None:
    values = ask[1]
    for names in ROW_NAMES:
        if all(name in values for name in names):
            return "\n".join(str(_storable(values[name])) for name in names)
    return None


def _stage_of(ask: Ask) -> int:
    values = ask[1]
    stage = next((number for number, name in enumerate(LATER, 1) if name in values), 0)
    return stage if stage and _row_of(ask) is None else 0


def _storable(value: Any) -> Any:
    """PostgreSQL's text has no NUL. JSON never has one either; a tool's error message may."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value


def _as_rows(records: Sequence[asyncpg.Record]) -> Sequence[Row]:
    return cast("Sequence[Row]", records)


async def _roll_back(connection: "Connection") -> None:
    """Leave the transaction, or the connection: a server that sees its client go rolls back by itself."""
    try:
        await connection.execute("ROLLBACK", timeout=ROLLBACK_SECONDS)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        drop(connection)


def drop(connection: "Connection") -> None:
    """Let go of a connection that cannot be trusted. The pool may have noticed first; then there is nothing to do."""
    with suppress(asyncpg.InterfaceError):
        connection.terminate()
