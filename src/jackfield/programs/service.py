"""Runs programs: takes their calls off the record, drives each until it is over or waits for somebody, recovers them.

A program is a run of the journal. Whoever takes its call begins it. When it waits for somebody it is parked, its
process ends, and any gateway goes on with it when the answer is there. One whose gateway died is taken over.
Above: the gateway. Below: `execution.py`, the transitions of programs and runs.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from jackfield.calls import events
from jackfield.calls import transactions as call_tx
from jackfield.calls.executor import Executor
from jackfield.calls.messages import interrupted
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.redaction import Redactor
from jackfield.calls.tool_servers import offer_topic
from jackfield.catalog.catalog import Catalog
from jackfield.catalog.globs import compiled
from jackfield.errors import CouldNotStart, JackfieldError, Refused, Unavailable
from jackfield.model.call import Call, Done, Failed
from jackfield.model.principal import Principal, Scope
from jackfield.model.tool import BUILTIN, PROGRAMS
from jackfield.programs import transactions as program_tx
from jackfield.programs.early import ToldWrong
from jackfield.programs.execution import Fenced, ProgramCode, ProgramExecution, Waits
from jackfield.programs.pool import ProgramPool
from jackfield.runs import transactions as run_tx
from jackfield.runs.transactions import Run, RunJournal
from jackfield.settings.types import ProgramSettings
from jackfield.store import Store
from jackfield.store.scripts import READY_TOPIC
from jackfield.workers.host import WorkerHost

log = logging.getLogger("jackfield.programs")

TICK_SECONDS = 1.0
"""How often the store is asked for programs of which this gateway was not told."""
FORSAKEN_TICKS = 10
"""How many of them until it is asked for programs whose call is over."""
MAX_TRIES = 3
FORSAKEN_STEP = 100
_ADMIN = Principal(name="admin", scopes=frozenset({Scope.ADMIN.value}))
_READY = READY_TOPIC + "program"
Outcome = Done | Failed | Waits


class ProgramService:
    """All programs that this gateway has in hand."""

    def __init__(
        self,
        settings: ProgramSettings,
        *,
        store: Store,
        catalog: Catalog,
        pipeline: Pipeline,
        executor: Executor,
        redactor: Redactor,
        host: WorkerHost,
        find_principal: Callable[[str], Principal | None],
        gateway_id: str,
        sources_listed: asyncio.Event,
    ) -> None:
        """`sources_listed`: until then only programs are begun for which somebody waits at this gateway."""
        self._settings = settings
        self._store = store
        self._catalog = catalog
        self._pipeline = pipeline
        self._executor = executor
        self._redactor = redactor
        self._find_principal = find_principal
        self._gateway_id = gateway_id
        self._sources_listed = sources_listed
        self._pool = ProgramPool(host, settings)
        self._in_hand: dict[str, asyncio.Task[None]] = {}
        self._left: dict[str, Run] = {}
        """Let go of while the store was away: they go on, here or elsewhere, when it is back."""
        self._parked: set[str] = set()
        """Calls of programs that this gateway has let go of; of others it is not told at once."""
        self._forsaken: set[str] = set()
        """Those of them with which something happened."""
        self._woken = asyncio.Event()
        self._is_closing = False
        self._ticks = 0

    async def run(self) -> None:
        """Look after all there is, until cancelled."""
        self._pool.warm_up()
        self._store.bus.watch("call_", self._hear)
        while True:
            self._woken.clear()
            with self._store.bus.listen(_READY, *map(offer_topic, self._names()), event=self._woken):
                try:
                    await self._look_around()
                except Exception:
                    log.exception("programs could not be looked after; tried again")
                with suppress(TimeoutError):
                    async with asyncio.timeout(TICK_SECONDS):
                        await self._woken.wait()

    async def warm(self) -> None:
        """Until the next program can begin at once."""
        await self._pool.warm()

    async def close(self) -> None:
        """Let go of every program; another gateway, or the next start, goes on with it."""
        self._is_closing = True
        tasks = list(self._in_hand.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._pool.close()

    def _hear(self, call_id: str) -> None:
        """Something happened to a call; of interest is one whose program waits, and that is over before it."""
        if call_id in self._parked:
            self._parked.discard(call_id)
            self._forsaken.add(call_id)
            self._woken.set()

    def _names(self) -> list[str]:
        """What `run_program` is called in the catalog."""
        return [entry.name for entry in self._catalog.offered_by(PROGRAMS)]

    @property
    def _room(self) -> int:
        return 0 if self._is_closing else self._settings.max_concurrency - len(self._in_hand)

    async def _look_around(self) -> None:
        """What was begun comes before what is new."""
        for run in tuple(self._left.values()):
            await self._store.write(partial(run_tx.park, run))
            del self._left[run.id]
        found = await self._store.read(partial(program_tx.to_begin, self._names(), limit=max(0, self._room)))
        if found.any_to_wake:
            await self._store.write(run_tx.wake_parked)
            self._woken.set()
        owner = self._gateway_id
        takes = [partial(program_tx.take_program, call, owner=owner) for call in found.new if self._may_begin(call)]
        if self._sources_listed.is_set():
            taken_up = [
                partial(run_tx.take_over, orphan, owner=owner) for orphan in found.orphans if not self._has(orphan)
            ]
            taken_up += [partial(run_tx.claim, run_id, owner=owner) for run_id in found.ready]
            takes = taken_up + takes
        begun = await asyncio.gather(*map(self._start, takes[: max(0, self._room)]))  # one commit for all
        if any(begun) and not all(begun):
            self._woken.set()  # others were first, so there is room for what was left out
        await self._end_forsaken()

    def _may_begin(self, call: Call) -> bool:
        """Whether its program may begin here now: later also where nobody waits for it at this gateway."""
        return self._sources_listed.is_set() or call.id in self._store.bus.topics

    def _has(self, run: Run) -> bool:
        return run.id in self._in_hand

    async def _end_forsaken(self) -> None:
        """Programs whose call was cancelled, or expired: at once those that were let go of here."""
        for call_id in [self._forsaken.pop() for _ in range(min(max(self._room, 0), len(self._forsaken)))]:
            found = await self._store.read(partial(call_tx.get_call, call_id))
            if found is None or found.status.is_final:
                await self._start(partial(run_tx.seize, program_tx.program_id(call_id), owner=self._gateway_id))
            else:
                self._parked.add(call_id)
        self._ticks += 1
        if self._ticks % FORSAKEN_TICKS == 0 and self._room > 0:
            for run_id in await self._store.read(
                partial(program_tx.programs_without_call, limit=min(self._room, FORSAKEN_STEP))
            ):
                await self._start(partial(run_tx.seize, run_id, owner=self._gateway_id))

    async def _start(self, take: Callable[[], Any]) -> bool:
        """Drive a program that this transition hands over, if it does."""
        run: Run | None = await self._store.write(take)
        if run is None:
            return False
        task = asyncio.create_task(self._drive(run), name=f"program {run.id}")
        self._in_hand[run.id] = task
        task.add_done_callback(lambda _: self._let_go(run.id))
        return True

    def _let_go(self, run_id: str) -> None:
        self._in_hand.pop(run_id, None)
        self._woken.set()

    async def _drive(self, run: Run) -> None:
        try:
            await self._until_over(run)
        except Fenced:
            return
        except asyncio.CancelledError:
            if self._is_closing:
                with suppress(JackfieldError):
                    await self._store.write(partial(run_tx.park, run))
            raise
        except Unavailable as fault:
            self._leave(run, fault)
        except Exception:
            log.exception("program %s broke off inside the gateway", run.id)
            try:
                await self._end(
                    run, Failed("program_failed", "The program broke off inside the gateway. Its log says why.")
                )
            except Unavailable as fault:
                self._leave(run, fault)

    def _leave(self, run: Run, fault: Unavailable) -> None:
        log.warning("program %s goes on when the store is back: %s", run.id, fault)
        self._left[run.id] = run

    async def _until_over(self, run: Run) -> None:
        self._parked.discard(program_tx.call_of(run.id))
        call, journal = await self._store.read(partial(program_tx.read_program, run.id))
        if call is None or call.status.is_final:
            await self._end(run, Failed("cancelled", "The call of this program is over."))
        elif run.tries > MAX_TRIES:
            await self._end(run, interrupted(call.id))
        else:
            outcome = await self._while_wanted(call, self._execute(run, call, journal))
            if isinstance(outcome, Waits):
                await self._park(run, outcome)
            else:
                await self._end(run, outcome)

    async def _while_wanted(self, call: Call, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Its outcome, unless its call is over before: cancelled, or answered by somebody."""
        task = asyncio.create_task(work)
        with self._store.bus.listen(call.id) as written:
            try:
                while not task.done():
                    heard = asyncio.ensure_future(written.wait())
                    await asyncio.wait((task, heard), return_when=asyncio.FIRST_COMPLETED)
                    heard.cancel()
                    if written.is_set() and not task.done():
                        written.clear()
                        now = await self._store.read(partial(call_tx.get_call, call.id))
                        if now is None or now.status.is_final:
                            return Failed("cancelled", "The call of this program is over.")
                return task.result()
            finally:
                task.cancel()
                await asyncio.wait((task,))

    async def _execute(self, run: Run, call: Call, journal: RunJournal | None) -> Outcome:
        """From its journal to its end, once more where somebody else settled a call of which it was told already."""
        while True:
            try:
                return await self._execute_from_journal(run, call, journal)
            except ToldWrong:
                log.info("program %s is run again from its journal: a call of it ended in another way", run.id)
            journal = await self._store.read(partial(run_tx.read_journal, run.id))

    async def _execute_from_journal(self, run: Run, call: Call, journal: RunJournal | None) -> Outcome:
        principal = self._find_principal(call.principal)
        if principal is None:
            return Failed("forbidden", f"'{call.principal}', in whose name the program runs, is not there any more.")
        if journal is None:
            raise Fenced
        try:
            process = await self._pool.take()
        except (CouldNotStart, TimeoutError) as fault:
            return Failed("program_failed", f"The sandbox of the program could not be started: {fault}")
        execution = ProgramExecution(
            run,
            call,
            process=process,
            pipeline=self._pipeline,
            store=self._store,
            principal=principal,
            allowed=self._tools_of(call, principal),
            timeout=self._settings.timeout,
            max_calls=self._settings.max_calls,
            redact=self._redactor.text,
        )
        try:
            return await execution.run(journal)
        except Unavailable:
            raise
        except Refused as refusal:
            return Failed(refusal.code, refusal.message)
        finally:
            await execution.close()

    def _tools_of(self, call: Call, principal: Principal) -> list[str]:
        """What the program may call: the tools that its caller sees, of those that it names."""
        wanted = msgspec.json.decode(call.arguments, type=ProgramCode).tools
        entries = self._pipeline.offered(
            self._catalog.view(principal).entries, principal=principal, chat_id=call.chat_id
        )
        globs = None if wanted is None else compiled(wanted)
        return [
            entry.name
            for entry in entries
            if entry.tool.source not in (BUILTIN, PROGRAMS)
            and (globs is None or globs.match(entry.name, source=entry.tool.source, foreign=entry.tool.name))
        ]

    async def _park(self, run: Run, waits: Waits) -> None:
        parked = await self._store.write(
            partial(program_tx.park_program, run, wake_ms=waits.wake_ms, is_asleep=waits.is_asleep)
        )
        self._parked.add(program_tx.call_of(run.id))
        if parked is not None and parked.call.moved and parked.call.call is not None:
            self._executor.events.tell(events.PENDING, parked.call.call)

    async def _end(self, run: Run, outcome: Done | Failed) -> None:
        told = self._redactor.outcome(outcome)
        moved = await self._store.write(
            partial(program_tx.end_program, run, told, large_result=self._store.large_result)
        )
        if moved is None:
            return
        if moved.moved and moved.call is not None:
            self._executor.tell_settled(moved.call)
        for call_id in await self._store.read(partial(run_tx.open_calls, run.id)):
            with suppress(Refused):
                await self._pipeline.cancel(call_id, principal=_ADMIN)
