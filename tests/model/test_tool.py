"""One tool model: kinds, definitions, limits."""

import json
from typing import Any

import msgspec
import pytest

from jackfield.model.tool import (
    DEFAULT_EXPIRES_IN_MS,
    Category,
    CostEstimate,
    Example,
    Metadata,
    Tool,
    ToolDefinition,
    ToolKind,
    definition_of,
    openai_function,
)
from tests.requirement import requirement

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "x-own": [1, {"b": None}]}},
    "required": ["city"],
}


def on_the_wire(tool: Tool, name: str = "public") -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(msgspec.json.encode(definition_of(tool, name)))
    return decoded


@pytest.mark.parametrize(
    ("kind", "here"), [(ToolKind.FUNCTION, False), (ToolKind.MCP, False), (ToolKind.INTERNAL, True)]
)
def test_a_kind_says_whether_the_gateway_runs_the_tool_itself(*, kind: ToolKind, here: bool) -> None:
    assert Tool(source="s", name="t", kind=kind).kind.hosted_here is here


def test_there_are_three_kinds_and_a_tool_is_internal_unless_said() -> None:
    assert {kind.value for kind in ToolKind} == {"function", "mcp", "internal"}
    assert Tool(source="s", name="t").kind is ToolKind.INTERNAL


@requirement("TOOL-def-type", "TOOL-def-name", "TOOL-deliver-types")
@pytest.mark.parametrize("type_", ["function", "mcp", "file_search"])
def test_a_definition_has_its_type_and_the_public_name(type_: str) -> None:
    shown = on_the_wire(Tool(source="s", name="own-name", type=type_), "own_name")
    assert (shown["type"], shown["name"]) == (type_, "own_name")


@requirement("TOOL-def-name")
@pytest.mark.parametrize("text", [b"{}", b'{"type": "function"}'])
def test_a_definition_without_type_or_name_is_none(text: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=ToolDefinition)


@requirement("TOOL-def-description")
def test_an_empty_description_is_left_out() -> None:
    assert "description" not in on_the_wire(Tool(source="s", name="t"))
    assert on_the_wire(Tool(source="s", name="t", description="Says it"))["description"] == "Says it"


@requirement("TOOL-def-parameters")
def test_parameters_are_the_tools_schema_untouched() -> None:
    tool = Tool(source="s", name="t", input_schema=SCHEMA)
    assert definition_of(tool, "t").parameters is SCHEMA
    assert on_the_wire(tool)["parameters"] == SCHEMA
    assert list(on_the_wire(tool)["parameters"]) == list(SCHEMA)


@requirement("TOOL-def-parameters")
def test_a_definition_may_come_without_parameters() -> None:
    bare = msgspec.json.decode(b'{"type": "function", "name": "t"}', type=ToolDefinition)
    assert bare.parameters is None
    assert json.loads(msgspec.json.encode(bare)) == {"type": "function", "name": "t"}


@requirement("TOOL-def-kind-not-on-wire")
@pytest.mark.parametrize("kind", list(ToolKind))
def test_the_kind_is_never_serialised(kind: ToolKind) -> None:
    tool = Tool(source="s", name="t", type="custom", kind=kind, input_schema=SCHEMA, description="d", config={"a": 1})
    assert set(on_the_wire(tool)) == {"type", "name", "description", "parameters", "config"}
    assert "kind" not in str(openai_function(tool, "t"))


@requirement("TOOL-def-config")
def test_an_internal_tools_configuration_goes_with_its_definition() -> None:
    assert on_the_wire(Tool(source="s", name="t", type="file_search", config={"store": "vs_1", "top": 3}))[
        "config"
    ] == {
        "store": "vs_1",
        "top": 3,
    }
    assert "config" not in on_the_wire(Tool(source="s", name="t"))


def test_the_openai_form_carries_the_schema_as_it_is() -> None:
    assert openai_function(Tool(source="s", name="t", description="d", input_schema=SCHEMA), "pub") == {
        "type": "function",
        "function": {"name": "pub", "description": "d", "parameters": SCHEMA},
    }


@pytest.mark.parametrize(
    ("timeout_ms", "seconds", "deadline"), [(None, None, 30_000), (None, 5, 5_000), (700, None, 700), (700, 5, 700)]
)
def test_a_calls_limit_is_the_tools_own_then_its_metadatas_then_thirty_seconds(
    timeout_ms: int | None, seconds: int | None, deadline: int
) -> None:
    tool = Tool(source="s", name="t", timeout_ms=timeout_ms, metadata=Metadata(timeout_seconds=seconds))
    assert tool.deadline_ms == deadline


def test_a_pending_call_ends_after_a_day_unless_said() -> None:
    assert Tool(source="s", name="t").pending_ms == DEFAULT_EXPIRES_IN_MS == 86_400_000
    assert Tool(source="s", name="t", expires_in_ms=5).pending_ms == 5


def test_a_tool_without_a_schema_takes_no_arguments_and_shares_nothing() -> None:
    one, two = Tool(source="s", name="a"), Tool(source="s", name="b")
    assert one.input_schema == {"type": "object", "properties": {}}
    assert one.input_schema is not two.input_schema


def test_a_tool_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Tool(source="s", name="t").name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("into", "text"),
    [
        (Metadata, b'{"requires_aproval": true}'),
        (Metadata, b'{"cost_estimate": "cheap"}'),
        (Category, b'{"id": "x"}'),
        (Example, b'{"inputs": {}}'),
    ],
)
def test_words_that_do_not_exist_are_refused(into: type, text: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=into)


def test_costs_are_the_seeds_four_words() -> None:
    assert {cost.value for cost in CostEstimate} == {"low", "medium", "high", "variable"}
