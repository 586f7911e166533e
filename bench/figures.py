"""Figures of one row: what a round measured, what all rounds came to, and how ours relates to the reference.

Above: the rows, which measure, and `table.py`, which prints. Pure, apart from calling what is to be measured.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TypeVar

from msgspec import Struct

T = TypeVar("T")
RATE = "/s"
MICROSECONDS = "µs"
MILLISECONDS = "ms"
KILOBYTES = "kB"
RATIO = ""
TAIL = 4.0
"""How many times the middle one the slowest hundredth may take."""


class Sample(Struct, frozen=True, kw_only=True):
    """One round of one side."""

    value: float
    """In the unit of its figure."""
    cpu_us: float | None = None
    """Processor time per call; None where the system does not tell."""
    tail: float | None = None
    """The slowest hundredth of its times by the middle one (p99 / p50), where each time was taken."""
    rate: float | None = None
    """Answers a second, where the value is a time."""


class Figure(Struct, frozen=True, kw_only=True):
    """One side over all rounds."""

    unit: str
    samples: tuple[Sample, ...]

    @property
    def value(self) -> float:
        return median(sample.value for sample in self.samples)

    @property
    def spread(self) -> float:
        """How far rounds lie apart, as a part of the median: half the way between the 10th and the 90th percentile."""
        values = sorted(sample.value for sample in self.samples)
        return (percentile(values, 0.9) - percentile(values, 0.1)) / 2 / self.value

    @property
    def cpu_us(self) -> float | None:
        known = [sample.cpu_us for sample in self.samples if sample.cpu_us is not None]
        return median(known) if known else None

    @property
    def costs(self) -> "Figure | None":
        """The same rounds, with the processor time as what counts."""
        return _of(MICROSECONDS, [sample.cpu_us for sample in self.samples])

    @property
    def tails(self) -> "Figure | None":
        """The same rounds, with p99 / p50 as what counts."""
        return _of(RATIO, [sample.tail for sample in self.samples])

    @property
    def rates(self) -> "Figure | None":
        """The same rounds, with answers a second as what counts."""
        return _of(RATE, [sample.rate for sample in self.samples])


def _of(unit: str, values: Sequence[float | None]) -> Figure | None:
    known = tuple(Sample(value=value) for value in values if value is not None)
    return Figure(unit=unit, samples=known) if known and len(known) == len(values) else None


class Bar(Struct, frozen=True, kw_only=True):
    """What a row has to keep: at least, or at most, so much; of the ratio, or of our own figure."""

    limit: float
    at_least: bool = False
    of_ratio: bool = True


class Line(Struct, frozen=True, kw_only=True):
    """One line of the table."""

    says: str
    ours: Figure
    reference: Figure | None = None
    reference_is: str = ""
    bar: Bar | None = None
    note: str = ""

    @property
    def ratio(self) -> Figure | None:
        """Ours by the reference, round by round, since a round's two sides share its noise."""
        if self.reference is None:
            return None
        pairs = zip(self.ours.samples, self.reference.samples, strict=True)
        ratios = (Sample(value=ours.value / reference.value) for ours, reference in pairs)
        return Figure(unit=RATIO, samples=tuple(ratios))

    @property
    def judged(self) -> Figure | None:
        """What the bar is about."""
        if self.bar is None:
            return None
        return self.ratio if self.bar.of_ratio else self.ours


def lines_beside(row: str, ours: Figure, reference: Figure, named: str, bars: Mapping[str, Bar]) -> list[Line]:
    """More lines about two sides that have been measured: what the same rounds say of `bars`' names."""
    pairs = {
        "CPU per call": (ours.costs, reference.costs),
        "calls a second": (ours.rates, reference.rates),
        "p99 by p50": (ours.tails, reference.tails),
    }
    return [
        Line(says=f"{row}, {what}", ours=mine, reference=other, reference_is=named, bar=bars[what])
        for what, (mine, other) in pairs.items()
        if what in bars and mine is not None and other is not None
    ]


def take_turns(rounds: int, *sides: Callable[[], T]) -> list[tuple[T, ...]]:
    """Each side's samples over the rounds A, B, A, B …, after one round that does not count."""
    for side in sides:
        side()
    taken = [tuple(side() for side in sides) for _ in range(rounds)]
    return list(zip(*taken, strict=True))


def percentile(ordered: Sequence[float], part: float) -> float:
    """The value that `part` of the values, given in order, do not exceed."""
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]
