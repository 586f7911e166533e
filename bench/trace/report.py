"""The table of `make trace`: each figure before, now, and what it is meant to come to."""

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from bench.trace.code import CodeFigures
from bench.trace.scenes import Trace

CALLS = {
    "a": "(a) REST execute of an in-process tool",
    "b": "(b) MCP call of an upstream tool",
    "c": "(c) agent cycle woken by a tool result: enters a space, sends a message",
    "c0": "(c) the same, with nothing to do",
    "d": "(d) warm worker call of a tool file",
}
CODE = {
    "modules": "modules",
    "lines": "lines",
    "lines_per_module": "lines per module",
    "function_p95": "lines of a function, p95",
    "class_names": "public class names",
    "class_names_twice": "public class names used twice or more",
    "single_importers": "modules with a single importer",
}
TRACED = {
    "functions": "functions",
    "modules": "modules",
    "package_changes": "changes of package",
    "reads": "store reads",
    "transactions": "transactions",
}
AIMS = {
    "modules": 340,
    "lines": 54_000,
    "a functions": 100,
    "a modules": 28,
    "b functions": 175,
    "b modules": 40,
    "c functions": 320,
    "c reads": 4,
    "c transactions": 4,
    "c0 functions": 320,
    "c0 reads": 4,
    "c0 transactions": 4,
    "d functions": 110,
}
HOW = """\
A module is a `.py` file of `src/jackfield`. A function's length runs from its `def` to its end, docstring included;
methods and nested functions count, lambdas do not. A class name is public when it has no leading underscore and stands
at a module's top level. A module has a single importer when one other module of the package imports it; `__init__` and
`__main__` are left out.

A call is traced by `sys.setprofile` in the process of a warm gateway on SQLite: the distinct functions of `jackfield`
that ran (no lambdas, no comprehensions), their modules, and, in the order in which they were first entered, how often
the next one is of another package. Each call is made twenty times and the shortest whole turn counts: no timer went
off in it. A read is one trip to the database outside a transaction, a transaction one commit.
"""


class Figures(Struct, frozen=True, kw_only=True):
    """All of one checkout."""

    commit: str
    code: CodeFigures
    calls: dict[str, Trace]

    def flat(self) -> Mapping[str, int]:
        code: dict[str, int] = msgspec.to_builtins(self.code)
        calls: dict[str, dict[str, int]] = msgspec.to_builtins(self.calls)
        return code | {f"{call} {name}": value for call, figures in calls.items() for name, value in figures.items()}


def table(before: Figures, now: Figures) -> str:
    """As Markdown."""
    head = ["", f"before ({before.commit})", f"now ({now.commit})", "aim"]
    lines = [_line(head), "|---|---:|---:|---:|", *_rows(before.flat(), now.flat())]
    return "\n".join([*lines, "", HOW])


def _rows(before: Mapping[str, int], now: Mapping[str, int]) -> Iterator[str]:
    for name, label in CODE.items():
        yield _row(label, name, before, now)
    for call, what in CALLS.items():
        for name, label in TRACED.items():
            yield _row(f"{what}: {label}", f"{call} {name}", before, now)


def _row(label: str, name: str, before: Mapping[str, int], now: Mapping[str, int]) -> str:
    aim = AIMS.get(name)
    met = "" if aim is None else f"≤ {aim:,}" + (" ✓" if now[name] <= aim else "")
    return _line([label, _number(before.get(name)), _number(now[name]), met])


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
