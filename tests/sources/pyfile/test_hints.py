from typing import Any

import pytest

from tests.requirement import requirement
from tests.sources.pyfile.reading import accepts, function_of, hint_of, reading_of

IMPORTS = """\
    import collections.abc
    import datetime as dt
    import decimal
    import enum
    import pathlib
    import typing
    import typing as t
    import uuid
    from collections.abc import Mapping, Sequence
    from datetime import date
    from typing import *
    from typing import Optional as Maybe
    """
STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NULL = {"type": "null"}


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        ("str", STRING),
        ("int", INTEGER),
        ("float", {"type": "number"}),
        ("bool", {"type": "boolean"}),
        ("None", NULL),
        ("list", {"type": "array"}),
        ("list[str]", {"type": "array", "items": STRING}),
        ("typing.List[int]", {"type": "array", "items": INTEGER}),
        ("Sequence[int]", {"type": "array", "items": INTEGER}),
        ("collections.abc.Iterable[int]", {"type": "array", "items": INTEGER}),
        ("set[int]", {"type": "array", "items": INTEGER}),
        ("frozenset[str]", {"type": "array", "items": STRING}),
        ("tuple[int, ...]", {"type": "array", "items": INTEGER}),
        ("tuple[()]", {"type": "array", "prefixItems": [], "items": False, "minItems": 0}),
        ("tuple[int, str]", {"type": "array", "prefixItems": [INTEGER, STRING], "items": False, "minItems": 2}),
        ("dict", {"type": "object"}),
        ("dict[str, int]", {"type": "object", "additionalProperties": INTEGER}),
        ("Mapping[str, Any]", {"type": "object"}),
        ("list[list[int]]", {"type": "array", "items": {"type": "array", "items": INTEGER}}),
        ("int | None", {"anyOf": [INTEGER, NULL]}),
        ("Optional[int]", {"anyOf": [INTEGER, NULL]}),
        ("Maybe[int]", {"anyOf": [INTEGER, NULL]}),
        ("t.Union[int, str, None]", {"anyOf": [INTEGER, STRING, NULL]}),
        ("int | (str | int)", {"anyOf": [INTEGER, STRING]}),
        ("int | Any", {}),
        ("Literal['a', 'b']", {"type": "string", "enum": ["a", "b"]}),
        ("Literal[1, 2]", {"type": "integer", "enum": [1, 2]}),
        ("t.Literal['a', 1, None, True]", {"enum": ["a", 1, None, True]}),
        ("'list[str]'", {"type": "array", "items": STRING}),
        ("list['int']", {"type": "array", "items": INTEGER}),
        ("Final[int]", INTEGER),
        ("dt.datetime", {"type": "string", "format": "date-time"}),
        ("date", {"type": "string", "format": "date"}),
        ("dt.time", {"type": "string", "format": "time"}),
        ("dt.timedelta", {"type": "string", "format": "duration"}),
        ("uuid.UUID", {"type": "string", "format": "uuid"}),
        ("pathlib.Path", {"type": "string", "format": "path"}),
        ("decimal.Decimal", {"type": ["string", "number"], "format": "decimal"}),
        ("bytes", {"type": "string", "contentEncoding": "base64"}),
        ("Any", {}),
        ("object", {}),
        ("Unheard", {}),
        ("numpy.ndarray[int]", {}),
        ("3 + 4", {}),
        ("'not python ('", {}),
        ("list[()]", {}),
        ("Callable[[int], str]", {}),
    ],
)
@requirement("CON-file-schema")
def test_a_hint_becomes_its_schema(hint: str, schema: Any) -> None:
    assert hint_of(hint, before=IMPORTS) == schema


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        ("Annotated[str, 'a name']", {"type": "string", "description": "a name"}),
        ("Annotated[int, Meta(ge=1, le=9)]", {"type": "integer", "minimum": 1, "maximum": 9}),
        ("Annotated[float, Field(gt=0, lt=1)]", {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
        ("Annotated[int, msgspec.Meta(multiple_of=5)]", {"type": "integer", "multipleOf": 5}),
        ("Annotated[str, Meta(min_length=1, max_length=5)]", {"type": "string", "minLength": 1, "maxLength": 5}),
        ("Annotated[list, Meta(min_length=1, max_length=5)]", {"type": "array", "minItems": 1, "maxItems": 5}),
        ("Annotated[dict, Meta(max_length=5)]", {"type": "object", "maxProperties": 5}),
        ("Annotated[str, Field(pattern='^a')]", {"type": "string", "pattern": "^a"}),
        (
            "Annotated[int, Ge(1), Le(9), Doc('few')]",
            {"type": "integer", "minimum": 1, "maximum": 9, "description": "few"},
        ),
        (
            "Annotated[int, Meta(title='T', description='D', examples=[1, 2])]",
            {"type": "integer", "title": "T", "description": "D", "examples": [1, 2]},
        ),
        ("Annotated[str, Meta(extra_json_schema={'format': 'uri'})]", {"type": "string", "format": "uri"}),
        ("Annotated[str | None, Meta(min_length=2)]", {"anyOf": [STRING, NULL], "minLength": 2}),
        ("Annotated[int, Meta(ge=LOWEST)]", {"type": "integer", "minimum": 3}),
        ("Annotated[int, Meta(ge=compute())]", {"type": "integer"}),
        ("Annotated[int, whatever, other(ge=1)]", {"type": "integer"}),
        ("list[Annotated[int, Meta(ge=0)]]", {"type": "array", "items": {"type": "integer", "minimum": 0}}),
    ],
)
def test_what_annotated_says_becomes_keywords(hint: str, schema: Any) -> None:
    assert hint_of(hint, before="from typing import Annotated\nLOWEST = 3\n") == schema


def test_a_name_that_the_file_gives_another_meaning_is_not_taken_for_typings() -> None:
    assert hint_of("List[int]", before="from elsewhere import List") == {}
    assert hint_of("str", before="from elsewhere import str") == {}


def test_aliases_and_new_types_are_followed() -> None:
    before = """\
        from typing import NewType, Annotated, TypeAlias
        Celsius = float
        Names: TypeAlias = "list[Name]"
        Name = NewType("Name", str)
        """

    assert hint_of("Celsius", before=before) == {"type": "number"}
    assert hint_of("Names", before=before) == {"type": "array", "items": STRING}
    assert hint_of("Name | None", before=before) == {"anyOf": [STRING, NULL]}


def test_an_alias_of_itself_accepts_anything() -> None:
    assert hint_of("Loop", before="Loop = list['Loop']") == {"type": "array"}
    assert hint_of("Twice", before="Twice = int\nTwice = str") == {}


def test_hints_are_read_the_same_under_the_future_import() -> None:
    text = "from __future__ import annotations\ndef tool(x: list[int] | None): ...\n"

    assert function_of(text).input_schema["properties"]["x"] == {"anyOf": [{"type": "array", "items": INTEGER}, NULL]}


@pytest.mark.parametrize(
    "lines",
    [
        "if TYPE_CHECKING:\n    from datetime import date",
        "try:\n    import x\nexcept E:\n    from datetime import date",
    ],
)
def test_imports_under_a_condition_count(lines: str) -> None:
    assert hint_of("date", before=lines) == {"type": "string", "format": "date"}


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        pytest.param("str", "x", 1, marks=requirement("DISC-param-type-string")),
        pytest.param("float", 1.5, "1.5", marks=requirement("DISC-param-type-number")),
        pytest.param("int", 2, 2.5, marks=requirement("DISC-param-type-integer")),
        pytest.param("bool", True, 1, marks=requirement("DISC-param-type-boolean")),
        pytest.param("list", [], {}, marks=requirement("DISC-param-type-array")),
        pytest.param("dict", {}, [], marks=requirement("DISC-param-type-object")),
        pytest.param("Literal['a', 'b']", "a", "c", marks=requirement("DISC-param-enum")),
        pytest.param("list[int]", [1], ["1"], marks=requirement("DISC-param-items")),
        pytest.param("Annotated[int, Meta(ge=3)]", 3, 2, marks=requirement("DISC-param-minimum")),
        pytest.param("Annotated[int, Meta(le=3)]", 3, 4, marks=requirement("DISC-param-maximum")),
        pytest.param("Annotated[str, Meta(min_length=2)]", "ab", "a", marks=requirement("DISC-param-min-length")),
        pytest.param("Annotated[str, Meta(max_length=2)]", "ab", "abc", marks=requirement("DISC-param-max-length")),
        pytest.param("Annotated[str, Meta(pattern='^a+$')]", "aa", "ab", marks=requirement("DISC-param-pattern")),
    ],
)
def test_what_a_hint_says_is_published_and_enforced(hint: str, good: Any, bad: Any) -> None:
    function = function_of(f"from typing import *\ndef tool(x: {hint}): ...")

    assert accepts(function.input_schema, {"x": good})
    assert not accepts(function.input_schema, {"x": bad})


@pytest.mark.parametrize(
    ("hint", "good"),
    [
        ("UUID", "6f1f9f0e-8f5c-4f0e-9c59-0a4b1f1c2d3e"),
        ("EmailStr", "ada@example.org"),
        ("HttpUrl", "https://example.org/x"),
        ("date", "2026-02-03"),
    ],
)
@requirement("DISC-param-format")
def test_formats_are_enforced(hint: str, good: Any) -> None:
    before = "from uuid import UUID\nfrom datetime import date\nfrom pydantic import EmailStr, HttpUrl\n"
    function = function_of(f"{before}def tool(x: {hint}): ...")

    assert accepts(function.input_schema, {"x": good})
    assert not accepts(function.input_schema, {"x": "none of these"})


def test_no_hint_of_any_kind_breaks_the_reading() -> None:
    odd = [
        "lambda: 0",
        "f'{x}'",
        "[int]",
        "x.y().z",
        "...",
        "-1",
        "tuple[*Ts]",
        "int if True else str",
        "Annotated[()]",
    ]
    text = "".join(f"def tool_{number}(x: {hint}): ...\n" for number, hint in enumerate(odd))

    assert len(reading_of(text).functions) == len(odd)
