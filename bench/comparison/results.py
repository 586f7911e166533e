"""What a run measured: rows of cells, one cell per peer, kept in a file that git ignores.

A whole run takes long. A row that is run again replaces what it was, and the page is made of all of them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import msgspec
from msgspec import Struct

from bench.figures import percentile
from bench.processes import ROOT

RECORD = ROOT / ".bench" / "peers.json"


class Metric(Struct, frozen=True):
    """What a figure is of."""

    title: str
    unit: str


METRICS: Mapping[str, Metric] = {
    "p50_ms": Metric("p50", "ms"),
    "p99_ms": Metric("p99", "ms"),
    "per_second": Metric("calls a second", ""),
    "cpu_us": Metric("CPU per call", "µs"),
    "first_ms": Metric("first token, p50", "ms"),
    "token_us": Metric("each of 4,000 tokens", "µs"),
    "age_us": Metric("age of a token, one every 2 ms", "µs"),
    "token_cpu_us": Metric("CPU per token", "µs"),
    "ready_s": Metric("restart to the first call answered", "s"),
    "first_start_s": Metric("first start", "s"),
    "idle_mb": Metric("memory then", "MB"),
    "loaded_mb": Metric("memory after 500 calls", "MB"),
}


class Cell(Struct, frozen=True, kw_only=True):
    """One peer in one row: its figures by metric, round by round, or why there are none."""

    peer: str
    way: str = ""
    """How it was asked, where there is more than one way."""
    figures: Mapping[str, tuple[float, ...]] = {}
    answers: int = 0
    wrong: int = 0
    crossed: int = 0
    missing: int = 0
    why_not: str = ""
    wrong_answer: str = ""

    def value(self, metric: str) -> float | None:
        """The median of the rounds."""
        values = self.figures.get(metric)
        return median(values) if values else None

    def spread(self, metric: str) -> float:
        """Half the way between the 10th and the 90th percentile of the rounds, as a part of the median."""
        values = sorted(self.figures[metric])
        middle = median(values)
        return (percentile(values, 0.9) - percentile(values, 0.1)) / 2 / middle if middle else 0.0


class Row(Struct, frozen=True, kw_only=True):
    """All peers in one row, and what it was measured on."""

    name: str
    cells: tuple[Cell, ...]
    rounds: int
    day: str
    machine: str
    noise: str

    def cell(self, peer: str) -> Cell | None:
        """The first of this peer."""
        return next((cell for cell in self.cells if cell.peer == peer), None)


def ratio(cell: Cell, limit: Cell | None, metric: str) -> float | None:
    """How many times as much as nothing at all: the median over the rounds, whose two sides share their noise."""
    pairs = _pairs(cell, limit, metric)
    return median(one / other for one, other in pairs) if pairs and all(other for _, other in pairs) else None


def added(cell: Cell, limit: Cell | None, metric: str) -> float | None:
    """How much more than nothing at all, likewise."""
    pairs = _pairs(cell, limit, metric)
    return median(one - other for one, other in pairs) if pairs else None


def _pairs(cell: Cell, limit: Cell | None, metric: str) -> list[tuple[float, float]]:
    ours, theirs = cell.figures.get(metric, ()), limit.figures.get(metric, ()) if limit else ()
    return list(zip(ours, theirs, strict=True)) if len(ours) == len(theirs) else []


def record(rows: Sequence[Row], order: Sequence[str], path: Path = RECORD) -> list[Row]:
    """Everything that is known now: these rows, and the others as they were."""
    known = {row.name: row for row in [*read(path), *rows]}
    kept = [known[name] for name in order if name in known]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.encode(kept))
    return kept


def read(path: Path = RECORD) -> list[Row]:
    """What earlier runs left."""
    return msgspec.json.decode(path.read_bytes(), type=list[Row]) if path.exists() else []
