from typing import Any

import pytest

from tests.requirement import requirement
from tests.sources.pyfile.reading import accepts, function_of, hint_of

IMPORTS = """\
    from __future__ import annotations
    import enum
    import msgspec
    from dataclasses import KW_ONLY, dataclass, field
    from typing import Annotated, ClassVar, Generic, NamedTuple, NotRequired, Required, TypedDict, TypeVar
    from msgspec import Meta, Struct
    from pydantic import BaseModel, Field
    """
NUMBER = {"type": "number"}
INTEGER = {"type": "integer"}
STRING = {"type": "string"}


def schema_of(definition: str, hint: str = "Thing") -> Any:
    return hint_of(hint, before=f"{IMPORTS}{definition}")


POINT = {"type": "object", "properties": {"x": NUMBER, "y": {**NUMBER, "default": 0.5}}, "required": ["x"]}


@pytest.mark.parametrize(
    "head",
    [
        "@dataclass\n    class Thing:",
        "@dataclass(frozen=True)\n    class Thing:",
        "class Thing(Struct):",
        "class Thing(msgspec.Struct, frozen=True):",
        "class Thing(BaseModel):",
    ],
)
def test_classes_with_fields_are_objects(head: str) -> None:
    assert (
        schema_of(f"""
    {head}
        x: float
        y: float = 0.5
    """)
        == POINT
    )


def test_factories_and_field_calls_make_a_field_optional_unless_they_give_no_default() -> None:
    schema = schema_of("""
    @dataclass
    class Thing:
        a: list[int] = field(default_factory=list)
        b: int = field(default=3)
        c: int = field(repr=False)
        d: int = field(init=False)
        e: ClassVar[int] = 4
        _: KW_ONLY
        f: str
        g = 5
    """)

    assert schema["properties"] == {
        "a": {"type": "array", "items": INTEGER},
        "b": {**INTEGER, "default": 3},
        "c": INTEGER,
        "f": STRING,
    }
    assert schema["required"] == ["c", "f"]


def test_a_models_field_call_constrains_names_and_describes() -> None:
    schema = schema_of("""
    class Thing(BaseModel):
        count: int = Field(..., ge=1, description="How many")
        size: int = Field(default=2, alias="Size")
        _private: int = 3
    """)

    assert schema == {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 1, "description": "How many"},
            "Size": {"type": "integer", "default": 2},
        },
        "required": ["count"],
    }


def test_a_typed_dict_says_per_key_what_is_required() -> None:
    schema = schema_of("""
    class Base(TypedDict, total=False):
        a: Required[int]
        b: str
    class Thing(Base):
        c: int
        d: NotRequired[int]
    """)

    assert list(schema["properties"]) == ["a", "b", "c", "d"]
    assert schema["required"] == ["a", "c"]


def test_a_named_tuple_is_the_array_that_msgspec_reads() -> None:
    schema = schema_of("""
    class Thing(NamedTuple):
        lat: float
        lon: float = 0.0
    """)

    assert schema["prefixItems"] == [{"title": "lat", **NUMBER}, {"title": "lon", **NUMBER, "default": 0.0}]
    assert accepts(schema, [1.0])
    assert accepts(schema, [1.0, 2.0])
    assert not accepts(schema, [])
    assert not accepts(schema, [1.0, 2.0, 3.0])


def test_a_struct_that_forbids_unknown_fields_says_so() -> None:
    schema = schema_of("""
    class Thing(Struct, forbid_unknown_fields=True):
        x: int
    """)

    assert schema["additionalProperties"] is False


def test_a_struct_of_another_shape_accepts_anything() -> None:
    schema = schema_of("""
    class Thing(Struct, array_like=True):
        x: int
    """)

    assert schema == {}


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        (
            "class Thing(enum.Enum):\n        A = 'a'\n        B = 'b'\n        ALIAS = 'a'",
            {"type": "string", "enum": ["a", "b"]},
        ),
        ("class Thing(enum.StrEnum):\n        RED = enum.auto()", {"type": "string", "enum": ["red"]}),
        ("class Thing(enum.IntEnum):\n        A = 5\n        B = enum.auto()", {"type": "integer", "enum": [5, 6]}),
        ("class Thing(str, enum.Enum):\n        A = 'a'\n        def f(self): ...", {"type": "string", "enum": ["a"]}),
        ("class Thing(enum.Enum):\n        A = 'a'\n        B = 2.5", {"enum": ["a", 2.5]}),
        ("class Thing(enum.Enum):\n        A = compute()", {}),
        ("class Thing(enum.Enum):\n        A = (1, 2)", {}),
    ],
)
def test_an_enum_is_its_values(definition: str, expected: Any) -> None:
    assert schema_of(f"\n    {definition}\n") == expected


def test_fields_are_inherited_and_defined_again_in_place() -> None:
    schema = schema_of("""
    @dataclass
    class Base:
        a: int
        b: int
    @dataclass
    class Thing(Base):
        c: int
        a: str
    class Plain(Base):
        not_a_field: int
    """)

    assert schema["properties"] == {"a": STRING, "b": INTEGER, "c": INTEGER}


def test_classes_of_unknown_shape_accept_anything() -> None:
    assert schema_of("\n    class Thing:\n        x: int\n") == {}
    assert schema_of("\n    class Thing(Foreign):\n        x: int\n") == {}
    assert schema_of("\n    class Thing(Other): ...\n    class Other(Thing): ...\n") == {}


def test_docstrings_of_classes_describe_them_and_their_fields() -> None:
    schema = schema_of('''
    @dataclass
    class Thing:
        """A thing.

        It has more to say.

        Attributes:
            x: Its size.
        """
        x: int
        y: Annotated[int, Meta(description="Its own")]
    ''')

    assert schema["description"] == "A thing."
    assert schema["properties"]["x"] == {"type": "integer", "description": "Its size."}
    assert schema["properties"]["y"] == {"type": "integer", "description": "Its own"}


def test_a_class_that_holds_itself_stands_in_defs() -> None:
    schema = function_of("""
    from dataclasses import dataclass
    @dataclass
    class Node:
        value: int
        below: "list[Node]"
    def tool(tree: Node): ...
    """).input_schema

    assert schema["properties"] == {"tree": {"$ref": "#/$defs/Node"}}
    assert accepts(schema, {"tree": {"value": 1, "below": [{"value": 2, "below": []}]}})
    assert not accepts(schema, {"tree": {"value": 1, "below": [{"value": "2", "below": []}]}})


def test_two_classes_that_hold_each_other_are_both_checked() -> None:
    schema = function_of("""
    from typing import TypedDict
    class A(TypedDict, total=False):
        b: "B"
    class B(TypedDict, total=False):
        a: "A"
        n: int
    def tool(one: A, two: B): ...
    """).input_schema

    assert accepts(schema, {"one": {"b": {"a": {"b": {"n": 1}}}}, "two": {"a": {"b": {"n": 1}}}})
    assert not accepts(schema, {"one": {"b": {"a": {"b": {"n": ""}}}}, "two": {}})
    assert not accepts(schema, {"one": {}, "two": {"a": {"b": {"n": ""}}}})


@requirement("DISC-param-properties")
def test_nested_properties_are_kept_and_checked() -> None:
    schema = function_of("""
    from dataclasses import dataclass
    @dataclass
    class Party:
        adults: int
    @dataclass
    class Stay:
        party: Party
    def tool(stay: Stay): ...
    """).input_schema

    assert schema["properties"]["stay"]["properties"]["party"]["properties"] == {"adults": {"type": "integer"}}
    assert accepts(schema, {"stay": {"party": {"adults": 2}}})
    assert not accepts(schema, {"stay": {"party": {"adults": "2"}}})
    assert not accepts(schema, {"stay": {"party": {}}})


def test_a_generic_class_is_read_by_its_fields() -> None:
    schema = schema_of(
        """
    T = TypeVar("T")
    class Thing(Struct, Generic[T]):
        x: T
        n: int
    """,
        hint="Thing[int]",
    )

    assert schema["properties"] == {"x": {}, "n": INTEGER}
