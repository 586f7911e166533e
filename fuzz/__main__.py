"""`make fuzz`: every parser at a border is given inputs made up to reach new code, by atheris, which PyPI has.

A finding is an input upon which a parser fails otherwise than it promises, takes more than ten seconds, or needs more
than 2 GB. It is kept in build/fuzz/findings, and the exit code is 1. `--keep` adds inputs that reach new code to the
corpus, which the tests run.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fuzz.http import fuzz_http
from fuzz.targets import CORPUS, TARGETS, words

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build/fuzz"
FINDINGS = WORK / "findings"
ATHERIS = "atheris==3.0.0"
LONGEST_INPUT = 4096
KEPT_INPUTS = 24
KEPT_BYTES = 1024


class Ran:
    """What came of one target."""

    def __init__(self, name: str, log: str, seconds: float) -> None:
        self.name = name
        self.seconds = seconds
        self.inputs = _number(r"stat::number_of_executed_units:\s*(\d+)", log)
        self.features = _number(r"ft: (\d+)", log)
        self.findings = sorted(FINDINGS.glob(f"{name}_*"))
        self.has_ended = bool(self.findings) or self.inputs > 0
        self.log = log


def main() -> int:
    options = _options()
    if options.again:
        name, file = options.again
        TARGETS[name](Path(file).read_bytes())
        return 0
    if options.http:
        return fuzz_http(seconds=options.seconds)
    unknown = sorted(set(options.only) - TARGETS.keys())
    if unknown:
        print(f"There is no target {', '.join(unknown)}. There are: {', '.join(TARGETS)}.", file=sys.stderr)
        return 2
    atheris = _atheris()
    if atheris is None:
        print(f"jackfield: {ATHERIS} could not be installed; there is none for this Python.", file=sys.stderr)
        return 2
    shutil.rmtree(FINDINGS, ignore_errors=True)
    FINDINGS.mkdir(parents=True)
    names = options.only or list(TARGETS)
    each = max(1, options.seconds * options.jobs // len(names))
    print(f"{len(names)} targets, {each} s each, {options.jobs} at a time")
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(lambda name: _fuzz(name, seconds=each, atheris=atheris), names))
    _print(rows)
    if options.keep:
        for name in names:
            _keep(name, atheris)
    return int(any(row.findings or not row.has_ended for row in rows))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=300, help="for all targets together (default: 300)")
    parser.add_argument("--only", nargs="+", default=[], metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time (default: all cores)")
    parser.add_argument("--again", nargs=2, metavar=("TARGET", "FILE"), help="run one input once")
    parser.add_argument("--http", action="store_true", help="requests that follow one another, to a gateway")
    parser.add_argument("--keep", action="store_true", help="add inputs that reach new code to the corpus")
    return parser.parse_args()


def _atheris() -> Path | None:
    """The folder that atheris is in; it is installed the first time."""
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "jackfield/fuzz" / ATHERIS
    if not (folder / "atheris").is_dir():
        print(f"installing {ATHERIS}")
        uv = Path(sys.executable).with_name("uv")
        command: list[str | Path] = [
            uv,
            "pip",
            "install",
            "--quiet",
            "--python",
            sys.executable,
            "--target",
            folder,
            ATHERIS,
        ]
        if subprocess.run(command, check=False).returncode:
            return None
    return folder


def _command(name: str, *arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "fuzz.engine", name, *map(str, arguments)]


def _environment(atheris: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{atheris}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}


def _fuzz(name: str, *, seconds: int, atheris: Path) -> Ran:
    found = WORK / "found" / name
    found.mkdir(parents=True, exist_ok=True)
    dictionary = WORK / f"{name}.dict"
    dictionary.write_text("".join(_entries(name)), encoding="ascii")
    command = _command(
        name,
        f"-max_total_time={seconds}",
        "-timeout=10",
        "-rss_limit_mb=2048",
        f"-max_len={LONGEST_INPUT}",
        f"-dict={dictionary}",
        f"-artifact_prefix={FINDINGS / name}_",
        "-print_final_stats=1",
        found,
        CORPUS / name,
    )
    began = time.monotonic()
    log = WORK / f"{name}.log"
    with log.open("wb") as out:
        subprocess.run(command, cwd=ROOT, env=_environment(atheris), stdout=out, stderr=out, check=False)
    return Ran(name, log.read_text(encoding="utf-8", errors="replace"), time.monotonic() - began)


def _entries(name: str) -> Iterator[str]:
    """The target's words in libFuzzer's format."""
    for word in words(name):
        yield '"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n'


def _print(rows: list[Ran]) -> None:
    print("\n| target | inputs | a second | features | findings |\n|---|---:|---:|---:|---|")
    for row in rows:
        findings = ", ".join(path.name for path in row.findings) or ("none" if row.has_ended else "it did not run")
        print(f"| {row.name} | {row.inputs:,} | {row.inputs / row.seconds:,.0f} | {row.features:,} | {findings} |")
    for row in rows:
        if row.findings or not row.has_ended:
            print(f"\n{row.name}, the end of {WORK / row.name}.log:\n{row.log[-3000:]}")
            print(f"Again: .venv/bin/python -m fuzz --again {row.name} FILE")


def _keep(name: str, atheris: Path) -> None:
    """Add the smallest inputs that reach code which the corpus does not."""
    merged = WORK / "merged" / name
    shutil.rmtree(merged, ignore_errors=True)
    shutil.copytree(CORPUS / name, merged)
    command = _command(name, "-merge=1", f"-max_len={KEPT_BYTES}", merged, WORK / "found" / name)
    subprocess.run(command, cwd=ROOT, env=_environment(atheris), capture_output=True, check=False)
    present = {path.name for path in (CORPUS / name).iterdir()}
    new = sorted((path for path in merged.iterdir() if path.name not in present), key=lambda path: path.stat().st_size)
    for path in new[: max(0, KEPT_INPUTS - len(present))]:
        shutil.copy(path, CORPUS / name / path.name[:16])


def _number(pattern: str, text: str) -> int:
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


if __name__ == "__main__":
    sys.exit(main())
