import asyncio
import contextvars
import threading
from dataclasses import dataclass
from datetime import date
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from msgspec import Meta

from jackfield.protocol.functions import Servable, ServedTool, ToolAnswer, ToolFunction, tool_functions


@dataclass
class Place:
    city: str
    street: str | None = None


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


def one(function: Any, **more: Any) -> ToolFunction:
    (callee,) = tool_functions([ServedTool(function=function, **more)]).values()
    return callee


def result_of(answer: ToolAnswer) -> bytes | None:
    assert answer.error is None, answer.error
    return None if answer.result is None else bytes(answer.result)


def travel(
    place: Place,
    day: date,
    nights: Annotated[int, Meta(ge=1, description="How long")] = 1,
    mood: Literal["calm", "wild"] = "calm",
    colours: list[Colour] | None = None,
) -> dict[str, Any]:
    """Go somewhere.

    By train.
    """
    return {"is_place": isinstance(place, Place), "weekday": day.weekday(), "nights": nights, "colours": colours}


class TestDefinitions:
    def test_a_choice_of_texts_says_that_they_are_texts(self) -> None:
        properties = one(travel).definition()["inputSchema"]["properties"]
        assert properties["mood"] == {"type": "string", "enum": ["calm", "wild"], "default": "calm"}

    def test_a_name_with_any_character_and_a_category_are_told_as_they_are(self) -> None:
        definition = one(travel, name="go to (Rome)", category="trips").definition()
        assert (definition["name"], definition["category"]) == ("go to (Rome)", "trips")
        assert definition["inputSchema"]["required"] == ["place", "day"]
        assert "category" not in one(travel).definition()

    def test_hints_make_a_schema_that_a_validator_takes_and_the_docstring_the_description(self) -> None:
        definition = one(travel).definition()
        schema = definition["inputSchema"]
        assert definition["name"] == "travel"
        assert definition["description"] == "Go somewhere.\n\nBy train."
        assert schema["required"] == ["place", "day"]
        assert schema["properties"]["nights"] == {
            "type": "integer",
            "minimum": 1,
            "description": "How long",
            "default": 1,
        }
        validator = jsonschema_rs.validator_for(schema)
        good = {"place": {"city": "Rome"}, "day": "2026-05-01", "colours": ["red"]}
        assert validator.is_valid(good)
        for bad in ({"nights": 0}, {"place": "Rome"}, {"mood": "mad"}, {"colours": ["green"]}, {"more": 1}):
            assert not validator.is_valid({**good, **bad}), bad

    def test_what_a_served_tool_says_goes_before_what_the_function_says(self) -> None:
        schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
        tool = ServedTool(
            function=travel,
            name="go",
            description="Goes.",
            input_schema=schema,
            idempotent=True,
            is_async=True,
            visible=True,
            timeout=1.5,
            metadata={"tags": ["trip"]},
        )
        (callee,) = tool_functions([tool]).values()
        assert callee.definition() == {
            "name": "go",
            "description": "Goes.",
            "inputSchema": schema,
            "isAsync": True,
            "visible": True,
            "timeout": 1500,
            "metadata": {"tags": ["trip"], "idempotent": True},
        }

    def test_a_name_in_the_mapping_goes_before_all(self) -> None:
        given: dict[str, Servable] = {"go": travel, "come": ServedTool(function=travel, name="x")}
        assert list(tool_functions(given)) == ["go", "come"]

    def test_a_function_without_hints_takes_anything_by_name(self) -> None:
        schema = one(lambda a, b=2: a + b, name="plus").definition()["inputSchema"]
        assert (schema["properties"], schema["required"]) == ({"a": {}, "b": {"default": 2}}, ["a"])

    def test_a_function_with_keywords_of_any_name_takes_more(self) -> None:
        def anything(first: int, **more: int) -> int:
            return first + sum(more.values())

        schema = one(anything).definition()["inputSchema"]
        assert jsonschema_rs.validator_for(schema).is_valid({"first": 1, "second": 2})

    @pytest.mark.parametrize(
        ("functions", "sentence"),
        [
            ([], "nothing to serve"),
            ([travel, travel], "two functions are called 'travel'"),
            ([partial(travel)], "cannot be served; give a function, or a mapping"),
            ({"get": contextvars.ContextVar("x").get}, "its parameters cannot be inspected"),
            ([lambda a, /: a], "its argument 'a' cannot be given by name"),
        ],
    )
    def test_what_cannot_be_served_is_said_at_once(self, functions: Any, sentence: str) -> None:
        with pytest.raises(TypeError, match=sentence):
            tool_functions(functions)

    def test_hints_that_make_no_schema_are_said_with_the_function_and_the_cure(self) -> None:
        def odd(number: complex) -> None: ...

        def lost(thing: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821 - the point

        for function in (odd, lost):
            with pytest.raises(TypeError, match=rf"'{function.__name__}'.*give input_schema"):
                one(function).definition()
            assert one(function, input_schema={"type": "object"}).definition()["name"] == function.__name__


class TestRunning:
    async def test_arguments_arrive_as_the_hints_say_and_results_as_json(self) -> None:
        given = {"place": {"city": "Rome"}, "day": "2026-05-01", "colours": ["red"]}
        answer = await one(travel).run(given)
        assert result_of(answer) == b'{"is_place":true,"weekday":4,"nights":1,"colours":["red"]}'

    async def test_defaults_that_are_no_json_are_the_functions_own(self) -> None:
        def when(day: date = date(2026, 1, 1), tags: list[str] = ["a"]) -> Any:  # noqa: B006 - the point
            return [day, tags]

        assert result_of(await one(when).run({})) == b'["2026-01-01",["a"]]'

    async def test_plain_functions_run_in_a_thread_that_is_no_ones_burden_and_async_ones_here(self) -> None:
        def where() -> Any:
            thread = threading.current_thread()
            return [thread is threading.main_thread(), thread.daemon]

        async def here() -> bool:
            return threading.current_thread() is threading.main_thread()

        class Object:
            async def __call__(self) -> bool:
                return await here()

        assert result_of(await one(where).run({})) == b"[false,true]"
        assert result_of(await one(here).run({})) == b"true"
        assert result_of(await one(Object(), name="object").run({})) == b"true"

    async def test_a_plain_wrapper_of_an_async_function_is_awaited(self) -> None:
        async def plus(a: int) -> int:
            await asyncio.sleep(0)
            return a + 1

        assert result_of(await one(lambda a: plus(a), name="wrapped").run({"a": 1})) == b"2"  # noqa: PLW0108 - a wrapper

    async def test_context_variables_reach_the_thread(self) -> None:
        who = contextvars.ContextVar("who", default="nobody")
        who.set("ada")
        assert result_of(await one(lambda: who.get(), name="who").run({})) == b'"ada"'  # noqa: PLW0108 - a builtin has no signature

    @pytest.mark.parametrize(
        ("value", "json"), [(None, b"null"), (False, b"false"), (0, b"0"), ("", b'""'), ([], b"[]")]
    )
    async def test_nothing_that_json_holds_is_lost(self, value: Any, json: bytes) -> None:
        assert result_of(await one(lambda: value, name="give").run({})) == json

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [({"place": "Rome", "day": "2026-05-01"}, "place"), ({}, "place"), ({"place": {"city": "Rome"}, "x": 1}, "x")],
    )
    async def test_arguments_that_do_not_fit_are_an_answer(self, arguments: dict[str, Any], said: str) -> None:
        answer = await one(travel).run(arguments)
        assert answer.error is not None
        assert answer.error.startswith("The arguments do not fit 'travel': ")
        assert said in answer.error

    @pytest.mark.parametrize("raised", [ValueError("too hot"), SystemExit("bye"), KeyError("k"), StopIteration("s")])
    async def test_whatever_is_raised_is_an_answer(self, raised: BaseException) -> None:
        def fail() -> None:
            raise raised

        async def fail_later() -> None:
            await asyncio.sleep(0)
            if isinstance(raised, StopIteration):
                raise asyncio.CancelledError("s")
            raise raised

        assert (await one(fail).run({})).error == f"{type(raised).__name__}: {raised}"
        kind = "CancelledError" if isinstance(raised, StopIteration) else type(raised).__name__
        assert (await one(fail_later).run({})).error == f"{kind}: {raised}"

    async def test_a_result_that_json_cannot_hold_is_said(self) -> None:
        answer = await one(lambda: object(), name="odd").run({})  # noqa: PLW0108 - called each time
        assert answer.error is not None
        assert answer.error.startswith("'odd' returned an object that JSON cannot hold: ")

    async def test_being_cancelled_leaves_the_thread_to_itself(self) -> None:
        begun, release = threading.Event(), threading.Event()

        def block() -> None:
            begun.set()
            release.wait(10)

        running = asyncio.create_task(one(block).run({}))
        await asyncio.to_thread(begun.wait, 10)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        release.set()
