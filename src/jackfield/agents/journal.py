"""The journal of a cycle: its steps are recorded before their calls begin (T1), and replayed when it is resumed.

All calls of a step are prepared by the pipeline before. Built-in tools run inside the transaction that records the
step, all others after it. Above: the cycle runner and the tool executor. Below: the store.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

import msgspec
from msgspec import Struct

from jackfield.agents.builtin_handlers import StepContext, space_after
from jackfield.agents.cycle_transactions import Step, StepCall, take_step
from jackfield.agents.live_publisher import LivePublisher
from jackfield.model.call import Call, Done, Failed
from jackfield.model.items import FunctionCall, FunctionCallOutput, Item, Usage
from jackfield.model.tool import BUILTIN
from jackfield.runs.outputs import ToolOutput, output_of
from jackfield.runs.step import StepAccumulator, ToolCallDraft
from jackfield.runs.tool_executor import JournalEntry
from jackfield.runs.transactions import Fenced
from jackfield.sources.base import InTransaction
from jackfield.store import Store
from jackfield.store.scripts import Script

ENDS_THE_CYCLE = "skip"
LONGEST = 100_000
"""Characters of one output that an agent's model is told; the record has all of it."""


class StepMessage(Struct, frozen=True):
    """What the journal keeps of one answer of the model."""

    items: tuple[Item, ...]
    """What it thought and said, then its calls in their order."""
    usage: Usage | None = None


_decode = msgspec.json.Decoder(StepMessage).decode


class CycleJournal:
    """Records the steps of one cycle."""

    def __init__(
        self,
        context: StepContext,
        *,
        store: Store,
        publisher: LivePublisher,
        waiting: Callable[[], AbstractAsyncContextManager[None]],
        next_step: int,
    ) -> None:
        self.called: list[str] = []
        """Names of the tools that were called."""
        self._context = context
        self._store = store
        self._publisher = publisher
        self.waiting = waiting
        self.output_of = output_in_cycle
        self._next_step = next_step

    async def spaces_of(self, calls: Sequence[ToolCallDraft]) -> list[str | None]:
        """The active space at each call: the calls before it in the same step may enter or leave one."""
        await self._publisher.finish()
        spaces: list[str | None] = []
        space_id = self._publisher.space_id
        for call in calls:
            spaces.append(space_id)
            space_id = self._publisher.expected_space(call.name, call.arguments, before=space_id)
        return spaces

    async def record(self, step: StepAccumulator, entries: Sequence[JournalEntry]) -> tuple[Call, ...]:
        """T1. Raises `Fenced`, and then nothing was written."""
        publisher = self._publisher
        message = StepMessage((*step.said, *(call.function_call for call in step.calls)), step.usage)
        recorded = await self._store.write(
            partial(
                take_step,
                self._context.cycle,
                n=self._next_step,
                message=msgspec.json.encode(message).decode(),
                calls=[self._step_call(entry) for entry in entries],
                large_result=self._store.large_result,
            )
        )
        if recorded is None:
            raise Fenced
        publisher.begun.clear()
        self._next_step += 1
        self.called += [call.name for call in step.calls]
        for call in recorded:
            publisher.space_id = active_space_after(publisher.space_id, call)
        return recorded

    def _step_call(self, entry: JournalEntry) -> StepCall:
        call, work = entry.call, entry.work
        if work is None:
            return StepCall(call)
        if isinstance(work, InTransaction):
            return StepCall(call, builtin=partial(work.script, self._context))
        if entry.prepared is None or entry.prepared.refusal is not None:
            shown_in = self._publisher.begun.get(call.id)
            call = msgspec.structs.replace(
                call,
                owner=self._context.cycle.owner,
                space_id=shown_in or self._publisher.space_id,
                shown="whole" if shown_in is not None else None,
            )
        return StepCall(call, builtin=partial(_only, work))


class Replay(Struct, frozen=True, kw_only=True):
    """A cycle up to its last step."""

    items: tuple[Item, ...] = ()
    usage: Usage | None = None
    space_id: str | None = None
    """The active space."""
    called: tuple[str, ...] = ()
    is_over: bool = False
    """Its last step ended it."""


def replayed(steps: Sequence[Step]) -> Replay:
    """The steps in their order, each with what its calls came to: every call has a decided slot by now."""
    items: list[Item] = []
    usage: Usage | None = None
    space_id: str | None = None
    called: list[str] = []
    is_over = False
    for step in steps:
        message = _decode(step.message)
        if message.usage is not None:
            usage = message.usage if usage is None else usage.plus(message.usage)
        made = [item for item in message.items if isinstance(item, FunctionCall)]
        outputs = [output_in_cycle(call) for call in step.calls]
        items += message.items
        items += [
            FunctionCallOutput(call_id=item.call_id, output=output.output)
            for item, output in zip(made, outputs, strict=True)
        ]
        called += [item.name for item in made]
        for call in step.calls:
            space_id = active_space_after(space_id, call)
        is_over = any(output.ends for output in outputs)
    return Replay(items=tuple(items), usage=usage, space_id=space_id, called=tuple(called), is_over=is_over)


def output_in_cycle(call: Call) -> ToolOutput:
    """What the agent is told of a call: its slot. It goes on although somebody else has still to answer."""
    output = output_of(call)
    text = output.text
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}… ({len(text) - LONGEST} more)"
    ends = call.tool == ENDS_THE_CYCLE and call.source == BUILTIN and isinstance(call.outcome, Done)
    return msgspec.structs.replace(output, text=text, waits=False, ends=ends)


def active_space_after(space_id: str | None, call: Call) -> str | None:
    """The active space after a call that is on record."""
    outcome = call.outcome
    if call.source != BUILTIN or call.tool not in ("enter_space", "leave_space") or not isinstance(outcome, Done):
        return space_id
    return space_after(space_id, call.tool, msgspec.json.decode(call.arguments), outcome)


def _only(outcome: Done | Failed) -> Script[Done | Failed]:
    yield from ()
    return outcome
