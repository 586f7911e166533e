"""One step of an agent's cycle: what the model asked for is on record before any of it runs (T1), then it runs.

All are prepared by the pipeline before it. Built-in tools run inside that transaction, all others after it. Above: the
cycle's loop. Below: the pipeline and the store.
"""

import asyncio
from functools import partial

import msgspec
from msgspec import Raw, Struct

from jackfield.agents.builtin_handlers import StepContext, space_after
from jackfield.agents.builtin_tools import is_builtin
from jackfield.agents.cycle_transactions import Cycle, StepCall, take_step
from jackfield.agents.live_publisher import LivePublisher
from jackfield.agents.turns import Turn
from jackfield.agents.types import Agent
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.requests import CallRequest, Prepared
from jackfield.errors import Refused
from jackfield.model.call import Call, CallStatus, Done, Failed
from jackfield.model.ids import new_id
from jackfield.model.items import Item, McpCall, Usage
from jackfield.model.tool import BUILTIN
from jackfield.runs.loop import model_call
from jackfield.runs.outputs import Told, made_whole, told_of
from jackfield.runs.running import parsed_arguments
from jackfield.runs.step import StepAccumulator, ToolCallDraft, record_id
from jackfield.runs.tools import Offered
from jackfield.sources.base import InTransaction
from jackfield.store import Store
from jackfield.store.scripts import Script

ENDS_THE_CYCLE = "skip"
LONGEST = 100_000
"""Characters of one output that an agent's model is told; the record has all of it."""


class Fenced(Exception):
    """Another gateway has taken the cycle over, or it is over: nothing more may be written for it here."""


class StepMessage(Struct, frozen=True):
    """What the journal keeps of one answer of the model."""

    items: tuple[Item, ...]
    """What it thought and said, then its calls in their order."""
    usage: Usage | None = None


class Draft(Struct, frozen=True, kw_only=True):
    """One call before it is on record."""

    step_call: StepCall
    prepared: Prepared | None = None
    """How it goes on; None: it is over with the step."""


class StepTaker:
    """The actor of one cycle's loop."""

    def __init__(
        self,
        *,
        cycle: Cycle,
        persona: Agent,
        store: Store,
        pipeline: Pipeline,
        telling: LivePublisher,
        turn: Turn,
        next_step: int,
        hops: int,
    ) -> None:
        self.next_step = next_step
        self.called: list[str] = []
        """Names of the tools that were called."""
        self._cycle = cycle
        self._persona = persona
        self._store = store
        self._pipeline = pipeline
        self._telling = telling
        self._turn = turn
        self._context = StepContext(
            cycle=cycle, agent_name=persona.name, hops=hops, max_exchanges=persona.settings.max_exchanges
        )

    def asks_first(self, tool: Offered) -> bool:  # noqa: ARG002 - the loop's interface
        """A call that a person has to allow is pending like any other; there is nobody to show a question to."""
        return False

    async def act(self, speech: StepAccumulator, place: object) -> list[Told | None]:  # noqa: ARG002 - adds no items
        """Record the step, then see its calls to where their slots are decided."""
        await self._telling.finish()
        drafts = []
        space_id = self._telling.space_id
        for call in speech.calls:
            drafts.append(await self._draft(call, space_id=space_id))
            space_id = self._telling.expected_space(call.name, call.arguments, before=space_id)
        message = StepMessage((*speech.said, *map(model_call, speech.calls)), speech.usage)
        written = await self._store.write(
            partial(
                take_step,
                self._cycle,
                n=self.next_step,
                message=msgspec.json.encode(message).decode(),
                calls=[draft.step_call for draft in drafts],
                large_result=self._store.large_result,
            )
        )
        if written is None:
            raise Fenced
        self._telling.begun.clear()
        self.next_step += 1
        self.called += [call.name for call in speech.calls]
        for made in written:
            self._telling.space_id = whereabouts_after(self._telling.space_id, made)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._carry_on(draft, made)) for draft, made in zip(drafts, written, strict=True)
            ]
            await self._until_decided(tasks, written)
        return [told_in_cycle(task.result()) for task in tasks]

    async def _until_decided(self, tasks: list[asyncio.Task[Call]], written: tuple[Call, ...]) -> None:
        """What runs here is this cycle at work. While all that is left is somebody else's to answer, it only waits."""
        waits = [call.status is CallStatus.WAITING for call in written]
        here = [task for task, is_waiting in zip(tasks, waits, strict=True) if not is_waiting]
        if here:
            await asyncio.wait(here)
        if len(here) < len(tasks):
            async with self._turn.waiting():
                await asyncio.wait(tasks)

    async def _carry_on(self, draft: Draft, written: Call) -> Call:
        if draft.prepared is None:
            return written
        return await made_whole(self._store, await self._pipeline.go_on(draft.prepared, written=written))

    async def _draft(self, call: ToolCallDraft, *, space_id: str | None) -> Draft:
        """The call as it will be on record. What is wrong with it is its outcome, for the model to read."""
        arguments = parsed_arguments(call.arguments)
        if call.refusal is not None:
            return self._over(call, arguments, Failed("refused", call.refusal))
        if isinstance(arguments, str):
            return self._over(call, arguments, Failed("invalid_arguments", arguments))
        assert call.tool is not None
        try:
            return await self._prepared(call, call.tool, arguments, space_id=space_id)
        except Refused as refusal:
            return self._over(call, arguments, Failed(refusal.code, refusal.message))

    async def _prepared(
        self, call: ToolCallDraft, tool: Offered, arguments: dict[str, object], *, space_id: str | None
    ) -> Draft:
        assert tool.entry is not None
        request = CallRequest(
            tool=tool.entry.name,
            arguments=arguments,
            principal=self._persona.principal,
            agent=self._persona.id,
            space_id=space_id,
            run_id=self._cycle.id,
            takes_pending=True,
            begins_run=True,
            entry=tool.entry if tool.is_private else None,
            is_own=tool.is_own,
        )
        prepared = await self._pipeline.prepare(request, call_id=_record_id(call))
        if prepared.refusal is not None:
            return self._over(call, arguments, prepared.refusal, prepared=prepared)
        if not is_builtin(tool):
            return Draft(step_call=StepCall(prepared.call), prepared=prepared)
        work = await self._pipeline.work_of(prepared)
        script = partial(work.script, self._context) if isinstance(work, InTransaction) else partial(_only, work)
        return Draft(step_call=StepCall(prepared.call, builtin=script), prepared=prepared)

    def _over(
        self,
        call: ToolCallDraft,
        arguments: dict[str, object] | str,
        outcome: Failed,
        *,
        prepared: Prepared | None = None,
    ) -> Draft:
        row = self._row(call, arguments)
        seen_in = self._telling.begun.get(row.id)
        if seen_in is not None:
            row = msgspec.structs.replace(row, shown="whole", space_id=seen_in)
        return Draft(step_call=StepCall(row, builtin=partial(_only, outcome)), prepared=prepared)

    def _row(self, call: ToolCallDraft, arguments: dict[str, object] | str) -> Call:
        """The row of a call that is over when it is written."""
        entry = None if call.tool is None else call.tool.entry
        return Call(
            id=_record_id(call),
            run_id=self._cycle.id,
            tool=call.name[:64] if entry is None else entry.name,
            source="" if entry is None else entry.tool.source,
            tool_version="" if entry is None else entry.version,
            arguments=Raw(msgspec.json.encode(arguments if isinstance(arguments, dict) else call.arguments)),
            principal=self._persona.principal.name,
            status=CallStatus.COMPLETED,
            agent=self._persona.id,
            space_id=self._telling.space_id,
            owner=self._cycle.owner,
        )


def told_in_cycle(call: Call) -> Told:
    """What the agent is told of a call: its slot. It goes on although somebody else has still to answer."""
    told = told_of(call)
    text = told.text if len(told.text) <= LONGEST else f"{told.text[:LONGEST]}… ({len(told.text) - LONGEST} more)"
    ends = _is(call, ENDS_THE_CYCLE) and isinstance(call.outcome, Done)
    return msgspec.structs.replace(told, text=text, waits=False, ends=ends)


def whereabouts_after(space_id: str | None, call: Call) -> str | None:
    """The active space after a call that is on record."""
    outcome = call.outcome
    if not _is(call, "enter_space", "leave_space") or not isinstance(outcome, Done):
        return space_id
    return space_after(space_id, call.tool, msgspec.json.decode(call.arguments), outcome)


def _is(call: Call, *names: str) -> bool:
    """Whether it is a call of one of these built-in tools, and not of a tool that is called the same."""
    return call.tool in names and call.source == BUILTIN


def _record_id(call: ToolCallDraft) -> str:
    return record_id(call.item.id) if isinstance(call.item, McpCall) else new_id("call")


def _only(outcome: Done | Failed) -> Script[Done | Failed]:
    yield from ()
    return outcome
