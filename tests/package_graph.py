"""Draws the packages of `src/jackfield` and their imports into docs/architecture.md, from the code.

    python -m tests.package_graph            # print the drawing and the table
    python -m tests.package_graph --write    # update the page; `make drawing` does this

An arrow means "imports". Arrows that follow from others are left out.
"""

import argparse
import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/jackfield"
PAGE = ROOT / "docs/architecture.md"
BEGIN, END = "<!-- packages begin -->", "<!-- packages end -->"

Graph = Mapping[str, frozenset[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="update docs/architecture.md")
    if not parser.parse_args().write:
        sys.stdout.write(drawing())
        return
    PAGE.write_text(with_drawing(PAGE.read_text(encoding="utf-8"), drawing()), encoding="utf-8")


def drawing() -> str:
    """The graph as Mermaid, and a table of what each package is."""
    graph = imports()
    reduced = without_shortcuts(graph)
    arrows = [f"  {name} --> {' & '.join(sorted(used))}" for name, used in sorted(reduced.items()) if used]
    rows = [f"| `{name}/` | {purpose(name)} |" for name in sorted(graph)]
    return "\n".join(
        ["```mermaid", "flowchart TD", *arrows, "```", "", "| package | what it is |", "|---|---|", *rows, ""]
    )


def with_drawing(page: str, drawn: str) -> str:
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{drawn}{END}{after}"


def imports() -> Graph:
    """Each package of `jackfield`, and the other packages that its modules import."""
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    found: dict[str, set[str]] = {name: set() for name in packages}
    for name in packages:
        for module in (PACKAGE / name).rglob("*.py"):
            found[name] |= set(_imported(module)) & packages - {name}
    return {name: frozenset(used) for name, used in found.items()}


def without_shortcuts(graph: Graph) -> Graph:
    """Without every arrow whose end can be reached by a longer way."""
    return {
        name: frozenset(
            target for target in used if not any(target in _reached(graph, other, name) for other in used - {target})
        )
        for name, used in graph.items()
    }


def purpose(package: str) -> str:
    """The first sentence of the package's docstring."""
    tree = ast.parse((PACKAGE / package / "__init__.py").read_text(encoding="utf-8"))
    paragraph = (ast.get_docstring(tree) or "").split("\n\n")[0]
    return " ".join(paragraph.split())


def _imported(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "jackfield":
            names = [f"jackfield.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("jackfield."))


def _reached(graph: Graph, start: str, avoiding: str) -> set[str]:
    """What `start` imports, directly or not, on ways that do not lead through `avoiding`."""
    seen: set[str] = set()
    open_ends = [start]
    while open_ends:
        for target in graph[open_ends.pop()] - seen - {avoiding}:
            seen.add(target)
            open_ends.append(target)
    return seen


if __name__ == "__main__":
    main()
