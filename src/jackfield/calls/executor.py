"""Executing calls on this gateway: run the tool within its deadline, then settle, whoever is still waiting.

Above: the pipeline, which has decided. Below: the sources run the tool, the store persists the outcome.
A call is settled once: by its own executor, or before it by somebody who cancelled it, never by both.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from itertools import compress
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from jackfield.audit.log import AuditLog
from jackfield.calls import events
from jackfield.calls import operation_transactions as operation_tx
from jackfield.calls import transactions as call_tx
from jackfield.calls.counters import Counters
from jackfield.calls.events import CallEvents
from jackfield.calls.login_waits import LoginWaits, OpenLogin
from jackfield.calls.messages import bad_result, broken_tool, cancelled, interrupted, timed_out
from jackfield.calls.permissions import may_stop
from jackfield.calls.questions import OpenQuestions, patience_of
from jackfield.calls.redaction import Redactor
from jackfield.calls.refusals import Refusals
from jackfield.calls.running import CANCEL_SECONDS, Running
from jackfield.calls.telemetry import Telemetry
from jackfield.calls.transactions import Hooked, Moved
from jackfield.calls.waiting import wait_until_final
from jackfield.catalog.catalog import Catalog, Entry
from jackfield.errors import AlreadyResolved, CallNotFound, LoginNeeded, NotReady, Refused, Unavailable
from jackfield.hooks.service import Hooks, longest_seconds
from jackfield.hooks.types import Reviewed
from jackfield.model.call import Call, CallStatus, Done, Doubt, Failed, Outcome, Pending
from jackfield.model.content import structured_part
from jackfield.model.principal import Principal
from jackfield.model.tool import CallKind
from jackfield.model.trace_context import via
from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.protocol.schemas import summarize
from jackfield.sources.base import Begun, InTransaction, Invocation, LogNote, Progress, TaskUse
from jackfield.sources.client import (
    CallerClient,
    ClientAnswer,
    ClientRequest,
    ElicitRequest,
)
from jackfield.sources.source_registry import SourceRegistry
from jackfield.store import Store

log = logging.getLogger("jackfield.calls")

Verify = Callable[[Call, Doubt], Awaitable[Call | None]]
"""Asks whether a call took effect: the call as it then is, or None if somebody else has settled or taken it."""

SHORT_SECONDS = 0.05
"""A bare call that ends within this is written once, when it is over; a longer one has its row by then."""
LONGEST_TRACE = 8_000
"""Characters of a traceback that are kept: its end, which has the cause."""
ELICITATION: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
"""What every call can be asked, since somebody can be where its client cannot."""
VERIFIED_WITHIN = 60.0
"""Seconds that a caller is kept waiting while another tool is asked whether the call took effect."""
STORE_PAUSES = (0.1, 0.3, 1.0, 2.0)
"""Seconds between tries to write an outcome while the store is away."""


class Executor:
    """Runs calls, and knows those it is running."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        source_registry: SourceRegistry,
        store: Store,
        gateway_id: str,
        redactor: Redactor,
        audit: AuditLog,
        public_url: str = "",
        open_login: OpenLogin | None = None,
        hooks: Hooks,
    ) -> None:
        self.hooks = hooks
        self.events = CallEvents(tell_others=store.tell_others if store.is_shared else None)
        self.counters = Counters()
        self.refusals = Refusals(store, redactor=redactor, audit=audit, tell=partial(self.events.tell, events.SETTLED))
        self.login_waits = LoginWaits(store, public_url=public_url, open_link=open_login)
        self.verify: Verify | None = None
        """Who finds out about calls of which nobody knows whether they took effect."""
        self.telemetry: Telemetry | None = None
        """Where spans go, while somebody collects them."""
        self._catalog = catalog
        self._source_registry = source_registry
        self._store = store
        self._gateway_id = gateway_id
        self._redactor = redactor
        self._running: dict[str, Running] = {}
        self._adopted: set[asyncio.Task[Call]] = set()
        self._idle = asyncio.Event()

    def running(self, call_id: str) -> Running | None:
        """The call, if this gateway is executing it now."""
        return self._running.get(call_id)

    def admit(
        self,
        call: Call,
        *,
        principal: Principal,
        depth: int,
        recorded: bool,
        client: CallerClient | None = None,
        takes_pending: bool = False,
        config: dict[str, Any] | None = None,
        tasks: TaskUse = TaskUse.REQUIRED,
    ) -> Running:
        """Take a call in hand; whoever does this also settles it."""
        running = Running(
            call, principal=principal, depth=depth, recorded=recorded, client=client, takes_pending=takes_pending
        )
        running.config, running.tasks = config, tasks
        if self.telemetry is not None:
            running.span = self.telemetry.begin(call, self._catalog.used_by(call))
            running.call = call = msgspec.structs.replace(call, trace_id=call.trace_id or running.span.trace_id)
        self._running[call.id] = running
        self.counters.running += 1
        self.events.tell(events.STARTED, call)
        return running

    def trace_refused(self, call: Call) -> None:
        """A span for a call that is not made."""
        if self.telemetry is not None:
            self.telemetry.begin(call, self._catalog.used_by(call)).settled(call)

    async def carry_out(self, running: Running, entry: Entry, arguments: dict[str, object]) -> Call:
        """Run the tool and settle. If the caller goes away, or the call is parked, it goes on without the caller."""
        invocation = self._invocation(running, entry, arguments)
        context = None if running.span is None else running.span.context
        running.run(asyncio.create_task(self._source_registry.execute(entry.tool.source, invocation), context=context))
        try:
            return await self._finish(running, entry)
        except asyncio.CancelledError:
            self._adopt(self._finish(running, entry))
            raise

    async def work_of(
        self, call: Call, entry: Entry, arguments: dict[str, object], *, principal: Principal
    ) -> Done | Failed | InTransaction:
        """What a built-in tool does, for the step of a cycle that will record the call."""
        running = Running(call, principal=principal, depth=0, recorded=False)
        work = await self._source_registry.execute(entry.tool.source, self._invocation(running, entry, arguments))
        if isinstance(work, InTransaction):
            return work
        return (await self.review(call, entry, await self._checked(entry, work))).outcome

    def leave_alone(self, running: Running, entry: Entry, arguments: dict[str, object]) -> None:
        """Run an admitted call that is on record and whose caller does not wait for it."""
        self._adopt(self.carry_out(running, entry, arguments))

    def tell_over(self, call: Call) -> None:
        """A call that was over when it was put on record, such as a built-in tool's in a step."""
        self.events.tell(events.STARTED, call)
        self.tell_settled(call)

    async def execute_unrecorded(
        self, call: Call, entry: Entry, arguments: dict[str, object], *, principal: Principal
    ) -> Call:
        """Execute a call that only reads: it is counted as every call is, and on record only if it fails."""
        running = Running(call, principal=principal, depth=0, recorded=False)
        self._running[call.id] = running
        self.counters.running += 1
        try:
            work = await self._source_registry.execute(entry.tool.source, self._invocation(running, entry, arguments))
            reviewed = await self.review(call, entry, await self._checked(entry, work))
            outcome = reviewed.outcome
        except BaseException as fault:
            self._forget(running)
            self._count_refusal(call, fault)
            raise
        if isinstance(outcome, Failed):
            self._note_hooks(running, reviewed)
            return await self.settle(running, outcome)
        self._forget(running)
        done = msgspec.structs.replace(
            call, status=CallStatus.COMPLETED, result=outcome.result, duration_ms=running.age_ms
        )
        self.counters.count(done)
        return done

    def begin(self, call: Call, entry: Entry, *, principal: Principal) -> None:
        """Run a call that is on record and claimed, for which nobody waits here."""
        running = self.admit(
            call, principal=principal, depth=0, recorded=True, takes_pending=True, tasks=TaskUse.PREFERRED
        )
        self._adopt(self._carry_on(running, entry, msgspec.json.decode(call.arguments)))

    async def _carry_on(self, running: Running, entry: Entry, arguments: dict[str, object]) -> Call:
        """As `carry_out`, for a call whose request is long over: it still knows how it came, and with which options."""
        with suppress(Unavailable):
            way, running.config = await self._store.read(partial(operation_tx.brought_along, running.call.id))
            via.set(way)
        return await self.carry_out(running, entry, arguments)

    async def _finish(self, running: Running, entry: Entry, *, for_caller: bool = True) -> Call:
        """From a started tool to a settled call, or for a caller to a parked one. Can be entered again after it was
        cut off.
        """
        try:
            outcome = await self._outcome(running, entry, for_caller=for_caller)
        except Refused as refusal:
            self._redactor.clean(refusal)
            if isinstance(refusal, LoginNeeded):
                if running.call.kind is CallKind.TOOL:
                    return await self._wait_for_login(running, refusal)
                if running.call.cycle_id is None:
                    await self._refuse_read(running, refusal)
            if running.writing is None:
                self._give_up(running, refusal)
                raise
            outcome = Failed(refusal.code, refusal.message)
        if isinstance(outcome, Call):
            self._adopt(self._finish(running, entry, for_caller=False))
            return outcome
        if isinstance(outcome, Begun):
            return await self._follow(running, outcome)
        if running.call.verify is not None and (why := _doubt_of(outcome)) is not None:
            return await self._verify(running, why)
        return await self.settle(running, await self._reviewed(running, entry, outcome))

    async def _follow(self, running: Running, begun: Begun) -> Call:
        """The work goes on at its owner: the call is pending, and any gateway looks after it from now on.

        A caller that cannot be told so is kept waiting, as long as the tool may take.
        """
        # T13
        await self._record(running)
        if running.questions is not None:
            await running.questions.end()
        call, seconds = running.call, running.left_ms / 1000
        try:
            moved = await self._store.write(
                partial(operation_tx.park_operation, call.id, begun.reference, attempt=call.attempt)
            )
        except Exception as fault:
            self._give_up(running, fault)
            raise
        parked = still_there(moved.call, call.id)
        self._forget(running)
        if running.span is not None:
            running.span.settled(parked)
        if moved.moved:
            self.events.tell(events.PENDING, parked)
        if parked.status.is_final or (running.takes_pending and not running.depth):
            return parked
        return await wait_until_final(self._store, call.id, seconds=max(0.0, seconds))

    async def _verify(self, running: Running, why: Doubt) -> Call:
        """Nobody knows whether the tool took effect: the call stays running until another tool has said so.

        Where the gateway stops, whoever takes over what it left asks.
        """
        # T15
        await self._record(running)
        if running.questions is not None:
            await running.questions.end()
        call = running.call
        try:
            taken = None if running.stopping or self.verify is None else await self.verify(call, why)
        except Exception as fault:
            self._give_up(running, fault)
            raise
        self._forget(running)
        now = taken or still_there(await self._store.read(partial(call_tx.get_call, call.id)), call.id)
        if not now.status.is_final and now.attempt != call.attempt:  # else nobody asks before the next start
            now = await wait_until_final(self._store, call.id, seconds=VERIFIED_WITHIN)
        if running.span is not None:
            running.span.settled(now)
        return now

    async def _wait_for_login(self, running: Running, need: LoginNeeded) -> Call:
        """The source refused before it acted: the call waits until somebody has logged in, and any gateway runs it."""
        # T13
        if running.questions is not None:
            await running.questions.end()
        try:
            moved = await self.login_waits.park(running, need)
        except Exception as fault:
            self._give_up(running, fault)
            raise
        if isinstance(moved, Failed):
            return await self.settle(running, self._redactor.outcome(moved))
        call = running.call
        parked, is_untold = still_there(moved.call, call.id), call.id in self._running
        self._forget(running)
        if running.span is not None:
            running.span.settled(parked)
        if is_untold and parked.id == call.id and parked.status is CallStatus.PENDING_LOGIN:
            self.events.tell(events.PENDING, parked)
        return parked

    async def _refuse_read(self, running: Running, need: LoginNeeded) -> None:
        """Who reads does not wait for a login: they are told where to make it, and read again."""
        linked = await self.login_waits.linked(need, running.principal)
        if running.writing is None:
            self._give_up(running, linked)
        else:
            await self.settle(running, Failed(need.code, need.message))
            linked.on_record = True
        raise linked

    async def _outcome(self, running: Running, entry: Entry, *, for_caller: bool) -> Done | Failed | Begun | Call:
        """What the tool came to within its deadline. A call that lasts gets its row meanwhile.

        For a caller, the call itself as soon as it is parked.
        """
        ended = await running.ended(within=min(SHORT_SECONDS, running.left_ms / 1000))
        if not ended and running.left_ms > 0:
            await self._record(running)
        while not ended and not running.is_cut_off and running.left_ms > 0:
            await self._keep_deadline(running)
            if for_caller and running.parked is not None:
                return running.parked
            ended = await running.ended(within=running.left_ms / 1000)
        if ended:
            result = _result_of(running)
            running.came_back = running.task is not None and not running.task.cancelled()
            return result if isinstance(result, Begun) else await self._checked(entry, result)
        if running.is_cut_off:
            return _stopped(running)
        running.stop()
        await running.ended(within=CANCEL_SECONDS)
        return timed_out(running.call.id, running.call.timeout_ms)

    async def _keep_deadline(self, running: Running) -> None:
        """The row's deadline is what others go by; where the call was held, it is later than the row knows."""
        call = running.call
        if running.was_held and running.parked is None:
            await self._store.write(
                partial(call_tx.move_deadline, call.id, attempt=call.attempt, left_ms=int(running.left_ms))
            )

    async def _checked(self, entry: Entry, outcome: Outcome | InTransaction | Begun) -> Done | Failed:
        """The outcome as it may be stored and sent: fitting the tool's own output schema, and without secrets."""
        if isinstance(outcome, Begun):
            log.error("source %s began work of %s where nobody can follow it", entry.tool.source, entry.name)
            return broken_tool(entry.name)
        if isinstance(outcome, InTransaction):
            log.error("tool %s runs only in a step of an agent's cycle, and this call is made outside one", entry.name)
            return broken_tool(entry.name)
        if isinstance(outcome, Pending):
            log.error("source %s left a call of %s pending, which nobody can answer", entry.tool.source, entry.name)
            return broken_tool(entry.name)
        if isinstance(outcome, Done) and entry.tool.output_schema is not None:
            faults = await self._catalog.check_result(entry, structured_part(outcome.result))
            if faults:
                outcome = bad_result(entry.name, faults)
        return self._redactor.outcome(outcome)

    async def _reviewed(self, running: Running, entry: Entry, outcome: Done | Failed) -> Done | Failed:
        """The outcome as the hooks after a call leave it. They are asked once, also where the caller goes away."""
        hooks = self.hooks.after(running.call, entry) if running.came_back else ()
        if not hooks:
            return outcome
        if running.reviewing is None:
            running.reviewing = asyncio.create_task(self.review(running.call, entry, outcome))
        with running.hold(longest_seconds(hooks)):
            await asyncio.wait((running.reviewing,), timeout=SHORT_SECONDS)
            if not running.reviewing.done():
                await self._record(running)
                await self._keep_deadline(running)
            reviewed = await asyncio.shield(running.reviewing)
        self._note_hooks(running, reviewed)
        return reviewed.outcome

    async def review(self, call: Call, entry: Entry | None, outcome: Done | Failed) -> Reviewed:
        """What hooks make of what a tool answered, wherever it ran. Without secrets, also where they put some in."""
        hooks = self.hooks.after(call, entry)
        if not hooks:
            return Reviewed(outcome=outcome, notes=())
        reviewed = await self.hooks.review(hooks, call, outcome, check=partial(self._fault_of, entry))
        return msgspec.structs.replace(
            reviewed, outcome=self._redactor.outcome(reviewed.outcome), notes=(*call.hooks, *reviewed.notes)
        )

    async def review_verified(self, call: Call, outcome: Done) -> Reviewed:
        """The result that another tool gave for a call, as if the call's own tool had."""
        entry = self._catalog.used_by(call)
        checked = self._redactor.outcome(outcome) if entry is None else await self._checked(entry, outcome)
        return await self.review(call, entry, checked)

    async def _fault_of(self, entry: Entry | None, result: Raw) -> str | None:
        if entry is None:
            return None
        if entry.tool.operation is not CallKind.TOOL:
            return reading_fault(entry.tool.operation, result)
        if entry.tool.output_schema is None:
            return None
        faults = await self._catalog.check_result(entry, structured_part(result))
        return summarize(faults) if faults else None

    def _note_hooks(self, running: Running, reviewed: Reviewed) -> None:
        if reviewed.notes:
            running.call = msgspec.structs.replace(running.call, hooks=reviewed.notes)
            running.withheld = reviewed.withheld

    async def settle(self, running: Running, outcome: Done | Failed) -> Call:
        """Write the outcome once and tell once. If somebody else settled the call first, theirs stands."""
        if running.trace:
            self._keep_trace(running)
        try:
            moved = await self._write(running, outcome)
            settled = still_there(moved.call, running.call.id)
        except Exception as fault:
            self._give_up(running, fault)
            raise
        self._forget(running)
        if running.span is not None:
            running.span.settled(settled)
        if moved.moved:  # else whoever settled it has counted it, here or at another gateway
            self.counters.count(settled)
        self.events.tell(events.SETTLED, settled)
        return settled

    def _keep_trace(self, running: Running) -> None:
        """For the operator. Written with the outcome or before it; without it the call is whole all the same."""
        trace = self._redactor.text(running.trace)
        if len(trace) > LONGEST_TRACE:
            trace = f"…{trace[-LONGEST_TRACE:]}"
        try:
            self._store.write(partial(call_tx.keep_trace, running.call.id, trace)).add_done_callback(_was_kept)
        except Unavailable as fault:
            log.warning("the traceback of %s could not be kept: %s", running.call, fault)

    async def _look_at_row(self, running: Running) -> None:
        """After a write of which nobody knows whether it happened: is the row there?"""
        written = running.writing
        if written is not None and written.done() and (written.cancelled() or written.exception() is not None):
            running.writing = None
            if await self._store.read(partial(call_tx.get_call, running.call.id)) is not None:
                running.mark_recorded()

    async def _record(self, running: Running) -> None:
        """Put a running call on record, unless it is."""
        script = partial(call_tx.start_call, running.call, age_ms=int(running.age_ms))
        await running.write(partial(self._store.write, script))

    async def _write(self, running: Running, outcome: Done | Failed, *, tries: int = 0) -> Moved:
        """Write the outcome, if need be again: a store that is away for a moment must not cost a result."""
        try:
            moved = await self._write_once(running, outcome)
            # If it is settled after a write that broke off, then most likely by that very write.
            return moved if not tries else Moved(moved.call, moved=True)
        except NotReady:
            raise  # the store is closed, and will not come back
        except Unavailable as fault:
            if tries == len(STORE_PAUSES):
                raise
            pause = STORE_PAUSES[tries]
            log.warning("the outcome of %s could not be written; tried again in %g s: %s", running.call, pause, fault)
        await asyncio.sleep(pause)
        await self._look_at_row(running)
        return await self._write(running, outcome, tries=tries + 1)

    async def _write_once(self, running: Running, outcome: Done | Failed) -> Moved:
        call, duration = running.call, running.age_ms
        if running.writing is None:
            written = self._store.write(
                call_tx.SettledCall(
                    call,
                    outcome,
                    age_ms=int(duration),
                    duration_ms=duration,
                    large_result=self._store.large_result,
                    withheld=running.withheld,
                )
            )
            running.writing = written
            return Moved(await written, moved=True)
        await running.writing
        if running.questions is not None:
            await running.questions.end()
            call = running.call
        script = partial(
            call_tx.settle_executed,
            call.id,
            outcome,
            attempt=call.attempt,
            duration_ms=duration,
            trace_id=call.trace_id,
            large_result=self._store.large_result,
            hooked=Hooked(notes=call.hooks, withheld=running.withheld) if call.hooks else None,
        )
        if running.settle_with is not None:
            return await running.settle_with(call, outcome, script)
        return await self._store.write(script)

    async def cancel(self, call_id: str, *, principal: Principal) -> Call:
        """Stop a call that is not over, wherever it is in its life. One that is over raises."""
        running = self._running.get(call_id)
        call = running.call if running else await self._store.read(partial(call_tx.get_call, call_id))
        if call is None or not may_stop(principal, call):
            raise CallNotFound(f"There is no call '{call_id}'.", param="id")
        if running is not None:
            await self._record(running)
        moved = await self._store.write(partial(call_tx.settle_cancelled, call_id, cancelled(call_id)))
        settled = still_there(moved.call, call_id)
        if not moved.moved:
            raise AlreadyResolved(f"Call '{call_id}' has already ended: it is {settled.status.value}.")
        self.counters.count(settled)
        if running is not None and running.task is not None and call_id in self._running:
            running.stop()
        else:
            self.events.tell(events.SETTLED, settled)
        return settled

    def stop(self, call_id: str) -> None:
        """The call was settled elsewhere: if its tool runs here, nobody wants its result any more."""
        running = self._running.get(call_id)
        if running is not None:
            running.stop()

    def tell_settled(self, call: Call) -> None:
        """A call was settled by somebody else than its executor."""
        self.counters.count(call)
        self.events.tell(events.SETTLED, call)

    async def close(self, *, grace: float) -> None:
        """Let the running calls end, and after `grace` seconds stop and settle the rest.

        For a parked call nobody waits: its answer may be a day away.
        """
        running_now = [running for running in self._running.values() if running.parked is None]
        tasks = [running.task for running in running_now if running.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        for running in self._running.values():
            running.stopping = True
            running.stop()
        if self._running:
            self._idle.clear()
            await asyncio.wait((settled := asyncio.ensure_future(self._idle.wait()),), timeout=grace)
            settled.cancel()
        if self._adopted:
            await asyncio.wait(self._adopted, timeout=grace)

    def _give_up(self, running: Running, fault: Exception) -> None:
        """The call comes to nothing here: its source or the store would not have it."""
        self._forget(running)
        running.stop()
        self._count_refusal(running.call, fault)
        if running.span is not None:
            running.span.broke_off(fault)

    def _count_refusal(self, call: Call, fault: BaseException) -> None:
        if isinstance(fault, Refused):
            self.counters.refuse(
                fault.code, principal=call.principal, tool=call.tool, source=call.source, kind=call.kind
            )

    def _forget(self, running: Running) -> None:
        if self._running.pop(running.call.id, None) is not None:
            self.counters.running -= 1
        if not self._running:
            self._idle.set()

    def _adopt(self, work: Coroutine[Any, Any, Call]) -> None:
        """Go on with a call for which nobody waits any more."""
        task = asyncio.create_task(work)
        self._adopted.add(task)
        task.add_done_callback(self._let_go)

    def _let_go(self, task: asyncio.Task[Call]) -> None:
        self._adopted.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("a call that nobody waits for could not be settled", exc_info=fault)

    def _invocation(self, running: Running, entry: Entry, arguments: dict[str, object]) -> Invocation:
        call = running.call
        return Invocation(
            call_id=call.id,
            run_id=call.run_id,
            tool=entry.tool,
            arguments=arguments,
            principal=call.principal,
            agent=call.agent,
            space_id=call.space_id,
            timeout_ms=call.timeout_ms,
            report=partial(self._report, call, entry.tool.metadata.sensitive_output),
            is_followed=self.events.is_followed,
            hold=running.hold,
            note=partial(self._note, call, entry.tool.metadata.sensitive_output),
            ask=partial(self.ask, running),
            client=running.client,
            config={**entry.tool.config, **running.config} if running.config else entry.tool.config,
            trace=_no_trace if entry.tool.metadata.sensitive_output else running.failed_at,
            caller=running.principal,
            tasks=running.tasks,
        )

    async def ask(self, running: Running, requests: tuple[ClientRequest, ...]) -> tuple[ClientAnswer, ...]:
        """Ask the client behind a call what it can answer, and of the rest whoever answers calls the questions.

        The time that they take is not the tool's.
        """
        client = running.client
        cleaned = tuple(map(self._redactor.client_request, requests))
        is_for_client = [client is not None and client.takes(one) for one in cleaned]
        for_client = tuple(compress(cleaned, is_for_client))
        if not for_client and not any(isinstance(one, ElicitRequest) for one in cleaned):
            return (None,) * len(cleaned)
        for_others = [one for one, is_taken in zip(cleaned, is_for_client, strict=True) if not is_taken]
        with running.hold(patience_of(running)):
            if not for_others:
                return await _asked(client, for_client)
            given, others = await asyncio.gather(
                _asked(client, for_client),
                asyncio.gather(*(self._ask_somebody(running, one) for one in for_others)),
            )
        from_client, from_others = iter(given), iter(others)
        return tuple(next(from_client if taken else from_others) for taken in is_for_client)

    async def _ask_somebody(self, running: Running, question: ClientRequest) -> ClientAnswer:
        """Only people answer for a client, and only questions."""
        if not isinstance(question, ElicitRequest):
            return None
        await self._record(running)
        if running.questions is None:
            running.questions = OpenQuestions(
                running, store=self._store, gateway_id=self._gateway_id, tell=self._tell_of_question
            )
        return await running.questions.ask(question)

    def client_for_nested(self, running: Running) -> CallerClient:
        """The client of a call that this one makes: asked as this one's is."""
        declared = {} if running.client is None else running.client.capabilities
        return CallerClient(capabilities={**declared, **ELICITATION}, ask=partial(self.ask, running))

    def _tell_of_question(self, call: Call) -> None:
        """Tell how a question is, or the call that waits for its answer."""
        if call.status is CallStatus.RUNNING:
            self.events.tell(events.STARTED, call)
            return
        self.counters.count(call)
        self.events.tell(events.SETTLED if call.status.is_final else events.PENDING, call)

    def _note(self, call: Call, is_sensitive: bool, note: LogNote) -> None:  # noqa: FBT001 - by `partial`
        if self.events.is_followed(call.id) and not is_sensitive:
            self.events.tell(events.LOG, call, log=self._redactor.note(note))

    def _report(self, call: Call, is_sensitive: bool, progress: Progress) -> None:  # noqa: FBT001 - by `partial`
        if is_sensitive:
            progress = msgspec.structs.replace(progress, message=None, meta=UNSET)
        self.events.tell(events.PROGRESS, call, progress=self._redactor.progress(progress))


async def _asked(client: CallerClient | None, requests: tuple[ClientRequest, ...]) -> tuple[ClientAnswer, ...]:
    if client is None or client.ask is None or not requests:
        return ()
    return await client.ask(requests)


def reading_fault(kind: CallKind, result: Raw) -> str | None:
    """What is wrong with something that stands for what was read: a resource or a prompt has MCP's form."""
    try:
        msgspec.json.decode(result, type=_Contents if kind is CallKind.RESOURCE else _Messages)
    except UNREADABLE as fault:
        return str(fault)
    return None


class _Contents(Struct, frozen=True):
    contents: list[dict[str, Any]]


class _Messages(Struct, frozen=True):
    messages: list[dict[str, Any]]


def _result_of(running: Running) -> Outcome | InTransaction | Begun:
    """What a finished task came to. A source that raises is at fault itself; the log has it."""
    task, call = running.task, running.call
    assert task is not None
    if task.cancelled():
        return _stopped(running)
    fault = task.exception()
    if fault is None:
        return task.result()
    if isinstance(fault, Refused):
        raise fault
    log.error("source %s failed while it executed %s", call.source, call, exc_info=fault)
    return broken_tool(call.tool)


def _doubt_of(outcome: Done | Failed) -> Doubt | None:
    """Why nobody knows whether the tool took effect, if nobody does."""
    if isinstance(outcome, Failed):
        if outcome.code == "timeout":
            return "timeout"
        if outcome.code == "interrupted":
            return "interrupted"
    return None


def _no_trace(_: str) -> None:
    """A sensitive tool's tracebacks are nobody's."""


def _was_kept(written: "asyncio.Future[Any]") -> None:
    if not written.cancelled() and (fault := written.exception()) is not None:
        log.warning("a traceback could not be kept: %s", fault)


def _stopped(running: Running) -> Failed:
    """What a tool that did not come to its end is told as: the gateway stopped, or somebody cancelled the call."""
    call_id = running.call.id
    return interrupted(call_id) if running.stopping else cancelled(call_id)


def still_there(call: Call | None, call_id: str) -> Call:
    if call is None:
        raise CallNotFound(f"There is no call '{call_id}'.", param="id")
    return call
