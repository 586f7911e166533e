"""One program from its start, or from its journal, until it is over or waits for somebody.

A step of the journal is what the program asked for at once, with what it had been told before. What it is told of calls
is on record with them, in the order in which they were answered; so a program that is run again from the start gets the
same answers in the same order, and comes to where it was without a call being made twice.
Above: `service.py`. Below: the process, the pipeline, the transitions of runs.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.calls.pipeline import Pipeline
from jackfield.calls.requests import CallRequest, Prepared
from jackfield.calls.rows import whole_result
from jackfield.calls.waiting import slot_of
from jackfield.errors import Refused
from jackfield.model.call import Call, CallStatus, Done, Failed
from jackfield.model.content import structured_part
from jackfield.model.principal import Principal
from jackfield.programs import transactions as program_tx
from jackfield.programs.process import Answer, Ask, ProgramProcess, Turn
from jackfield.runs import transactions as run_tx
from jackfield.runs.transactions import Run, RunJournal, RunStep
from jackfield.store import Store

log = logging.getLogger("jackfield.programs")

RECHECK_SECONDS = 1.0
"""How often a program that waits looks for answers of which it was not told."""
_FOR_SOMEBODY = frozenset({CallStatus.PENDING, CallStatus.PENDING_APPROVAL, CallStatus.PENDING_LOGIN})


class ProgramCode(Struct, frozen=True, kw_only=True):
    """The arguments of `run_program`."""

    code: str
    tools: tuple[str, ...] | None = None
    timeout: float | None = None


class RecordedAsk(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a program asked for, as its journal has it."""

    n: int
    tool: str | None = None
    digest: str = ""
    """Of the arguments."""
    sleep: float | None = None
    failed: dict[str, Any] | None = None
    """Why no call was made."""

    def is_same(self, other: "RecordedAsk") -> bool:
        return (self.n, self.tool, self.digest, self.sleep) == (other.n, other.tool, other.digest, other.sleep)


class StepRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a program: what it was told since the last, what it printed, and what it asked for then."""

    delivered: tuple[tuple[int, int], ...] = ()
    """The numbers of its requests that were answered, and when."""
    asks: tuple[RecordedAsk, ...] = ()
    log: str = ""


class Timer(Struct, frozen=True):
    """When it fires, in milliseconds since 1970."""

    due: int


class Fenced(Exception):
    """Another gateway has the program; nothing more is done here."""


class Ended(Exception):
    """The program is over in a way of which its process knows nothing."""

    def __init__(self, outcome: Failed) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


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
        self._allowed = allowed
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
        self._steps = 0
        self._calls_made = 0
        self._last_answer = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._woken = asyncio.Event()
        self._heard = ExitStack()

    async def run(self, journal: RunJournal) -> Done | Failed | None:
        """Its outcome; None: it waits for somebody, and can be let go of. Raises `Fenced`."""
        with self._heard:
            try:
                turn = await self._replay(journal)
                while not turn.is_over:
                    await self._record()
                    answers = await self._next_answers()
                    if answers is None:
                        return None
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
        return turn

    async def _recorded_answer(self, n: int, now: int, calls: dict[str, Call]) -> Answer:
        awaited = self._open.get(n)
        if awaited is None:
            raise _differs(f"it did not wait for its request {n} any more")
        if isinstance(awaited, str):
            return await self._answer(n, calls[awaited], now)
        return self._plain_answer(n, awaited, now)

    def _compare(self, step: RunStep, record: StepRecord, turn: Turn) -> None:
        """Take a step from the journal in place of recording it."""
        asked = [_recorded(ask) for ask in self._asks]
        if turn.is_over and record.asks:
            raise _differs(f"it ended where it had called {_named(record.asks[0])} before")
        for ask, was in zip(asked, record.asks, strict=False):
            if not ask.is_same(was):
                raise _differs(f"it asked for {_named(ask)} where it had asked for {_named(was)} before")
        if len(asked) != len(record.asks):
            raise _differs(f"it asked for {len(asked)} things at once and had asked for {len(record.asks)} before")
        calls = iter(step.calls)
        for was in record.asks:
            self._await(was, None if was.tool is None or was.failed is not None else next(calls))
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
        self._heard.enter_context(self._store.bus.listen(call.id, event=self._woken))

    def _take(self, turn: Turn) -> None:
        """What a turn asked for, and what it does not wait for any more."""
        self._log.append(turn.log)
        if turn.is_over:
            return
        assert isinstance(turn.asks, tuple)
        for ask in turn.asks:
            self._asks.append(ask)
            if ask.sleep is not None:
                self._open[ask.n] = Timer(self._now + int(ask.sleep * 1000))
        for n in turn.dropped:
            self._open.pop(n, None)

    async def _record(self) -> None:
        """Put what was asked for on record, then begin it."""
        if not self._asks:
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
            asks.append(msgspec.structs.replace(_recorded(ask), failed=failed))
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
            return Failed(refusal.code, refusal.message)
        return prepared.refusal or prepared

    async def _write_step(self, record: StepRecord, prepared: Sequence[Prepared]) -> tuple[Call, ...]:
        written = await self._store.write(
            partial(
                run_tx.take_step,
                self._run,
                n=self._steps,
                message=msgspec.json.encode(record).decode(),
                calls=[one.call for one in prepared],
            )
        )
        if written is None:
            raise Fenced
        return written

    async def _record_end(self) -> None:
        """What it printed after its last step."""
        if said := self._logged():
            await self._write_step(StepRecord(delivered=tuple(self._delivered), log=said), ())

    def _logged(self) -> str:
        return self._redact("".join(self._log))

    def _begin(self, prepared: Prepared, written: Call) -> None:
        if written.status in _FOR_SOMEBODY:
            self._pipeline.announce(prepared, written=written)
            return
        task = asyncio.create_task(self._pipeline.go_on(prepared, written=written))
        self._tasks.add(task)
        task.add_done_callback(self._went_on)

    def _went_on(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self._woken.set()
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("a call of program %s could not be carried out here", self._run.id, exc_info=fault)

    async def _next_answers(self) -> list[Answer] | None:
        """What the program is told next; None: everything that it waits for is up to somebody."""
        while True:
            self._woken.clear()
            if answers := await self._answers_now():
                return answers
            timers = [awaited.due for awaited in self._open.values() if isinstance(awaited, Timer)]
            if not self._open:
                raise Ended(Failed("program_failed", "The program waits for something that will never happen."))
            if not timers and not self._tasks and await self._waits_for_somebody():
                return None
            until_timer = (min(timers) - _now()) / 1000 if timers else RECHECK_SECONDS
            try:
                async with asyncio.timeout(max(0.001, min(until_timer, RECHECK_SECONDS))):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _answers_now(self) -> list[Answer]:
        now = max(_now(), self._now)
        for n, awaited in self._open.items():
            if isinstance(awaited, RecordedAsk):
                return [self._plain_answer(n, awaited, now)]
        if self._numbers:
            calls = await self._store.read(partial(program_tx.answers_after, self._run.id, self._last_answer))
            if calls:
                return [await self._answer(self._numbers[call.id], call, now) for call in calls]
        due = [
            (awaited.due, n) for n, awaited in self._open.items() if isinstance(awaited, Timer) and awaited.due <= now
        ]
        return [self._plain_answer(n, self._open[n], now) for _, n in sorted(due)]

    async def _waits_for_somebody(self) -> bool:
        statuses = await self._store.read(partial(program_tx.open_statuses, self._run.id))
        return bool(statuses) and all(status in _FOR_SOMEBODY for status in statuses.values())

    async def _answer(self, n: int, call: Call, now: int) -> Answer:
        """What a program is told of a call, as a tool that calls another would be."""
        self._last_answer = max(self._last_answer, call.answer or 0)
        self._numbers.pop(call.id, None)
        slot = slot_of(call)
        outcome = None if slot is None else slot.outcome
        if isinstance(outcome, Done):
            whole = await whole_result(self._store, call)
            return Answer(n=n, now=now, result=structured_part(whole or Raw(b"null")))
        if isinstance(outcome, Failed):
            return Answer(
                n=n, now=now, failed={"code": outcome.code, "message": outcome.message, "result": outcome.result}
            )
        return Answer(n=n, now=now, failed={"code": "timeout", "message": "Nobody answered in time."})

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
        self._process.kill()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


def _outcome(turn: Turn) -> Done | Failed:
    if isinstance(turn.done, Raw):
        return Done(turn.done)
    failed = turn.failed
    if failed is None:
        return Failed("program_failed", "The program reported something that makes no sense, so it was ended.")
    trace = f"\n{failed.trace.rstrip()}" if failed.trace else ""
    return Failed(failed.code, f"{failed.message}{trace}")


def _recorded(ask: Ask) -> RecordedAsk:
    if ask.tool is None:
        return RecordedAsk(n=ask.n, sleep=ask.sleep)
    digest = hashlib.sha256(msgspec.json.encode(ask.arguments, order="sorted")).hexdigest()[:16]
    return RecordedAsk(n=ask.n, tool=ask.tool, digest=digest)


def _named(ask: RecordedAsk) -> str:
    return f"{ask.sleep} s of sleep" if ask.tool is None else f"'{ask.tool}'"


def _differs(how: str) -> Ended:
    said = f"The program was run again from its start to go on, and did something else this time: {how}."
    return Ended(Failed("nondeterministic", f"{said} The calls that it had made stand."))


def _now() -> int:
    return int(time.time() * 1000)
