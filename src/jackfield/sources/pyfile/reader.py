"""Reads the tools of one tool file from its text, without running it.

Above: `sources/files.py`. Below: the rest of this package.
"""

import ast
import traceback
from typing import Any

from msgspec import Struct

from jackfield.model.tool import JsonSchema
from jackfield.sources.pyfile.classes import described, enum_values
from jackfield.sources.pyfile.docstrings import split_docstring
from jackfield.sources.pyfile.hints import Hints, accepts_null, any_of
from jackfield.sources.pyfile.names import UNKNOWN, FileNames, parse_module
from jackfield.sources.pyfile.pep723 import Header, find_header

CONTEXT_PARAMETER = "ctx"
"""A parameter of this name is set by the gateway; callers cannot set it."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class FileFunction(Struct, frozen=True, kw_only=True):
    """A function that is a tool."""

    name: str
    """In the file."""
    tool_name: str
    """With the file's `pack` before it."""
    line: int
    description: str
    input_schema: JsonSchema
    output_schema: JsonSchema | None


class FileReading(Struct, frozen=True, kw_only=True):
    """The tools of a file, and one sentence for each thing that cannot be offered."""

    functions: tuple[FileFunction, ...] = ()
    faults: tuple[str, ...] = ()
    is_broken: bool = False
    """The whole file cannot be read."""
    trace: str | None = None
    """The syntax error as Python shows it, with the line."""
    script: Header | None = None
    """Its PEP 723 block: it runs in a worker process of its own."""
    runs_as_script: bool = False
    """Its main block does more than call `worker_main`, so it reads stdin and writes stdout itself."""


class _Fault(Exception):  # never leaves this module
    def __init__(self, node: ast.stmt, sentence: str) -> None:
        super().__init__(sentence)
        self.line = node.lineno


def read_file(text: str, *, label: str) -> FileReading:
    """The tools in `text`. `label` names the file in faults."""
    header = find_header(text)
    if header is not None and header.fault is not None:
        said = f"its script metadata is malformed: {header.fault}. Correct it; the file is skipped."
        return FileReading(faults=(f"{label}, line {header.line}: {said}",), is_broken=True)
    try:
        tree = parse_module(text)
    except SyntaxError as error:
        said = f"{label}, line {error.lineno or 1}: {error.msg}. Correct it; until then the file offers no tools."
        return FileReading(faults=(said,), is_broken=True, trace=_shown(error, label=label))
    except (ValueError, RecursionError, MemoryError) as error:
        fault = f"{label}, line 1: this is not Python text ({error}). Correct the file."
        return FileReading(faults=(fault,), is_broken=True)
    return _read_tree(tree, label, header)


def _shown(error: SyntaxError, *, label: str) -> str:
    """As Python shows it: file and line, the line itself, and where in it the error is."""
    error.filename = label
    return "".join(traceback.format_exception_only(error)).rstrip()


def _read_tree(tree: ast.Module, label: str, header: Header | None) -> FileReading:
    names = FileNames(tree)
    functions: list[FileFunction] = []
    faults: list[_Fault] = []
    try:
        pack = _pack(tree, names)
        chosen, faults = _chosen(tree, names)
    except _Fault as fault:
        chosen, faults = [], [fault]
    for node in chosen:
        try:
            functions.append(_function(node, names, pack))
        except _Fault as fault:
            faults.append(fault)
    said = tuple(f"{label}, line {fault.line}: {fault}" for fault in faults)
    return FileReading(
        functions=tuple(functions), faults=said, script=header, runs_as_script=_runs_as_script(tree, names)
    )


def _runs_as_script(tree: ast.Module, names: FileNames) -> bool:
    """Whether `if __name__ == "__main__":` calls anything but `worker_main`."""
    return any(not _is_worker_main(function, names) for function in _called_at_start(tree))


def _called_at_start(tree: ast.Module) -> list[ast.expr]:
    """What the main block calls."""
    blocks = [node.body for node in tree.body if isinstance(node, ast.If) and _asks_for_main(node.test)]
    return [call.func for block in blocks for statement in block for call in _calls_in(statement)]


def _calls_in(node: ast.AST) -> list[ast.Call]:
    return [each for each in ast.walk(node) if isinstance(each, ast.Call)]


def _entry_point(tree: ast.Module, names: FileNames) -> FunctionNode | None:
    """A `def main()` that starts the file as a program, as in older files: it is not a tool."""
    defined = {node.name: node for node in tree.body if isinstance(node, FunctionNode)}
    main = defined.get("main")
    if main is None:
        return None
    is_started = any(isinstance(function, ast.Name) and function.id == "main" for function in _called_at_start(tree))
    return main if is_started or any(_is_worker_main(call.func, names) for call in _calls_in(main)) else None


def _asks_for_main(test: ast.expr) -> bool:
    """`__name__ == "__main__"`, either way round, alone or with another condition."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return any(_asks_for_main(value) for value in values)
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            sides = {ast.unparse(left), ast.unparse(right)}
            return sides == {"__name__", "'__main__'"}
        case _:
            return False


def _is_worker_main(function: ast.expr, names: FileNames) -> bool:
    called = names.full_name(function) or ast.unparse(function)
    return called.rpartition(".")[2] == "worker_main"


def _pack(tree: ast.Module, names: FileNames) -> str:
    node = names.assigned.get("pack")
    if node is None:
        return ""
    pack = names.value(node)
    if not isinstance(pack, str):
        where = _statement_of(tree, "pack")
        raise _Fault(
            where, "'pack' must be one literal string. Write pack = \"name\"; until then the file offers no tools."
        )
    return f"{pack}_" if pack else ""


def _chosen(tree: ast.Module, names: FileNames) -> tuple[list[FunctionNode], list[_Fault]]:
    """The functions that are tools: those in `__all__`, or else the public ones. A second definition wins."""
    defined = {node.name: node for node in tree.body if isinstance(node, FunctionNode)}
    if "__all__" not in names.assigned:
        starts = _entry_point(tree, names)
        return [node for name, node in defined.items() if not name.startswith("_") and node is not starts], []
    where = _statement_of(tree, "__all__")
    exported = names.value(names.assigned["__all__"])
    if not isinstance(exported, list) or not all(isinstance(name, str) for name in exported):
        cure = 'Write __all__ = ["name"]; until then the file offers no tools.'
        raise _Fault(where, f"'__all__' must be one literal list of names. {cure}")
    known = {*defined, *names.classes, *names.assigned, *names.imports}
    missing = [
        _Fault(where, f"'__all__' names '{name}', which is not at the file's top level. Define or remove it.")
        for name in exported
        if name not in known
    ]
    return [defined[name] for name in dict.fromkeys(exported) if name in defined], missing


def _statement_of(tree: ast.Module, name: str) -> ast.stmt:
    """The last assignment to `name`, for a fault's line."""
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)
        and any(isinstance(target, ast.Name) and target.id == name for target in ast.walk(node))
    ]
    return found[-1]


def _function(node: FunctionNode, names: FileNames, pack: str) -> FileFunction:
    _check_callable(node)
    docs = split_docstring(ast.get_docstring(node, clean=False))
    return FileFunction(
        name=node.name,
        tool_name=f"{pack}{node.name}",
        line=node.lineno,
        description=docs.description,
        input_schema=_input_schema(node, names, docs.parameters),
        output_schema=Hints(names, for_result=True).object_schema(node.returns),
    )


def _check_callable(node: FunctionNode) -> None:
    """Refuse what named arguments cannot call."""
    if node.args.vararg is not None:
        raise _Fault(
            node, f"'{node.name}' takes *{node.args.vararg.arg}, which named arguments cannot fill. Use a list."
        )
    if node.args.posonlyargs:
        first = node.args.posonlyargs[0].arg
        raise _Fault(node, f"'{node.name}' takes '{first}' by position only. Remove the '/' from its parameters.")
    if _yields(node):
        raise _Fault(node, f"'{node.name}' is a generator, and a tool gives one result. Return a list.")


def _yields(function: FunctionNode) -> bool:
    """Whether the function itself has a `yield`, not one nested in it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, FunctionNode | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))
    return False


def _input_schema(node: FunctionNode, names: FileNames, documented: dict[str, str]) -> JsonSchema:
    hints = Hints(names)
    arguments = node.args
    plain_defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + [*arguments.defaults]
    properties: dict[str, JsonSchema] = {}
    required: list[str] = []
    for parameter, default in (
        *zip(arguments.args, plain_defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ):
        if parameter.arg == CONTEXT_PARAMETER:
            continue
        schema = _parameter_schema(hints, parameter.annotation, default, names)
        properties[parameter.arg] = described(schema, documented.get(parameter.arg), parameter.annotation, names)
        if default is None:
            required.append(parameter.arg)
    schema = {"type": "object", "properties": properties, "required": required}
    schema["additionalProperties"] = arguments.kwarg is not None
    return {**schema, "$defs": hints.defs} if hints.defs else schema


def _parameter_schema(
    hints: Hints, annotation: ast.expr | None, default: ast.expr | None, names: FileNames
) -> JsonSchema:
    schema = hints.schema(annotation)
    value = UNKNOWN if default is None else _default(default, names)
    if value is UNKNOWN:
        return schema
    if value is None and not accepts_null(schema):
        schema = any_of(schema, {"type": "null"})  # `x: str = None` means that None may be given
    return {**schema, "default": value}


def _default(node: ast.expr, names: FileNames) -> Any:
    """The JSON value of a default: a literal, a constant of the file, or a member of one of its enums."""
    if isinstance(node, ast.Attribute) and (definition := names.class_of(node.value)) is not None:
        return (enum_values(definition, names) or {}).get(node.attr, UNKNOWN)
    return names.value(node)
