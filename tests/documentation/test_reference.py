"""The reference pages leave nothing out: settings, commands, routes, events, errors, metrics and the SDK."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

import jackfield
from documentation import cli, config, errors, events, http, sdk
from documentation.markdown import anchor
from documentation.pages import PAGES
from jackfield import sdk as jackfield_sdk
from jackfield.cli.main import COMMANDS
from jackfield.gateway.metrics import METRICS
from jackfield.model.call import FAILURES
from jackfield.model.space import DURABLE_EVENTS
from jackfield.runs.api import RUN_EVENTS
from jackfield.settings.types import SandboxSettings
from jackfield.spaces import frames
from tests.requirement import requirement
from tests.routes import ROUTES

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/jackfield"
READ_FROM_FILES = ("settings", "sources", "llm")
"""Packages with types of the config file."""
NOT_IN_THE_CONFIG = {
    "_Document",  # the file itself
    "SecretBody",  # of a request
    "_File",  # a dialogue: docs/models.md
    "ScriptTurn",
    "ScriptedCall",
    "ScriptedFailure",
    "When",
    "_Server",  # an agent's own MCP servers: docs/agents.md
    "_Servers",
}


@cache
def page(path: str) -> str:
    return PAGES[path]()


def config_types() -> Iterator[type[Struct]]:
    """Every record that refuses keys it does not know, in the packages that read the config."""
    for name in READ_FROM_FILES:
        for module in pkgutil.walk_packages([str(SOURCE / name)], f"jackfield.{name}."):
            for kind in vars(importlib.import_module(module.name)).values():
                is_ours = isinstance(kind, type) and issubclass(kind, Struct) and kind.__module__ == module.name
                if is_ours and kind.__struct_config__.forbid_unknown_fields:
                    yield kind


@requirement("DOC-reference")
def test_every_type_of_the_config_is_documented() -> None:
    documented = {section.record for section in config.sections()}
    missing = {kind.__name__ for kind in config_types() if kind not in documented}
    assert missing - NOT_IN_THE_CONFIG == set()


@requirement("DOC-reference")
def test_every_key_of_the_config_is_documented_with_its_meaning() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", page("reference/config.md"), re.MULTILINE)
    for section in config.sections():
        assert [field.name for field in section.fields if not field.meaning] == [], section.title
        assert {field.name for field in section.fields} <= set(rows)
    assert SandboxSettings in {section.record for section in config.sections()}


@requirement("DOC-reference")
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    section = page("reference/cli.md").partition(f"\n## `jackfield {name}`\n")[2].partition("\n## ")[0]
    command = cli.declared(name)
    assert command.examples.strip() in section
    missing = [flag for one in command.arguments for flag in one.flags if f"`{flag}`" not in section]
    assert missing == []
    assert [one.flags for one in command.arguments if not one.settings.get("help")] == []


@requirement("DOC-reference")
def test_every_route_and_record_of_the_api_is_documented() -> None:
    written = page("reference/http.md")
    shown = {f"### {route.method} {route.path}" for route in ROUTES if not route.is_page}
    assert {one for one in shown if f"\n{one}\n" not in written} == set()
    assert [route.name for route in ROUTES if route.is_page and f"`{route.name}`" not in written] == []
    schemas = http.document()["components"]["schemas"]
    assert [name for name in schemas if f"\n## {name}\n" not in page("reference/http-types.md")] == []


@requirement("DOC-reference")
def test_every_error_is_documented_with_when_it_is_raised() -> None:
    written = page("reference/errors.md")
    for error in [*errors.refusals(), *errors.faults()]:
        row = re.search(rf"^\| `{error.code}` \|.*`{error.__name__}`.* \| (.*) \|$", written, re.MULTILINE)
        assert row, error
        assert row[1], f"{error.__name__} does not say when it is raised"


@requirement("DOC-reference")
def test_every_code_that_a_failed_call_is_given_is_documented() -> None:
    given = {code for path in SOURCE.rglob("*.py") for code in codes_given_in(path)}
    assert {"timeout", "tool_error", "withheld_by_hook"} <= given
    assert given - set(FAILURES) == set()
    assert [code for code in FAILURES if f"| `{code}` |" not in page("reference/errors.md")] == []


def codes_given_in(path: Path) -> Iterator[str]:
    """What the calls of `Failed` in a module name as their code, by itself or by a constant of the module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Failed":
            first = node.args[0] if node.args else next(one.value for one in node.keywords if one.arg == "code")
            code: Any = first.value if isinstance(first, ast.Constant) else constants.get(getattr(first, "id", ""))
            if isinstance(code, str):
                yield code


@requirement("DOC-reference")
def test_every_event_of_a_stream_is_documented() -> None:
    written = page("reference/events.md")
    of_spaces = {
        node.args[2].value
        for path in (SOURCE / "spaces").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "insert_event"
        and isinstance(node.args[2], ast.Constant)
    }
    assert "space.message" in of_spaces
    assert of_spaces - set(DURABLE_EVENTS) == set()
    of_runs = {
        str(node.value)
        for node in ast.walk(ast.parse((SOURCE / "runs/api.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and re.fullmatch(r"(run|step|tool)\.\w+", str(node.value))
    }
    assert of_runs == set(RUN_EVENTS) - {"connected"}
    passing = [
        kind.__struct_fields__ and str(kind.__struct_defaults__[0])
        for kind in (frames.ToolStreaming, frames.MessageStreaming, frames.MessageFailed)
    ]
    tags = [str(event.__struct_config__.tag) for event in events.response_events()]
    assert len(tags) > 30
    named = [*DURABLE_EVENTS, *RUN_EVENTS, *passing, *tags]
    assert [name for name in named if f"| `{name}` |" not in written] == []


@requirement("DOC-reference")
def test_every_action_of_the_audit_log_is_explained() -> None:
    actions = [action for action, _ in events.audit_actions()]
    assert {"key.created", "call.approved"} <= set(actions)
    explained = (ROOT / "docs/audit.md").read_text(encoding="utf-8")
    assert [action for action in actions if f"`{action}`" not in explained] == []


@requirement("DOC-reference")
def test_every_metric_is_documented() -> None:
    for written in (page("reference/metrics.md"), (ROOT / "docs/metrics.md").read_text(encoding="utf-8")):
        assert [one.name for one in METRICS if f"| `{one.name}` | {one.kind} |" not in written] == []


@requirement("DOC-reference")
def test_every_name_and_method_of_the_sdk_is_documented() -> None:
    written = page("reference/sdk.md")
    same = {"SyncClient", "SyncSession", "Session", "Client"}
    refused = {error.__name__ for error in errors.refusals()} | {"JackfieldError", "Refused"}
    missing = [
        name
        for name in jackfield_sdk.__all__
        if f"\n### {name}\n" not in written and f"| `{name}` |" not in written and name not in same | refused
    ]
    assert missing == []
    methods = [f"client.{part}.{name}" for part, kind in sdk.namespaces() for name in sdk.public_methods(kind)]
    assert [name for name in methods if f"\n### {name}\n" not in written] == []
    assert len(methods) > 100
    assert jackfield.__version__


def test_headings_have_the_ids_that_github_gives_them() -> None:
    assert anchor("MCP `tasks`: a list, of 3") == "mcp-tasks-a-list-of-3"
