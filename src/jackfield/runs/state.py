"""What a run knows after each step of its model, as it is put on record: enough to go on anywhere.

Above: the loop, and whoever keeps a run's journal. Below: the items. Each step has what was added to the conversation
since the one before, and all else as it stands, so that a run is restored from all its steps in their order.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from jackfield.model.call import Call
from jackfield.model.items import CustomToolCall, FunctionCall, Item, McpCall, ToolSearchCall, Usage
from jackfield.runs.step import ToolCallDraft
from jackfield.runs.tools import ToolTable

GONE = "There is no tool '{name}' any more. Use another one, or answer without."


class AskedCall(Struct, frozen=True, kw_only=True):
    """A call as the model asked for it."""

    call_id: str
    name: str
    arguments: str
    refusal: str | None = None
    index: int | None = None
    item: McpCall | FunctionCall | CustomToolCall | ToolSearchCall | None = None
    record: str | None = None


class LoopState(Struct, frozen=True, kw_only=True):
    """A run right after its model has spoken, before any of its calls has begun."""

    items: tuple[Item, ...] = ()
    """What was added to the conversation since the step before."""
    calls: tuple[AskedCall, ...] = ()
    usage: Usage | None = None
    called: tuple[str, ...] = ()
    run_here: int = 0
    steps: int = 0
    was_reminded: bool = False
    next_index: int = 0


class LoopJournal(Protocol):
    """Where a run's steps are put on record."""

    async def record(self, state: LoopState, calls: Mapping[int, Call]) -> Mapping[int, Call]:
        """T1: a step, with those of its calls that begin at once, by their places in it; as they are on record."""

    async def add(self, call: Call, *, step: int, place: int) -> Call:
        """T1 for one call that had to wait for others of its step."""

    @property
    def is_stopped(self) -> bool:
        """Whether nobody goes on with the run when it is cut short; else its calls go on with it."""

    @property
    def in_background(self) -> bool:
        """Nobody waits for the run: its beginning is on record before its model is asked, and it is parked while it
        waits for somebody.
        """


class RecordedStep(Struct, frozen=True):
    """A step that is on record: its calls."""

    calls: list[ToolCallDraft]


def asked_calls(drafts: Sequence[ToolCallDraft]) -> tuple[AskedCall, ...]:
    return tuple(
        AskedCall(
            call_id=draft.call_id,
            name=draft.name,
            arguments=draft.arguments,
            refusal=draft.refusal,
            index=draft.index,
            item=draft.item,
            record=draft.record,
        )
        for draft in drafts
    )


def recorded_step(state: LoopState, tools: ToolTable) -> RecordedStep:
    """The calls of a step again, as far as their tools are still there."""
    return RecordedStep([_draft(asked, tools) for asked in state.calls])


def _draft(asked: AskedCall, tools: ToolTable) -> ToolCallDraft:
    tool = tools.get(asked.name) if asked.refusal is None else None
    refusal = asked.refusal if tool is not None or asked.refusal is not None else GONE.format(name=asked.name)
    return ToolCallDraft(
        call_id=asked.call_id,
        name=asked.name,
        tool=tool,
        refusal=refusal,
        index=asked.index,
        item=asked.item,
        pieces=[asked.arguments],
        record=asked.record,
    )


encode_state = msgspec.json.Encoder().encode
decode_state = msgspec.json.Decoder(LoopState).decode
