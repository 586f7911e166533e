"""Documents in YAML: read as the JSON that they mean, and bounded as foreign text is."""

import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from jackfield.sources.openapi.yaml_text import BadYaml, read_yaml
from tests.requirement import requirement
from tests.sources.openapi.scene import tools_of

PETS = b"""
openapi: 3.1.0
info: {title: Pets, version: 1}
servers: [{url: /v1}]
paths:
  /pets/{id}:
    get:
      operationId: get_pet
      parameters: [{$ref: '#/components/parameters/Id'}]
      responses:
        200: {description: ok}
  /pets:
    post:
      operationId: create_pet
      requestBody:
        required: true
        content:
          application/json:
            schema: &pet
              type: object
              required: [name]
              properties:
                name: {type: string, description: "As in: no, on, 2026-01-31"}
                since: {type: string, enum: [no, yes, 2026-01-31]}
    put:
      operationId: replace_pet
      requestBody: {content: {application/json: {schema: *pet}}}
components:
  parameters:
    Id: {name: id, in: path, required: true, schema: {type: string}}
"""
ONLY_OURS = re.compile(r"[-+]?[0-9.]+[eE][-+]?[0-9]+|0o[0-7]+")
"""Numbers of YAML 1.2, which PyYAML writes as text without quotes, since they are none in YAML 1.1."""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Cn")), max_size=20).filter(
        lambda text: not ONLY_OURS.fullmatch(text)
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcxyz", min_size=1), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@requirement("CON-openapi-formats")
def test_a_document_in_yaml_offers_what_its_json_form_would() -> None:
    tools = tools_of(PETS)
    assert set(tools) == {"get_pet", "create_pet", "replace_pet"}
    properties = tools["create_pet"].input_schema["properties"]
    assert properties["since"]["enum"] == ["no", "yes", "2026-01-31"]
    assert properties["name"]["description"] == "As in: no, on, 2026-01-31"


@given(JSON)
def test_whatever_was_written_as_yaml_is_read_as_it_was(value: Any) -> None:
    assert read_yaml(yaml.safe_dump(value, allow_unicode=True).encode()) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a: 1, b: [yes, no, on, Off]}", {"a": 1, "b": ["yes", "no", "on", "Off"]}),
        ("[0x1f, 0o17, 017, 1_000, 12:30]", [31, 15, 17, "1_000", "12:30"]),
        ("[.inf, 1e999, 123456789012345678901234567890]", [".inf", "1e999", 123456789012345678901234567890.0]),
        ("200: ok\ntrue: yes\n", {"200": "ok", "true": "yes"}),
        ("[~, '', null, \"null\", !!str 5]", [None, "", None, "null", "5"]),
        ("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\n", {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}}),
        ("b: {<<: [{x: 1}, {x: 2, z: 4}]}", {"b": {"x": 1, "z": 4}}),
        ("a: 1\n---\nb: 2\n", {"a": 1}),
        ("!!python/object/apply:os.system [echo]", ["echo"]),
    ],
)
def test_a_plain_word_means_what_yaml_1_2_says(text: str, value: Any) -> None:
    assert read_yaml(text.encode()) == value


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 20)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BOMB, "with its aliases written out it would be many times its size"),
        ("a: &a [*a]", r"its alias '\*a' stands within what it names"),
        ("a: *b", r"its alias '\*b' names nothing before it"),
        ("? [a]\n: b", "one of its keys is not text"),
        ("&k {a: 1}: b", "one of its keys is not text"),
        ("a: {<<: 5}", "what it merges with '<<' is not an object"),
        ("[" * 300 + "]" * 300, "it is nested more than 200 levels deep"),
    ],
)
def test_what_would_be_too_much_is_refused(text: str, says: str) -> None:
    with pytest.raises(BadYaml, match=says):
        read_yaml(text.encode())
