import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.cli.arguments import from_pairs, json_object
from jackfield.cli.options import UsageError

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "text": {"type": "string"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "either": {"type": ["integer", "string"]},
        "names": {"type": "array", "items": {"type": "string"}},
        "options": {"$ref": "#/$defs/Options"},
        "unit": {"enum": ["metric", "imperial"]},
        "anything": {},
        "nothing": {"type": "null"},
    },
    "$defs": {"Options": {"type": "object"}},
    "additionalProperties": False,
}


def read(*pairs: str) -> dict[str, Any]:
    return from_pairs(pairs, SCHEMA, tool="t")


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("count=3", 3),
        ("count=-3", -3),
        ("ratio=1.5", 1.5),
        ("ratio=3", 3),
        ("ratio=1e3", 1000.0),
        ("flag=true", True),
        ("flag=No", False),
        ("text=3", "3"),
        ("text=true", "true"),
        ("text=", ""),
        ("text=a=b", "a=b"),
        ("text={}", "{}"),
        ("maybe=3", 3),
        ("maybe=null", None),
        ("either=3", 3),
        ("either=three", "three"),
        ('names=["a", "b"]', ["a", "b"]),
        ('options={"a": 1}', {"a": 1}),
        ("unit=metric", "metric"),
        ("anything=3", 3),
        ("anything=three", "three"),
        ("nothing=null", None),
        ("text:=null", None),
        ('text:="quoted"', "quoted"),
        ("count:=[1]", [1]),
    ],
)
def test_a_value_is_typed_by_the_schema_of_its_field(pair: str, value: object) -> None:
    (read_value,) = read(pair).values()
    assert (read_value, type(read_value)) == (value, type(value))


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        ("count=three", r"'count' takes a whole number, not 'three'\. Write count=3\."),
        ("count=1.5", "'count' takes a whole number"),
        ("ratio=nan", "'ratio' takes a number"),
        ("ratio=inf", "'ratio' takes a number"),
        ("flag=maybe", "'flag' takes true or false"),
        ("names=a,b", "'names' takes a JSON array"),
        ("options=[1]", "'options' takes a JSON object"),
        ("maybe=x", "'maybe' takes a whole number or null"),
        ("cuont=3", r"'t' has no argument 'cuont'\. Did you mean 'count'\?"),
        ("zzz=3", r"'t' has no argument 'zzz'\. It takes: count, ratio"),
        ("count", "'count' is not an argument. Write key=value"),
        ("=3", "is not an argument"),
        ("text:=unquoted", "The value after 'text:=' is not valid JSON"),
        ("text=\udcff", "'text' is not UTF-8"),
    ],
)
def test_what_does_not_fit_is_said_with_what_would(pair: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        read(pair)


def test_an_argument_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="'count' is given twice"):
        read("count=1", "count:=2")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": True, "properties": {"a": {}}},
        {"type": "object", "additionalProperties": {"type": "string"}, "properties": {"a": {}}},
        {"type": "object", "patternProperties": {"^x": {}}, "properties": {"a": {}}},
        {"type": "object"},
        {},
    ],
)
def test_a_tool_that_takes_more_than_it_names_gets_it(schema: dict[str, Any]) -> None:
    assert from_pairs(["extra=1"], schema, tool="t") == {"extra": 1}


def test_a_tool_without_arguments_says_so() -> None:
    with pytest.raises(UsageError, match=r"'t' has no argument 'a'\. It takes none\."):
        from_pairs(["a=1"], {"type": "object", "properties": {}, "additionalProperties": False}, tool="t")


@given(st.dictionaries(st.sampled_from(list(SCHEMA["properties"])), st.text(max_size=20), max_size=4))
def test_any_words_are_arguments_or_a_sentence(pairs: dict[str, str]) -> None:
    try:
        arguments = read(*(f"{key}={text}" for key, text in pairs.items()))
    except UsageError as error:
        assert error.message.endswith((".", "?"))  # noqa: PT017 - either way is fine, this one with a sentence
    else:
        json.dumps(arguments, allow_nan=False)


def test_json_comes_as_text_from_a_file_or_from_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "arguments.json"
    file.write_text('{"a": "ü"}', encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"b": 2}')))
    assert json_object('{"c": null}', what="The value of --json") == {"c": None}
    assert json_object(f"@{file}", what="The value of --json") == {"a": "ü"}
    assert json_object("-", what="The value of --json") == {"b": 2}


@pytest.mark.parametrize(
    ("given_text", "sentence"),
    [
        ("{", "The value of --json is not valid JSON"),
        ("[1]", "must be a JSON object"),
        ("@/nowhere/at/all", "The file /nowhere/at/all cannot be read"),
    ],
)
def test_json_that_cannot_be_used_is_said(given_text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        json_object(given_text, what="The value of --json")
