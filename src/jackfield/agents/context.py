"""An agent's consciousness: what it keeps of its past cycles, word by word as long as there is room, then in summary.

Pure. Above: the cycle, which reads it at its beginning and writes it at its end. Below: the items of a conversation.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from jackfield.llm.results import output_text
from jackfield.model.items import FunctionCallOutput, InputText, Item, Message, ToolImage, text_of

CHARACTERS_PER_TOKEN = 4
"""A rough measure that needs no tokenizer and is the same for every model."""
SUMMARY_CHARACTERS = 400
BESIDES_SUMMARY = 32
"""Characters that a summary takes beside its own: its number, and what joins it to the next."""
SHORTER_AND_SHORTER = (8_000, 2_000, 400)
"""Characters that stay of an inbox or an output in a cycle that is longer than all the room."""
SHARE_OF_SUMMARIES = 4
"""Of all the room, a fourth may go to summaries of cycles that are no longer kept word by word."""


class PastCycle(Struct, frozen=True, kw_only=True):
    """One cycle as it is remembered."""

    number: int
    summary: str
    items: tuple[Item, ...] = ()
    """All that was read, said and done; empty once only the summary is left."""


class Consciousness(Struct, frozen=True, kw_only=True):
    """What the store keeps between two cycles."""

    cycles: tuple[PastCycle, ...] = ()
    hops: int = 0
    """How many messages agents have sent each other up to the last cycle without anybody else."""

    @property
    def items(self) -> tuple[Item, ...]:
        """The past as a model is told it."""
        brief = [f"Cycle {past.number}: {past.summary}" for past in self.cycles if not past.items]
        told: list[Item] = []
        if brief:
            text = "Summaries of your earlier cycles, the oldest first:\n" + "\n".join(brief)
            told.append(Message(role="user", content=(InputText(text=text),)))
        for past in self.cycles:
            told += past.items
        return tuple(told)


def read_mind(data: str | None) -> Consciousness:
    """What an earlier cycle wrote. None: the agent has no past."""
    return Consciousness() if data is None else msgspec.json.decode(data, type=Consciousness)


def written(mind: Consciousness) -> str:
    return msgspec.json.encode(mind).decode()


def with_cycle(mind: Consciousness, past: PastCycle, *, room: int, hops: int) -> Consciousness:
    """The mind after one more cycle, with at most `room` tokens: the oldest are summed up first.

    Sizes are added up in characters and never rounded one by one: many cycles that each lose a part of a token to
    rounding would together take more than the room.
    """
    past = msgspec.structs.replace(past, items=tuple(map(_without_images, past.items)))
    most = room * CHARACTERS_PER_TOKEN
    cycles = [*mind.cycles, _fitted(past, most)]
    sizes = [_size_of(one.items) for one in cycles]
    total = sum(sizes)
    for place, size in enumerate(sizes[:-1]):
        if total <= most:
            break
        cycles[place] = msgspec.structs.replace(cycles[place], items=())
        total -= size
    return Consciousness(cycles=_with_room(cycles, most // SHARE_OF_SUMMARIES), hops=hops)


def summary_of(items: Sequence[Item], *, said: str, called: Sequence[str], ended: str | None) -> str:
    """A cycle in a sentence or two: the agent's own last words, else what it did."""
    parts = [ended] if ended else []
    words = " ".join(said.split())
    if words:
        parts.append(words)
    elif called:
        parts.append(f"Called {', '.join(dict.fromkeys(called))}.")
    else:
        parts.append(f"Read: {' '.join(_first_words(items).split())}")
    text = " ".join(parts)
    return text if len(text) <= SUMMARY_CHARACTERS else f"{text[:SUMMARY_CHARACTERS]}…"


def tokens_of(items: Sequence[Item]) -> int:
    """About how many tokens these take."""
    return -(-_size_of(items) // CHARACTERS_PER_TOKEN)


def _size_of(items: Sequence[Item]) -> int:
    """How many characters these take."""
    return sum(len(msgspec.json.encode(item)) for item in items)


def _fitted(past: PastCycle, room: int) -> PastCycle:
    """The newest cycle; one too long for the room (in characters) is cut short: no model could read it again."""
    for most in SHORTER_AND_SHORTER:
        if _size_of(past.items) <= room:
            return past
        past = msgspec.structs.replace(past, items=tuple(_cut(item, most) for item in past.items))
    return past if _size_of(past.items) <= room else msgspec.structs.replace(past, items=())


def _without_images(item: Item) -> Item:
    """What was seen is remembered in words: an image would take the room of everything else."""
    if isinstance(item, FunctionCallOutput) and not isinstance(item.output, str):
        return msgspec.structs.replace(item, output=output_text(item))
    if isinstance(item, Message) and any(isinstance(part, ToolImage) for part in item.content):
        return msgspec.structs.replace(item, content=(InputText(text=text_of(item)),))
    return item


def _cut(item: Item, most: int) -> Item:
    if isinstance(item, FunctionCallOutput) and isinstance(item.output, str):
        return msgspec.structs.replace(item, output=_shortened(item.output, most))
    if isinstance(item, Message) and item.role == "user":
        return msgspec.structs.replace(item, content=(InputText(text=_shortened(text_of(item), most)),))
    return item


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… (the rest is forgotten)"


def _with_room(cycles: list[PastCycle], room: int) -> tuple[PastCycle, ...]:
    """Drop the oldest summaries that have no room, which is in characters."""
    kept: list[PastCycle] = []
    for past in reversed(cycles):
        if not past.items:
            room -= len(past.summary) + BESIDES_SUMMARY
            if room < 0:
                break
        kept.append(past)
    return tuple(reversed(kept))


def _first_words(items: Sequence[Item]) -> str:
    return next((text_of(item) for item in items if isinstance(item, Message)), "")
