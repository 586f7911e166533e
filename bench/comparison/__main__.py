"""`python -m bench.comparison [--quick] [--only ROW]… [--peers a,b] [--write]`: measure, print the tables.

Above: `make bench-peers`. What it says while it works goes to stderr, the tables alone to stdout.
"""

import signal
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.comparison.charts import bar_chart
from bench.comparison.page import CHARTS, document, number, short
from bench.comparison.peers import PEERS
from bench.comparison.results import METRICS, Row, read, record
from bench.comparison.rows import FULL, QUICK, ROWS, Budget, World, measure, measure_starts, world
from bench.document import write_into
from bench.machine import Calibration, machine_sentence
from bench.processes import ROOT, BenchError

DOCUMENT = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"
README_MARKS = ("<!-- peers begin -->", "<!-- peers end -->")
START = "start"


def main() -> int:
    """The exit code: 0 when everything could be measured, whatever it came to."""
    options = _options()
    budget, peers = (QUICK if options.quick else FULL), options.peers
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is stopped
    rows: list[Row] = []
    with TemporaryDirectory(prefix="jackfield-bench-") as folder:
        try:
            for row in _measured([name for name in ROWS if name in options.only], peers, budget, Path(folder)):
                rows.append(row)
                if not options.quick and peers == list(PEERS):
                    record([row], list(ROWS))
        except BenchError as fault:
            sys.stderr.write(f"{fault}\n")
            return 1
    print(document(rows))
    if options.write:
        write(read())
    return 0


def write(rows: Sequence[Row]) -> None:
    """The page, its charts, and the README's lines."""
    write_into(DOCUMENT, document(rows))
    write_into(README, short(rows), marks=README_MARKS)
    for chart in CHARTS:
        if any(row.name == chart.row for row in rows):
            bars = chart.bars(rows)
            figures = [f"{number(value)} {METRICS[chart.metric].unit}" for _, value in bars]
            (DOCUMENT.parent / chart.link).write_text(bar_chart(chart.title, bars, figures), encoding="utf-8")


def _options() -> Namespace:
    parser = ArgumentParser(prog="python -m bench.comparison", description="Jackfield beside other gateways.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds; such a run is not kept")
    parser.add_argument("--only", action="append", choices=tuple(ROWS), help="this row; may be given several times")
    parser.add_argument("--peers", type=_peers, default=list(PEERS), help=f"of {', '.join(PEERS)}; comma-separated")
    wrote = DOCUMENT.relative_to(ROOT)
    parser.add_argument("--write", action="store_true", help=f"also write {wrote}, its charts and the README's table")
    given = parser.parse_args()
    given.only = given.only or list(ROWS)
    if given.write and (given.quick or given.peers != list(PEERS)):
        parser.error("--write is for whole rows: leave --quick and --peers out")
    return given


def _peers(text: str) -> list[str]:
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in chosen if name not in PEERS]
    if unknown or not chosen:
        raise ArgumentTypeError(f"{', '.join(unknown) or 'nobody'} is not among {', '.join(PEERS)}")
    return [name for name in PEERS if name in chosen]


def _measured(names: Iterable[str], peers: Sequence[str], budget: Budget, folder: Path) -> Iterator[Row]:
    """Row by row. The peers of rows that need the same servers behind are started once."""
    machine, day, began = machine_sentence(folder), f"{datetime.now(UTC):%Y-%m-%d}", time.perf_counter()
    with ExitStack() as open_:
        here: tuple[bool, World] | None = None
        for name in names:
            calibration = Calibration()
            if name == START:
                open_.close()
                here = None
            elif here is None or here[0] != ROWS[name].has_dead:
                open_.close()
                with_dead = ROWS[name].has_dead
                here = (with_dead, open_.enter_context(world(peers, folder, with_dead=with_dead)))
            sys.stderr.write(f"{time.perf_counter() - began:5.0f} s  {name}\n")
            calibration.run()
            cells = measure(name, here[1], budget) if here else measure_starts(peers, folder / START, budget)
            calibration.run()
            yield Row(
                name=name,
                cells=tuple(cells),
                rounds=max((len(values) for cell in cells for values in cell.figures.values()), default=0),
                day=day,
                machine=machine,
                noise=calibration.sentence,
            )


if __name__ == "__main__":
    sys.exit(main())
