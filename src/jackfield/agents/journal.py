"""What a cycle has on record, as its model is told it, so that it goes on anywhere after its last step. Pure.

Above: the cycle. Below: the store's journal; every call in it has a decided slot by now.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from jackfield.agents.cycle_transactions import Step
from jackfield.agents.steps import StepMessage, told_in_cycle, whereabouts_after
from jackfield.model.call import Call
from jackfield.model.items import FunctionCall, FunctionCallOutput, Item, Usage

_decode = msgspec.json.Decoder(StepMessage).decode


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
    """The steps in their order, each with what its calls came to."""
    items: list[Item] = []
    usage: Usage | None = None
    space_id: str | None = None
    called: list[str] = []
    is_over = False
    for step in steps:
        message = _decode(step.message)
        if message.usage is not None:
            usage = message.usage if usage is None else usage.plus(message.usage)
        items += _with_outputs(message.items, step.calls)
        for call in step.calls:
            space_id = whereabouts_after(space_id, call)
            called.append(call.tool)
        is_over = any(told_in_cycle(call).ends for call in step.calls)
    return Replay(items=tuple(items), usage=usage, space_id=space_id, called=tuple(called), is_over=is_over)


def _with_outputs(items: Sequence[Item], calls: Sequence[Call]) -> list[Item]:
    """What the model said and called, then the outputs of its calls, as the loop puts them."""
    made = [item for item in items if isinstance(item, FunctionCall)]
    outputs = [
        FunctionCallOutput(call_id=item.call_id, output=told_in_cycle(call).output)
        for item, call in zip(made, calls, strict=True)
    ]
    return [*items, *outputs]
