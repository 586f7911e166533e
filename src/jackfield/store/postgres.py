"""A database for many gateways. A few writers each commit whatever has gathered, one transaction at a time.

`write` puts a script into a bounded queue. A writer takes all that wait, runs them as `postgres_batches.py` says and
acknowledges them after COMMIT. If one raises, the batch is rolled back and its scripts run again, each in a transaction
of its own, so that the bad one fails alone. A connection lost before COMMIT was sent has written nothing, so the batch
goes again on another; one lost after it may have written everything, so nothing goes again and the callers are told.
That is right for a settle: a caller who repeats it gets 200 or, if it had been written, the 409 that means settled;
repeated here, the 409 would reach a caller who never heard that a reply was lost. Writes that nobody waited for in
between may be in two batches at once and have no order, unlike SQLite's.
Above: `base.py`. Below: `postgres_server.py` for connections, `listening.py` for wake-ups.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import asyncpg

from jackfield.errors import NotReady, StoreBusy, Unavailable
from jackfield.protocol.large_results import LARGE_RESULT
from jackfield.store.base import PoolFigures, Store, WriteReply
from jackfield.store.bus import NotifyListener
from jackfield.store.postgres_batches import CommitLost, Job, Scripts, StartedScript, drop
from jackfield.store.postgres_server import FAULTS, PASSING, WORDS, Away, Server, is_lost, told
from jackfield.store.scripts import Script, load_statements

if TYPE_CHECKING:
    Pool = asyncpg.Pool[asyncpg.Record]

log = logging.getLogger("jackfield.store")

T = TypeVar("T")
QUEUE_LIMIT = 10_000
BATCH_LIMIT = 500
WRITERS = 4
READERS = 4
TRIES = 3
GIVE_WAY = 0.05
"""Seconds before a script that gave way in a deadlock goes again: who won must wake and take what it waited for."""
CLOSE_SECONDS = 10.0


class PostgresStore(Store):
    """Calls in a PostgreSQL database that other gateways use at the same time."""

    is_shared: ClassVar[bool] = True

    def __init__(self, url: str, *, large_result: int = LARGE_RESULT) -> None:
        super().__init__(large_result=large_result)
        self._server = Server(url)
        self._scripts = Scripts(load_statements(WORDS, "$"))
        self._listener = NotifyListener(self.bus, self._server.connect)
        self._writers: Pool | None = None
        self._readers: Pool | None = None
        self._queue: deque[Job] = deque()
        self._accepted = 0
        self._busy = 0
        self._is_waking = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        channel = await self._server.prepare()
        try:
            await self._listener.open(channel)
        except FAULTS as fault:
            raise self._server.unusable(fault) from None
        self._readers = await self._server.pool(READERS)
        self._writers = await self._server.pool(WRITERS)

    async def close(self) -> None:
        writers, self._writers = self._writers, None
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
                self._refuse(self._queue, self._server.away)
        await self._listener.close()
        readers, self._readers = self._readers, None
        for pool in (writers, readers):
            if pool is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await pool.close()

    def write(self, script: Callable[[], Script[T]]) -> asyncio.Future[T]:
        if self._writers is None:
            raise NotReady("The store is closed: the gateway is stopping. Try again when it is back.")
        if self._accepted >= QUEUE_LIMIT:
            raise StoreBusy(f"{QUEUE_LIMIT} writes wait for the database already. Try again in a moment.")
        reply: WriteReply[T] = WriteReply(loop=asyncio.get_running_loop())
        self._accepted += 1
        self._queue.append(Job(script, reply, [], self.recorder))
        if self._busy < WRITERS and not self._is_waking:
            self._is_waking = True
            self._busy += 1
            task = asyncio.create_task(self._write_batches(self._writers), name="store-writer")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return reply

    @property
    def queued(self) -> int:
        return self._accepted

    @property
    def pools(self) -> tuple[PoolFigures, ...]:
        return tuple(
            PoolFigures(name=name, open=pool.get_size(), idle=pool.get_idle_size(), most=pool.get_max_size())
            for name, pool in (("readers", self._readers), ("writers", self._writers))
            if pool is not None
        )

    def wake(self, topic: str) -> None:
        self._publish({topic})

    def tell_others(self, topic: str) -> None:
        self._listener.tell_soon(topic)

    async def read(self, script: Callable[[], Script[T]]) -> T:
        """A read changes nothing, so one that lost its connection is asked again."""
        if self._readers is None:
            raise NotReady("The store is closed: the gateway is stopping. Try again when it is back.")
        try:
            for _ in range(TRIES):
                async with self._server.lend(self._readers) as connection:
                    try:
                        return await self._scripts.run(connection, script)
                    except Exception as fault:
                        if not is_lost(fault, connection):
                            raise told(fault) from fault
                        drop(connection)
        except Away as fault:
            log.warning("A read found no database: %s", fault)
        raise self._server.away()

    async def _write_batches(self, writers: "Pool") -> None:
        """A writer's life: take what waits, commit it, say so; until nothing waits."""
        self._is_waking = False
        try:
            while batch := self._take():
                try:
                    await self._carry_out(writers, batch)
                except BaseException as fault:
                    self._refuse(batch, _unknown)
                    if not isinstance(fault, Exception):
                        raise
                    log.exception("A batch of %d writes failed in an unforeseen way", len(batch))
                finally:
                    self._accepted -= len(batch)
        finally:
            self._busy -= 1

    def _take(self) -> list[Job]:
        return [self._queue.popleft() for _ in range(min(len(self._queue), BATCH_LIMIT))]

    async def _carry_out(self, writers: "Pool", batch: list[Job]) -> None:
        """See every job of a batch to its end: written, or its caller told why not."""
        try:
            apart = await self._commit_together(writers, self._begin(batch))
            for job in apart:
                await self._commit_alone(writers, job)
        except Away as fault:
            log.warning("%d writes found no database: %s", len(batch), fault)
            self._refuse(batch, self._server.away)

    def _begin(self, batch: list[Job]) -> list[StartedScript]:
        begun = []
        for job in batch:
            try:
                begun.append(self._scripts.begin(job))
            except StopIteration as end:
                self._acknowledge([(job, end.value)])
            except Exception as fault:  # noqa: BLE001 - a border: whatever a script raises must reach its own caller
                self._refuse([job], partial(told, fault))
        return begun

    async def _commit_together(self, writers: "Pool", begun: list[StartedScript]) -> list[Job]:
        """One transaction for all that concern one row each; the jobs that are left to be done alone."""
        together = [one for one in begun if one.row is not None]
        alone = [one.job for one in begun if one.row is None]
        if not together:
            return alone
        try:
            self._acknowledge(await self._commit(writers, together))
        except CommitLost as lost:
            self._lose([one.job for one in together], lost)
        except Away:
            raise
        except Exception as fault:  # noqa: BLE001 - a border, as above; each job hears its own fault when it is alone
            log.debug("A batch of %d writes was rolled back: %s", len(together), fault)
            return [one.job for one in together] + alone
        return alone

    async def _commit_alone(self, writers: "Pool", job: Job) -> None:
        for left in reversed(range(TRIES)):
            try:
                self._acknowledge(await self._commit(writers, [self._scripts.begin(job)]))
            except CommitLost as lost:
                self._lose([job], lost)
            except Away:
                raise
            except Exception as fault:  # noqa: BLE001 - a border, as above
                if left and isinstance(fault, PASSING):
                    await asyncio.sleep(GIVE_WAY)
                    continue
                log.warning("A write failed and was rolled back, alone: %s", fault)
                self._refuse([job], partial(told, fault))
            return

    async def _commit(self, writers: "Pool", begun: list[StartedScript]) -> list[tuple[Job, Any]]:
        """Commit, on another connection if one is lost before it was asked to."""
        for _ in range(TRIES):
            async with self._server.lend(writers) as connection:
                try:
                    return await self._scripts.commit(connection, begun)
                except CommitLost:
                    raise
                except TimeoutError as fault:
                    drop(connection)
                    raise Away("it does not answer") from fault
                except Exception as fault:
                    if not is_lost(fault, connection):
                        raise
                    drop(connection)
                    log.info("A connection was lost before its commit (%s); its batch goes again", fault)
            begun = [self._scripts.begin(one.job) for one in begun]
        raise Away("every connection was lost")

    def _acknowledge(self, done: Iterable[tuple[Job, Any]]) -> None:
        topics: set[str] = set()
        for job, value in done:
            if not job.reply.done():
                job.reply.set_result(value)
            topics.update(job.topics)
        self._publish(topics)

    def _lose(self, jobs: list[Job], lost: CommitLost) -> None:
        """Nobody knows whether these were written; whoever waits for one should look."""
        log.error("The answer to a COMMIT of %d writes was lost: %s", len(jobs), lost.__cause__)
        self._refuse(jobs, _unknown)
        self._publish({topic for job in jobs for topic in job.topics})

    def _refuse(self, jobs: Iterable[Job], why: Callable[[], Exception]) -> None:
        for job in jobs:
            if not job.reply.done():
                job.reply.set_exception(why())

    def _publish(self, topics: set[str]) -> None:
        for topic in topics:
            self.bus.publish(topic)
        if topics:
            self._listener.tell(topics)


def _unknown() -> Unavailable:
    return Unavailable(
        "The connection to the database broke while this was being committed: it is not known whether it was written. "
        "Read it before you try again."
    )
