"""Executes the tool calls of a model's steps through the pipeline, and shows them as items of the run's output.

With a journal (agents' cycles) a step is on record with all its calls before any of them begins (T1). Without one, each
call has a record of its own. Above: the loop. Below: the pipeline and its events.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Literal, Protocol, TypeGuard

import msgspec
from msgspec import UNSET, Raw, Struct

from jackfield.calls import events as call_events
from jackfield.calls import transactions as call_tx
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.requests import CallRequest, Prepared
from jackfield.calls.waiting import slot_of
from jackfield.errors import InvalidArguments, Refused, SourceUnavailable, Unavailable
from jackfield.model.call import Call, CallStatus, Done, Failed
from jackfield.model.ids import new_id
from jackfield.model.items import (
    ID_PREFIX,
    ClientCall,
    Item,
    McpApprovalRequest,
    McpCall,
    ToolSearchCall,
    ToolSearchOutput,
)
from jackfield.model.principal import Scope
from jackfield.model.tool import BUILTIN
from jackfield.runs import events
from jackfield.runs.outputs import ToolOutput, failure_output, output_of, refusal_output, with_whole_result
from jackfield.runs.plan import RunPlan
from jackfield.runs.search_items import tools_on_wire
from jackfield.runs.state import LoopJournal, RecordedStep
from jackfield.runs.step import StepAccumulator, ToolCallDraft, mcp_item_id, record_id
from jackfield.runs.tool_search import found_names
from jackfield.runs.tools import OfferedTool, finished_call
from jackfield.sources.base import InTransaction
from jackfield.store import Store

APPROVAL_PREFIX = "mcpr_"
SPARE_SECONDS = 60.0
"""Beyond its own deadline, how long the end of a call is waited for that another gateway began."""
_FOR_SOMEBODY = frozenset({CallStatus.PENDING, CallStatus.PENDING_APPROVAL, CallStatus.PENDING_LOGIN})
MOST_PROGRESS = 1_000
"""Progress events of one call: each is an event of the stream, and some streams are stored."""


class JournalEntry(Struct, frozen=True, kw_only=True):
    """One call of a step as it goes on record."""

    call: Call
    prepared: Prepared | None = None
    """How it goes on, or how it is counted; None: it was refused before it was prepared."""
    work: Done | Failed | InTransaction | None = None
    """For a call that is over with the step: its outcome, or the script that has it."""


class StepJournal(Protocol):
    """Records the steps of a run, each before its calls begin."""

    async def spaces_of(self, calls: Sequence[ToolCallDraft]) -> list[str | None]:
        """The space that each call of a step is made in."""

    async def record(self, step: StepAccumulator, entries: Sequence[JournalEntry]) -> Sequence[Call]:
        """The step's calls as they are on record. Raises where nothing more may be written."""

    def waiting(self) -> AbstractAsyncContextManager[None]:
        """Around the time in which only other people's answers are missing."""

    def output_of(self, call: Call) -> ToolOutput:
        """What the model is told of a call."""


class ToolExecutor:
    """Executes the calls of one run."""

    def __init__(
        self,
        plan: RunPlan,
        *,
        pipeline: Pipeline,
        store: Store,
        emit: events.Emit,
        journal: StepJournal | None = None,
    ) -> None:
        self._plan = plan
        self._pipeline = pipeline
        self._store = store
        self._emit = emit
        self._journal = journal

    def asks_first(self, tool: OfferedTool) -> bool:
        """Whether a call of this tool is shown as a question first: by its metadata, the preferences or the request.

        On a journal such a call is pending like any other; there is nobody to show a question to.
        """
        if tool.entry is None or self._journal is not None:
            return False
        plan = self._plan
        return tool.asks_first or self._pipeline.needs_approval(
            tool.entry, principal=plan.principal, chat_id=plan.chat_id
        )

    async def execute_on_record(
        self,
        calls: Sequence[ToolCallDraft],
        place: Callable[[], int],
        *,
        journal: LoopJournal,
        number: int,
        record: Callable[[Mapping[int, Call]], Awaitable[Mapping[int, Call]]] | None,
        shown: Mapping[str, int],
    ) -> list[ToolOutput | None]:
        """The same for a run that outlives its gateway: no call begins before it is on record.

        `record` puts the step on record; None: it is, and what became of its calls is looked up. `shown` are the
        places of items that were told before.
        """
        turns = [
            _Turn(step=number, place=at, journal=journal, is_known=record is None, shown=shown)
            for at in range(len(calls))
        ]
        for draft in calls:
            if draft.record is None and draft.refusal is None:
                draft.record = _call_id(draft)
        if record is not None:
            if self._plan.parallel:
                for draft, turn in zip(calls, turns, strict=True):
                    turn.ready = await self._prepared(draft, turn)
            begun = {turn.place: turn.ready.call for turn in turns if _is_on_journal(turn.ready)}
            written = await record(begun)
            for turn in turns:
                turn.written = written.get(turn.place)
        if not self._plan.parallel:
            return [await self._execute_one(call, place, turn) for call, turn in zip(calls, turns, strict=True)]
        with _first_of_group():
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._execute_one(call, place, turn))
                    for call, turn in zip(calls, turns, strict=True)
                ]
        return [task.result() for task in tasks]

    async def _prepared(self, draft: ToolCallDraft, turn: "_Turn") -> Prepared | Refused | None:
        """A call that is about to be made, or why it may not be; None: it is none, or only reads."""
        arguments = parsed_arguments(draft.arguments)
        if draft.tool is None or not draft.tool.runs_here or draft.tool.searches or isinstance(arguments, str):
            return None
        parks = turn.journal.in_background and not draft.tool.is_private
        try:
            request = self._request(draft, arguments, space_id=self._plan.space_id, takes_pending=parks)
        except Refused as refusal:  # what it would read is not there; `_call` puts it on record
            return refusal
        try:
            prepared = await self._pipeline.prepare(request, call_id=draft.record)
            return await self._pipeline.left_to_others(prepared) if parks else prepared
        except Refused as refusal:
            if turn.journal.in_background and goes_on_later(refusal):
                raise
            await self._pipeline.record_refusal(request, refusal)
            return refusal

    async def execute_step(
        self, step: StepAccumulator | RecordedStep, place: Callable[[], int]
    ) -> list[ToolOutput | None]:
        """All calls of a step: what the model is told of each, None where the client has to run it.

        `place` gives the index of an item that is added now.
        """
        if self._journal is not None:
            assert isinstance(step, StepAccumulator)
            return [*await self._execute_journaled(step, self._journal)]
        if not self._plan.parallel:
            return [await self._execute_one(call, place) for call in step.calls]
        # If the run is cancelled, so is every call.
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._execute_one(call, place)) for call in step.calls]
        return [task.result() for task in tasks]

    async def _execute_journaled(self, step: StepAccumulator, journal: StepJournal) -> list[ToolOutput]:
        spaces = await journal.spaces_of(step.calls)
        entries = [await self._entry(call, space_id) for call, space_id in zip(step.calls, spaces, strict=True)]
        recorded = await journal.record(step, entries)
        with _first_of_group():
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._go_on(*both)) for both in zip(entries, recorded, strict=True)]
                waits = [call.status is CallStatus.WAITING for call in recorded]
                here = [task for task, is_waiting in zip(tasks, waits, strict=True) if not is_waiting]
                if here:
                    await asyncio.wait(here)
                if len(here) < len(tasks):
                    async with journal.waiting():
                        await asyncio.wait(tasks)
        return [journal.output_of(task.result()) for task in tasks]

    async def _entry(self, draft: ToolCallDraft, space_id: str | None) -> JournalEntry:
        """The call as it will be on record. What is wrong with it is its outcome, for the model to read."""
        arguments = parsed_arguments(draft.arguments)
        if draft.refusal is not None:
            self._count_refusal(draft, Refused.code)
            return self._refused_entry(draft, arguments, Failed("refused", draft.refusal))
        if isinstance(arguments, str):
            self._count_refusal(draft, "invalid_arguments")
            return self._refused_entry(draft, arguments, Failed("invalid_arguments", arguments))
        prepared = None
        try:
            request = self._request(draft, arguments, space_id=space_id, takes_pending=True)
            prepared = await self._pipeline.prepare(request, call_id=_call_id(draft))
            if prepared.refusal is not None:
                refused = self._refused_entry(draft, arguments, prepared.refusal, status=CallStatus.FAILED)
                return msgspec.structs.replace(refused, prepared=prepared)
            is_builtin = prepared.call.source == BUILTIN
            work = await self._pipeline.work_of(prepared) if is_builtin else None
        except Refused as refusal:
            if goes_on_later(refusal):
                raise
            if prepared is not None:  # else the pipeline has counted it
                self._count_refusal(draft, refusal.code)
            return self._refused_entry(draft, arguments, Failed(refusal.code, refusal.message))
        return JournalEntry(call=prepared.call, prepared=prepared, work=work)

    async def _refuse(self, draft: ToolCallDraft, refusal: Refused, arguments: dict[str, object] | None = None) -> None:
        """Put a call on record that came to no call, unless the pipeline has. In a cycle the step has it."""
        plan = self._plan
        entry = None if draft.tool is None else draft.tool.entry
        request = CallRequest(
            tool=draft.name if entry is None else entry.name,
            arguments={"arguments": draft.arguments} if arguments is None else arguments,
            principal=plan.principal,
            agent=plan.agent,
            run_id=plan.run_id,
            begins_run=True,
        )
        await self._pipeline.refused(request, refusal, entry=entry)

    def _count_refusal(self, draft: ToolCallDraft, code: str) -> None:
        entry = None if draft.tool is None else draft.tool.entry
        tool, source = (None, "") if entry is None else (entry.name, entry.tool.source)
        self._pipeline.counters.refuse(code, principal=self._plan.principal.on_record, tool=tool, source=source)

    def _refused_entry(
        self,
        draft: ToolCallDraft,
        arguments: dict[str, object] | str,
        outcome: Failed,
        *,
        status: CallStatus = CallStatus.REFUSED,
    ) -> JournalEntry:
        entry = None if draft.tool is None else draft.tool.entry
        call = Call(
            id=_call_id(draft),
            run_id=self._plan.run_id,
            tool=draft.name[:64] if entry is None else entry.name,
            source="" if entry is None else entry.tool.source,
            tool_version="" if entry is None else entry.version,
            arguments=Raw(msgspec.json.encode(arguments if isinstance(arguments, dict) else draft.arguments)),
            principal=self._plan.principal.name,
            status=status,
            agent=self._plan.agent,
        )
        return JournalEntry(call=call, work=outcome)

    async def _go_on(self, entry: JournalEntry, recorded: Call) -> Call:
        if entry.prepared is None:
            return recorded
        return await with_whole_result(self._store, await self._pipeline.go_on(entry.prepared, written=recorded))

    async def _execute_one(
        self, draft: ToolCallDraft, place: Callable[[], int], turn: "_Turn | None" = None
    ) -> ToolOutput | None:
        if draft.refusal is not None:
            await self._refuse(draft, Refused(draft.refusal))
            return refusal_output(draft.refusal)
        assert draft.tool is not None
        if not draft.tool.runs_here:
            assert isinstance(draft.item, ClientCall)
            assert draft.index is not None
            self._emit(events.RunItemDone(draft.index, finished_call(draft.item, draft.arguments)))
            return None
        arguments = parsed_arguments(draft.arguments)
        if isinstance(draft.item, ToolSearchCall):
            # It only reads, so it may be done again.
            return await self._search(draft, draft.item, arguments, place, {} if turn is None else turn.shown)
        if isinstance(arguments, str):
            await self._refuse(draft, InvalidArguments(arguments, details=[]))
            return self.finish_item(draft, refusal_output(arguments))
        if draft.item is None:
            return await self._ask_first(draft, arguments, place, turn)
        return await self._execute_shown(draft, arguments, turn)

    async def _execute_shown(
        self, draft: ToolCallDraft, arguments: dict[str, object], turn: "_Turn | None"
    ) -> ToolOutput:
        assert isinstance(draft.item, McpCall)
        assert draft.index is not None
        self._emit(events.ToolRunning(draft.index))
        made = await self._call(draft, arguments, call_id=record_id(draft.item.id), index=draft.index, turn=turn)
        output = made if isinstance(made, ToolOutput) else self._output(made)
        if isinstance(made, Call) and _parks(made, turn):
            return msgspec.structs.replace(output, parks=True)
        return self.finish_item(draft, output)

    def _output(self, call: Call) -> ToolOutput:
        return output_of(call, login_url=self._pipeline.login_url(call, principal=self._plan.principal))

    async def _search(
        self,
        draft: ToolCallDraft,
        item: ToolSearchCall,
        arguments: dict[str, object] | str,
        place: Callable[[], int],
        shown: Mapping[str, int],
    ) -> ToolOutput:
        """A search for tools: its call and what was found are items of their own."""
        assert draft.index is not None
        self._emit(events.RunItemDone(draft.index, finished_call(item, draft.arguments)))
        call_id = record_id(item.id)
        made: Call | ToolOutput
        if isinstance(arguments, str):
            await self._refuse(draft, InvalidArguments(arguments, details=[]))
            made = refusal_output(arguments)
        else:
            made = await self._call(draft, arguments, call_id=call_id, index=None)
        output = made if isinstance(made, ToolOutput) else output_of(made)
        found = [self._plan.tools[name] for name in found_names(output.text) if name in self._plan.tools]
        item_id = f"{ID_PREFIX[ToolSearchOutput]}_{call_id}"
        begun = ToolSearchOutput(id=item_id, execution="server", status="in_progress")
        index = self._added(begun, place, shown)
        status: Literal["completed", "incomplete"] = "completed" if output.error is None else "incomplete"
        self._emit(events.RunItemDone(index, msgspec.structs.replace(begun, tools=tools_on_wire(found), status=status)))
        return output

    async def _ask_first(
        self, draft: ToolCallDraft, arguments: dict[str, object], place: Callable[[], int], turn: "_Turn | None"
    ) -> ToolOutput:
        """Put the call on record as one that needs approval, and show the request for it."""
        assert draft.tool is not None
        call_id = draft.record or new_id("call")
        made = await self._call(draft, arguments, call_id=call_id, index=None, turn=turn)
        if isinstance(made, ToolOutput):
            return made
        request = McpApprovalRequest(
            id=f"{APPROVAL_PREFIX}{call_id}",
            server_label=draft.tool.label,
            name=draft.tool.bare_name,
            arguments=draft.arguments,
        )
        shown = {} if turn is None else turn.shown
        if request.id not in shown:
            self._emit(events.RunItemDone(self._added(request, place, shown), request))
        if turn is None or not turn.journal.in_background or made.awaited_by is None:
            return output_of(made)
        if _parks(made, turn):
            return msgspec.structs.replace(self._output(made), parks=True)
        return self._show_answered(request, made, place, shown)

    def _show_answered(
        self, request: McpApprovalRequest, call: Call, place: Callable[[], int], shown: Mapping[str, int]
    ) -> ToolOutput:
        """What became of a call that somebody was asked to allow: an item of its own, behind the request."""
        item = McpCall(
            id=mcp_item_id(call.id),
            server_label=request.server_label,
            name=request.name,
            arguments=bytes(call.arguments).decode(),
            status="in_progress",
            approval_request_id=request.id,
        )
        index, output = self._added(item, place, shown), output_of(call)
        self._emit(events.ToolRunning(index))
        self._emit(events.RunItemDone(index, _finished(item, output)))
        return output

    def _added(self, item: Item, place: Callable[[], int], shown: Mapping[str, int]) -> int:
        """The place of an item, which is added there unless it was before."""
        if (before := shown.get(item.id)) is not None:
            return before
        index = place()
        self._emit(events.RunItemAdded(index, item))
        return index

    async def _call(
        self,
        draft: ToolCallDraft,
        arguments: dict[str, object],
        *,
        call_id: str,
        index: int | None,
        turn: "_Turn | None" = None,
    ) -> Call | ToolOutput:
        """The call at its end, or where somebody else has to act; or what the model is told of a refused one."""
        try:
            async with self._reporting(call_id, index):
                if turn is not None:
                    made = await self._call_on_record(draft, turn)
                else:
                    request = self._request(draft, arguments, space_id=self._plan.space_id)
                    made = await self._pipeline.call(request, call_id=call_id)
            return await with_whole_result(self._store, made)
        except Refused as refusal:
            if turn is not None and turn.journal.in_background and goes_on_later(refusal):
                raise
            await self._refuse(draft, refusal, arguments)
            if isinstance(refusal, InvalidArguments):
                return refusal_output(refusal.message)
            return failure_output(Failed(refusal.code, refusal.message))
        except asyncio.CancelledError:
            if turn is not None and not turn.journal.is_stopped:
                raise
            with suppress(Refused):
                await asyncio.shield(self._pipeline.cancel(call_id, principal=self._plan.principal))
            raise

    async def _call_on_record(self, draft: ToolCallDraft, turn: "_Turn") -> Call:
        """A call of a run that outlives its gateway. What was begun before is waited for, never begun again."""
        assert draft.record is not None
        if turn.is_known:
            call = await self._store.read(partial(call_tx.get_call, draft.record))
            if call is not None:
                return await self._as_it_ends(call)
        prepared = turn.ready or await self._prepared(draft, turn)
        if isinstance(prepared, Refused):
            raise prepared
        assert prepared is not None
        if not _is_on_journal(prepared):
            return await self._pipeline.carry_on(prepared)
        written = turn.written or await turn.journal.add(prepared.call, step=turn.step, place=turn.place)
        if written.status in _FOR_SOMEBODY:
            self._pipeline.announce(prepared, written=written)
            return written
        return await self._pipeline.go_on(prepared, written=written)

    async def _as_it_ends(self, call: Call) -> Call:
        if call.status is CallStatus.WAITING:
            return await self._pipeline.wait_on(call)
        if call.status is not CallStatus.RUNNING:
            return call
        return await self._pipeline.wait(call.id, seconds=call.timeout_ms / 1000 + SPARE_SECONDS, or_login=True)

    def _request(
        self,
        draft: ToolCallDraft,
        arguments: dict[str, object],
        *,
        space_id: str | None,
        takes_pending: bool = False,
    ) -> CallRequest:
        tool, plan = draft.tool, self._plan
        assert tool is not None
        assert tool.entry is not None
        if tool.target is not None:
            target = tool.target(arguments)
            return CallRequest(
                tool=target.entry.name,
                arguments=target.arguments,
                principal=plan.principal,
                agent=plan.agent,
                run_id=plan.run_id,
                begins_run=True,
                takes_pending=takes_pending,
                entry=target.entry,
                needs=Scope.READ,
            )
        return CallRequest(
            tool=tool.entry.name,
            arguments=arguments,
            principal=plan.principal,
            agent=plan.agent,
            space_id=space_id,
            chat_id=plan.chat_id,
            run_id=plan.run_id,
            begins_run=True,
            takes_pending=takes_pending,
            asks_first=tool.asks_first,
            entry=tool.entry if tool.is_private else None,
            is_own=tool.is_own,
            config=tool.options,
            only_reads=tool.searches,
        )

    @asynccontextmanager
    async def _reporting(self, call_id: str, index: int | None) -> AsyncIterator[None]:
        """While the block runs, progress of the call is progress of its item."""
        if index is None:
            yield
            return
        async with self._pipeline.events.follow(call_id) as followed:
            reporting = asyncio.create_task(self._report_progress(followed, index))
            try:
                yield
            finally:
                reporting.cancel()
                await asyncio.wait((reporting,))

    async def _report_progress(self, followed: AsyncIterator[call_events.CallEvent], index: int) -> None:
        reported = 0
        async for event in followed:
            if event.type == call_events.PROGRESS and event.progress is not None and reported < MOST_PROGRESS:
                reported += 1
                progress = event.progress
                self._emit(events.RunToolProgress(index, progress.progress, progress.total, progress.message))

    def finish_item(self, draft: ToolCallDraft, output: ToolOutput) -> ToolOutput:
        """Tell what became of a call, where it is an item."""
        if isinstance(draft.item, McpCall) and draft.index is not None:
            item = msgspec.structs.replace(draft.item, arguments=draft.arguments)
            self._emit(events.RunItemDone(draft.index, _finished(item, output)))
        return output


def goes_on_later(fault: Exception) -> bool:
    """Whether it is this gateway that cannot go on now: its store is away, or it stops. A model is not told of that:
    a run on record is gone on with later, or by another gateway.
    """
    return isinstance(fault, Unavailable) and not isinstance(fault, SourceUnavailable)


@contextmanager
def _first_of_group() -> Iterator[None]:
    """What ends a run reaches whoever runs it by itself, not as one of a group."""
    try:
        yield
    except ExceptionGroup as group:
        raise group.exceptions[0] from None


def _finished(item: McpCall, output: ToolOutput) -> McpCall:
    return msgspec.structs.replace(
        item,
        output=None if output.error is not None else output.text,
        error=output.error,
        status=output.status,
        images=len(output.images) or UNSET,
    )


class _Turn(Struct, kw_only=True):
    """Where a call stands in the journal of its run."""

    step: int
    place: int
    journal: LoopJournal
    is_known: bool
    """Its step was on record before: it may have begun."""
    shown: Mapping[str, int]
    """The places of items that were told before, by their ids."""
    ready: Prepared | Refused | None = None
    written: Call | None = None


def _is_on_journal(ready: Prepared | Refused | None) -> TypeGuard[Prepared]:
    """Whether a call goes on record with its step: it runs here and now, or the run is parked until it is answered."""
    if not isinstance(ready, Prepared) or ready.refusal is not None:
        return False
    return ready.call.status is CallStatus.RUNNING or ready.request.takes_pending


def _parks(call: Call, turn: _Turn | None) -> bool:
    """Whether the run waits for this call."""
    return turn is not None and turn.journal.in_background and call.awaited_by is not None and slot_of(call) is None


def parsed_arguments(text: str) -> dict[str, object] | str:
    """The arguments as an object, or what is wrong with them, in words for the model. No text is no arguments."""
    try:
        arguments = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError) as error:
        return f"The arguments are not valid JSON: {error}. Send one JSON object."
    if not isinstance(arguments, dict):
        return "The arguments must be one JSON object."
    return arguments


def _call_id(draft: ToolCallDraft) -> str:
    """The id that the call's record has: its item carries it already."""
    return record_id(draft.item.id) if isinstance(draft.item, McpCall) else new_id("call")
