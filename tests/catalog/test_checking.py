"""A check that might hold up the event loop is done in a process aside, with the same outcome."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from jackfield.catalog import checking as module
from jackfield.catalog.checking import MOST_HERE, Checking, helper_process, is_heavy, states_of, weight_of
from jackfield.protocol.schemas import RESULT, ArgumentChecker, fault_in
from jackfield.workers.helper import HelperProcess
from jackfield.workers.supervisor import Supervisor
from tests.requirement import requirement

HEAVY: dict[str, Any] = {"enum": [{"a": number} for number in range(5_000)]}


class Scene:
    def __init__(self, supervisor: Supervisor) -> None:
        self.helper = helper_process(supervisor)
        self.checking = Checking(self.helper)
        self.checking.open()
        self.compiled: list[threading.Thread] = []

    @property
    def went_aside(self) -> bool:
        return self.helper.starts > 0


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    supervisor = Supervisor()
    made = Scene(supervisor)
    try:
        yield made
    finally:
        made.checking.close()
        await supervisor.close()


async def test_a_small_value_is_checked_here(scene: Scene) -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": "^[a-z]+$"}}, "required": ["a"]}
    assert await scene.checking.faults("v", schema, {"a": "x"}) == []
    assert await scene.checking.faults("v", schema, {}) == [{"path": "a", "message": "'a' is required"}]
    assert await scene.checking.faults_in_json("v", schema, b'{"a":"x"}') == []
    assert not scene.went_aside


@requirement("SAFE-checks-aside")
@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        pytest.param({"items": {"type": "integer"}}, list(range(100_000)), True, id="many items"),
        pytest.param({"items": {"type": "integer"}}, ["x"] * 100_000, False, id="many wrong items"),
        pytest.param({"uniqueItems": True}, [[n] for n in range(20_000)], True, id="unique items"),
        pytest.param({"pattern": "(a|b)*a(a|b){500}c"}, "ab" * 2_000, False, id="a large machine"),
        pytest.param({"items": {"enum": [{"a": n} for n in range(500)]}}, [{"a": 1}] * 1_000, True, id="a long list"),
        pytest.param({"pattern": r"^\p{L}{1,200}$"}, "words", True, id="a pattern that takes long to compile"),
        pytest.param({"patternProperties": {r"^\p{L}{1,200}$": False}}, {"words": 1}, False, id="as a property"),
        pytest.param(HEAVY, {"a": 3}, True, id="a large schema"),
        pytest.param(HEAVY, {"a": -3}, False, id="a large schema and a wrong value"),
        pytest.param(
            {"properties": {"x": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}, {"x": {"x": {}}}, True, id="two ways back"
        ),
    ],
)
async def test_what_may_take_long_is_checked_aside_with_the_same_outcome(
    scene: Scene, schema: dict[str, Any], value: Any, *, fits: bool
) -> None:
    told = await scene.checking.faults("v", schema, value)
    assert scene.went_aside
    assert (told == []) == fits
    assert told[:1] == ArgumentChecker(schema).first_fault(value)
    assert (await scene.checking.faults_in_json("v", schema, msgspec.json.encode(value)) == []) == fits


@requirement("SAFE-checks-aside")
async def test_many_faults_of_a_middling_value_are_told_as_ever(scene: Scene) -> None:
    schema = {"items": {"type": "integer", "maximum": 3}}
    value = ["x"] * 1_000
    assert await scene.checking.faults("v", schema, value, whole=RESULT) == ArgumentChecker(schema, whole=RESULT).check(
        value
    )
    assert scene.went_aside


@requirement("SAFE-checks-aside")
async def test_a_check_that_does_not_end_is_given_up_and_the_next_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 1.0)
    supervisor = Supervisor()
    helper = helper_process(supervisor)
    checking = Checking(helper)
    checking.open()
    bomb: dict[str, Any] = {"properties": {"x": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
    value: dict[str, Any] = {}
    for _ in range(60):
        value = {"x": value}
    try:
        (fault,) = await checking.faults("v", bomb, value)
        assert fault["message"] == "The arguments could not be checked against the tool's schema within 1 s; send less"
        assert await checking.faults("v", bomb, {"x": {}}) == []
        assert helper.starts == 2
    finally:
        checking.close()
        await supervisor.close()


@requirement("SAFE-checks-aside")
async def test_a_schema_that_takes_long_to_read_is_judged_aside_once(scene: Scene) -> None:
    patterns = {f"p{n}": {"pattern": rf"\p{{L}}{{1,64}}{n}"} for n in range(4)}
    schema = {"properties": patterns}
    assert await asyncio.to_thread(scene.checking.fault_in, schema, is_foreign=True) is None
    assert scene.went_aside
    bad = HEAVY | {"type": 3}
    said = await asyncio.to_thread(scene.checking.fault_in, bad)
    assert said == fault_in(bad)
    asked = scene.helper.ask

    def never(line: Any) -> bytes:
        raise AssertionError(line)

    scene.helper.ask = never  # type: ignore[method-assign]
    assert scene.checking.fault_in(bad) == said, "in the event loop, too"
    scene.helper.ask = asked  # type: ignore[method-assign]


async def test_the_event_loop_goes_on_while_something_is_checked_aside(scene: Scene) -> None:
    schema = {"pattern": "(a|b)*a(a|b){2000}c"}
    check = asyncio.create_task(scene.checking.faults("v", schema, "ab" * 10_000))
    turns = 0
    while not check.done():
        await asyncio.sleep(0)
        turns += 1
    assert (await check) != []
    assert turns > 100


async def test_a_closed_gateway_checks_nothing_aside_and_does_not_hang() -> None:
    supervisor = Supervisor()
    checking = Checking(HelperProcess(("never",), supervisor=supervisor, within=1))
    assert await checking.faults("v", HEAVY, {"a": 1}) != []
    checking.close()
    await supervisor.close()


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [
        ("^[a-z]+$", 1, 10),
        ("^[0-9a-f]{8}-[0-9a-f]{4}$", 10, 30),
        ("(a{0,100}){0,100}", 10_000, 20_000),
        ("((a{0,30}){0,30}){0,30}", 27_000, 60_000),
        (r"\p{L}{1,64}", 40_000, 60_000),
        (r"[\p{L}\p{N}]{10}", 10_000, 20_000),
        ("^.{0,5000}$", 50_000, 70_000),
        (r"\{3\}[)(]{2}\\", 4, 20),
        ("(?:a|b){3}(?<name>c){2}", 8, 20),
        (")(", 1, 10),
        ("a{2,}{3}", 6, 12),
    ],
)
def test_how_large_the_machine_of_a_pattern_is(pattern: str, least: int, most: int) -> None:
    assert least <= states_of(pattern) <= most


def test_what_people_write_is_light() -> None:
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "pattern": "^[^/]{1,255}(/[^/]+)*$"},
            "content": {"type": "string"},
            "mode": {"enum": ["r", "w"]},
            "tags": {"items": {"type": "string", "format": "uri"}},
        },
        "required": ["path"],
    }
    assert not is_heavy(schema, msgspec.json.encode(schema))
    plain = {"type": "object", "properties": {"content": {"type": "string"}}}
    value = msgspec.json.encode({"content": "lorem ipsum, dolor " * 50_000})
    assert weight_of(plain, is_linear=True).cost(value) <= 4 * MOST_HERE
    assert weight_of(schema, is_linear=True).cost(b'{"path":"a/b","content":"x"}') <= MOST_HERE
