"""The lines of a run as one Markdown table. Pure."""

from collections.abc import Iterable, Sequence

from bench.figures import KILOBYTES, MICROSECONDS, MILLISECONDS, RATE, RATIO, Bar, Figure, Line

HEAD = ("row", "ours", "reference", "ratio", "bar", "CPU per call, ours / reference", "verdict")
HOLDS = "holds"
NOISY = "within noise of the bar"
MISSED = "missed"
NONE = "–"


def table(lines: Iterable[Line]) -> str:
    """Markdown."""
    rows = [HEAD, tuple("---" for _ in HEAD), *(_cells(line) for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def notes(lines: Iterable[Line]) -> str:
    """What lines have to say beside their figures."""
    return "\n".join(f"- {line.says}: {line.note}" for line in lines if line.note)


def verdict(line: Line) -> str:
    """Whether the bar is kept; a miss that is smaller than the rounds' own spread is said to be that."""
    bar, judged = line.bar, line.judged
    if bar is None or judged is None:
        return NONE
    if _keeps(bar, judged.value):
        return HOLDS
    better = 1 + judged.spread if bar.at_least else 1 / (1 + judged.spread)
    return NOISY if _keeps(bar, judged.value * better) else MISSED


def _keeps(bar: Bar, value: float) -> bool:
    return value >= bar.limit if bar.at_least else value <= bar.limit


def _cells(line: Line) -> Sequence[str]:
    reference = NONE if line.reference is None else _figure(line.reference)
    if line.reference_is:
        reference = f"{reference} {line.reference_is}"
    ratio = line.ratio
    return (
        line.says,
        _figure(line.ours),
        reference,
        NONE if ratio is None else _figure(ratio),
        NONE if line.bar is None else _bar(line.bar, line.ours.unit),
        _cpu(line),
        verdict(line),
    )


def _figure(figure: Figure) -> str:
    return f"{_quantity(figure.value, figure.unit)} ±{figure.spread * 100:.0f} %"


def _bar(bar: Bar, unit: str) -> str:
    sign = "≥" if bar.at_least else "≤"
    return f"{sign} {_quantity(bar.limit, RATIO if bar.of_ratio else unit)}"


def _quantity(value: float, unit: str) -> str:
    if unit == RATE:
        return f"{value:,.0f}/s"
    assert unit in {MICROSECONDS, MILLISECONDS, KILOBYTES, RATIO}
    return f"{_number(value)} {unit}".rstrip()


def _cpu(line: Line) -> str:
    sides = [line.ours, *([line.reference] if line.reference else [])]
    if all(side.cpu_us is None for side in sides):
        return NONE
    return " / ".join(NONE if side.cpu_us is None else f"{_number(side.cpu_us)} µs" for side in sides)


def _number(value: float) -> str:
    """Two or three figures that mean something, and no more."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"
