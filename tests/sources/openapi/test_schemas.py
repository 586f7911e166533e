from typing import Any

import pytest

from jackfield.protocol.schemas import ArgumentChecker, fault_in
from jackfield.sources.openapi.schemas import LEFT_OPEN, MAX_SCHEMA
from tests.sources.openapi.scene import document, json_body, offered, operation, tools_of


def sent(schema: Any, **schemas: Any) -> dict[str, Any]:
    """The input schema of an operation whose body is this."""
    made = document({"/x": {"post": operation("x", requestBody=json_body(schema))}}, components={"schemas": schemas})
    return tools_of(made, fields=False)["x"].input_schema


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "enum": ["a"], "nullable": True}, {"type": ["string", "null"], "enum": ["a", None]}),
        (
            {"allOf": [{"type": "string"}], "nullable": True},
            {"anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]},
        ),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, {"type": "number", "exclusiveMinimum": 0}),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": False}, {"type": "number", "minimum": 0}),
        ({"type": "number", "exclusiveMaximum": 5}, {"type": "number", "exclusiveMaximum": 5}),
        (
            {"type": "string", "example": "x", "xml": {}, "x-hidden": 1, "discriminator": {}, "$id": "urn:x"},
            {"type": "string"},
        ),
        (
            {"type": "array", "items": {"nullable": True, "type": "integer"}},
            {"type": "array", "items": {"type": ["integer", "null"]}},
        ),
        (True, {}),
        (False, {"not": {}}),
    ],
)
def test_what_openapi_says_otherwise_is_said_in_json_schemas_words(theirs: Any, ours: Any) -> None:
    assert sent({"type": "array", "prefixItems": [theirs]})["properties"]["body"]["prefixItems"] == [ours]


def test_read_only_properties_are_not_asked_for() -> None:
    schema = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {"id": {"type": "string", "readOnly": True}, "name": {"type": "string"}},
    }
    assert sent(schema) == {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
        "additionalProperties": False,
    }


def test_a_schema_that_refers_to_itself_stays_one_and_checks_values_at_any_depth() -> None:
    node = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string"},
            "children": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}},
        },
    }
    schema = sent({"$ref": "#/components/schemas/Node"}, Node=node)

    assert fault_in(schema) is None
    check = ArgumentChecker(schema).check
    assert check({"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}) == []
    assert check({"name": "a", "children": [{"name": "b", "children": [{"nom": "c"}]}]}) != []


def test_parts_of_the_same_name_are_kept_apart_and_called_the_same_whatever_else_there_is() -> None:
    components = {"schemas": {"X": {"type": "string"}}, "x-other": {"X": {"type": "integer"}}}
    usual, other = {"$ref": "#/components/schemas/X"}, {"$ref": "#/components/x-other/X"}

    def schema_of(*parts: Any) -> dict[str, Any]:
        body = json_body({"type": "array", "prefixItems": list(parts)})
        made = document({"/x": {"post": operation("x", requestBody=body)}}, components=components)
        return tools_of(made)["x"].input_schema

    both = schema_of(usual, other)
    first, second = (part["$ref"].removeprefix("#/$defs/") for part in both["properties"]["body"]["prefixItems"])
    assert both["$defs"] == {"X": {"type": "string"}, second: {"type": "integer"}}
    assert (first, second.startswith("X_")) == ("X", True)
    assert schema_of(other, usual)["$defs"] == both["$defs"]
    assert schema_of(other)["$defs"] == {second: {"type": "integer"}}


def test_parts_that_double_with_each_level_are_written_once_each() -> None:
    levels = {
        f"L{n}": {"allOf": [{"$ref": f"#/components/schemas/L{n + 1}"}, {"$ref": f"#/components/schemas/L{n + 1}"}]}
        for n in range(60)
    }
    schema = sent({"$ref": "#/components/schemas/L0"}, **levels, L60={"type": "object"})

    assert len(schema["$defs"]) == 61
    assert fault_in(schema) is not None  # checking a value could take for ever: the catalog leaves such a tool out


def test_a_schema_that_is_too_large_is_left_open_at_its_far_ends_and_stays_usable() -> None:
    wide = {f"p{n}": {"type": "string", "description": "x" * 100} for n in range(200)}
    ring = {
        f"R{n}": {"type": "object", "properties": {**wide, "next": {"$ref": f"#/components/schemas/R{(n + 1) % 9}"}}}
        for n in range(9)
    }
    body = json_body({"type": "object", "properties": {"ring": {"$ref": "#/components/schemas/R0"}}})
    made = document({"/x": {"post": operation("x", requestBody=body)}}, components={"schemas": ring})
    offer = offered(made)
    (tool,) = offer.listing.tools

    assert offer.listing.faults == ("Schemas that are too large are left open at their far ends: POST /x.",)
    assert LEFT_OPEN in tool.input_schema["$defs"].values()
    assert tool.definition is not None
    assert len(bytes(tool.definition)) < 2 * MAX_SCHEMA
    assert ArgumentChecker(tool.input_schema).check({"ring": {"next": {"next": {"p0": "x"}}}}) == []
    assert ArgumentChecker(tool.input_schema).check({"ring": {"p0": 5}}) != []


def test_hidden_characters_leave_descriptions_and_keep_a_tool_out_where_they_matter() -> None:
    body = json_body({"type": "object", "properties": {"a": {"type": "string", "description": "be\u200bware"}}})
    evil = json_body({"type": "object", "properties": {"a\u202eb": {"type": "string"}}})
    offer = offered(
        document(
            {
                "/fine": {"post": operation("fine", summary="Fi\u200bne", requestBody=body)},
                "/evil": {"post": operation("evil", requestBody=evil)},
            }
        )
    )

    (tool,) = offer.listing.tools
    assert (tool.name, tool.description) == ("fine", "Fine")
    assert tool.input_schema["properties"]["a"]["description"] == "beware"
    assert offer.listing.faults == (
        "The operation POST /evil is left out: hidden characters stand in the names or values of its schema.",
    )
