"""Schemas that keep a checker busy for ever are found before anything is checked against them."""

import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.catalog.merge import merge_private
from jackfield.model.tool import Tool
from jackfield.protocol.schema_limits import is_explosive, without_lookahead
from jackfield.protocol.schemas import ArgumentChecker, fault_in
from jackfield.sources.base import Listing

DEPTH = 60


def nested(wrap: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(DEPTH):
        schema = wrap(schema)
    return schema


def chained(link: Any, **extra: Any) -> dict[str, Any]:
    """Definitions of which each refers to the next, in a way that `link` says."""
    defs = {f"a{number}": link(f"a{number + 1}") for number in range(DEPTH)}
    return {"type": "object", "$defs": {**defs, f"a{DEPTH}": {"type": "object"}}, "$ref": "#/$defs/a0", **extra}


def twice(name: str) -> dict[str, Any]:
    return {"allOf": [{"$ref": f"#/$defs/{name}"}, {"$ref": f"#/$defs/{name}"}]}


@pytest.mark.parametrize(
    "schema",
    [
        chained(twice),
        chained(lambda name: {"anyOf": [{"$ref": f"#/%24defs/{name}"}], "not": {"$ref": f"#/$defs/{name}"}}),
        chained(lambda name: {"if": {"$ref": f"#/$defs/{name}"}, "then": {"$ref": f"#/$defs/{name}"}}),
        chained(lambda name: {"properties": {"x": twice(name)}}),
        chained(lambda name: {"items": twice(name)}),
        nested(lambda inner: {"allOf": [inner], "unevaluatedProperties": False}),
    ],
)
def test_a_schema_that_doubles_its_work_again_and_again_is_refused_at_once(schema: dict[str, Any]) -> None:
    began = time.thread_time()
    assert "could take for ever" in str(fault_in(schema))
    assert time.thread_time() - began < 1


def test_anchors_and_ids_are_no_way_around_it() -> None:
    defs: dict[str, Any] = {}
    for number in range(DEPTH):
        both = [{"$ref": f"#n{number + 1}"}, {"$ref": f"d{number + 1}"}]
        defs[f"a{number}"] = {"$anchor": f"n{number}", "$id": f"d{number}", "allOf": both}
    assert is_explosive({"$defs": defs, "$ref": "#n0"})
    unknown = {f"a{number}": {"allOf": [{"$ref": "./elsewhere"}] * 2} for number in range(80)}
    assert is_explosive({"$defs": unknown, "allOf": [{"$ref": f"#/$defs/a{number}"} for number in range(80)]})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}}, {"a": {"b": {}}}),
        ({"$defs": {"s": {"type": "string"}}, "properties": {f"p{n}": {"$ref": "#/$defs/s"} for n in range(500)}}, {}),
        (
            {
                "$defs": {
                    "expr": {"anyOf": [{"$ref": f"#/$defs/e{n}"} for n in range(20)]},
                    **{f"e{n}": {"properties": {"args": {"items": {"$ref": "#/$defs/expr"}}}} for n in range(20)},
                },
                "$ref": "#/$defs/expr",
            },
            {"args": [{"args": []}]},
        ),
        ({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, {"a": 1}),
    ],
)
def test_schemas_as_people_write_them_are_fine(schema: dict[str, Any], value: Any) -> None:
    assert fault_in(schema) is None
    assert ArgumentChecker(schema).check(value) == []


def test_who_writes_the_schema_and_the_value_may_not_come_back_to_itself_by_two_ways() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    bomb = {"type": "object", "properties": {"x": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
    assert fault_in(tree, brings_values=True) is None
    assert fault_in(bomb) is None
    assert "could take for ever" in str(fault_in(bomb, brings_values=True))


def test_tools_of_a_server_of_a_request_are_checked_like_all_others() -> None:
    bad_output = Tool(source="r", name="a", input_schema={"type": "object"}, output_schema={"type": 3})
    bad_input = Tool(source="r", name="b", input_schema=chained(twice))
    (entry,) = merge_private("request@1", Listing(tools=(bad_output, bad_input))).entries
    assert (entry.name, entry.tool.output_schema) == ("a", None)


PATTERNS = [
    r"^(?!msg_)[a-z_]{1,8}(?![\s\S])",
    r"^(?!\.{1,2}(?![\s\S]))[a-z.]{1,8}(?![\s\S])",
    r"^(?=.*[a-z])(?=.*\.)[a-z._]+$",
    r"^(?!a|m)[a-z_]+$",
    r"^(?![)(\]]a)[a-z]*",
    r"^(?!a)(?:m|s)+",
]


@pytest.mark.parametrize("pattern", PATTERNS)
@given(text=st.text(alphabet="amsg_.b\n", max_size=8))
def test_the_same_texts_fit_as_before(pattern: str, text: str) -> None:
    assert fault_in({"pattern": pattern}, is_foreign=True) is None
    checker = ArgumentChecker({"pattern": pattern})
    assert checker.is_linear
    assert (checker.check(text) == []) == bool(re.search(pattern.replace("$", r"\Z"), text))
    assert checker.check(3) == [], "a pattern is about texts"


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "^[a-z]+$"},
        {"pattern": "a(?!b)"},
        {"pattern": "^(?!a)b|c"},
        {"pattern": "^(?!a)*b"},
        {"const": {"pattern": "^(?!a)b"}},
        {"properties": {"pattern": {"type": "string"}}},
        {"pattern": "^(?!a", "type": "string"},
    ],
)
def test_what_cannot_be_said_otherwise_stays_as_it_is(schema: dict[str, Any]) -> None:
    assert without_lookahead(schema) is schema


def test_demands_that_were_there_stay() -> None:
    schema = {"properties": {"a": {"pattern": "^(?!a)b", "allOf": [{"maxLength": 3}], "title": "A"}}}
    assert without_lookahead(schema) == {
        "properties": {
            "a": {
                "pattern": "^b",
                "allOf": [{"maxLength": 3}, {"not": {"type": "string", "pattern": "^(?:a)"}}],
                "title": "A",
            }
        }
    }
