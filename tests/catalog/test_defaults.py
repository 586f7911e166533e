"""What is required and has a default, wherever the schema says so."""

from typing import Any

import pytest

from jackfield.catalog.checking import DEEPEST, MOST_LOOKS, with_defaults
from tests.requirement import requirement

THING = {"type": "object", "properties": {"n": {"type": "integer", "default": 3}}, "required": ["n"]}
ROOT = {"type": "object", "$defs": {"Thing": THING, "Three": {"default": 3}, "Loop": {"$ref": "#/$defs/Loop"}}}
REFERENCE = {"$ref": "#/$defs/Thing"}


@requirement("SAFE-mcp-programs")
@pytest.mark.parametrize(
    ("part", "given", "filled"),
    [
        (REFERENCE, {}, {"n": 3}),
        ({"allOf": [REFERENCE]}, {}, {"n": 3}),
        ({"type": "array", "items": REFERENCE}, [{}, {"n": 1}], [{"n": 3}, {"n": 1}]),
        ({"properties": {"n": {"$ref": "#/$defs/Three"}}, "required": ["n"]}, {}, {"n": 3}),
        ({"properties": {"n": {"$ref": "#/$defs/Three", "default": 4}}, "required": ["n"]}, {}, {"n": 4}),
        ({"properties": {"in": {**REFERENCE, "default": {}}}, "required": ["in"]}, {}, {"in": {"n": 3}}),
        ({"properties": {"n": {"default": 3}}}, {}, {}),
        ({"$ref": "#/$defs/Loop"}, {}, {}),
        ({"$ref": "#/$defs/Nobody"}, {}, {}),
        ({"$ref": "https://far.example/schema"}, {}, {}),
        (True, {}, {}),
    ],
)
def test_it_is_filled_in(part: Any, given: Any, filled: Any) -> None:
    schema = {**ROOT, "properties": {"it": part}}
    assert with_defaults(schema, {"it": given}) == {"it": filled}
    assert with_defaults(schema, {"other": 1}) == {"other": 1}


def test_arguments_without_a_default_are_the_very_same() -> None:
    arguments = {"it": {"n": 1}}
    assert with_defaults({**ROOT, "properties": {"it": REFERENCE}}, arguments) is arguments


def test_what_is_large_or_deep_is_left_as_it_is_beyond_a_bound() -> None:
    schema = {**ROOT, "properties": {"it": {"type": "array", "items": REFERENCE}}}
    filled = with_defaults(schema, {"it": [{} for _ in range(MOST_LOOKS)]})["it"]
    assert (filled[0], filled[-1]) == ({"n": 3}, {})
    node: dict[str, Any] = {
        "type": "object",
        "properties": {"n": {"default": 3}, "in": {"$ref": "#"}},
        "required": ["n"],
    }
    deep: dict[str, Any] = {}
    for _ in range(DEEPEST + 400):
        deep = {"in": deep}
    filled = with_defaults(node, deep)
    for _ in range(DEEPEST + 1):
        assert filled.get("n") == 3
        filled = filled["in"]
    assert "n" not in filled
