"""Loop events in, wire events out. No I/O and no clock of its own.

Above: `run.py`. Below: `wire.py`. Sequence numbers are assigned here only, on one thread, in the order of the loop's
events: no gap and no repeat, however many tools stream at once.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from jackfield.model.items import (
    ClientCall,
    CustomToolCall,
    FunctionCall,
    Item,
    McpCall,
    McpListTools,
    Message,
    OutputText,
    Part,
    Reasoning,
    ReasoningText,
    Refusal,
    SummaryText,
)
from jackfield.model.response_request import EventNames
from jackfield.responses import wire
from jackfield.responses.resource import ResponseResource, ended_resource
from jackfield.responses.wire import Frame
from jackfield.runs.events import (
    ArgumentsDelta,
    Ended,
    LoopEvent,
    OutputReasoningDelta,
    OutputRefusalDelta,
    OutputTextDelta,
    RunItemAdded,
    RunItemDone,
    RunStarted,
    RunToolProgress,
    ToolRunning,
)

_ERROR_TYPES = {"rate_limited": "too_many_requests", "internal_error": "server_error", "interrupted": "server_error"}
_LAST: dict[str, Callable[..., wire.Event]] = {
    "completed": wire.Completed,
    "requires_action": wire.Completed,
    "incomplete": wire.Incomplete,
    "failed": wire.FailedEvent,
    "cancelled": wire.Cancelled,
}


PartKind = Literal["text", "refusal", "reasoning", "summary"]
NOT_LISTED = "The listing was interrupted."


class DraftPart:
    """A part of the content, as far as it has come."""

    __slots__ = ("kind", "pieces")

    def __init__(self, kind: PartKind) -> None:
        self.kind = kind
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def part(self) -> Part:
        return made_part(self.kind, self.text)


class ItemDraft:
    """An item that was added and is not done."""

    __slots__ = ("arguments", "has_arguments_done", "index", "is_running", "item", "open_part", "parts")

    def __init__(self, index: int, item: Item) -> None:
        self.index = index
        self.item = item
        self.parts: list[DraftPart] = []
        self.open_part: DraftPart | None = None
        self.arguments: list[str] = []
        self.has_arguments_done = False
        self.is_running = False

    @property
    def content_index(self) -> int:
        """The place of the part that is open, or was last."""
        return len(self.parts) - 1

    def begin_part(self, kind: PartKind) -> DraftPart:
        self.open_part = DraftPart(kind)
        self.parts.append(self.open_part)
        return self.open_part

    def agreed(self, done: Item) -> Item:
        """The item as it stays, with the texts and arguments that were streamed."""
        if isinstance(done, Reasoning) and self.parts and self.parts[0].kind == "summary":
            return msgspec.structs.replace(done, content=(), summary=tuple(part.part for part in self.parts))
        if isinstance(done, Message | Reasoning) and self.parts:
            return msgspec.structs.replace(done, content=_agreed_parts(self.parts, done.content))
        if isinstance(done, FunctionCall | McpCall) and self.arguments:
            return msgspec.structs.replace(done, arguments="".join(self.arguments))
        return done

    def cut_short(self) -> Item:
        """The item as it stays when the response ends before it does."""
        item = self.item
        if isinstance(item, McpListTools):
            return msgspec.structs.replace(item, error=NOT_LISTED)
        if isinstance(item, Message | Reasoning | ClientCall | McpCall):
            return self.agreed(msgspec.structs.replace(item, status="incomplete"))
        return item


def unsaid_parts(draft: ItemDraft, done: Item) -> Sequence[Part]:
    """The parts of a finished item that no delta announced."""
    if isinstance(done, Message | Reasoning):
        return done.content[len(draft.parts) :]
    return ()


def kind_of(part: Part) -> PartKind | None:
    """Which deltas a part is streamed by; None: it comes whole, with its item."""
    match part:
        case OutputText():
            return "text"
        case Refusal():
            return "refusal"
        case ReasoningText():
            return "reasoning"
    return None


def made_part(kind: PartKind, text: str) -> Part:
    if kind == "refusal":
        return Refusal(refusal=text)
    if kind == "summary":
        return SummaryText(text=text)
    return ReasoningText(text=text) if kind == "reasoning" else OutputText(text=text)


def text_in(part: Part) -> str:
    """The words of a part that is streamed."""
    if isinstance(part, Refusal):
        return part.refusal
    return part.text if isinstance(part, OutputText | ReasoningText) else ""


def _agreed_parts(said: Sequence[DraftPart], done: tuple[Part, ...]) -> tuple[Part, ...]:
    """What was streamed, with what only the finished part knows; then the parts that were not streamed."""
    agreed: list[Part] = []
    for number, draft in enumerate(said):
        final = done[number] if number < len(done) else None
        if isinstance(final, OutputText) and draft.kind == "text":
            agreed.append(msgspec.structs.replace(final, text=draft.text))
        else:
            agreed.append(draft.part)
    return (*agreed, *done[len(said) :])


class _Spelling(Struct, frozen=True):
    """The events of one kind of part: it begins, grows, is whole, ends; and what its place is called."""

    added: Callable[..., wire.Event]
    delta: Callable[..., wire.Event]
    whole: Callable[..., wire.Event]
    done: Callable[..., wire.Event]
    place: str = "content_index"
    word: str = "text"


_OPENAI: dict[PartKind, _Spelling] = {
    "text": _Spelling(wire.PartAdded, wire.TextDeltaEvent, wire.TextDone, wire.PartDone),
    "refusal": _Spelling(wire.PartAdded, wire.RefusalDeltaEvent, wire.RefusalDone, wire.PartDone, word="refusal"),
    "reasoning": _Spelling(wire.PartAdded, wire.ReasoningTextDelta, wire.ReasoningTextDone, wire.PartDone),
    "summary": _Spelling(
        wire.SummaryPartAdded, wire.SummaryDelta, wire.SummaryDone, wire.SummaryPartDone, place="summary_index"
    ),
}
_SPELLINGS: dict[EventNames, dict[PartKind, _Spelling]] = {
    "openai": _OPENAI,
    "open-responses": _OPENAI
    | {"reasoning": _Spelling(wire.PartAdded, wire.ReasoningDeltaEvent, wire.ReasoningDone, wire.PartDone)},
}
PROGRESS = "jackfield.progress"
"""In `include`: send progress of server-run calls."""


class StreamPosition(Struct, frozen=True, kw_only=True):
    """Where another writer of the same stream stopped: finished items, begun ones, and the next sequence number."""

    done: dict[int, Item]
    next: int
    drafts: dict[int, ItemDraft] = {}

    @property
    def next_index(self) -> int:
        """The next free place in the output."""
        return max((*self.done, *self.drafts), default=-1) + 1

    @property
    def places(self) -> Mapping[str, int]:
        """The places of all items, by their ids."""
        begun = {draft.item.id: index for index, draft in self.drafts.items()}
        return begun | {item.id: index for index, item in self.done.items()}

    @property
    def output(self) -> tuple[Item, ...]:
        """All items so far, in their order; those that are not done as far as they have come."""
        begun = {index: draft.agreed(draft.item) for index, draft in self.drafts.items()}
        return tuple(item for _, item in sorted((self.done | begun).items()))


class EventWriter:
    """One response's stream. `resource` is the response as it is now."""

    def __init__(
        self,
        resource: ResponseResource,
        *,
        now: Callable[[], int],
        position: StreamPosition | None = None,
        names: EventNames = "openai",
        include: Container[str] = (),
    ) -> None:
        self.resource = resource
        self._spellings = _SPELLINGS[names]
        self._sends_progress = PROGRESS in include
        wants_summary = resource.reasoning is not None and resource.reasoning.summary is not None
        self._reasoning_kind: PartKind = "summary" if wants_summary else "reasoning"
        self.is_over = False
        self._now = now
        self._next = 0 if position is None else position.next
        self._drafts: dict[int, ItemDraft] = {} if position is None else dict(position.drafts)
        self._done: dict[int, Item] = {} if position is None else dict(position.done)
        self._frames: list[Frame] = []
        self._handlers: Mapping[type[Any], Callable[[Any], None]] = {
            RunStarted: self._begun,
            RunItemAdded: self._added,
            OutputTextDelta: self._text,
            OutputRefusalDelta: self._refusal,
            OutputReasoningDelta: self._reasoning,
            ArgumentsDelta: self._arguments,
            ToolRunning: self._running,
            RunToolProgress: self._progress,
            RunItemDone: self._item_done,
            Ended: self._ended,
        }

    def take(self, event: LoopEvent) -> list[Frame]:
        """The frames for one loop event; none after the end."""
        if self.is_over:
            return []
        self._handlers[type(event)](event)
        frames, self._frames = self._frames, []
        return frames

    @property
    def snapshot(self) -> ResponseResource:
        """The response with its output so far."""
        return self.resource if self.is_over else msgspec.structs.replace(self.resource, output=self.output)

    @property
    def output(self) -> tuple[Item, ...]:
        """All items so far, in their order; those that are not done as far as they have come."""
        begun = {index: draft.agreed(draft.item) for index, draft in self._drafts.items()}
        return tuple(item for _, item in sorted((self._done | begun).items()))

    def _send(self, kind: Callable[..., wire.Event], **fields: Any) -> None:
        self._frames.append(kind(sequence_number=self._next, **fields).frame)
        self._next += 1

    def _send_for(self, kind: Callable[..., wire.Event], draft: ItemDraft, **fields: Any) -> None:
        self._send(kind, item_id=draft.item.id, output_index=draft.index, **fields)

    def queued(self) -> list[Frame]:
        """The frames of a response that waits for its turn."""
        self._created()
        frames, self._frames = self._frames, []
        return frames

    def _created(self) -> None:
        self._send(wire.Created, response=self.resource)
        if self.resource.status == "queued":
            self._send(wire.Queued, response=self.resource)

    def _begun(self, _event: RunStarted) -> None:
        if self._next == 0:
            self._created()
        self.resource = msgspec.structs.replace(self.resource, status="in_progress")
        self._send(wire.InProgress, response=self.resource)

    def _added(self, event: RunItemAdded) -> None:
        self._drafts[event.index] = ItemDraft(event.index, event.item)
        self._send(wire.ItemAddedEvent, output_index=event.index, item=event.item)

    def _text(self, event: OutputTextDelta) -> None:
        self._say("text", self._drafts[event.index], event.delta)

    def _refusal(self, event: OutputRefusalDelta) -> None:
        self._say("refusal", self._drafts[event.index], event.delta)

    def _reasoning(self, event: OutputReasoningDelta) -> None:
        self._say("reasoning", self._drafts[event.index], event.delta)

    def _say(self, kind: PartKind, draft: ItemDraft, delta: str) -> None:
        if kind == "reasoning":
            kind = self._reasoning_kind
        spelling, part = self._spellings[kind], draft.open_part
        if part is None or part.kind != kind:
            self._close_part(draft)
            part = draft.begin_part(kind)
            self._send_for(spelling.added, draft, **{spelling.place: draft.content_index}, part=made_part(kind, ""))
        if delta:
            part.pieces.append(delta)
            self._send_delta(spelling, draft, delta)

    def _send_delta(self, spelling: _Spelling, draft: ItemDraft, delta: str) -> None:
        """As `_tell` would; by itself, since every token comes here."""
        number, item_id, index, place = self._next, draft.item.id, draft.index, draft.content_index
        make = spelling.delta
        if spelling.place == "content_index":
            event = make(sequence_number=number, item_id=item_id, output_index=index, content_index=place, delta=delta)
        else:
            event = make(sequence_number=number, item_id=item_id, output_index=index, summary_index=place, delta=delta)
        self._frames.append(event.frame)
        self._next = number + 1

    def _close_part(self, draft: ItemDraft) -> None:
        part, draft.open_part = draft.open_part, None
        if part is None:
            return
        spelling = self._spellings[part.kind]
        place = {spelling.place: draft.content_index}
        self._send_for(spelling.whole, draft, **place, **{spelling.word: part.text})
        self._send_for(spelling.done, draft, **place, part=part.part)

    def _arguments(self, event: ArgumentsDelta) -> None:
        self._say_arguments(self._drafts[event.index], event.delta)

    def _say_arguments(self, draft: ItemDraft, delta: str) -> None:
        draft.arguments.append(delta)
        is_function = isinstance(draft.item, FunctionCall)
        self._send_for(wire.FunctionArgumentsDelta if is_function else wire.McpArgumentsDelta, draft, delta=delta)

    def _close_arguments(self, draft: ItemDraft, arguments: str) -> None:
        """Send arguments that came without deltas as one delta, then `done`, once."""
        if draft.has_arguments_done:
            return
        if arguments and not draft.arguments:
            self._say_arguments(draft, arguments)
        draft.has_arguments_done = True
        is_function = isinstance(draft.item, FunctionCall)
        kind = wire.FunctionArgumentsDone if is_function else wire.McpArgumentsDone
        self._send_for(kind, draft, arguments="".join(draft.arguments))

    def _running(self, event: ToolRunning) -> None:
        draft = self._drafts[event.index]
        if draft.arguments:
            self._close_arguments(draft, "")
        self._begin_to_run(draft)

    def _begin_to_run(self, draft: ItemDraft) -> None:
        if draft.is_running:
            return
        draft.is_running = True
        if isinstance(draft.item, McpListTools):
            self._send_for(wire.McpListInProgress, draft)
        elif isinstance(draft.item, McpCall):
            self._send_for(wire.McpCallInProgress, draft)

    def _progress(self, event: RunToolProgress) -> None:
        draft = self._drafts.get(event.index)
        if draft is not None and self._sends_progress:  # a tool may say how far it is after it was cut off
            fields = {"progress": event.progress, "total": event.total, "message": event.message}
            self._send_for(wire.ToolProgressEvent, draft, **fields)

    def _item_done(self, event: RunItemDone) -> None:
        draft = self._drafts.pop(event.index, None)
        if draft is None:
            draft = ItemDraft(event.index, event.item)
            self._send(wire.ItemAddedEvent, output_index=event.index, item=event.item)
        self._close(draft, event.item)

    def _close(self, draft: ItemDraft, done: Item) -> None:
        self._close_part(draft)
        for part in unsaid_parts(draft, done):
            if (kind := kind_of(part)) is not None:
                self._say(kind, draft, text_in(part))
                self._close_part(draft)
        if isinstance(done, FunctionCall | McpCall):
            self._close_arguments(draft, done.arguments)
        elif isinstance(done, CustomToolCall):
            if done.input:
                self._send_for(wire.CustomInputDelta, draft, delta=done.input)
            self._send_for(wire.CustomInputDone, draft, input=done.input)
        item = draft.agreed(done)
        self._send_outcome(draft, item)
        self._done[draft.index] = item
        self._send(wire.ItemDoneEvent, output_index=draft.index, item=item)

    def _send_outcome(self, draft: ItemDraft, item: Item) -> None:
        """Send the outcome of a server-run tool; a pending one has none yet."""
        if isinstance(item, McpListTools):
            self._begin_to_run(draft)
            self._send_for(wire.McpListCompleted if item.error is None else wire.McpListFailed, draft)
        elif isinstance(item, McpCall) and item.status in ("completed", "failed"):
            self._begin_to_run(draft)
            self._send_for(wire.McpCallCompleted if item.status == "completed" else wire.McpCallFailed, draft)

    def cut_off(self) -> list[Frame]:
        """End what has begun: nothing more will come of it."""
        self._cut_off()
        frames, self._frames = self._frames, []
        return frames

    def _cut_off(self) -> None:
        for index in sorted(self._drafts):
            draft = self._drafts.pop(index)
            self._close(draft, draft.cut_short())

    def _ended(self, event: Ended) -> None:
        self._cut_off()
        self.resource = ended_resource(self.resource, event, output=self.output, now=self._now())
        if event.status == "failed":
            self._send(wire.ErrorEvent, error=_error(event))
        self._send(_LAST[event.status], response=self.resource)
        self.is_over = True


def _error(event: Ended) -> wire.ErrorPayload:
    code = event.error.code if event.error is not None else "model_error"
    message = event.error.message if event.error is not None else "The model failed."
    return wire.ErrorPayload(type=_ERROR_TYPES.get(code, "model_error"), code=code, message=message)
