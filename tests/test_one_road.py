"""Every tool call goes through `Pipeline.prepare`. Read from the syntax trees of all modules, so that a way around it
is noticed when it is written."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.requirement import requirement

SOURCE = Path(__file__).parents[1] / "src/jackfield"
EXECUTOR, PIPELINE = "calls/executor.py", "calls/pipeline.py"
SOURCES, STORE = "sources/", "store/"
AGENT_TOOLS, SESSION_TOOLS = "agents/builtin_handlers.py", "mcp/session_tools.py"
TOOL_EXECUTOR, JOURNAL = "runs/tool_executor.py", "agents/journal.py"
HANDLER = "calls/execute_api.py"
COMPOSING = {"gateway/gateway.py"}
"""Where the handlers of built-in tools are handed to their source."""
ELSEWHERE = "cli/remote_files.py"
"""`jackfield work`: a tool server on another machine. Its calls have taken the pipeline at the gateway."""


@cache
def trees() -> dict[str, ast.Module]:
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in SOURCE.rglob("*.py")
    }


def users_of(attribute: str) -> set[str]:
    """The modules that take an object's attribute, called at once or handed on.

    `api.execute` of `HANDLER` is the HTTP handler of the same name, which asks the pipeline."""
    return {
        module
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == attribute
        and (module, ast.unparse(node)) != (HANDLER, "api.execute")
    }


def importers_of(module: str, *names: str) -> set[str]:
    """The modules that import one of these names from a module of ours; the module itself, if none is given."""
    dotted = f"jackfield.{module.removesuffix('.py').replace('/', '.')}"
    package, _, last = dotted.rpartition(".")
    return {user for user, tree in trees().items() if any(_imports(tree, dotted, package, last, names))}


def _imports(tree: ast.Module, dotted: str, package: str, last: str, names: tuple[str, ...]) -> Iterator[bool]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            imported = {alias.name for alias in node.names}
            yield node.module == dotted and (not names or not imported.isdisjoint(names))
            yield node.module == package and last in imported
        elif isinstance(node, ast.Import):
            yield dotted in {alias.name for alias in node.names}


@requirement("SPACE-principle-one-pipeline")
def test_only_the_executor_has_sources_execute_and_only_the_pipeline_has_the_executor() -> None:
    """`Pipeline` → `Executor` → `SourceRegistry.execute` → `Source.execute`. The store's `execute` is SQL's."""
    executing = {module for module in users_of("execute") if not module.startswith((SOURCES, STORE))}
    assert executing == {EXECUTOR, ELSEWHERE}
    assert users_of("carry_out") == {EXECUTOR, PIPELINE}
    assert users_of("execute_unrecorded") == {PIPELINE}
    assert users_of("work_of") == {PIPELINE, TOOL_EXECUTOR}


@requirement("SPACE-principle-one-pipeline")
def test_nobody_calls_a_handler_of_a_built_in_tool() -> None:
    """They are handed to `BuiltinSource`, which is a source like any other."""
    assert users_of("builtin_handlers") == COMPOSING
    assert importers_of(AGENT_TOOLS, "agent_handlers") == COMPOSING
    assert importers_of(SESSION_TOOLS, "SessionTools") == COMPOSING | {"mcp/server.py"}, "which lists them"


@requirement("SPACE-principle-one-pipeline")
def test_a_built_in_tools_script_runs_only_in_the_step_that_the_pipeline_prepared() -> None:
    users = {user for user in importers_of("sources/base.py", "InTransaction") if not user.startswith("calls/")}
    assert users == {
        AGENT_TOOLS,
        ELSEWHERE,
        JOURNAL,
        TOOL_EXECUTOR,
        "sources/builtin.py",
        "sources/source_registry.py",
        "sources/supervisor.py",
    }
    prepared = {ast.unparse(node.func) for node in ast.walk(trees()[TOOL_EXECUTOR]) if isinstance(node, ast.Call)}
    assert {"self._pipeline.prepare", "self._pipeline.work_of", "self._pipeline.go_on"} <= prepared


@requirement("SPACE-principle-one-pipeline")
def test_whoever_searches_the_catalog_for_a_model_does_so_through_the_pipeline() -> None:
    """`View.search` is reached by `GET /api/v1/tools/search` and by the built-in tool."""
    searching = {
        module
        for module in users_of("search")
        if any(
            isinstance(node, ast.Attribute) and node.attr == "search" and "view" in ast.unparse(node.value)
            for node in ast.walk(trees()[module])
        )
    }
    assert searching == {"runs/tool_search.py", "catalog/api.py"}


@requirement("SPACE-principle-one-pipeline")
def test_no_package_on_the_road_knows_a_source_by_its_class() -> None:
    """Whoever imports a kind of source could call it directly. The gateway puts them together, and stored tools have
    sources of their own; nobody else does."""
    kinds = ("external", "files", "http", "inprocess", "mcp/source", "openapi/source", "registry")
    users = {user for kind in kinds for user in importers_of(f"sources/{kind}")} - {
        "catalog/stored_tools.py",
        "programs/source.py",
        ELSEWHERE,
    }
    assert {user.split("/")[0] for user in users} == {"gateway", "sources"}
