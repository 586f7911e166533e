from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.cli.arguments import fields, sample_object, types_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where"},
        "days": {"type": "integer", "minimum": 2, "default": 3},
        "unit": {"enum": ["metric", "imperial"]},
        "stops": {"type": "array", "items": {"$ref": "#/$defs/Stop"}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city", "stops"],
    "$defs": {
        "Stop": {
            "type": "object",
            "properties": {"at": {"type": "string"}, "next": {"$ref": "#/$defs/Stop"}},
            "required": ["at"],
        }
    },
}


def test_every_field_is_listed_with_its_type_and_what_is_said_of_it() -> None:
    listed = {field.path: (field.type, field.required, field.description) for field in fields(SCHEMA)}
    assert listed["city"] == ("string", True, "Where")
    assert listed["days"] == ("integer", False, "default 3")
    assert listed["unit"] == ("string", False, "one of metric, imperial")
    assert listed["stops"] == ("array of object", True, "")
    assert listed["stops[].at"] == ("string", True, "")
    assert listed["note"] == ("string or null", False, "default null")
    assert listed["tags"] == ("array of string", False, "")


def test_a_schema_that_holds_itself_comes_to_an_end() -> None:
    assert max(field.path.count(".") for field in fields(SCHEMA)) < 10


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        ({"type": ["integer", "null"]}, {"integer", "null"}),
        ({"const": 1.5}, {"number"}),
        ({"enum": ["a", True, None]}, {"string", "boolean", "null"}),
        ({"oneOf": [{"type": "string"}, {"type": "array"}]}, {"string", "array"}),
        ({"anyOf": [{"type": "string"}, {}]}, set()),
        ({"allOf": [{"description": "x"}, {"type": "integer"}]}, {"integer"}),
        ({"$ref": "#/$defs/Stop"}, {"object"}),
        ({"$ref": "#/$defs/Missing"}, set()),
        ({"$ref": "https://example.com/schema"}, set()),
        (True, set()),
        (None, set()),
    ],
)
def test_the_types_a_schema_allows_are_found_wherever_it_says_them(schema: Any, kinds: set[str]) -> None:
    assert types_of(schema, SCHEMA) == kinds


def test_a_sample_holds_what_is_required_and_fits() -> None:
    made = sample_object(SCHEMA, SCHEMA)
    assert made == {"city": "text", "stops": []}
    jsonschema_rs.validator_for(SCHEMA).validate(made)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "items", "anyOf", "allOf", "enum", "$ref", "required", "a"]), inner
        )
    ),
    max_leaves=15,
)


@given(st.dictionaries(st.sampled_from(["type", "properties", "items", "anyOf", "$ref", "required"]), JSON))
def test_a_strange_schema_is_shown_vaguely_and_never_an_error(schema: dict[str, Any]) -> None:
    list(fields(schema))
    types_of(schema, schema)
    sample_object(schema, schema)
