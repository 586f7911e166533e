"""How much time a run may take. Above: `__main__.py` chooses one; every row keeps to it."""

from pathlib import Path

from msgspec import Struct


class Budget(Struct, frozen=True, kw_only=True):
    """Rounds, their length, and how large the world is in which they are measured."""

    rounds: int
    seconds: float
    """Of load over HTTP, per side and round; rows in process take less."""
    recorded: int
    """Calls on record when the cost of one more is measured."""
    tools: int = 10_000
    connections: int = 64


QUICK = Budget(rounds=3, seconds=0.6, recorded=100_000)
FULL = Budget(rounds=7, seconds=2.5, recorded=1_000_000)


class Bench(Struct, frozen=True, kw_only=True):
    """What every row is given."""

    budget: Budget
    folder: Path
    """For databases and projects; gone after the run."""
