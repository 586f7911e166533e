"""`python -m bench.trace [CHECKOUT] [--json] [--list FOLDER]`: measure a checkout, print the table as Markdown.

`before.json` is the `--json` of a checkout from before the capability packages.
"""

import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.processes import ROOT, BenchError
from bench.trace import code, scenes
from bench.trace.report import Figures, table

BEFORE = Path(__file__).with_name("before.json")


def main() -> int:
    parser = ArgumentParser(prog="python -m bench.trace", description="How much code, and how much of it a call uses.")
    parser.add_argument("checkout", nargs="?", type=Path, default=ROOT, help="a checkout with its .venv; this one")
    parser.add_argument("--json", action="store_true", help="the figures alone, as before.json keeps them")
    parser.add_argument("--list", type=Path, metavar="FOLDER", help="write the functions of each call into this folder")
    options = parser.parse_args()
    try:
        now = _measure(options.checkout.resolve(), options.list)
    except BenchError as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(now), indent=2).decode())
    else:
        print(table(msgspec.json.decode(BEFORE.read_bytes(), type=Figures), now))
    return 0


def _measure(checkout: Path, listing: Path | None) -> Figures:
    said = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=checkout, capture_output=True, text=True, check=False
    )
    with TemporaryDirectory(prefix="jackfield-trace-") as folder:
        return Figures(
            commit=said.stdout.strip() or "unknown",
            code=code.measure(checkout / "src" / "jackfield"),
            calls=scenes.measure(checkout, Path(folder) / "project", listing=listing),
        )


if __name__ == "__main__":
    sys.exit(main())
