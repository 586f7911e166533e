"""A tool file means the same with and without a process of its own: arguments and results, side by side."""

import ast
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import json
import pathlib
import sys
import typing
import uuid
from typing import Any

import msgspec
import pytest

from jackfield.model.call import Done
from jackfield.sources.inprocess import _encoded, converter_for
from jackfield.tool.jackfield_tool.encoding import to_json
from jackfield.tool.jackfield_tool.functions import Function
from jackfield.tool.jackfield_tool.serve import PROTOCOL
from tests.tool.process import SDK_FOLDER


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(str, enum.Enum):  # noqa: UP042 - as many a tool file has it
    YES = "yes"


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.5
    seen: dt.date | None = None


@dataclasses.dataclass
class Node:
    name: str
    children: list["Node"] = dataclasses.field(default_factory=list)
    parent: "Node | None" = None


@dataclasses.dataclass
class Unfinished:
    a: int
    b: int = dataclasses.field(init=False)


class Place(typing.TypedDict):
    name: str
    at: typing.NotRequired[Point]


class Pair(typing.NamedTuple):
    left: int
    right: dt.date = dt.date(2020, 1, 1)


class Packed(msgspec.Struct):
    when: dt.datetime
    tags: set[str] = set()


class Modelled:
    """As pydantic's models look from outside."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Modelled) and self.data == other.data

    __hash__ = object.__hash__

    @classmethod
    def model_validate(cls, data: Any) -> "Modelled":
        if not isinstance(data, dict):
            raise ValueError("an object is wanted")  # noqa: TRY004 - as pydantic does
        return cls(data)

    def model_dump(self, *, mode: str) -> Any:
        return {"data": self.data, "mode": mode}


UserId = typing.NewType("UserId", int)
UTC = dt.UTC
NAIVE = dt.datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001 - tools return such

RESULTS: list[Any] = [
    None, True, 0, -1.5, 'ß\n"\\', "x" * 3000, [], {}, (1, 2), [[1], {"a": None}], {1: "a", 2.5: "b"}, 10**30,
    float("nan"), [float("inf"), 1.0], {"a": float("-inf"), "b": {Colour.RED: (float("nan"),)}},
    Colour.RED, Level.HIGH, Word.YES, {Colour.RED: 1, Word.YES: 2}, [Colour.BLUE],
    {3}, frozenset({"a"}), b"bytes\xff", bytearray(b"x"), memoryview(b"view"),
    NAIVE, dt.datetime(2026, 1, 2, 3, 4, 5, 670000, tzinfo=UTC),
    dt.datetime(2026, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=-3, minutes=-30))), dt.date(2026, 1, 2),
    dt.time(1, 2, 3), dt.time(1, 2, 3, 4000, tzinfo=UTC),
    dt.timedelta(0), dt.timedelta(days=1, seconds=2.5), dt.timedelta(seconds=-90), dt.timedelta(days=-400, hours=1),
    dt.timedelta(microseconds=1), uuid.UUID(int=7), decimal.Decimal("1.50"), pathlib.Path("a/b"),
    {uuid.UUID(int=7): 1, dt.date(2026, 1, 2): 2, decimal.Decimal("1.5"): 3, b"k": 4},
    Point(1), Point(1, float("nan"), dt.date(2026, 1, 2)), [Node("a", [Node("b")])], Unfinished(1),
    Place(name="p"), Pair(1), Packed(NAIVE), Modelled({"a": 1}), [Modelled(1), pathlib.Path("x")],
    collections.OrderedDict(a=1), collections.Counter("aab"), collections.defaultdict(list, a=[1]),
]  # fmt: skip

BAD_RESULTS: list[Any] = [
    object(), print, Point, (n for n in range(3)), 1j, range(3), collections.deque([1]), {}.keys(),
    {(1, 2): 3}, "\ud800", [object()],
]  # fmt: skip

CASES: list[tuple[Any, Any]] = [
    (str, "a"), (int, 3), (int, 3.0), (int | None, 3.0), (int | None, None), (float, 2), (list[int], [1, 2.0]),
    (list[float], [1, 2.5]), (dict[str, int], {"a": 1.0}), (Any, {"a": [1]}), (object, 1), (list, [1]),
    (Colour, "red"), (Colour, "green"), (Level, 2), (Level, 3), (Colour | None, None), (list[Colour], ["red", "blue"]),
    (typing.Literal["a", 1], "a"), (list[typing.Literal["a", 1]], ["a", 1]),
    (dt.datetime, "2026-01-02T03:04:05Z"), (dt.datetime, "2026-01-02T03:04:05.25+02:00"), (dt.datetime, "2026-01-02"),
    (dt.datetime, "nonsense"), (dt.date, "2026-01-02"), (dt.date, "2026-13-02"), (dt.time, "01:02:03"),
    (dt.timedelta, "P1DT2H3M4.5S"), (dt.timedelta, "-PT90S"), (dt.timedelta, "P2W"), (dt.timedelta, "P"),
    (dt.timedelta, 5), (uuid.UUID, "00000000-0000-0000-0000-000000000007"), (uuid.UUID, "7"),
    (decimal.Decimal, "1.50"), (decimal.Decimal, 1.5), (decimal.Decimal, 2), (decimal.Decimal, "x"),
    (pathlib.Path, "a/b"), (pathlib.Path | None, None), (list[pathlib.Path], ["a"]), (bytes, "aGk="), (bytes, "?"),
    (set[int], [1, 1, 2.0]), (frozenset[str], ["a"]), (tuple[int, str], [1, "a"]), (tuple[int, str], [1]),
    (tuple[int, ...], [1, 2]), (tuple[int, str], "no"), (typing.Sequence[dt.date], ["2026-01-02"]),
    (typing.Mapping[str, dt.date], {"a": "2026-01-02"}), (dict[int, str], {"1": "a"}), (dict[Colour, int], {"red": 1}),
    (dict[dt.date, int], {"2026-01-02": 1}), (dict[int, str], {"x": "a"}),
    (Point, {"x": 1}), (Point, {"x": 1.0, "y": 2, "seen": "2026-01-02", "more": 1}), (Point, {"y": 1}),
    (Point, {"x": "one"}), (Point, {"x": True}), (Point, [1]), (list[Point], [{"x": 1}, {"x": "two"}]),
    (Point | None, None), (Point | str, "text"), (Point | list[int], [1]), (Point | Node, {"x": 1}),
    (Node, {"name": "a", "children": [{"name": "b"}], "parent": {"name": "c"}}),
    (Node, {"name": "a", "children": [{"name": 1}]}), (Place, {"name": "p", "at": {"x": 1}}), (Place, {"at": {"x": 1}}),
    (Pair, [1, "2026-01-02"]), (Pair, [1]), (Pair, []), (Packed, {"when": "2026-01-02T00:00:00", "tags": ["a"]}),
    (Modelled, {"a": 1}), (Modelled, 3), (list[Modelled], [{"a": 1}]), (Modelled | None, None), (UserId, 3),
    (list[UserId], [3.0]), (typing.Annotated[Point, "here"], {"x": 1}), (typing.Optional["Point"], {"x": 1}),
    (int | str | None, 3.0), (int | dt.date, "2026-01-02"), (str | dt.date, "2026-01-02"), (pathlib.Path | int, "a"),
    (decimal.Decimal | int, 3), (dt.timedelta | float, 1), (typing.Iterable[dt.date], ["2026-01-02"]),
    (collections.deque[int], [1]), (typing.Callable[[], int], "x"), (type, "x"), ("NoSuchName", {"a": 1}),
]  # fmt: skip


def label(value: object) -> str:
    return type(value).__name__


@pytest.mark.parametrize("value", RESULTS, ids=label)
def test_a_result_is_the_same_json_in_both(value: Any) -> None:
    in_process = _encoded(value)

    assert isinstance(in_process, Done)
    assert json.loads(to_json(value)) == json.loads(bytes(in_process.result))


@pytest.mark.parametrize("value", BAD_RESULTS, ids=label)
def test_what_cannot_be_sent_cannot_be_sent_in_both(value: Any) -> None:
    assert not isinstance(_encoded(value), Done)
    with pytest.raises((TypeError, ValueError)):
        to_json(value).encode()


def in_process(function: Any, arguments: dict[str, Any]) -> Any:
    convert = converter_for(function, leave_out=frozenset({"return"}))
    try:
        return (convert(dict(arguments)) if convert else arguments)["value"]
    except (msgspec.ValidationError, ValueError, OverflowError):
        return "refused"


def in_worker(function: Any, arguments: dict[str, Any]) -> Any:
    convert = Function("f", function).convert
    try:
        return (convert(dict(arguments)) if convert else arguments)["value"]
    except (ValueError, OverflowError):
        return "refused"


@pytest.mark.parametrize(("hint", "value"), CASES, ids=label)
def test_an_argument_becomes_the_same_value_in_both(hint: Any, value: Any) -> None:
    def function(value: Any) -> None: ...

    function.__annotations__["value"] = hint
    there, here = in_process(function, {"value": value}), in_worker(function, {"value": value})

    assert (here, type(here)) == (there, type(there))


def test_a_default_of_none_may_be_given_in_both() -> None:
    def function(value: Point = None) -> None: ...  # type: ignore[assignment]

    assert in_worker(function, {"value": None}) is in_process(function, {"value": None}) is None


def test_plain_hints_cost_nothing() -> None:
    def function(
        a: str, b: dict[str, list[str | None]], c: float = 1.0, *, d: typing.Literal["x"], **e: str
    ) -> None: ...

    assert Function("f", function).is_direct


def test_a_refusal_names_the_place() -> None:
    def function(points: list[Point]) -> None: ...

    convert = Function("f", function).convert
    assert convert is not None
    with pytest.raises(ValueError, match=r"^Expected `int \| float`, got `str` - at `\$\.points\[1\]\.x`$"):
        convert({"points": [{"x": 1}, {"x": "two"}]})


def test_the_package_is_python_3_9_and_the_standard_library() -> None:
    trees = [ast.parse(file.read_text(), feature_version=(3, 9)) for file in SDK_FOLDER.rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 0}

    assert PROTOCOL == 1
    assert len(trees) > 8
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names
