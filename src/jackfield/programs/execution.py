"""One program from its start, or from its journal, until it is over or waits for somebody.

A step of the journal is what the program asked for at once, with what it had been told before. What it is told of calls
is on record with them, in the order in which they were answered; so a program that is run again from the start gets the
same answers in the same order, and comes to where it was without a call being made twice.
Above: `service.py`. Below: the process, `journal.py`, `early.py`, the pipeline, the transitions of runs.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial

import msgspec
from msgspec import Raw, Struct

from jackfield.calls.pipeline import Pipeline
from jackfield.calls.requests import CallRequest, Prepared, handed_over
from jackfield.calls.rows import whole_result
from jackfield.calls.transactions import Moved, stored_outcome
from jackfield.calls.waiting import slot_of
from jackfield.errors import Refused
from jackfield.model.call import Call, CallStatus, Done, Failed
from jackfield.model.content import structured_part
from jackfield.model.principal import Principal
from jackfield.model.tool import CALLER
from jackfield.programs import transactions as program_tx
from jackfield.programs.early import EarlyOutcome, Held
from jackfield.programs.journal import Ended, RecordedAsk, StepRecord, check_same, differs, recorded
from jackfield.programs.process import Answer, Ask, ProgramProcess, Turn
from jackfield.programs.transactions import NextStep
from jackfield.runs.tool_executor import goes_on_later
from jackfield.runs.transactions import Run, RunJournal, RunStep
from jackfield.store import Store
from jackfield.store.scripts import Script

log = logging.getLogger("jackfield.programs")

RECHECK_SECONDS = 1.0
"""How often a program that waits looks for answers of which it was not told."""
SLEEPS_WITHOUT_PROCESS_MS = 60_000
"""A program that only waits for somebody, or for a time that is further away than this, is let go of."""
MOST_ASKS = 10_000
"""Calls and sleeps of one program, those that were refused included."""
_FOR_SOMEBODY = frozenset({CallStatus.PENDING, CallStatus.PENDING_APPROVAL, CallStatus.PENDING_LOGIN})


class ProgramCode(Struct, frozen=True, kw_only=True):
    """The arguments of `run_program`."""

    code: str
    tools: tuple[str, ...] | None = None
    timeout: float | None = None


class Timer(Struct, frozen=True):
    """When it fires, in milliseconds since 1970."""

    due: int


class Waits(Struct, frozen=True):
    """A program has nothing to do until somebody answers, or until so many milliseconds have passed."""

    wake_ms: int | None = None
    is_asleep: bool = False
    """It waits for nothing but time."""


class Fenced(Exception):
    """Another gateway has the program; nothing more is done here."""


class ProgramExecution:
    """Drives one process."""

    def __init__(
        self,
        run: Run,
        call: Call,
        *,
        process: ProgramProcess,
        pipeline: Pipeline,
        store: Store,
        principal: Principal,
        allowed: Sequence[str],
        timeout: float,
        max_calls: int,
        redact: Callable[[str], str],
    ) -> None:
        self._run = run
        self._call = call
        self._asked_for = msgspec.json.decode(call.arguments, type=ProgramCode)
        self._process = process
        self._pipeline = pipeline
        self._store = store
        self._principal = principal
        self._allowed = frozenset(allowed)
        self._timeout = min(timeout, self._asked_for.timeout or timeout)
        self._max_calls = max_calls
        self._redact = redact
        self._now = run.created_at
        self._open: dict[int, str | Timer | RecordedAsk] = {}
        """What the program waits for: a call, a timer, or a call that could not be made."""
        self._numbers: dict[str, int] = {}
        """Numbers of requests by their calls' ids."""
        self._asks: list[Ask] = []
        """What is not on record yet; likewise the next two."""
        self._delivered: list[tuple[int, int]] = []
        self._log: list[str] = []
        self._left_out = 0
        self._steps = 0
        self._calls_made = self._asked = 0
        self._answered = 0
        """Calls of whose answers the program was told."""
        self._told_up_to = 0
        """It was told of all answers up to this one."""
        self._tasks: set[asyncio.Task[Call]] = set()
        """Calls that are carried out here."""
        self._settled: list[Call] = []
        """Those that were, of which the program was not told yet; after a replay, those that the journal had."""
        self._is_idle = False
        """The program waits, and nothing is being written for it."""
        self._early = EarlyOutcome(store)
        self._woken = asyncio.Event()
        self._heard = ExitStack()
        self._is_closed = False

    async def run(self, journal: RunJournal) -> Done | Failed | Waits:
        """Its outcome, or that it can be let go of. Raises `Fenced`, or `ToldWrong`."""
        with self._heard:
            try:
                turn = await self._replay(journal)
                while not turn.is_over:
                    await self._record()
                    answers = await self._next_answers()
                    if isinstance(answers, Waits):
                        return answers
                    turn = await self._deliver(answers)
                outcome = _outcome(turn)
            except Ended as ended:
                outcome = ended.outcome
            await self._record_end()
            return outcome

    async def _replay(self, journal: RunJournal) -> Turn:
        recorded = [msgspec.json.decode(step.message, type=StepRecord) for step in journal.steps]
        known = {ask.tool for step in recorded for ask in step.asks if ask.tool is not None}
        turn = await self._process.begin(
            self._asked_for.code,
            tools=sorted({*self._allowed, *known}),
            now=self._now,
            seed=int.from_bytes(hashlib.sha256(self._run.id.encode()).digest()[:8]),
            within=self._timeout,
        )
        self._take(turn)
        for step, record in zip(journal.steps, recorded, strict=True):
            calls = {call.id: call for earlier in journal.steps[: step.n] for call in earlier.calls}
            answers = [await self._recorded_answer(n, now, calls) for n, now in record.delivered]
            if answers and not turn.is_over:
                turn = await self._deliver(answers)
            self._compare(step, record, turn)
        answered = [call for step in journal.steps for call in step.calls if call.answer is not None]
        self._settled = sorted(answered, key=lambda call: call.answer or 0)
        return turn

    async def _recorded_answer(self, n: int, now: int, calls: dict[str, Call]) -> Answer:
        awaited = self._open.get(n)
        if awaited is None:
            raise differs(f"it did not wait for its request {n} any more")
        if isinstance(awaited, str):
            return await self._answer(n, calls[awaited], now)
        return self._plain_answer(n, awaited, now)

    def _compare(self, step: RunStep, record: StepRecord, turn: Turn) -> None:
        """Take a step from the journal in place of recording it."""
        check_same([recorded(ask) for ask in self._asks], record.asks, is_over=turn.is_over)
        calls = iter(step.calls)
        for was in record.asks:
            made = None if was.tool is None or was.failed is not None else next(calls)
            self._await(was, made)
            if made is not None:
                self._listen(made)
        self._recorded_up_to(step.n)

    def _recorded_up_to(self, n: int) -> None:
        self._asks.clear()
        self._delivered.clear()
        self._log.clear()
        self._steps = n + 1

    def _await(self, ask: RecordedAsk, call: Call | None) -> None:
        if ask.sleep is not None:
            return  # noted when it was asked for
        self._calls_made += 1
        if call is None:
            self._open[ask.n] = ask
            return
        self._open[ask.n] = call.id
        self._numbers[call.id] = ask.n

    def _listen(self, call: Call) -> None:
        """Hear of the end of a call that is not carried out here."""
        self._heard.enter_context(self._store.bus.listen(call.id, event=self._woken))

    def _take(self, turn: Turn) -> None:
        """What a turn asked for, and what it does not wait for any more."""
        self._log.append(turn.log)
        self._left_out = turn.left_out
        if turn.is_over:
            return
        assert isinstance(turn.asks, tuple)
        self._asked += len(turn.asks)
        if self._asked > MOST_ASKS:
            said = f"The program asked for more than {MOST_ASKS:,} calls and sleeps, so it was ended."
            raise Ended(Failed("too_many_calls", said))
        for ask in turn.asks:
            self._asks.append(ask)
            if ask.sleep is not None:
                self._open[ask.n] = Timer(self._now + int(ask.sleep * 1000))
        for n in turn.dropped:
            self._open.pop(n, None)

    async def _record(self) -> None:
        """Put what was asked for on record, then begin it."""
        if not self._asks:
            await self._early.settle()
            return
        prepared: list[Prepared] = []
        asks: list[RecordedAsk] = []
        for ask in self._asks:
            made = (
                None
                if ask.tool is None
                else await self._prepare(ask, made=self._calls_made + sum(1 for one in asks if one.tool))
            )
            failed = None
            if isinstance(made, Failed):
                failed = {"code": made.code, "message": made.message}
            elif made is not None:
                prepared.append(made)
            asks.append(msgspec.structs.replace(recorded(ask), failed=failed))
        calls = await self._write_step(
            StepRecord(delivered=tuple(self._delivered), asks=tuple(asks), log=self._logged()), prepared
        )
        rows = iter(calls)
        for noted in asks:
            self._await(noted, None if noted.tool is None or noted.failed is not None else next(rows))
        self._recorded_up_to(self._steps)
        for one, written in zip(prepared, calls, strict=True):
            self._begin(one, written)

    async def _prepare(self, ask: Ask, *, made: int) -> Prepared | Failed:
        tool = ask.tool or ""
        if made >= self._max_calls:
            return Failed(
                "too_many_calls",
                f"A program may make {self._max_calls} calls ([programs] max_calls), and this one has made them.",
            )
        if tool not in self._allowed:
            return Failed("tool_not_found", f"There is no tool '{tool[:64]}' for this program.")
        call = self._call
        request = CallRequest(
            tool=tool,
            arguments=ask.arguments,
            principal=self._principal,
            agent=call.agent,
            space_id=call.space_id,
            chat_id=call.chat_id,
            run_id=call.run_id,
            begins_run=True,
            takes_pending=True,
        )
        try:
            prepared = await self._pipeline.prepare(request)
        except Refused as refusal:
            if goes_on_later(refusal):
                raise
            return Failed(refusal.code, refusal.message)
        return prepared.refusal or _for_a_person(prepared)

    async def _write_step(self, record: StepRecord, prepared: Sequence[Prepared]) -> tuple[Call, ...]:
        """A step goes on record with the outcome that led to it, or after it."""
        written = await self._early.write_step(
            NextStep(
                run=self._run,
                n=self._steps,
                message=msgspec.json.encode(record).decode(),
                calls=[one.call for one in prepared],
            ),
            answer=self._answered,
        )
        if written is None:
            raise Fenced
        return written

    def _settle(self, call: Call, outcome: Done | Failed, script: Callable[..., Script[Moved]]) -> Awaitable[Moved]:
        """Write how a call ended, at once or with the program's next step.

        The program may be told before: nothing that follows from it is on record, or begun, before the outcome is.
        """
        if not self._is_idle or self._early.held is not None or call.id not in self._numbers:
            return self._store.write(script)
        written = self._early.hold(call, outcome, script)
        self._woken.set()
        return written

    async def _record_end(self) -> None:
        """What it printed after its last step."""
        await self._early.settle()
        if self._left_out:
            self._log.append(f"\n… {self._left_out:,} more characters were left out.\n")
        if said := self._logged():
            await self._write_step(StepRecord(delivered=tuple(self._delivered), log=said), ())

    def _logged(self) -> str:
        return self._redact("".join(self._log))

    def _begin(self, prepared: Prepared, written: Call) -> None:
        if written.status in _FOR_SOMEBODY:
            self._listen(written)
            self._pipeline.announce(prepared, written=written)
            return
        task = asyncio.create_task(self._pipeline.go_on(prepared, written=written, settle_with=self._settle))
        self._tasks.add(task)
        task.add_done_callback(partial(self._went_on, written))

    def _went_on(self, call: Call, task: asyncio.Task[Call]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or self._is_closed:
            return
        if (fault := task.exception()) is not None:
            log.error("a call of program %s could not be carried out here", self._run.id, exc_info=fault)
            self._listen(call)
        elif slot_of(task.result()) is None:
            self._listen(call)  # it waits for somebody after all
        elif call.id in self._numbers:
            self._settled.append(task.result())
        elif self._tasks:
            return  # the program was told already, and waits for another one
        self._woken.set()

    async def _next_answers(self) -> list[Answer] | Waits:
        """What the program is told next, or that nothing is to come for now."""
        loop = asyncio.get_running_loop()
        while True:
            self._woken.clear()
            if answers := await self._answers_now():
                return answers
            timers = [awaited.due for awaited in self._open.values() if isinstance(awaited, Timer)]
            if not self._open:
                raise Ended(Failed("program_failed", "The program waits for something that will never happen."))
            if (waits := await self._can_be_let_go(timers)) is not None:
                return waits
            until_timer = (min(timers) - _now()) / 1000 if timers else RECHECK_SECONDS
            self._is_idle = True
            wakes = loop.call_later(max(0.001, min(until_timer, RECHECK_SECONDS)), self._woken.set)
            try:
                await self._woken.wait()
            finally:
                wakes.cancel()
                self._is_idle = False

    async def _answers_now(self) -> list[Answer]:
        now = max(_now(), self._now)
        for n, awaited in self._open.items():
            if isinstance(awaited, RecordedAsk):
                return [self._plain_answer(n, awaited, now)]
        if (held := self._early.held) is not None:
            return [self._told_early(held, now)]
        if calls := await self._answered_calls():
            return [await self._answer(self._numbers[call.id], call, now) for call in calls]
        due = [
            (awaited.due, n) for n, awaited in self._open.items() if isinstance(awaited, Timer) and awaited.due <= now
        ]
        return [self._plain_answer(n, self._open[n], now) for _, n in sorted(due)]

    async def _answered_calls(self) -> list[Call]:
        """Those of which the program was not told. The store is asked only for what is not carried out here."""
        calls, self._settled = [call for call in self._settled if call.id in self._numbers], []
        if not calls and len(self._numbers) > len(self._tasks):
            found = await self._store.read(partial(program_tx.answers_after, self._run.id, self._told_up_to))
            calls = [call for call in found if call.id in self._numbers]
            self._told_up_to = max([self._told_up_to, *(call.answer or 0 for call in found)])
        return calls

    async def _can_be_let_go(self, timers: Sequence[int]) -> Waits | None:
        wake_ms = min(timers) - _now() if timers else None
        if self._tasks or (wake_ms is not None and wake_ms < SLEEPS_WITHOUT_PROCESS_MS):
            return None
        calls = any(isinstance(awaited, str) for awaited in self._open.values())
        if calls and not await self._waits_for_somebody():
            return None
        return Waits(wake_ms, is_asleep=not calls)

    async def _waits_for_somebody(self) -> bool:
        statuses = await self._store.read(partial(program_tx.open_statuses, self._run.id))
        return bool(statuses) and all(status in _FOR_SOMEBODY for status in statuses.values())

    async def _answer(self, n: int, call: Call, now: int) -> Answer:
        """What a program is told of a call, as a tool that calls another would be."""
        self._note_told(call)
        slot = slot_of(call)
        outcome = None if slot is None else slot.outcome
        if isinstance(outcome, Done):
            whole = await whole_result(self._store, call)
            return Answer(n=n, now=now, result=structured_part(whole or Raw(b"null")))
        if isinstance(outcome, Failed):
            return _failure(n, outcome, now)
        return Answer(n=n, now=now, failed={"code": "timeout", "message": "Nobody answered in time."})

    def _told_early(self, held: Held, now: int) -> Answer:
        """What a program is told of an outcome that is not on record yet: the same as when it is."""
        n = self._numbers[held.call.id]
        self._note_told(held.call)
        if isinstance(held.outcome, Done):
            return Answer(n=n, now=now, result=structured_part(held.outcome.result))
        kept, _ = stored_outcome(held.outcome, held.call.id, self._store.large_result)
        assert isinstance(kept, Failed)
        return _failure(n, kept, now)

    def _note_told(self, call: Call) -> None:
        self._numbers.pop(call.id, None)
        self._answered += 1
        if not self._numbers:
            self._told_up_to = self._answered  # answers are numbered without gaps, and none is missing

    def _plain_answer(self, n: int, awaited: object, now: int) -> Answer:
        return Answer(n=n, now=now, failed=awaited.failed if isinstance(awaited, RecordedAsk) else None)

    async def _deliver(self, answers: Sequence[Answer]) -> Turn:
        for answer in answers:
            self._open.pop(answer.n, None)
            self._delivered.append((answer.n, answer.now))
            self._now = max(self._now, answer.now)
        turn = await self._process.deliver(answers, within=self._timeout - self._process.computed)
        self._take(turn)
        return turn

    async def close(self) -> None:
        """Let go of the process. Calls that it made go on by themselves."""
        self._is_closed = True
        self._early.let_go()
        self._process.kill()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


def _for_a_person(prepared: Prepared) -> Prepared:
    """A call that people answer in a space is pending at once: a program has all the time that they have."""
    call, tool = prepared.call, prepared.entry.tool
    if call.status is not CallStatus.WAITING or tool.is_offered or tool.source == CALLER:
        return prepared
    return msgspec.structs.replace(prepared, call=handed_over(call, is_async=True))


def _failure(n: int, outcome: Failed, now: int) -> Answer:
    return Answer(n=n, now=now, failed={"code": outcome.code, "message": outcome.message, "result": outcome.result})


def _outcome(turn: Turn) -> Done | Failed:
    if isinstance(turn.done, Raw):
        return Done(turn.done)
    failed = turn.failed
    if failed is None:
        return Failed("program_failed", "The program reported something that makes no sense, so it was ended.")
    trace = f"\n{failed.trace.rstrip()}" if failed.trace else ""
    return Failed(failed.code, f"{failed.message}{trace}")


def _now() -> int:
    return int(time.time() * 1000)
