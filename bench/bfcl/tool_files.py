"""The package's functions as tool files, one for each back end, as somebody would write them: hints and a docstring.

Above: `sides.py`. Below: `backends.py`, which the files call. What the package says is text: it becomes literals and
checked names, never code.
"""

import keyword
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.bfcl.answers import tool_name
from bench.bfcl.package import FunctionDoc
from bench.processes import BenchError

BEGIN = "bench_begin"
STATE = "bench_state"
CONTROL = f'''\
"""Begins a task, and tells what has become of it. No model is shown these."""

from bench.bfcl import backends


def {BEGIN}(task: str, classes: list[str], config: dict) -> None:
    """New back ends for a task."""
    backends.begin(task, classes, config)


def {STATE}() -> dict:
    """The state of the task's back ends."""
    return backends.state()
'''
HEAD = "from bench.bfcl.backends import call as _call\n"
HINTS = {"string": "str", "integer": "int", "float": "float", "number": "float", "boolean": "bool", "dict": "dict"}


def write_tools(folder: Path, functions: Mapping[str, Iterable[FunctionDoc]]) -> None:
    """A file for each back end, and one for the bench itself."""
    folder.mkdir(parents=True)
    (folder / "control.py").write_text(CONTROL, encoding="utf-8")
    for backend, described in functions.items():
        (folder / f"{_name(backend).lower()}.py").write_text(tool_file(backend, described), encoding="utf-8")


def tool_file(backend: str, functions: Iterable[FunctionDoc]) -> str:
    """The functions of one back end."""
    return "\n\n".join([HEAD, *(_function(backend, function) for function in functions)])


def _function(backend: str, function: FunctionDoc) -> str:
    properties: dict[str, Any] = function.parameters.get("properties", {})
    required = set(function.parameters.get("required", ()))
    parameters = [
        f"{_name(name)}: {_hint(schema)}" + ("" if name in required else f" = {_default(schema)!r}")
        for name, schema in properties.items()
    ]
    given = ", ".join(f"{name!r}: {name}" for name in properties)
    return (
        f"def {_name(tool_name(function.name))}({', '.join(['*', *parameters] if parameters else [])}):\n"
        f"    {_docstring(function, properties)!r}\n"
        f"    return _call({backend!r}, {function.name!r}, {{{given}}})\n"
    )


def _docstring(function: FunctionDoc, properties: Mapping[str, Any]) -> str:
    sections = [
        ("Args", [f"{name}: {_line(schema)}" for name, schema in properties.items()]),
        (
            "Returns",
            [
                f"{name} ({schema.get('type', 'any')}): {_line(schema)}"
                for name, schema in function.response.get("properties", {}).items()
            ],
        ),
    ]
    text = _line({"description": function.description})
    return text + "".join(f"\n\n{title}:\n    " + "\n    ".join(lines) for title, lines in sections if lines)


def _line(schema: Mapping[str, Any]) -> str:
    return " ".join(str(schema.get("description", "")).split())


def _hint(schema: Mapping[str, Any]) -> str:
    if schema.get("type") in {"array", "tuple"}:
        items = schema.get("items")
        return f"list[{_hint(items)}]" if items else "list"
    return HINTS.get(str(schema.get("type")), "object")


def _default(schema: Mapping[str, Any]) -> Any:
    """Some descriptions write None as a text."""
    default = schema.get("default")
    return None if default == "None" else default


def _name(text: str) -> str:
    if not text.isidentifier() or keyword.iskeyword(text):
        raise BenchError(f"{text!r} cannot be the name of a Python function or parameter.")
    return text
