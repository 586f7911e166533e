"""Reference answers, which are Python calls as text, as calls of tools and as programs. Pure.

Above: `package.py`, which reads them, and `sides.py`, which has a model make them.
"""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from bench.processes import BenchError
from jackfield.model.tool import RESERVED_NAMES


class ToolCall(Struct, frozen=True):
    """One call of a tool."""

    tool: str
    arguments: dict[str, Any]


def tool_name(function: str) -> str:
    """What a function is called as a tool: some names are those of the gateway's own tools."""
    return f"bfcl_{function}" if function in RESERVED_NAMES else function


def call_of(answer: str, parameters: Mapping[str, Sequence[str]]) -> ToolCall:
    """`sort('a.txt')` as a call with named arguments. `parameters` are the names of each function's, in order."""
    try:
        node = ast.parse(answer.strip(), mode="eval").body
    except SyntaxError:
        raise BenchError(f"The reference answer {answer!r} is not Python.") from None
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in parameters and len(node.args) <= len(parameters[name]):
            given = [*zip(parameters[name], node.args, strict=False), *((one.arg, one.value) for one in node.keywords)]
        case _:
            raise BenchError(f"The reference answer {answer!r} is not a call of one of the task's functions.")
    try:
        return ToolCall(tool_name(name), {_key(key): ast.literal_eval(value) for key, value in given})
    except ValueError:
        raise BenchError(f"The reference answer {answer!r} has an argument that is not a literal.") from None


def program_of(calls: Sequence[ToolCall]) -> str:
    """One call after another; what it returns has the result of each, as plain calls show them to the model."""
    made = [f"await tools.{call.tool}({_written(call.arguments)})" for call in calls]
    if len(made) == 1:
        return f"return {made[0]}"
    lines = "".join(f"    {one},\n" for one in made)
    return f"return [\n{lines}]"


def _written(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def _key(name: str | None) -> str:
    if name is None:  # of `**more`
        raise ValueError
    return name
