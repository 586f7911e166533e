"""Seed 001's deliverables: each component of the tool system is a part of its own, with tests of its own."""

import ast
from pathlib import Path

import pytest

from tests.requirement import requirement

ROOT = Path(__file__).parents[1]
COMPONENTS = {
    "types": "jackfield.model.tool",
    "executor": "jackfield.sources.base",
    "filter": "jackfield.agents.choice",
    "loop": "jackfield.agents.loop",
    "function calling": "jackfield.agents.speech",
    "MCP client": "jackfield.sources.mcp.connection",
    "MCP transports": "jackfield.sources.mcp.wires",
    "registry": "jackfield.sources.registry",
}
SHOWN_BY = {"function calling": "jackfield.agents.loop", "MCP client": "jackfield.sources.mcp.source"}
"""Components that are tested through the part that uses them."""


@requirement("TOOL-deliver-tests")
@pytest.mark.parametrize("component", COMPONENTS)
def test_every_component_of_the_tool_system_has_tests_of_its_own(component: str) -> None:
    module = COMPONENTS[component]
    assert (ROOT / "src" / Path(*module.split("."))).with_suffix(".py").exists()
    wanted = SHOWN_BY.get(component, module)
    testing = [path for path in (ROOT / "tests").rglob("*.py") if wanted in _imports(path)]
    assert testing, f"no test imports {wanted}"


def _imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    return found | {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
