"""What the tasks came to on both sides, as Markdown. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from bench.bfcl.model import Tokens
from bench.bfcl.package import Ended
from bench.bfcl.sides import Played, Side, Turn

FIRST_TOKEN_SECONDS = 0.5
TOKENS_PER_SECOND = 100
"""Of a model that is hosted; only the rows that say so are computed with them."""
SIZES: Mapping[str, Callable[[int], bool]] = {
    "1": lambda calls: calls == 1,
    "2": lambda calls: calls == 2,
    "3 and more": lambda calls: calls >= 3,
}


class Row(Struct, frozen=True, kw_only=True):
    """A task on both sides, and directly."""

    task: str
    directly: Ended
    sides: Mapping[Side, Played]

    def same_state(self, side: Side) -> bool:
        return bool(self.sides[side].ended.state == self.directly.state)

    def same_results(self, side: Side) -> bool:
        return self.sides[side].ended.results == self.directly.results

    @property
    def sides_agree(self) -> bool:
        """In the end state, whether it is that of the reference answer or not."""
        plain, programs = (self.sides[side].ended.state for side in Side)
        return bool(plain == programs)


class Total(Struct, frozen=True, kw_only=True):
    """What turns took together."""

    tokens: Tokens
    seconds: float

    @property
    def read(self) -> int:
        return self.tokens.definitions + self.tokens.conversation

    @property
    def with_model(self) -> float:
        """Seconds, with the time that a model takes."""
        return self.seconds + self.tokens.steps * FIRST_TOKEN_SECONDS + self.tokens.written / TOKENS_PER_SECOND


def total(turns: Iterable[Turn]) -> Total:
    tokens, seconds = Tokens(), 0.0
    for turn in turns:
        tokens, seconds = tokens.plus(turn.tokens), seconds + turn.seconds
    return Total(tokens=tokens, seconds=seconds)


def report(rows: Sequence[Row]) -> str:
    """All tasks, then by how many calls a turn has, then what differs."""
    parts = [_overall(rows), _by_size(rows), *_differences(rows)]
    return "\n\n".join(parts)


def _overall(rows: Sequence[Row]) -> str:
    plain, programs = (total(_turns(rows, side)) for side in Side)
    turns = _turns(rows, Side.PLAIN)
    tasks = f"{len(rows):,} tasks, {len(turns):,} turns, {sum(turn.calls for turn in turns):,} calls"
    agree = f"{sum(row.sides_agree for row in rows):,}"
    ended = [f"{sum(row.same_state(side) for row in rows):,}" for side in Side]
    told = [f"{sum(row.same_results(side) for row in rows):,}" for side in Side]
    with_model = (
        f"seconds, with a model of {FIRST_TOKEN_SECONDS:g} s to the first token and {TOKENS_PER_SECOND} tokens/s"
    )
    return _table(
        (tasks, *(side.value for side in Side), "saved"),
        [
            ("tasks with the same end state on both sides", agree, agree, ""),
            ("tasks with the end state of the reference answer", *ended, ""),
            ("tasks in which every call has the reference answer's result", *told, ""),
            ("model steps", *_compared(plain.tokens.steps, programs.tokens.steps)),
            ("tokens read", *_compared(plain.read, programs.read)),
            ("– of them functions and instructions", *_compared(plain.tokens.definitions, programs.tokens.definitions)),
            ("– of them the conversation", *_compared(plain.tokens.conversation, programs.tokens.conversation)),
            ("tokens written", *_compared(plain.tokens.written, programs.tokens.written)),
            ("seconds, without the time that the model takes", *_compared(plain.seconds, programs.seconds, digits=1)),
            (with_model, *_compared(plain.with_model, programs.with_model, digits=1)),
        ],
    )


def _by_size(rows: Sequence[Row]) -> str:
    lines = []
    for says, fits in SIZES.items():
        chosen = [[turn for turn in _turns(rows, side) if fits(turn.calls)] for side in Side]
        if chosen[0]:
            plain, programs = map(total, chosen)
            pairs = (
                (plain.tokens.steps, programs.tokens.steps),
                (plain.read, programs.read),
                (plain.tokens.written, programs.tokens.written),
                (plain.with_model, programs.with_model),
            )
            lines.append((says, f"{len(chosen[0]):,}", *(f"{_saved(*pair)}" for pair in pairs)))
    head = ("calls in a turn", "turns", "model steps", "tokens read", "tokens written", "seconds, with that model")
    return f"Saved, by the calls of a turn:\n\n{_table(head, lines)}"


def _differences(rows: Sequence[Row]) -> list[str]:
    said = [
        f"- {row.task}, {side.value}: the {what}."
        for row in rows
        for side in Side
        for what, same in (("end state differs", row.same_state(side)), ("results differ", row.same_results(side)))
        if not same
    ]
    return ["\n".join(said)] if said else []


def _turns(rows: Sequence[Row], side: Side) -> list[Turn]:
    return [turn for row in rows for turn in row.sides[side].turns]


def _compared(plain: float, programs: float, *, digits: int = 0) -> tuple[str, str, str]:
    return f"{plain:,.{digits}f}", f"{programs:,.{digits}f}", _saved(plain, programs)


def _saved(plain: float, programs: float) -> str:
    return f"{(1 - programs / plain) * 100:.0f} %" if plain else ""


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    cells = [head, ["---" for _ in head], *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)
