"""Parses a file, and finds what its top-level names mean.

Above: `hints.py`, `classes.py`, `reader.py`. Below: ast.
"""

import ast
import builtins
import gc
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

_SAME_AS_TYPING = ("typing.", "typing_extensions.", "collections.abc.", "collections.", "builtins.")
_SEVERAL = ast.Constant(value=...)
"""The value of a name that is assigned more than once."""


class Unknown:
    """The value of an expression that is not a literal."""


UNKNOWN = Unknown()


class FileNames:
    """Imports, classes and assignments at a file's top level, those below `if` and `try` included."""

    def __init__(self, tree: ast.Module) -> None:
        self.imports: dict[str, str] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        self.assigned: dict[str, ast.expr] = {}
        self._starred: list[str] = []
        for statement in _top_level(tree.body):
            self._learn(statement)

    def full_name(self, node: ast.expr) -> str | None:
        """The full name of what `node` refers to: `list`, `Optional`, `datetime.date`. Names of typing and the
        collections lose their module, so that `typing.List` and `t.List` are both `List`.
        """
        dotted = _dotted(node)
        if dotted is None:
            return None
        first, _, rest = dotted.partition(".")
        if first in self.classes or first in self.assigned:
            return None
        origin = self.imports.get(first) or self._builtin_or_starred(first)
        if origin is None:
            return None
        full = f"{origin}.{rest}" if rest else origin
        prefix = next((prefix for prefix in _SAME_AS_TYPING if full.startswith(prefix)), "")
        return full.removeprefix(prefix)

    def class_of(self, node: ast.expr) -> ast.ClassDef | None:
        """The class of this file that `node` names."""
        return self.classes.get(node.id) if isinstance(node, ast.Name) else None

    def alias_of(self, node: ast.expr) -> ast.expr | None:
        """What this file assigned to the name `node`, if it did so once."""
        return self.assigned.get(node.id) if isinstance(node, ast.Name) and node.id not in self.classes else None

    def value(self, node: ast.expr) -> Any:
        """The JSON value of a literal, or of a name that holds one; else `UNKNOWN`."""
        target = self.alias_of(node) or node
        try:
            literal = ast.literal_eval(target)
            plain = msgspec.json.decode(msgspec.json.encode(literal))
        except (ValueError, TypeError, RecursionError):
            return UNKNOWN
        return UNKNOWN if plain is None and literal is not None else plain

    def _builtin_or_starred(self, name: str) -> str | None:
        if hasattr(builtins, name):
            return name
        return f"{self._starred[0]}.{name}" if self._starred else None

    def _learn(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Import(names=aliases):
                for alias in aliases:
                    first = alias.name.partition(".")[0]
                    self.imports[alias.asname or first] = alias.name if alias.asname else first
            case ast.ImportFrom(module=module, level=level, names=aliases):
                origin = "." * level + (module or "")
                for alias in aliases:
                    if alias.name == "*":
                        self._starred.append(origin)
                    else:
                        self.imports[alias.asname or alias.name] = f"{origin}.{alias.name}"
            case ast.ClassDef(name=name):
                self.classes[name] = statement
            case _:
                for name, value in _assignments(statement):
                    self.assigned[name] = _SEVERAL if name in self.assigned else value


def _top_level(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With):
            yield from _top_level(statement.body)
            yield from _top_level(getattr(statement, "orelse", ()))
            yield from _top_level(getattr(statement, "finalbody", ()))
            for handler in getattr(statement, "handlers", ()):
                yield from _top_level(handler.body)


def _assignments(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, statement.value
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
        yield statement.target.id, statement.value
    elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id, _SEVERAL
    elif type(statement).__name__ == "TypeAlias":  # `type X = …`, which Python 3.11 has no node for
        alias: Any = statement
        yield alias.name.id, alias.value


def _dotted(node: ast.expr) -> str | None:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            before = _dotted(value)
            return f"{before}.{attribute}" if before else None
        case _:
            return None


HAS_SHARED_DEPTH = sys.version_info < (3, 11, 8) or (3, 12) <= sys.version_info < (3, 12, 2)
"""CPython counted the depth of every `ast.parse` of a process in one variable (gh-106905): a garbage collection in the
middle lets another thread parse, and the first one fails with "recursion depth mismatch". So there one thread parses at
a time, and nothing is collected meanwhile."""
_parse_lock = threading.RLock()


def parse_module(text: str) -> ast.Module:
    """Raises what `ast.parse` raises."""
    with safe_parsing():
        return ast.parse(text)


def parse_expression(text: str) -> ast.expr:
    """Raises what `ast.parse` raises."""
    with safe_parsing():
        return ast.parse(text, mode="eval").body


@contextmanager
def safe_parsing() -> Iterator[None]:
    """Nothing else is parsed or garbage-collected during the block."""
    if not HAS_SHARED_DEPTH:
        yield
        return
    with _parse_lock:
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()
