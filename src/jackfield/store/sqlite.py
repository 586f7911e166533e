"""A database in one file, for one gateway. One writer thread commits whatever has gathered, in one transaction.

The event loop hands scripts to the writer through a bounded queue. The writer takes all that wait, runs them in one
transaction and syncs the file once (WAL, `synchronous=FULL`); only then is any of them acknowledged. The quick way
runs them bare. If one raises, the transaction is rolled back and the batch run again with a savepoint around each, so
that the bad one fails alone. Reads go to a few threads with connections of their own.

What is committed lies in the log (`-wal`) at first. The writer moves it into the database and empties the log when
there is nothing else to do, and in any case after half a minute: the log stays small, and a plain copy of the database
file lacks only what is newer than that.
"""

import asyncio
import fcntl
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

from msgspec import Struct

from jackfield.errors import ConfigError, NotReady, StoreBusy, Unavailable
from jackfield.protocol.large_results import LARGE_RESULT
from jackfield.store.base import Store, WriteReply
from jackfield.store.inserts import MOST, WORDS, insert_all, insert_together
from jackfield.store.scripts import (
    EVENT,
    WAKE,
    EventRecorder,
    InsertScript,
    Row,
    Script,
    Statement,
    load_migrations,
    load_statements,
    make_statement,
)

log = logging.getLogger("jackfield.store")

T = TypeVar("T")
QUEUE_LIMIT = 10_000
BATCH_LIMIT = 1_000
READERS = 2
LOG_KEPT_SECONDS = 10.0
"""How long a commit lies in the log before it is moved into the database, if the writer has a moment then."""
LOG_KEPT_AT_MOST = 30.0
"""The same when it has none."""
IDLE_SECONDS = 0.5
"""How long nothing is written before the writer has a moment."""
CHECKPOINT_WAITS_MS = 200
"""How long emptying the log waits for readers; while it does, nothing is written."""
BUSY_TIMEOUT_MS = 5000
WIDE = 16
"""Columns of a row from which on it is worth a dictionary."""
SETUP = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA wal_autocheckpoint = 4000",
    "PRAGMA cache_size = -65536",
    "PRAGMA temp_store = MEMORY",
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}",
)


class _Job(Struct, frozen=True, eq=False):
    """One script on its way through the writer, and who waits for it."""

    script: Callable[[], Script[Any]]
    reply: "asyncio.Future[Any]"
    topics: list[str]
    """What is published after the commit; the script may add to it."""
    row: tuple[object, ...] | None = None
    """All that the script writes, if it is one row: many of these are one statement."""
    recorder: EventRecorder | None = None


_Result = tuple[_Job, Any, BaseException | None]


class SqliteStore(Store):
    """Calls in a file; a lock beside it keeps a second gateway out."""

    def __init__(self, path: Path, *, large_result: int = LARGE_RESULT) -> None:
        super().__init__(large_result=large_result)
        self._path = path
        self._statements = load_statements(WORDS, "?")
        self._queue: SimpleQueue[list[_Job] | None] = SimpleQueue()
        self._gathered: list[_Job] = []
        self._is_writing = False
        self._drained = asyncio.Event()
        self._drained.set()
        self._waiting = 0
        self._writer: threading.Thread | None = None
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="jackfield-read")
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._lock: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        connection = await asyncio.to_thread(self._prepare)
        self._writer = threading.Thread(
            target=self._write_batches, args=(connection,), name="jackfield-write", daemon=True
        )
        self._writer.start()

    async def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            await self._drained.wait()
            self._queue.put(None)
            await asyncio.to_thread(writer.join)
        await asyncio.to_thread(self._readers.shutdown)
        for connection in self._opened:
            connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write(self, script: Callable[[], Script[T]]) -> asyncio.Future[T]:
        if self._writer is None or self._loop is None:
            raise NotReady("The store is closed: the gateway is stopping. Try again when it is back.")
        if self._waiting >= QUEUE_LIMIT:
            raise StoreBusy(f"{QUEUE_LIMIT} writes wait for the disk already. Try again in a moment.")
        reply: WriteReply[T] = WriteReply(loop=self._loop)
        self._waiting += 1
        self._drained.clear()
        # The row is made here, on the event loop, so that the writer has nothing to compute.
        row = self._row_of(script) if isinstance(script, InsertScript) else None
        self._gathered.append(_Job(script, reply, [], row, self.recorder))
        if len(self._gathered) == 1 and not self._is_writing:
            self._loop.call_soon(self._hand_over)
        return reply

    def _row_of(self, script: InsertScript[Any]) -> tuple[object, ...] | None:
        if self.recorder is not None and (event := script.event()) is not None and self.records(event.type):
            return None
        return script.row()

    @property
    def queued(self) -> int:
        return self._waiting

    def _hand_over(self) -> None:
        """Give the writer all that has gathered. It has one batch at a time, so each wakes it once."""
        if self._gathered and not self._is_writing:
            self._is_writing = True
            self._queue.put(self._gathered[:BATCH_LIMIT])
            del self._gathered[:BATCH_LIMIT]

    async def read(self, script: Callable[[], Script[T]]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._read_here, script)

    def _read_here(self, script: Callable[[], Script[T]]) -> T:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
        return run_script(connection, script, self._statements, topics=[])

    def _prepare(self) -> sqlite3.Connection:
        """Lock, connect, migrate: everything that can fail at the start, with a sentence for each."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = take_lock(self._path)
            if not self._path.exists():
                self._path.touch(mode=0o600)  # calls are for nobody else's user; SQLite's other files follow it
            connection = self._connect()
            migrate(connection, self._path.name)
        except (sqlite3.Error, OSError) as fault:
            why = fault.strerror if isinstance(fault, OSError) else fault
            raise ConfigError(
                f"The database {self._path.name} cannot be used: {why}. "
                "Check that it is a Jackfield database and that its folder can be written."
            ) from None
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, cached_statements=256)
        self._opened.append(connection)
        connection.row_factory = sqlite3.Row
        for pragma in SETUP:
            connection.execute(pragma)
        return connection

    def _write_batches(self, connection: sqlite3.Connection) -> None:
        """The writer's life: take what waits, commit it, say so; until told to stop."""
        log_since: float | None = time.monotonic()  # what a gateway that was killed has left there
        while (batch := self._next_batch(log_since)) is not None:
            if batch:
                results = commit_batch(connection, batch, self._statements)
                assert self._loop is not None
                self._loop.call_soon_threadsafe(self._acknowledge, results)
            now = time.monotonic()
            if log_since is None:
                log_since = now
            if not batch or now - log_since > LOG_KEPT_AT_MOST:
                log_since = None if empty_log(connection) else now

    def _next_batch(self, log_since: float | None) -> list[_Job] | None:
        """What is to be written; nothing when it is time to empty the log; None when the store closes."""
        if log_since is None:
            return self._queue.get()
        due = log_since + LOG_KEPT_SECONDS - time.monotonic()
        try:
            return self._queue.get(timeout=max(IDLE_SECONDS, due))
        except Empty:
            return []

    def _acknowledge(self, results: list[_Result]) -> None:
        self._is_writing = False
        self._hand_over()  # first, so that the disk works while the loop does
        self._waiting -= len(results)
        if not self._waiting:
            self._drained.set()
        for job, value, error in results:
            if not job.reply.done():
                if error is not None:
                    job.reply.set_exception(error)
                elif job.row is not None and isinstance(value, int) and isinstance(job.script, InsertScript):
                    job.reply.set_result(job.script.written(value))
                else:
                    job.reply.set_result(value)
            if error is None:
                for topic in job.topics:
                    self.bus.publish(topic)


def _run_job(connection: sqlite3.Connection, job: _Job, known: dict[str, Statement]) -> Any:
    return run_script(connection, job.script, known, topics=job.topics, recorder=job.recorder)


def run_script(
    connection: sqlite3.Connection,
    script: Callable[[], Script[T]],
    known: dict[str, Statement],
    *,
    topics: list[str],
    recorder: EventRecorder | None = None,
) -> T:
    """Run a script to its end on this connection. Whom it wakes is added to `topics`."""
    steps = script()
    try:
        wanted, values = next(steps)
        while True:
            if wanted == WAKE:
                topics.append(values["topic"])
                wanted, values = steps.send(())
                continue
            if wanted == EVENT:
                if recorder is not None and (event := values["event"]).type in recorder.types:
                    run_script(connection, partial(recorder.script, event), known, topics=topics)
                wanted, values = steps.send(())
                continue
            statement = known[wanted] if isinstance(wanted, str) else make_statement(wanted.name, wanted.text, "?")
            cursor = connection.execute(statement.sql, [values[key] for key in statement.parameters])
            rows: Sequence[Row] = _by_name(cursor.fetchall())
            wanted, values = steps.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result


def _by_name(rows: list[sqlite3.Row]) -> Sequence[Row]:
    """`sqlite3.Row` looks for a name among all columns, one after another: too long for a call's sixty."""
    if not rows or len(rows[0]) < WIDE:
        return cast("Sequence[Row]", rows)
    names = rows[0].keys()
    return [dict(zip(names, row, strict=True)) for row in rows]


def commit_batch(connection: sqlite3.Connection, batch: list[_Job], known: dict[str, Statement]) -> list[_Result]:
    """One transaction for the batch; with savepoints if any of it raised, so that only that one fails."""
    kind = _kind_of(batch) if len(batch) <= MOST else None
    if kind is not None:
        quick = _commit_inserts(connection, kind, batch)
        if quick is not None:
            return quick
    try:
        connection.execute("BEGIN IMMEDIATE")
        results = _run_all(connection, batch, known)
        connection.execute("COMMIT")
    except Exception as fault:  # noqa: BLE001 - a border: whatever a script raises must reach its own caller
        _roll_back(connection)
        if len(batch) == 1:
            log.warning("A write failed and was rolled back: %s", fault)
            return [(batch[0], None, _told(fault))]
        return _commit_apart(connection, batch, known)
    return results


def _kind_of(jobs: Sequence[_Job]) -> type[InsertScript[Any]] | None:
    """What all of them insert; None: they are not inserts of one kind."""
    kinds = {type(job.script) if job.row is not None else None for job in jobs}
    kind = kinds.pop() if len(kinds) == 1 else None
    return kind if kind is not None and issubclass(kind, InsertScript) else None


def _commit_inserts(
    connection: sqlite3.Connection, kind: type[InsertScript[Any]], batch: list[_Job]
) -> list[_Result] | None:
    """A statement outside a transaction is its own; None when it failed, which leaves nothing behind."""
    try:
        finished_at = insert_together(connection, kind, [job.row for job in batch if job.row is not None])
    except sqlite3.Error:
        return None
    return [(job, finished_at, None) for job in batch]


def _run_all(connection: sqlite3.Connection, batch: list[_Job], known: dict[str, Statement]) -> list[_Result]:
    inserts = [job for job in batch if job.row is not None]
    kind = _kind_of(inserts)
    if kind is None:
        return [(job, _run_job(connection, job, known), None) for job in batch]
    finished = iter(insert_all(connection, kind, [job.row for job in inserts if job.row is not None]))
    return [(job, next(finished) if job.row else _run_job(connection, job, known), None) for job in batch]


def _commit_apart(connection: sqlite3.Connection, batch: list[_Job], known: dict[str, Statement]) -> list[_Result]:
    results: list[_Result] = []
    try:
        connection.execute("BEGIN IMMEDIATE")
        for job in batch:
            connection.execute("SAVEPOINT alone")
            try:
                results.append((job, _run_job(connection, job, known), None))
            except Exception as fault:  # noqa: BLE001 - as above
                log.warning("A write failed and was rolled back, alone: %s", fault)
                connection.execute("ROLLBACK TO alone")
                results.append((job, None, _told(fault)))
            connection.execute("RELEASE alone")
        connection.execute("COMMIT")
    except sqlite3.Error as fault:
        if isinstance(fault, sqlite3.OperationalError):
            log.warning("A batch of %d writes failed: %s", len(batch), fault)
        else:
            log.exception("A batch of %d writes failed", len(batch))
        _roll_back(connection)
        return [(job, None, _told(fault)) for job in batch]
    return results


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _told(fault: Exception) -> Exception:
    """What the caller of a failed write is raised: a full or broken disk is ours to say, a script's own error stays."""
    if isinstance(fault, sqlite3.OperationalError):
        return Unavailable("The store could not write (disk full or not writable?). Nothing was changed.")
    return fault


def empty_log(connection: sqlite3.Connection) -> bool:
    """Move the log's commits into the database and cut the log to nothing; False where a reader was in the way."""
    try:
        connection.execute(f"PRAGMA busy_timeout = {CHECKPOINT_WAITS_MS}")
        try:
            is_busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        finally:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    except sqlite3.Error as fault:
        log.warning("The database's log could not be emptied; it is tried again: %s", fault)
        return False
    return not is_busy


def take_lock(path: Path) -> int:
    """Hold the lock beside the database, or say who does."""
    handle = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
        os.close(handle)
        raise ConfigError(
            f"Another gateway (pid {holder}) uses the database {path.name}. Stop it, set JACKFIELD_STORE to another "
            "database, or use PostgreSQL for several gateways on one database."
        ) from None
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    return handle


def migrate(connection: sqlite3.Connection, name: str) -> None:
    """Bring the schema to the newest number, each step in its own transaction."""
    present = int(connection.execute("PRAGMA user_version").fetchone()[0])
    migrations = load_migrations(WORDS)
    if present > migrations[-1].number:
        raise ConfigError(
            f"The database {name} was written by a newer Jackfield (schema {present}, this one knows "
            f"{migrations[-1].number}). Update Jackfield, or give it another database by JACKFIELD_STORE."
        )
    for migration in migrations:
        if migration.number > present:
            script = f"BEGIN; {migration.sql}; PRAGMA user_version = {migration.number}; COMMIT;"
            connection.executescript(script)
