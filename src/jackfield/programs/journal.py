"""The journal of a program: what it was told, printed and asked for in each step, and whether it does the same again.

Above: `execution.py`. Below: nothing. Pure.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.model.call import Failed
from jackfield.programs.process import Ask


class RecordedAsk(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a program asked for, as its journal has it."""

    n: int
    tool: str | None = None
    digest: str = ""
    """Of the arguments."""
    sleep: float | None = None
    failed: dict[str, Any] | None = None
    """Why no call was made."""

    def is_same(self, other: "RecordedAsk") -> bool:
        return (self.n, self.tool, self.digest, self.sleep) == (other.n, other.tool, other.digest, other.sleep)


class StepRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a program: what it was told since the last, what it printed, and what it asked for then."""

    delivered: tuple[tuple[int, int], ...] = ()
    """The numbers of its requests that were answered, and when."""
    asks: tuple[RecordedAsk, ...] = ()
    log: str = ""


class Ended(Exception):
    """The program is over in a way of which its process knows nothing."""

    def __init__(self, outcome: Failed) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


def check_same(asks: Sequence[RecordedAsk], before: Sequence[RecordedAsk], *, is_over: bool) -> None:
    """Raise `Ended` where a program that is run again asks for something else than in this step before."""
    if is_over and before:
        raise differs(f"it ended where it had called {_named(before[0])} before")
    for ask, was in zip(asks, before, strict=False):
        if not ask.is_same(was):
            raise differs(f"it asked for {_named(ask)} where it had asked for {_named(was)} before")
    if len(asks) != len(before):
        raise differs(f"it asked for {len(asks)} things at once and had asked for {len(before)} before")


def recorded(ask: Ask) -> RecordedAsk:
    if ask.tool is None:
        return RecordedAsk(n=ask.n, sleep=ask.sleep)
    digest = hashlib.sha256(msgspec.json.encode(ask.arguments, order="sorted")).hexdigest()[:16]
    return RecordedAsk(n=ask.n, tool=ask.tool, digest=digest)


def _named(ask: RecordedAsk) -> str:
    return f"{ask.sleep} s of sleep" if ask.tool is None else f"'{ask.tool}'"


def differs(how: str) -> Ended:
    said = f"The program was run again from its start to go on, and did something else this time: {how}."
    return Ended(Failed("nondeterministic", f"{said} The calls that it had made stand."))
