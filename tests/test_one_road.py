"""There is one road to a tool. Read from the syntax trees, so that a way around it is noticed when it is written."""

import ast
from pathlib import Path

from tests.requirement import requirement

SOURCE = Path(__file__).parents[1] / "src/jackfield"


def users_of(method: str, *, except_in: str = "") -> set[str]:
    """The modules that take an object's `.method`, called at once or handed on, outside the room `except_in`.

    `execute.execute` is no object's: that is the HTTP door of the same name, in its module."""
    return {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] != except_in
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == method and ast.unparse(node) != "execute.execute"
    }


@requirement("SPACE-principle-one-pipeline")
def test_only_the_pipeline_has_calls_carried_out_and_only_the_executor_reaches_the_sources() -> None:
    """`Pipeline.call` → `Executor.carry_out` → `Panel.execute` → `Source.execute`. The store's `execute` is SQL's."""
    executing = users_of("execute", except_in="store")

    assert {module for module in executing if not module.startswith("sources/")} == {"calls/executor.py"}
    assert "sources/supervisor.py" in executing
    assert users_of("carry_out") == {"calls/executor.py", "calls/pipeline.py"}


@requirement("SPACE-principle-one-pipeline")
def test_no_room_on_the_road_knows_a_source_by_its_class() -> None:
    """Whoever imports a kind of source could call it directly. The gateway puts them together; the rooms do not."""
    kinds = {
        f"jackfield.sources.{name}"
        for name in ("files", "http", "inprocess", "external", "mcp.source", "openapi.source", "registry")
    }
    importers = {
        path.relative_to(SOURCE).parts[0]
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module in kinds
    }
    assert importers >= {"gateway", "sources"}
    assert (
        importers
        & {"agents", "calls", "catalog", "cli", "http", "mcp", "responses", "runs", "sdk", "sessions", "spaces"}
        == set()
    )
