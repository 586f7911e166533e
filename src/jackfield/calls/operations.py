"""Calls whose work goes on at the tool's owner: begun, looked after and settled by whichever gateway is there.

Such a call waits on record like one that a tool server answers. One gateway takes it, has the work begun and keeps what
finds it again; from then on any gateway asks how it stands when the time has come, one at a time, until it is over. A
gateway that dies loses nothing but the question it had in hand. Work whose beginning was cut off is begun again only
where that is known to be the same call there.
Above: the gateway. Below: `operation_transactions.py`, the sources, the executor's events.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import msgspec
from msgspec import Raw

from jackfield.calls import events
from jackfield.calls import operation_transactions as operation_tx
from jackfield.calls import transactions as call_tx
from jackfield.calls.executor import Executor
from jackfield.calls.messages import bad_result, changed, interrupted, question_closed
from jackfield.calls.operation_transactions import BEGUN_TOPIC, OpenQuestion, Operation
from jackfield.calls.questions import answer_to, question_of_work
from jackfield.calls.redaction import Redactor
from jackfield.calls.tool_servers import offer_topic
from jackfield.calls.transactions import Hooked
from jackfield.catalog.catalog import Catalog, Entry
from jackfield.errors import JackfieldError, Refused, SourceUnavailable
from jackfield.model.call import Call, CallStatus, Done, Failed
from jackfield.model.content import structured_part
from jackfield.model.tool import Tool
from jackfield.model.trace_context import via
from jackfield.protocol.backoff import backoff
from jackfield.sources.base import (
    AskingSource,
    Begun,
    ElicitAnswer,
    ElicitRequest,
    Invocation,
    Look,
    OperatingSource,
    Progress,
)
from jackfield.sources.mcp.handlers import with_defaults
from jackfield.sources.source_registry import SourceRegistry
from jackfield.store import Store

log = logging.getLogger("jackfield.calls")

AT_ONCE = 32
"""Pieces of work that one gateway looks at at a time."""
MOST_BEGINNING = 1_000
"""Pieces that it has begun and whose first answer it waits for, which may take long."""
MOST_HEARD = 1_000
"""Calls whose end it hears of at once; that of others it finds when it looks at them."""
TICK_SECONDS = 1.0
"""How often the store is asked for work that other gateways left."""
LEASE_MS = 60_000
"""After so long without a word from who has it in hand, work is anybody's again; more than any question takes."""
MOST_BEGINS = 3
AWAY_MS = 1_000
"""How long work is left whose tool or source is not there."""
MOST_FAULTS = 5
"""Senseless answers in a row after which work is given up. A service that is away is asked until the call expires."""
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 10.0
SHORTEST_PAUSE = 0.1
MOST_QUESTIONS = 50
"""Questions that one piece of work may ask in all."""
LONGEST_SAID = 2_000
_UNWANTED = (CallStatus.CANCELLED, CallStatus.EXPIRED)
"""Calls whose work is stopped at its owner: nobody can have its result."""


class Operations:
    """Everything that this gateway does for such calls."""

    def __init__(
        self,
        *,
        store: Store,
        catalog: Catalog,
        source_registry: SourceRegistry,
        executor: Executor,
        redactor: Redactor,
        gateway_id: str,
        sources_listed: asyncio.Event,
    ) -> None:
        """`sources_listed`: until then a tool that is not in the catalog may still come."""
        self._store = store
        self._catalog = catalog
        self._source_registry = source_registry
        self._executor = executor
        self._redactor = redactor
        self._gateway_id = gateway_id
        self._sources_listed = sources_listed
        self._woken = asyncio.Event()
        self._in_hand: dict[str, asyncio.Task[None]] = {}
        self._tools: list[str] = []
        self._tools_at = ""
        self._beginning: set[str] = set()
        self._inline: set[str] = set()
        """Those of them whose first answer is the result."""
        self._known: dict[str, None] = {}
        """Calls whose work this gateway looked after last: it hears when one of them is stopped."""
        self._asked: dict[str, str] = {}
        """Their open questions, by the question's id: it hears when one of them is answered."""

    async def run(self) -> None:
        """Look after all there is, until cancelled."""
        while True:
            self._woken.clear()
            topics = (BEGUN_TOPIC, *map(offer_topic, self._names()), *self._known, *self._asked)
            with self._store.bus.listen(*topics, event=self._woken):
                try:
                    await self._look_around()
                except Exception:
                    log.exception("work that goes on elsewhere could not be looked after; tried again")
                with suppress(TimeoutError):
                    async with asyncio.timeout(TICK_SECONDS):
                        await self._woken.wait()

    async def close(self) -> None:
        """Let go of what is in hand; another gateway, or the next start, goes on with it."""
        tasks = list(self._in_hand.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _names(self) -> list[str]:
        """The tools with such calls. Looked up once for each state of the catalog."""
        if self._tools_at != self._catalog.version:
            self._tools_at = self._catalog.version
            self._tools = [entry.name for entry in self._catalog.operations()]
        return self._tools

    async def _look_around(self) -> None:
        room = MOST_BEGINNING - len(self._beginning)
        if self._names() and room > 0:
            for call in await self._store.read(partial(operation_tx.untaken_operations, self._names(), limit=room)):
                await self._take(call)
        heard = [*self._known, *self._asked]
        over = await self._store.read(partial(call_tx.settled_among, heard)) if heard else []
        for call_id in over:
            if self._known.pop(call_id, call_id) is None:
                self._break_off(call_id)
        over += [asker for call_id in over if (asker := self._asked.pop(call_id, None)) is not None]
        due = await self._store.read(partial(operation_tx.operations_among, over)) if over else []
        due += await self._store.read(partial(operation_tx.due_operations, limit=AT_ONCE))
        for operation in due:
            if operation.call_id not in self._in_hand and len(self._in_hand) - len(self._beginning) < AT_ONCE:
                await self._resume(operation)

    def _break_off(self, call_id: str) -> None:
        """The call is over by somebody's word while its first answer is waited for: nobody wants that any more.

        Where that answer only says how the work is found again, it is waited for, because stopping it takes the same.
        """
        task = self._in_hand.get(call_id) if call_id in self._inline else None
        if task is not None:
            task.cancel()

    async def _take(self, call: Call) -> None:
        lease = call.longest_wait_ms + LEASE_MS
        taken = await self._store.write(
            partial(operation_tx.take_operation, call.id, owner=self._gateway_id, lease_ms=lease)
        )
        if taken is not None:
            self._beginning.add(call.id)
            self._start(taken, partial(self._begin, taken, call))

    async def _resume(self, seen: Operation) -> None:
        taken = await self._store.write(
            partial(operation_tx.claim_operation, seen, owner=self._gateway_id, lease_ms=LEASE_MS)
        )
        if taken is not None:
            self._start(taken, partial(self._go_on, taken))

    def _start(self, operation: Operation, work: Callable[[], Awaitable[None]]) -> None:
        call_id = operation.call_id
        self._known[call_id] = None
        if len(self._known) > MOST_HEARD:
            del self._known[next(iter(self._known))]
        task = asyncio.create_task(self._guarded(operation, work), name=f"operation {call_id}")
        self._in_hand[call_id] = task
        task.add_done_callback(lambda _: self._let_go(call_id))

    def _let_go(self, call_id: str) -> None:
        self._in_hand.pop(call_id, None)
        self._beginning.discard(call_id)
        self._inline.discard(call_id)
        self._woken.set()

    async def _guarded(self, operation: Operation, work: Callable[[], Awaitable[None]]) -> None:
        """A fault of ours leaves the work as it was; somebody tries again after a pause."""
        try:
            via.set(await self._store.read(partial(operation_tx.way_of, operation.call_id)))
            await work()
        except Exception:
            log.exception("the work of call %s could not be looked after", operation.call_id)
            with suppress(JackfieldError):
                await self._store.write(
                    partial(operation_tx.put_off_operation, operation, pause_ms=int(LONGEST_PAUSE * 1000))
                )

    async def _go_on(self, operation: Operation) -> None:
        call = await self._store.read(partial(call_tx.get_call, operation.call_id))
        if call is None or call.status.is_final:
            await self._end(operation, call)
        elif operation.reference is None:
            await self._begin_again(operation, call)
        else:
            await self._look(operation, call, operation.reference)

    async def _begin(self, operation: Operation, call: Call) -> None:
        """Have the work begun, and keep what finds it again."""
        entry = self._catalog.entry(call.tool, source=call.source)
        if entry is None or entry.version != call.tool_version:
            await self._settle(operation, call, changed(call.tool))
            return
        if entry.tool.metadata.async_behavior is None:
            self._inline.add(call.id)
        try:
            source = self._source_registry.operating(call.source, tool=call.tool)
            begun = await source.begin(self._invocation(call, entry, timeout_ms=begin_ms(call, entry.tool)))
        except asyncio.CancelledError:
            if await self._is_over(call.id):
                await self._store.write(partial(operation_tx.forget_operation, call.id))
            raise
        except Refused as refusal:
            # It was not reached, so nothing has begun there.
            await self._settle(operation, call, Failed(refusal.code, refusal.message))
            return
        if isinstance(begun, Begun):
            kept = msgspec.structs.replace(operation, reference=begun.reference)
            await self._pause(kept, entry.tool)
        else:
            await self._settle(operation, call, begun)

    async def _is_over(self, call_id: str) -> bool:
        now = await self._store.read(partial(call_tx.get_call, call_id))
        return now is None or now.status.is_final

    async def _begin_again(self, operation: Operation, call: Call) -> None:
        """Whoever had it begun died before it could say what came of that."""
        entry = self._catalog.known(call.tool)
        try:
            source = None if entry is None else self._source_registry.operating(call.source, tool=call.tool)
        except SourceUnavailable:
            source = None
        if entry is None or source is None:  # not there yet, after a restart
            await self._store.write(partial(operation_tx.put_off_operation, operation, pause_ms=AWAY_MS))
        elif operation.begins < MOST_BEGINS and source.begins_once(entry.tool):
            lease = call.longest_wait_ms + LEASE_MS
            again = msgspec.structs.replace(operation, begins=operation.begins + 1)
            mine = await self._store.write(
                partial(operation_tx.claim_operation, again, owner=self._gateway_id, lease_ms=lease)
            )
            if mine is not None:
                self._beginning.add(call.id)
                await self._begin(mine, call)
        else:
            await self._settle(operation, call, interrupted(call.id))

    async def _look(self, operation: Operation, call: Call, reference: Raw) -> None:
        entry = self._catalog.known(call.tool)
        looked = msgspec.structs.replace(operation, looks=operation.looks + 1)
        if entry is None:
            await self._pause(looked, None)
            return
        invocation = self._invocation(call, entry)
        try:
            source = self._source_registry.operating(call.source, tool=call.tool)
            looked = await self._pass_on_answers(looked, invocation, source, reference)
            stands = await source.look(invocation, reference)
        except Refused as away:
            log.info("the work of call %s cannot be looked at now: %s", call.id, away)
            await self._pause(looked, entry.tool)
        except JackfieldError as fault:
            await self._puzzled(looked, call, entry.tool, fault)
        else:
            await self._seen(looked, call, entry.tool, await self._checked(entry, stands))

    async def _checked(self, entry: Entry, stands: Look) -> Look:
        """A result that breaks the tool's own schema is none, as where the gateway runs the tool itself."""
        if not isinstance(stands.outcome, Done) or entry.tool.output_schema is None:
            return stands
        faults = await self._catalog.check_result(entry, structured_part(stands.outcome.result))
        return Look(outcome=bad_result(entry.name, faults)) if faults else stands

    async def _pass_on_answers(
        self, operation: Operation, invocation: Invocation, source: OperatingSource, reference: Raw
    ) -> Operation:
        """Tell the work's owner what was answered since the last look. It may hear an answer twice, never none."""
        open_now = [question for question in operation.questions if not question.is_told]
        if not open_now or not isinstance(source, AskingSource):
            return operation
        answers: dict[str, ElicitAnswer] = {}
        for question in open_now:
            asked = await self._store.read(partial(call_tx.get_call, question.call_id))
            if asked is None or asked.status.is_final:
                answers[question.key] = ElicitAnswer(action="cancel") if asked is None else _whole_answer(asked)
            else:
                self._asked[question.call_id] = operation.call_id
        if not answers:
            return operation
        await source.answer(invocation, reference, answers)
        told = [
            msgspec.structs.replace(question, is_told=question.is_told or question.key in answers)
            for question in operation.questions
        ]
        return msgspec.structs.replace(operation, questions=tuple(told))

    async def _seen(self, operation: Operation, call: Call, tool: Tool, stands: Look) -> None:
        if stands.outcome is not None:
            await self._settle(operation, call, stands.outcome)
            return
        said = None if stands.message is None else self._redactor.text(stands.message)[:LONGEST_SAID]
        if stands.progress is not None:
            self._tell(call, tool, stands.progress)
        elif said is not None and said != operation.said:
            self._tell(call, tool, Progress(progress=operation.looks, message=said))
        asked = await self._asking(operation, call, stands.questions)
        if tool.metadata.sensitive_output:
            said = None
        is_news = said != operation.said or asked.questions != operation.questions
        seen = msgspec.structs.replace(asked, faults=0, said=said)
        await self._pause(seen, tool, owner_wants=stands.pause, is_news=is_news)

    async def _asking(self, operation: Operation, call: Call, questions: tuple[ElicitRequest, ...]) -> Operation:
        """Put on record what the owner asks and has not asked before. Each key is one question."""
        known = {question.key for question in operation.questions}
        room = MOST_QUESTIONS - len(known)
        new = [self._redactor.question(question) for question in questions if question.key not in known][:room]
        if not new:
            return operation
        rows = [question_of_work(question, call) for question in new]
        added = (OpenQuestion(key=question.key, call_id=row.id) for question, row in zip(new, rows, strict=True))
        asking = msgspec.structs.replace(operation, questions=(*operation.questions, *added))
        if not await self._store.write(partial(operation_tx.ask_questions, asking, rows)):
            return operation
        for row in rows:
            self._asked[row.id] = call.id
            self._executor.events.tell(events.PENDING, row)
        return asking

    async def _close_questions(self, operation: Operation, call: Call) -> None:
        """The call is over, and so are its questions."""
        ids = [question.call_id for question in operation.questions]
        for call_id in ids:
            self._asked.pop(call_id, None)
        if ids:
            script = partial(operation_tx.close_questions, call, among=ids, outcome=question_closed(call.id))
            for closed in await self._store.write(script):
                self._executor.counters.count(closed)
                self._executor.events.tell(events.SETTLED, closed)

    async def _puzzled(self, operation: Operation, call: Call, tool: Tool, fault: JackfieldError) -> None:
        faults = operation.faults + 1
        if faults >= MOST_FAULTS:
            await self._settle(operation, call, Failed(fault.code, f"{fault} It was asked {faults} times."))
            return
        await self._pause(msgspec.structs.replace(operation, faults=faults), tool)

    async def _pause(
        self, operation: Operation, tool: Tool | None, *, owner_wants: float | None = None, is_news: bool = False
    ) -> None:
        """Look again when it is time; this gateway wakes for it, and any other does within a second."""
        seconds = pause_of(tool, operation.looks)
        if owner_wants is not None:
            seconds = min(max(owner_wants, SHORTEST_PAUSE), LONGEST_PAUSE)
        put_off = partial(operation_tx.put_off_operation, operation, pause_ms=round(seconds * 1000), is_news=is_news)
        if await self._store.write(put_off):
            asyncio.get_running_loop().call_later(seconds + 0.002, self._woken.set)

    async def _end(self, operation: Operation, call: Call | None) -> None:
        """The call is over by somebody's word; work that nobody wants any more is stopped."""
        entry = None if call is None else self._catalog.known(call.tool)
        reference = operation.reference
        is_unwanted = call is not None and reference is not None and call.status in _UNWANTED
        if is_unwanted and entry is None and not self._sources_listed.is_set():
            await self._store.write(partial(operation_tx.put_off_operation, operation, pause_ms=AWAY_MS))
            return
        if call is not None and entry is not None and reference is not None and call.status in _UNWANTED:
            try:
                source = self._source_registry.operating(call.source, tool=call.tool)
                await source.halt(self._invocation(call, entry), reference)
            except JackfieldError as fault:
                log.warning(
                    "the work of call %s, which is %s, could not be stopped: %s", call.id, call.status.value, fault
                )
        if call is not None:
            await self._close_questions(operation, call)
        await self._store.write(partial(operation_tx.forget_operation, operation.call_id))

    async def _settle(self, operation: Operation, call: Call, outcome: Done | Failed) -> None:
        reviewed = await self._executor.review(call, self._catalog.used_by(call), self._redactor.outcome(outcome))
        moved = await self._store.write(
            partial(
                call_tx.settle_submitted,
                call.id,
                reviewed.outcome,
                answered_by=call.source,
                large_result=self._store.large_result,
                hooked=Hooked(notes=reviewed.notes, withheld=reviewed.withheld) if reviewed.notes else None,
            )
        )
        if moved.moved and moved.call is not None:
            self._executor.counters.count(moved.call)
            self._executor.events.tell(events.SETTLED, moved.call)
        elif moved.call is not None and moved.call.status in _UNWANTED:
            await self._end(operation, moved.call)
            return
        await self._close_questions(operation, call)
        await self._store.write(partial(operation_tx.forget_operation, call.id))

    def _invocation(self, call: Call, entry: Entry, *, timeout_ms: int | None = None) -> Invocation:
        def report(progress: Progress) -> None:
            self._tell(call, entry.tool, progress)

        return Invocation(
            call_id=call.id,
            run_id=call.run_id,
            tool=entry.tool,
            arguments=msgspec.json.decode(call.arguments),
            principal=call.principal,
            agent=call.agent,
            space_id=call.space_id,
            timeout_ms=timeout_ms or call.timeout_ms,
            report=report,
        )

    def _tell(self, call: Call, tool: Tool, progress: Progress) -> None:
        if tool.metadata.sensitive_output:
            progress = msgspec.structs.replace(progress, message=None)
        self._executor.events.tell(events.PROGRESS, call, progress=self._redactor.progress(progress))


def _whole_answer(question: Call) -> ElicitAnswer:
    """What somebody said, with the form's own defaults where that leaves something out."""
    answer, schema = answer_to(question), msgspec.json.decode(question.arguments).get("schema")
    if answer.action != "accept" or not isinstance(schema, dict):
        return answer
    return ElicitAnswer(action="accept", content=with_defaults(answer.content or {}, schema))


def begin_ms(call: Call, tool: Tool) -> int:
    """How long the first answer may take: where it is the result, as long as anybody may wait for that."""
    return call.timeout_ms if tool.metadata.async_behavior is not None else call.longest_wait_ms


def pause_of(tool: Tool | None, looks: int) -> float:
    """Seconds until work is looked at again: as its tool says, else soon and then ever less often."""
    behavior = None if tool is None else tool.metadata.async_behavior
    if behavior is not None:
        return behavior.status_polling.pause(looks)
    return backoff(looks, first=FIRST_PAUSE, longest=LONGEST_PAUSE, factor=1.5, spread=0)
