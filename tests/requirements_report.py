"""Ties `requirements.toml` to the tests: which demands a test names, which are ticked, which are open.

The file is the project's copy of the demands, with one line of ours, `shown = true`, under each id that a test
names. `--tick` writes those lines; `test_requirements.py` fails when they and the tests disagree. Test files are
read as syntax trees, so nothing is run and a part of the suite gives the same answer as the whole.

    python -m tests.requirements_report [--open | --tick]
"""

import argparse
import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from msgspec import Struct

TESTS = Path(__file__).parent
REQUIREMENTS = TESTS / "requirements.toml"

_TABLE = "[[requirement]]"
_TICK = "shown = true"
_ID = re.compile(r'^id = "(?P<id>[^"]+)"$', re.MULTILINE)
_SHOWS_NOTHING = frozenset({"skip", "skipif", "xfail"})
_STORIES = ("stories/", "console/")
"""Where tests use what somebody outside uses: HTTP, MCP, the command line, the SDK, a browser."""


class Demand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[requirement]]`."""

    id: str
    seed: str
    says: str
    how: str
    issue: str
    shown: bool = False


class Marker(Struct, frozen=True, kw_only=True):
    """One `@requirement(…)` of one test."""

    test: str
    """`stories/test_calls.py::test_name`"""
    ids: tuple[str, ...]


class Reading(Struct, frozen=True, kw_only=True):
    """All markers found, and a sentence for each that cannot be counted."""

    markers: tuple[Marker, ...]
    faults: tuple[str, ...]

    @property
    def named(self) -> frozenset[str]:
        return frozenset(name for marker in self.markers for name in marker.ids)

    @property
    def told(self) -> frozenset[str]:
        """What a story names."""
        return frozenset(name for marker in self.markers for name in marker.ids if marker.test.startswith(_STORIES))


def read_demands(text: str) -> list[Demand]:
    """The demands in the order of the file. Raises `TypeError` for a table of another shape."""
    return [Demand(**table) for table in tomllib.loads(text)["requirement"]]


def read_markers(folder: Path) -> Reading:
    """Every marker in the Python files below `folder`."""
    markers: list[Marker] = []
    faults: list[str] = []
    for path in sorted(folder.rglob("*.py")):
        place = path.relative_to(folder).as_posix()
        _read_file(ast.parse(path.read_text(encoding="utf-8")), place, markers, faults)
    return Reading(markers=tuple(markers), faults=tuple(faults))


def disagreements(demands: list[Demand], reading: Reading) -> list[str]:
    """What is wrong between file and tests, one sentence each; empty when all is well."""
    known = {demand.id for demand in demands}
    ticked = {demand.id for demand in demands if demand.shown}
    unknown = [
        f"{marker.test} names {name}, which is not in requirements.toml. Correct the id."
        for marker in reading.markers
        for name in marker.ids
        if name not in known
    ]
    doubled = [
        f"requirements.toml has {name} {count} times. Keep one."
        for name, count in Counter(demand.id for demand in demands).items()
        if count > 1
    ]
    unshown = [
        f"{name} is ticked and no test names it. Write the test, or run 'make requirements-tick'."
        for name in sorted(ticked - reading.named)
    ]
    unticked = [
        f"{name} is named by a test and not ticked. Run 'make requirements-tick'."
        for name in sorted((reading.named & known) - ticked)
    ]
    untold = [
        f"{demand.id} is to be shown by a story, and only other tests name it. "
        f"Write one below {' or '.join(f'tests/{folder}' for folder in _STORIES)}."
        for demand in demands
        if demand.how == "story" and demand.id in reading.named - reading.told
    ]
    return [*reading.faults, *unknown, *doubled, *unshown, *unticked, *untold]


def ticked(text: str, named: frozenset[str]) -> str:
    """The file with `shown = true` under the named ids and under no other."""
    head, *tables = text.split(_TABLE)
    return _TABLE.join([head, *(_tick_table(table, named) for table in tables)])


def table_of(demands: list[Demand]) -> str:
    """Shown and open by seed and issue, for people."""
    groups = sorted({(demand.seed, demand.issue) for demand in demands})
    lines = [f"{'seed':<10}{'issue':<14}{'shown':>6}{'open':>6}{'all':>6}"]
    for seed, issue in groups:
        lines.append(_line(seed, issue, [d for d in demands if (d.seed, d.issue) == (seed, issue)]))
    return "\n".join([*lines, _line("all", "", demands)])


def list_of_open(demands: list[Demand]) -> str:
    """Every demand that no test shows yet, under its seed and issue."""
    is_open = sorted((demand for demand in demands if not demand.shown), key=lambda d: (d.seed, d.issue))
    lines: list[str] = []
    for (seed, issue), group in groupby(is_open, key=lambda d: (d.seed, d.issue)):
        lines += ["", f"{seed} {issue}", *(f"  {demand.id:<34} {demand.says}" for demand in group)]
    return "\n".join(lines)


def _line(seed: str, issue: str, group: list[Demand]) -> str:
    shown = sum(demand.shown for demand in group)
    return f"{seed:<10}{issue:<14}{shown:>6}{len(group) - shown:>6}{len(group):>6}"


def _tick_table(table: str, named: frozenset[str]) -> str:
    plain = table.replace(f"\n{_TICK}", "")
    found = _ID.search(plain)
    if found is None or found["id"] not in named:
        return plain
    last = max(plain.rfind(f"\n{key} = ") for key in ("id", "seed", "says", "how", "issue"))
    end = plain.find("\n", last + 1)
    return f"{plain[:end]}\n{_TICK}{plain[end:]}"


def _read_file(tree: ast.Module, place: str, markers: list[Marker], faults: list[str]) -> None:
    """Markers count in the decorators of a test or of a class of tests, and in `pytestmark`, given there or by name."""
    counted: set[ast.Call] = set()
    for owner, calls in _places(tree):
        for call in calls:
            counted.add(call)
            ids = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            if not ids or len(ids) != len(call.args) or call.keywords:
                faults.append(f"{place}:{call.lineno}: requirement() takes ids as literal strings only.")
                continue
            markers.append(Marker(test=f"{place}::{owner}" if owner else place, ids=tuple(ids)))
    faults.extend(
        f"{place}:{call.lineno}: requirement() is on nothing that pytest runs for certain. "
        "Put it on a test that is neither skipped nor expected to fail."
        for call in _requirement_calls(tree)
        if call not in counted
    )


def _places(tree: ast.Module) -> Iterator[tuple[str, list[ast.Call]]]:
    named = {
        target.id: _requirement_calls(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if node.name.lower().startswith("test"):
                if not any(_last_name(decorator) in _SHOWS_NOTHING for decorator in node.decorator_list):
                    for decorator in node.decorator_list:
                        yield node.name, _markers_in(decorator, named)
            case ast.Assign(targets=[ast.Name(id="pytestmark")]):
                yield "", _markers_in(node.value, named)
            case _:
                pass


def _markers_in(expression: ast.expr, named: dict[str, list[ast.Call]]) -> list[ast.Call]:
    """The markers in an expression, and in what it takes from the module by name: `@SDK`, `parametrize(…, CASES)`."""
    names = [node.id for node in ast.walk(expression) if isinstance(node, ast.Name)]
    return [*_requirement_calls(expression), *(call for name in names for call in named.get(name, ()))]


def _requirement_calls(tree: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _last_name(node) == "requirement"]


def _last_name(node: ast.AST) -> str:
    """`pytest.mark.skip(reason=…)` → `skip`."""
    match node:
        case ast.Call():
            return _last_name(node.func)
        case ast.Attribute():
            return node.attr
        case ast.Name():
            return node.id
    return ""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make requirements", description="Which demands the tests show.")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--open", action="store_true", help="list the demands that no test shows yet")
    choice.add_argument("--tick", action="store_true", help="write into requirements.toml what the tests name")
    options = parser.parse_args(arguments)

    reading = read_markers(TESTS)
    if options.tick:
        text = REQUIREMENTS.read_text(encoding="utf-8")
        REQUIREMENTS.write_text(ticked(text, reading.named), encoding="utf-8")
    demands = read_demands(REQUIREMENTS.read_text(encoding="utf-8"))
    faults = disagreements(demands, reading)
    sys.stdout.write(table_of(demands) + "\n")
    if options.open:
        sys.stdout.write(list_of_open(demands) + "\n")
    sys.stderr.writelines(f"{fault}\n" for fault in faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
