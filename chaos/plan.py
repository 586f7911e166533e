"""What is done to whom, when and for how long: all of it chosen beforehand, by the seed alone."""

import random
from collections.abc import Iterable

from msgspec import Struct

WARM_UP = 2.0
"""Seconds at the start, and at the end, in which nothing new is done."""
APART = 1.0
"""Seconds that anybody is left alone between two faults."""


class Kind(Struct, frozen=True, kw_only=True):
    """One thing that can be done."""

    who: str
    """Of the same `who` and number, one thing at a time."""
    weight: float
    lasts: tuple[float, float]
    """Seconds, at least and at most."""
    most: int | None = None
    """How often in one storm."""


KINDS: dict[str, Kind] = {
    "gateway killed": Kind(who="gateway", weight=3, lasts=(0, 3)),
    "gateway restarted": Kind(who="gateway", weight=1.5, lasts=(0, 1)),
    "gateway frozen": Kind(who="gateway", weight=2, lasts=(0.2, 6)),
    "gateway frozen past its lease": Kind(who="gateway", weight=0.7, lasts=(16, 20)),
    "gateway process killed": Kind(who="gateway", weight=2, lasts=(0, 0)),
    "clock skewed": Kind(who="clock", weight=2, lasts=(2, 15)),
    "worker killed": Kind(who="worker", weight=3, lasts=(0, 0)),
    "worker frozen": Kind(who="worker", weight=2, lasts=(0.5, 7)),
    "MCP server killed": Kind(who="upstream", weight=3, lasts=(0, 3)),
    "MCP server frozen": Kind(who="upstream", weight=2, lasts=(0.5, 7)),
    "stdio server killed": Kind(who="stdio", weight=2, lasts=(0, 0)),
    "tool server killed": Kind(who="tool server", weight=3, lasts=(0, 3)),
    "tool server frozen": Kind(who="tool server", weight=2, lasts=(0.5, 7)),
    "access tokens ended": Kind(who="logins", weight=1.5, lasts=(11, 11)),  # again at once is the end of a login
    "caller killed": Kind(who="caller", weight=2, lasts=(0, 2)),
    "caller frozen": Kind(who="caller", weight=1, lasts=(0.5, 5)),
    "clients hung up": Kind(who="clients", weight=3, lasts=(0, 0)),
    "disk full": Kind(who="store", weight=2, lasts=(0.5, 4)),
    "disk slow": Kind(who="store", weight=2, lasts=(1, 6)),
    "database restart": Kind(who="store", weight=1.5, lasts=(0, 2)),
    "database crash": Kind(who="store", weight=1.5, lasts=(0, 2)),
    "database frozen": Kind(who="store", weight=1.5, lasts=(0.5, 5)),
    "database failover": Kind(who="store", weight=1.5, lasts=(0, 0), most=1),
    "connections terminated": Kind(who="store", weight=2, lasts=(0, 0)),
    "connections reset": Kind(who="store", weight=3, lasts=(0, 0)),
    "connections stalled": Kind(who="store", weight=2, lasts=(0.5, 7)),
}


class Fault(Struct, frozen=True, kw_only=True):
    """One thing that is done."""

    at: float
    what: str
    number: int
    """To which of those that it can be done to."""
    lasts: float
    strength: float
    """Between 0 and 1; what it means is the fault's."""

    def __str__(self) -> str:
        return f"{self.at:6.1f} s  {self.what} ({KINDS[self.what].who} {self.number}) for {self.lasts:.1f} s"


def plan(
    seed: int, *, seconds: float, counts: dict[str, int], can: Iterable[str], every: tuple[float, float] = (0.2, 1.6)
) -> tuple[Fault, ...]:
    """`counts`: how many there are of each `who`; `can`: what can be done here; `every`: seconds between two."""
    chance = random.Random(seed)
    possible = [what for what in KINDS if what in set(can) and counts.get(KINDS[what].who, 0)]
    busy: dict[tuple[str, int], float] = {}
    done: dict[str, int] = {}
    chosen, at = [], WARM_UP
    while possible and (at := at + chance.uniform(*every)) < seconds - WARM_UP:
        [what] = chance.choices(possible, [KINDS[one].weight for one in possible])
        kind = KINDS[what]
        number = chance.randrange(counts[kind.who])
        fault = Fault(at=at, what=what, number=number, lasts=chance.uniform(*kind.lasts), strength=chance.random())
        is_enough = kind.most is not None and done.get(what, 0) >= kind.most
        is_over_in_time = at + fault.lasts < seconds
        if is_enough or not is_over_in_time or busy.get((kind.who, number), 0) > at:
            continue
        busy[kind.who, number] = at + fault.lasts + APART
        done[what] = done.get(what, 0) + 1
        chosen.append(fault)
    return tuple(chosen)
