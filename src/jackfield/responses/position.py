"""Where a stream stands, read from its events: for whoever goes on with it, or ends it, at another gateway.

Above: `storage.py` and `run.py`. Below: the writer's drafts. Pure.
"""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType

from jackfield.model.items import (
    Item,
    McpApprovalRequest,
    McpCall,
    OutputText,
    Part,
    ReasoningText,
    Refusal,
    SummaryText,
    ToolSearchOutput,
)
from jackfield.responses.wire import Frame
from jackfield.responses.writer import ItemDraft, PartKind, StreamPosition

ITEM_ADDED = "response.output_item.added"
ITEM_DONE = "response.output_item.done"


class _Told(Struct, frozen=True):
    output_index: int | UnsetType = UNSET
    item: Item | UnsetType = UNSET
    part: Part | UnsetType = UNSET
    delta: str | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Told).decode


def position_after(frames: Iterable[Frame]) -> StreamPosition:
    """The items that these events tell of, done and begun."""
    done: dict[int, Item] = {}
    drafts: dict[int, ItemDraft] = {}
    following = 0
    for frame in frames:
        following = frame.sequence_number + 1
        if not _is_of_item(frame):
            continue
        told = _decode(frame.data)
        if told.output_index is UNSET:
            continue
        if frame.type == ITEM_ADDED and told.item is not UNSET:
            drafts[told.output_index] = ItemDraft(told.output_index, told.item)
        elif frame.type == ITEM_DONE and told.item is not UNSET:
            drafts.pop(told.output_index, None)
            done[told.output_index] = told.item
        elif (draft := drafts.get(told.output_index)) is not None:
            _take(draft, frame.type, told)
    return StreamPosition(done=done, next=following, drafts=drafts)


def split_at_step(frames: Sequence[Frame], *, recorded: int) -> tuple[Sequence[Frame], Sequence[Frame]]:
    """Events up to the last step on record and what its calls came to, and those of a step that is not on record.

    `recorded` is the number of the first event after the last step was put on record.
    """
    for place, frame in enumerate(frames):
        if frame.sequence_number < recorded or frame.type != ITEM_ADDED:
            continue
        if not _is_made_by_calls(_decode(frame.data).item):
            return frames[:place], frames[place:]
    return frames, ()


def _is_made_by_calls(item: Item | UnsetType) -> bool:
    """Whether an item comes of a step's calls; every other one begins while the model speaks."""
    if isinstance(item, McpCall):
        return item.approval_request_id is not None
    return isinstance(item, ToolSearchOutput | McpApprovalRequest)


def items_in(frames: Iterable[Frame]) -> dict[int, Item]:
    """The items that begin in these events, by their places."""
    found: dict[int, Item] = {}
    for frame in frames:
        if frame.type == ITEM_ADDED:
            told = _decode(frame.data)
            if told.output_index is not UNSET and told.item is not UNSET:
                found[told.output_index] = told.item
    return found


def _is_of_item(frame: Frame) -> bool:
    return b'"output_index"' in frame.data


def _take(draft: ItemDraft, kind: str, told: _Told) -> None:
    if kind.endswith("part.added") and told.part is not UNSET:
        draft.begin_part(_kind(told.part))
    elif kind.endswith("part.done"):
        draft.open_part = None
    elif kind.endswith("arguments.delta") and told.delta is not UNSET:
        draft.arguments.append(told.delta)
    elif kind.endswith("arguments.done"):
        draft.has_arguments_done = True
    elif kind.endswith(".in_progress"):
        draft.is_running = True
    elif kind.endswith(".delta") and told.delta is not UNSET and draft.open_part is not None:
        draft.open_part.pieces.append(told.delta)


def _kind(part: Part) -> PartKind:
    match part:
        case Refusal():
            return "refusal"
        case ReasoningText():
            return "reasoning"
        case SummaryText():
            return "summary"
        case OutputText():
            return "text"
    return "text"
