"""Arguments against a tool's schema: what is refused, and in which words. Also which schemas are refused."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.protocol.schemas import MAX_FAULTS, ArgumentChecker, dotted, fault_in
from tests.catalog.given import entry, properties
from tests.requirement import requirement


def faults(schema: dict[str, Any], value: Any) -> list[dict[str, str]]:
    return ArgumentChecker(schema).check(value)


def messages(schema: dict[str, Any], value: Any) -> list[str]:
    return [fault["message"] for fault in faults(properties(x=schema), {"x": value})]


def published(schema: dict[str, Any]) -> Any:
    """How the manifest shows a parameter `x` of this schema."""
    shown = json.loads(entry(input_schema=properties(x=schema)).manifest)
    return shown["parameters"]["properties"]["x"]


def test_arguments_that_fit_have_no_faults() -> None:
    schema = properties(city={"type": "string"}, days={"type": "integer"}) | {"required": ["city"]}
    assert faults(schema, {"city": "Oslo", "days": 3}) == []
    assert faults(schema, {"city": "Oslo"}) == []


WRONG = [
    pytest.param("string", "a", 3, "x must be a string, got a number 3", marks=requirement("DISC-param-type-string")),
    pytest.param(
        "number", 1.5, "hot", "x must be a number, got a string 'hot'", marks=requirement("DISC-param-type-number")
    ),
    pytest.param(
        "integer", 2, 2.5, "x must be an integer, got a number 2.5", marks=requirement("DISC-param-type-integer")
    ),
    pytest.param(
        "boolean", False, 0, "x must be a boolean, got a number 0", marks=requirement("DISC-param-type-boolean")
    ),
    pytest.param(
        "array", [], {"a": 1}, "x must be an array, got an object", marks=requirement("DISC-param-type-array")
    ),
    pytest.param("object", {}, [1], "x must be an object, got an array", marks=requirement("DISC-param-type-object")),
]


@pytest.mark.parametrize(("kind", "right", "wrong", "message"), WRONG)
def test_each_type_is_published_and_enforced(kind: str, right: Any, wrong: Any, message: str) -> None:
    assert published({"type": kind}) == {"type": kind}
    assert messages({"type": kind}, right) == []
    assert messages({"type": kind}, wrong) == [message]
    assert messages({"type": kind}, None) == [message.partition(", got")[0] + ", got null"]


LIMITS = [
    pytest.param({"enum": ["a", "b"]}, "a", "z", marks=requirement("DISC-param-enum")),
    pytest.param({"minimum": 3}, 3, 2, marks=requirement("DISC-param-minimum")),
    pytest.param({"maximum": 3}, 3, 4, marks=requirement("DISC-param-maximum")),
    pytest.param({"minLength": 2}, "ab", "a", marks=requirement("DISC-param-min-length")),
    pytest.param({"maxLength": 2}, "ab", "abc", marks=requirement("DISC-param-max-length")),
    pytest.param({"pattern": "^a+$"}, "aaa", "aab", marks=requirement("DISC-param-pattern")),
    pytest.param({"items": {"type": "string"}}, ["a", "b"], ["a", 1], marks=requirement("DISC-param-items")),
    pytest.param(
        {"type": "object", "properties": {"y": {"type": "integer"}}},
        {"y": 1},
        {"y": "1"},
        marks=requirement("DISC-param-properties"),
    ),
    pytest.param({"format": "uri"}, "https://a.example/b", "not a uri", marks=requirement("DISC-param-format")),
    pytest.param({"format": "email"}, "a@b.example", "nobody", marks=requirement("DISC-param-format")),
    pytest.param(
        {"format": "uuid"}, "2f1f4b1e-6f6c-4d2e-9a57-0b8e3c6f8d11", "2f1f4b1e", marks=requirement("DISC-param-format")
    ),
]


@pytest.mark.parametrize(("limit", "right", "wrong"), LIMITS)
def test_each_limit_is_published_and_enforced(limit: dict[str, Any], right: Any, wrong: Any) -> None:
    assert published(limit) == limit
    assert messages(limit, right) == []
    assert len(messages(limit, wrong)) == 1


@requirement("DISC-param-description", "DISC-param-default")
@pytest.mark.parametrize("default", ["claude-code", 3, 1.5, True, False, None, [1, "a"], {"a": {"b": []}}, 0, ""])
def test_description_and_default_are_kept_whatever_the_defaults_type(default: Any) -> None:
    kept = published({"description": "What to do", "default": default})
    assert kept == {"description": "What to do", "default": default}
    assert type(kept["default"]) is type(default)


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"enum": ["metric", "imperial"]}, "metrc", "x must be one of 'metric', 'imperial'; got a string 'metrc'. "),
        ({"enum": [1, None, True]}, 2, "x must be one of 1, null, true; got a number 2"),
        ({"type": ["string", "null"]}, 3, "x must be null or a string, got a number 3"),
        ({"const": 3}, 4, "x must be 3, got a number 4"),
        ({"format": "email"}, "nobody", "x must be a valid email, got a string 'nobody'"),
        ({"pattern": "^a+$"}, "b", "x must match the pattern '^a+$', got a string 'b'"),
        ({"minimum": 1}, 0, "x must be at least 1, got 0"),
        ({"maximum": 5}, 7, "x must be at most 5, got 7"),
        ({"exclusiveMinimum": 1}, 1, "x must be greater than 1, got 1"),
        ({"exclusiveMaximum": 5}, 5, "x must be less than 5, got 5"),
        ({"multipleOf": 2}, 3, "x must be a multiple of 2, got 3"),
        ({"minLength": 1}, "", "x must have at least 1 character, got 0"),
        ({"maxLength": 2}, "abc", "x must have at most 2 characters, got 3"),
        ({"minItems": 1}, [], "x must have at least 1 item, got 0"),
        ({"maxItems": 1}, [1, 2], "x must have at most 1 item, got 2"),
        ({"minProperties": 1}, {}, "x must have at least 1 property, got 0"),
        ({"maxProperties": 1}, {"a": 1, "b": 2}, "x must have at most 1 property, got 2"),
        ({"uniqueItems": True}, [1, 1], "x must not hold the same item twice"),
        ({"not": {"type": "string"}}, "a", 'x must not fit {"type": "string"}, got a string \'a\''),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "x has a key that is not allowed: 'ab' must have at most 1 "),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 3, "x fits more than one of its allowed forms"),
        ({"contains": {"const": 1}}, [2], "x must hold an item of the form that its schema's 'contains' describes"),
    ],
)
def test_a_fault_says_what_is_wanted_and_what_came(schema: dict[str, Any], value: Any, message: str) -> None:
    [told] = messages(schema, value)
    assert told.startswith(message)


def test_a_property_that_may_not_be_there_is_named() -> None:
    assert faults({"properties": {"x": False}}, {"x": 1}) == [{"path": "x", "message": "x is not allowed"}]


def test_a_missing_argument_is_named_where_it_belongs() -> None:
    schema = properties(city={"type": "string"}, at=properties(hour={}) | {"required": ["hour"]}) | {
        "required": ["city"]
    }
    assert sorted(faults(schema, {"at": {}}), key=lambda fault: fault["path"]) == [
        {"path": "at.hour", "message": "'at.hour' is required"},
        {"path": "city", "message": "'city' is required"},
    ]


def test_an_unknown_argument_gets_the_nearest_known_one() -> None:
    schema = properties(city={}, unit={}) | {"additionalProperties": False}
    assert faults(schema, {"ctiy": "Oslo"}) == [
        {"path": "ctiy", "message": "'ctiy' is not a known property. Did you mean 'city'?"}
    ]
    assert faults(schema, {"zzz": 1}) == [
        {"path": "zzz", "message": "'zzz' is not a known property. Known: city, unit."}
    ]
    nested = {"properties": {"at": {"$ref": "#/$defs/at"}}, "$defs": {"at": schema}}
    assert faults(nested, {"at": {"citty": 1}}) == [
        {"path": "at.citty", "message": "'at.citty' is not a known property. Did you mean 'city'?"}
    ]


def test_forms_that_differ_in_type_are_told_in_one_sentence() -> None:
    assert messages({"anyOf": [{"type": "string"}, {"type": "null"}]}, 3) == [
        "x must be a string or null, got a number 3"
    ]


def test_forms_that_are_constants_are_told_as_a_choice() -> None:
    assert messages({"oneOf": [{"const": "metric"}, {"const": "imperial"}]}, "metrik") == [
        "x must be one of 'metric', 'imperial'; got a string 'metrik'. Did you mean 'metric'?"
    ]


def test_the_form_that_was_meant_is_the_one_explained() -> None:
    form = {"type": "object", "properties": {"k": {"type": "integer"}}, "required": ["k"]}
    assert messages({"anyOf": [form, {"type": "null"}]}, {"k": "1"}) == ["x.k must be an integer, got a string '1'"]


def test_forms_with_nothing_in_common_are_all_told() -> None:
    assert messages({"anyOf": [{"minimum": 4}, {"multipleOf": 2}]}, 3) == [
        "x fits none of its 2 allowed forms: (1) x must be at least 4, got 3; (2) x must be a multiple of 2, got 3"
    ]


def test_what_is_not_an_object_is_told_about_the_whole() -> None:
    assert faults({"type": "object"}, [1]) == [{"path": "", "message": "The arguments must be an object, got an array"}]


def test_long_values_and_long_lists_are_cut() -> None:
    [told] = messages({"type": "integer"}, "x" * 1_000)
    assert len(told) < 120
    assert len(faults(properties(x={"items": {"type": "string"}}), {"x": [1] * 10_000})) == MAX_FAULTS
    [told] = messages({"enum": list(range(1_000))}, -1)
    assert told.endswith("19 and 980 more; got a number -1")


@pytest.mark.parametrize(
    ("path", "text"),
    [([], ""), (["a"], "a"), (["a", 0, "b"], "a[0].b"), (["a b", "c.d"], '["a b"]["c.d"]'), (["a", "ü"], 'a["ü"]')],
)
def test_a_path_is_dotted(path: list[str | int], text: str) -> None:
    assert dotted(path) == text


def test_a_value_that_is_not_json_is_a_fault_and_no_crash() -> None:
    [fault] = faults(properties(a={"type": "string"}), {"a": b"bytes"})
    assert fault["path"] == ""
    assert fault["message"].startswith("The arguments cannot be read as JSON")


def test_a_pattern_that_would_run_forever_is_given_up() -> None:
    assert messages({"pattern": "^(a|a)*(?!x)$"}, "a" * 5_000 + "!") == [
        "x cannot be matched against its pattern in reasonable time"
    ]


def test_a_schema_is_read_in_the_draft_it_names() -> None:
    pair = properties(x={"items": [{"type": "string"}, {"type": "integer"}]})
    assert fault_in(pair) is not None
    old = pair | {"$schema": "http://json-schema.org/draft-07/schema#"}
    assert fault_in(old) is None
    assert [fault["path"] for fault in faults(old, {"x": ["a", "b"]})] == ["x[1]"]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (
            {"properties": {"a": {"$ref": "https://evil.example/x.json"}}},
            "refers to 'https://evil.example/x.json', and nothing outside a schema is fetched",
        ),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "refers to 'file:///etc/passwd'"),
        ({"properties": {"a": {"$ref": "http://169.254.169.254/"}}}, "refers to 'http://169.254.169.254/'"),
        ({"properties": {"a": {"$ref": "other.json"}}}, "refers to 'other.json'"),
        ({"$schema": "https://evil.example/meta"}, "refers to 'https://evil.example/meta'"),
        ({"$dynamicRef": "http://evil.example/x"}, "has a reference that leads nowhere"),
        ({"$ref": "#/$defs/missing"}, "has a reference that leads nowhere: Pointer '/$defs/missing' does not exist"),
        ({"properties": {"a": {"type": "strng"}}}, "is not valid JSON Schema: properties.a.type must be one of "),
        (
            {"properties": {"a": {"pattern": "("}}},
            "is not valid JSON Schema: properties.a.pattern must be a valid regex",
        ),
        ({"required": "a"}, "is not valid JSON Schema: required must be an array, got a string 'a'"),
        ({"properties": {"a": object()}}, "is not usable as JSON Schema: Unsupported type"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_the_reason(schema: dict[str, Any], why: str) -> None:
    told = fault_in(schema)
    assert told is not None
    assert told.startswith(why)


def test_references_within_a_schema_are_followed() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}}
    assert fault_in(schema) is None
    assert [fault["path"] for fault in faults(schema, {"a": 1})] == ["a"]


def test_a_schema_deeper_than_the_reader_goes_is_refused() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(300):
        schema = {"properties": {"a": schema}}
    assert fault_in(schema) == "is not usable as JSON Schema: Recursion limit reached"


@requirement("SAFE-patterns-linear")
@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"not": {"pattern": r"^(a|a)*\1b$"}}},
        {"pattern": "^a(?!x)b"},
        {"pattern": "^(?!x)a|b"},
        {"pattern": "(?<=x)a"},
        {"patternProperties": {r"(a)\1": {}}},
        {"propertyNames": {"pattern": "a(?=b)"}},
        {"$defs": {"x": {"pattern": "(?<!x)a"}}, "$ref": "#/$defs/x"},
    ],
)
def test_a_foreign_pattern_that_is_not_matched_in_linear_time_is_refused(schema: dict[str, Any]) -> None:
    told = fault_in(schema, is_foreign=True)
    assert told is not None
    assert told.startswith("has a pattern that looks around or back at what it matched, which can take for ever")
    assert fault_in(schema) is None, "the operator's own tools may have one"
    assert not ArgumentChecker(schema).is_linear


@requirement("SAFE-patterns-linear")
def test_the_operators_own_pattern_that_goes_back_is_given_up_soon() -> None:
    checker = ArgumentChecker({"items": {"not": {"pattern": r"^(a|a)*\1b$"}}})
    began = time.process_time()
    checker.check(["a" * 16] * 20)
    assert time.process_time() - began < 1, "it took a tenth of a second for each"


def test_a_pattern_without_going_back_is_matched_whoever_wrote_it() -> None:
    schema = {"pattern": "^(a+)+$", "maxLength": 100_000}
    assert fault_in(schema, is_foreign=True) is None
    checker = ArgumentChecker(schema)
    assert checker.is_linear
    assert checker.check("a" * 50_000) == []
    assert checker.check("a" * 50_000 + "!") != []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
CHECKER = ArgumentChecker(
    {
        "type": "object",
        "properties": {
            "a": {"type": "string", "minLength": 2, "format": "email"},
            "b": {"anyOf": [{"type": "integer", "minimum": 3}, {"type": "array", "items": {"enum": [1, "x"]}}]},
        },
        "propertyNames": {"maxLength": 3},
        "additionalProperties": {"type": ["boolean", "object"], "required": ["k"]},
    }
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "long"]), json_values, max_size=4))
def test_whatever_comes_is_either_valid_or_explained(arguments: dict[str, Any]) -> None:
    told = CHECKER.check(arguments)
    assert (told == []) == CHECKER._validator.is_valid(arguments)
    assert all(set(fault) == {"path", "message"} and fault["message"] for fault in told)
    json.dumps(told)
