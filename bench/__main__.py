"""`python -m bench [--quick] [--only ROW]… [--write]`: measure the rows, print the table.

Above: `make bench`. Below: `rows/`. What it says while it works goes to stderr, the table alone to stdout.
"""

import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.budget import FULL, QUICK, Bench
from bench.document import write_into
from bench.figures import Line
from bench.machine import Calibration, machine_sentence
from bench.processes import ROOT, BenchError
from bench.rows import ROWS
from bench.table import notes, table

DOCUMENT = ROOT / "docs" / "bench.md"


def main() -> int:
    """The exit code: 0 when everything could be measured, whatever it came to."""
    options = _options()
    with TemporaryDirectory(prefix="jackfield-bench-") as folder:
        try:
            report = _report(options, Path(folder))
        except BenchError as fault:
            sys.stderr.write(f"{fault}\n")
            return 1
    print(report)
    if options.write:
        write_into(DOCUMENT, report)
    return 0


def _options() -> Namespace:
    parser = ArgumentParser(prog="python -m bench", description="Ratios to references, measured in one run.")
    parser.add_argument("--quick", action="store_true", help="within 40 s; fewer and shorter rounds, fewer records")
    parser.add_argument("--only", action="append", choices=tuple(ROWS), help="this row; may be given several times")
    parser.add_argument("--write", action="store_true", help=f"also put the table into {DOCUMENT.relative_to(ROOT)}")
    return parser.parse_args()


def _report(options: Namespace, folder: Path) -> str:
    bench = Bench(budget=QUICK if options.quick else FULL, folder=folder)
    machine, calibration = machine_sentence(folder), Calibration()
    lines: list[Line] = []
    began = time.perf_counter()
    calibration.run()
    for name in options.only or ROWS:
        sys.stderr.write(f"{time.perf_counter() - began:5.0f} s  {name}\n")
        lines += ROWS[name](bench)
        calibration.run()
    took = time.perf_counter() - began
    said = [
        f"Machine: {machine}.",
        f"Noise: {calibration.sentence}.",
        f"Rounds: {bench.budget.rounds}, in which the sides take turns; {took:.0f} s in all.",
    ]
    return "\n".join([*(f"- {sentence}" for sentence in said), "", table(lines), "", notes(lines)]).rstrip()


if __name__ == "__main__":
    sys.exit(main())
