"""`make bench`, on one of its cheaper rows. Never how fast: that is the table's to say, on a machine that is quiet."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.process import clean_environment
from tests.requirement import requirement

ROOT = Path(__file__).parents[2]
HEAD = ["row", "ours", "reference", "ratio", "bar", "CPU per call, ours / reference", "verdict"]
RATE = re.compile(r"([\d,]+)/s ±\d+ %")


def run_bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def rate(cell: str) -> int:
    found = RATE.match(cell)
    assert found, cell
    return int(found[1].replace(",", ""))


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.fixture(scope="module")
def printed() -> str:
    done = run_bench("--quick", "--only", "records")
    assert done.returncode == 0, done.stderr
    return done.stdout


@requirement("CON-make-bench")
def test_make_bench_runs_the_bench_module() -> None:
    recipe = subprocess.run(
        ["make", "--dry-run", "bench", "ARGS=--quick"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )

    assert recipe.stdout.splitlines()[-1].endswith("python -m bench --quick")


@requirement("CON-make-bench")
def test_a_run_prints_a_markdown_table_with_both_sides_and_their_ratio(printed: str) -> None:
    table = [cells(line) for line in printed.splitlines() if line.startswith("|")]

    assert table[0] == HEAD
    assert table[1] == ["---"] * len(HEAD)
    assert len(table) == 4
    for row, ours, reference, ratio, _, _, _ in table[2:]:
        assert row == "durable call records, 64 at once"
        assert rate(ours) > 0
        assert rate(reference) > 0
        assert float(ratio.partition(" ")[0]) > 0


@requirement("CON-make-bench")
def test_a_run_says_what_it_was_measured_on_and_how_quiet_that_was(printed: str) -> None:
    machine, noise, rounds = (line for line in printed.splitlines() if line.startswith("- "))

    assert re.match(r"- Machine: \d+ cores .*Python 3\.\d+.*SQLite 3\.\d+.*fsync [\d.]+ ms, load [\d.]+\.$", machine)
    assert re.match(r"- Noise: the same loop took [\d.]+ ms in the middle, [+-]\d+ % at best and [+-]\d+ % ", noise)
    assert rounds.startswith("- Rounds: 3, in which the sides take turns")


def test_a_row_that_does_not_exist_is_refused_with_the_names_of_those_that_do() -> None:
    done = run_bench("--only", "nothing")

    assert done.returncode == 2
    assert "execute" in done.stderr
    assert "growth" in done.stderr
