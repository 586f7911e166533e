"""Components that the seeds name have tests of their own: found by what those tests import, not by their tags."""

import ast
import importlib
from pathlib import Path

import pytest
from msgspec import Struct

from tests.requirement import requirement

ROOT = Path(__file__).parents[1]
FEWEST = 5


class Component(Struct, frozen=True, kw_only=True):
    """A part, what it is used by, and the files that test it; helpers among them."""

    module: str
    names: frozenset[str]
    tests: tuple[str, ...]


def component(module: str, names: str, *tests: str) -> Component:
    return Component(module=f"jackfield.{module}", names=frozenset(names.split()), tests=tests)


TOOL_SYSTEM = [
    component("model.tool", "Tool ToolKind ToolDefinition Metadata definition_of", "model/test_tool.py"),
    component("sources.base", "Source Invocation Listing", "contracts/test_sources.py"),
    component("runs.plan", "Choice", "runs/test_choice.py"),
    component("runs.loop", "Loop", "runs/test_loop.py", "runs/stage.py"),
    component("sources.mcp.source", "McpSource", "sources/mcp/test_answers.py", "sources/mcp/scene.py"),
    component("sources.registry", "Registry RegistrySource InternalTool", "sources/test_registry.py"),
]
REFERENCE = [
    component("sources.registry", "Registry RegistrySource", "sources/test_registry.py"),
    component("catalog.merge", "merge Snapshot", "catalog/test_merge.py"),
    component("protocol.manifest", "assemble parameters_of timestamp", "protocol/test_manifest.py"),
    component("sources.manifest.parser", "manifest_of BadManifest", "sources/manifest/test_parser.py"),
    component("discovery", "Provider", "discovery/test_provider.py"),
]


def check(part: Component) -> None:
    module = importlib.import_module(part.module)
    trees = [ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8")) for file in part.tests]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    imported = {
        alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == part.module
        for alias in node.names
    }
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    tests = [n for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.name.startswith("test_")]
    assert all(hasattr(module, name) for name in part.names)
    assert part.names - (imported & used) == set(), "what the part is used by, and no test of it uses"
    assert len(tests) >= FEWEST


@requirement("TOOL-deliver-tests")
@pytest.mark.parametrize("part", TOOL_SYSTEM, ids=lambda part: part.module)
def test_every_component_of_the_tool_system_has_tests_of_its_own(part: Component) -> None:
    check(part)


@requirement("DISC-reference-tests")
@pytest.mark.parametrize("part", REFERENCE, ids=lambda part: part.module)
def test_registry_handlers_and_manifest_have_tests_of_their_own(part: Component) -> None:
    check(part)
