import datetime as dt
import decimal
import enum
import pathlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pytest

from jackfield.sources.inprocess import converter_for


class Color(enum.Enum):
    RED = "red"


@dataclass
class Party:
    adults: int
    since: dt.date | None = None


class Point(NamedTuple):
    x: float
    y: float


class Options(TypedDict, total=False):
    colors: set[Color]


class Thing(msgspec.Struct):
    where: pathlib.PurePosixPath


class Model:
    """Like pydantic's: made from an object by `model_validate`."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @classmethod
    def model_validate(cls, value: Any) -> "Model":
        if "x" not in value:
            raise ValueError("x is missing")
        return cls(value["x"])


class Opaque: ...


def converted(hint: Any, value: Any) -> Any:
    def function(x: Any) -> None: ...

    function.__annotations__["x"] = hint
    convert = converter_for(function, leave_out=frozenset())
    return convert({"x": value})["x"] if convert else value


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (Color, "red", Color.RED),
        (Party, {"adults": 2, "since": "2026-01-02"}, Party(2, dt.date(2026, 1, 2))),
        (list[Party], [{"adults": 2}], [Party(2)]),
        (Party | None, None, None),
        (Point, [1, 2.5], Point(1.0, 2.5)),
        (Options, {"colors": ["red", "red"]}, {"colors": {Color.RED}}),
        (Thing, {"where": "a/b"}, Thing(pathlib.PurePosixPath("a/b"))),
        (dt.datetime, "2026-01-02T03:04:05Z", dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)),
        (dt.timedelta, "PT5M", dt.timedelta(minutes=5)),
        (uuid.UUID, "6f1f9f0e-8f5c-4f0e-9c59-0a4b1f1c2d3e", uuid.UUID("6f1f9f0e-8f5c-4f0e-9c59-0a4b1f1c2d3e")),
        (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
        (bytes, "aGk=", b"hi"),
        (pathlib.Path, "a/b", pathlib.Path("a/b")),
        (list[pathlib.Path], ["a"], [pathlib.Path("a")]),
        (set[int], [1, 2, 2], {1, 2}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (Sequence[int], [1, 2], [1, 2]),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (Annotated[dt.date, "a day"], "2026-01-02", dt.date(2026, 1, 2)),
        (int, 3.0, 3),
        (int | None, 3.0, 3),
        (list[int], [3.0, 4], [3, 4]),
        (Party, {"adults": 2.0}, Party(2)),
    ],
)
def test_json_values_become_what_the_hint_says(hint: Any, value: Any, expected: Any) -> None:
    result = converted(hint, value)

    assert result == expected
    assert type(result) is type(expected)


def test_a_model_is_made_by_its_own_class() -> None:
    assert converted(Model, {"x": 3}).value == 3
    with pytest.raises(msgspec.ValidationError, match="x is missing"):
        converted(Model, {})


@pytest.mark.parametrize(
    "hint",
    [
        str,
        float,
        bool,
        None,
        Any,
        object,
        list,
        dict,
        list[str],
        dict[str, Any],
        str | None,
        Literal["a", 1],
        Annotated[str, "words"],
        "str",
        list[dict[str, float]],
    ],
)
def test_plain_hints_need_no_conversion(hint: Any) -> None:
    def function(x: Any, y: Any = 1) -> None: ...

    function.__annotations__["x"] = hint
    assert converter_for(function, leave_out=frozenset()) is None


@pytest.mark.parametrize(
    "hint", [Opaque, list[Opaque], Opaque | int, dt.date | str, "NoSuchName", "1 / 0", list[Party] | list[Color]]
)
def test_what_cannot_be_converted_is_passed_as_it_is(hint: Any) -> None:
    value = {"any": "thing"}

    assert converted(hint, value) is value


def test_one_hint_that_cannot_be_resolved_does_not_spoil_the_others() -> None:
    def function(a: "NoSuchName", b: dt.date, ctx: "NoSuchEither") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    convert = converter_for(function, leave_out=frozenset({"ctx"}))

    assert convert is not None
    assert convert({"a": 1, "b": "2026-01-02"}) == {"a": 1, "b": dt.date(2026, 1, 2)}


def test_other_arguments_and_missing_ones_stay_as_they_are() -> None:
    def function(day: dt.date, n: int = 3, color: Color = None, **more: Any) -> None: ...  # type: ignore[assignment]

    convert = converter_for(function, leave_out=frozenset())

    assert convert is not None
    assert convert({"day": "2026-01-02", "n": 4.0, "x": [1.0]}) == {
        "day": dt.date(2026, 1, 2),
        "n": 4,
        "x": [1.0],
    }
    assert convert({"color": None}) == {"color": None}
    assert convert({"color": "red"}) == {"color": Color.RED}


def test_arguments_are_not_changed_in_place() -> None:
    def function(n: int, day: dt.date) -> None: ...

    convert = converter_for(function, leave_out=frozenset())
    arguments = {"n": 3.0, "day": "2026-01-02"}

    assert convert is not None
    convert(arguments)
    assert arguments == {"n": 3.0, "day": "2026-01-02"}


def test_a_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.x"):
        converted(Color, "blue")


def test_a_function_without_a_signature_is_left_alone() -> None:
    assert converter_for(int, leave_out=frozenset()) is None
