"""An item of the output while it is being said: its parts and arguments grow by deltas until it is done. Pure.

Above: the writer. Below: the items. What was streamed is what the item holds at the end, to the letter.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from jackfield.model.items import (
    ClientCall,
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

PartKind = Literal["text", "refusal", "reasoning", "summary"]
NOT_LISTED = "The listing did not come to its end."


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


class Draft:
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


def unsaid_parts(draft: Draft, done: Item) -> Sequence[Part]:
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
