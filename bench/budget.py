"""How much time a run may take. Above: `__main__.py` chooses one; every row keeps to it."""

from pathlib import Path

from msgspec import Struct

from bench.machine import Calibration


class Budget(Struct, frozen=True, kw_only=True):
    """Rounds, seconds per round, and how much is recorded before the cost of a call is measured again."""

    rounds: int
    seconds: float
    """Of load, per side and round."""
    recorded: int
    tools: int = 10_000
    connections: int = 64


QUICK = Budget(rounds=3, seconds=0.6, recorded=100_000)
FULL = Budget(rounds=7, seconds=2.0, recorded=1_000_000)


class Bench(Struct, frozen=True, kw_only=True):
    """What every row is given."""

    budget: Budget
    folder: Path
    """For databases and projects; gone after the run."""
    calibration: Calibration
