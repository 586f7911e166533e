"""What can be counted in the sources of a checkout: modules, lines, functions, names, importers."""

import ast
from collections import Counter
from collections.abc import Container, Iterator
from pathlib import Path

from msgspec import Struct

from bench.figures import percentile

ENTRIES = frozenset({"__init__", "__main__"})


class CodeFigures(Struct, frozen=True, kw_only=True):
    """The size and the shape of a package."""

    modules: int
    lines: int
    lines_per_module: int
    function_p95: int
    """Lines of a function from its `def` to its end, docstring included; methods and nested ones too."""
    class_names: int
    class_names_twice: int
    """Public names that more than one class of a module's top level has."""
    single_importers: int
    """Modules but `__init__` and `__main__` that exactly one other module of the package imports."""


def measure(package: Path) -> CodeFigures:
    """The figures of the package in this folder."""
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}
    trees = {_module_name(path, package): ast.parse(text) for path, text in sources.items()}
    lines = sum(text.count("\n") for text in sources.values())
    lengths = sorted(float(length) for tree in trees.values() for length in _function_lengths(tree))
    names = Counter(name for tree in trees.values() for name in _public_classes(tree))
    return CodeFigures(
        modules=len(sources),
        lines=lines,
        lines_per_module=round(lines / len(sources)),
        function_p95=round(percentile(lengths, 0.95)),
        class_names=len(names),
        class_names_twice=sum(count > 1 for count in names.values()),
        single_importers=_single_importers(trees, _leaves(sources, package)),
    )


def _module_name(path: Path, package: Path) -> str:
    parts = [package.name, *path.relative_to(package).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _leaves(sources: dict[Path, str], package: Path) -> set[str]:
    return {_module_name(path, package) for path in sources if path.stem not in ENTRIES}


def _function_lengths(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1


def _public_classes(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def _single_importers(trees: dict[str, ast.Module], leaves: set[str]) -> int:
    importers: Counter[str] = Counter()
    for name, tree in trees.items():
        base = name if name not in leaves else name.rpartition(".")[0]
        importers.update(set(_imported(tree, base, trees)) - {name})
    return sum(importers[name] == 1 for name in leaves)


def _imported(tree: ast.Module, base: str, known: Container[str]) -> Iterator[str]:
    """The modules that a module imports; `base` is the package it is in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = base.split(".")[: 1 - node.level or None] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                yield inner if inner in known else module
