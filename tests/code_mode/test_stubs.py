"""Tools as Python functions."""

import ast
from typing import Any

import pytest

from jackfield.catalog.merge import named_entry
from jackfield.model.tool import Tool
from jackfield.programs.stubs import stub_of
from tests.requirement import requirement


def stub(schema: dict[str, Any], *, name: str = "find", **more: Any) -> str:
    return stub_of(named_entry(name, Tool(source="local", name=name, input_schema=schema, **more)))


@requirement("PROG-STUBS")
@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "str"),
        ({"type": "array", "items": {"type": "integer"}}, "list[int]"),
        ({"enum": ["a", "b"]}, "Literal['a', 'b']"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "float | None"),
        ({"type": ["string", "boolean"]}, "str | bool"),
        ({"$ref": "#/$defs/Point"}, 'dict[{"x": int, "y": int}]'),
        ({"$ref": "#/$defs/Self"}, "Any"),
        ({"type": "object"}, "dict"),
        (True, "Any"),
    ],
)
def test_schemas_become_types(schema: Any, kind: str) -> None:
    point = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}}
    whole = {
        "type": "object",
        "properties": {"it": schema},
        "required": ["it"],
        "$defs": {"Point": point, "Self": {"$ref": "#/$defs/Self"}},
    }
    assert stub(whole, description="Find.").startswith(f"async def find(*, it: {kind}) -> Any:")


@requirement("PROG-STUBS")
def test_a_stub_is_python_whatever_the_tool_is_called_and_says() -> None:
    schema = {
        "type": "object",
        "properties": {
            "limit": {"type": "integer", "default": 5, "description": "At most\nso many"},
            "from": {"type": "string"},
            "x-y": {"type": "string"},
            "query": {"type": "string"},
        },
        "required": ["query", "from"],
    }
    told = stub(schema, name="class", description='Says """this""".\nAnd more.', output_schema={"type": "integer"})
    assert told.startswith("async def class_(*, query: str, limit: int = 5, **others: Any) -> int:")
    assert "limit: At most so many" in told
    assert 'Pass these as **{"name": value}: from, x-y' in told
    ast.parse(told)
    ast.parse(stub({"type": "object"}))
