"""Calls and their answers, over the line protocol."""

import json
from collections.abc import Iterator

import pytest

from tests.requirement import requirement
from tests.tool.process import WorkerProcess, started

TOOLS = """
import asyncio, threading, time

opened = asyncio.Event()
barrier = threading.Barrier(2, timeout=10)

async def greet(name: str) -> str:
    return f"Hello {name}"

def add(a: int, b: int = 1) -> int:
    return a + b

def nothing(): ...

async def fail(text: str):
    raise ValueError(text)

def fail_in_a_thread(text: str):
    raise LookupError(text)

async def wait_for_opening():
    await asyncio.wait_for(opened.wait(), 10)
    return "open"

async def open_it():
    opened.set()

def meet():
    barrier.wait()
    return "met"

async def forever():
    await asyncio.Event().wait()

async def stubborn():
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "not cancelled after all"

async def cancels_itself():
    raise asyncio.CancelledError

def wrapped(name):
    return greet(name)

begun, released = threading.Event(), threading.Event()

def wrapped_forever():
    begun.set()
    released.wait(10)
    return forever()

async def has_begun():
    return begun.wait(10)

async def release():
    released.set()

def echo(value):
    return value

def unserialisable():
    return object()

def not_finite():
    return {"nan": float("nan"), "all": [float("inf"), 1.5]}

def dashed(**more):
    return more

_hidden = echo

class NotATool: ...
"""


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    with started(tmp_path_factory.mktemp("serving"), TOOLS) as worker:
        yield worker


@requirement("WORK-response-success", "WORK-request-function", "WORK-request-kwargs")
def test_a_call_is_answered_with_its_id_and_result(worker: WorkerProcess) -> None:
    worker.send({"id": 7, "function": "greet", "kwargs": {"name": "Ada"}, "config": {}, "secrets": {}})
    assert worker.receive() == {"id": 7, "result": "Hello Ada", "error": None}

    worker.send({"id": "b", "function": "add", "kwargs": {"a": 2}})
    assert worker.receive() == {"id": "b", "result": 3, "error": None}


def test_a_parent_without_ids_gets_answers_without(worker: WorkerProcess) -> None:
    worker.send({"function": "add", "kwargs": {"a": 2, "b": 3}, "config": {}, "secrets": {}})

    assert worker.receive() == {"result": 5, "error": None}


@pytest.mark.parametrize("value", [None, "", 0, False, [], {}, "two\nlines\u2028\x00", "ß→𝄞", 10**30, -1.5])
def test_any_json_value_comes_back_as_it_went(worker: WorkerProcess, value: object) -> None:
    assert worker.result("echo", value=value) == value


@pytest.mark.parametrize("text", ["x" * 100_000, 'a "quoted"\\ line\r\n\t' * 5_000, "\x01" + "Привет" * 2_000])
def test_long_texts_come_back_as_they_went_alone_and_inside(worker: WorkerProcess, text: str) -> None:
    assert worker.result("echo", value=text) == text
    assert worker.result("echo", value={"inner": text}) == {"inner": text}
    assert worker.result("echo", value=[text, 1]) == [text, 1]


@requirement("WORK-response-error")
def test_what_a_function_raises_is_its_answer_and_the_traceback_goes_to_the_log(worker: WorkerProcess) -> None:
    assert worker.call("fail", text="boom") == {"result": None, "error": "ValueError: boom", "code": "tool_error"}
    assert worker.call("fail_in_a_thread", text="bang") == {
        "result": None,
        "error": "LookupError: bang",
        "code": "tool_error",
    }
    assert "ValueError: boom" in worker.log()
    assert "raise LookupError(text)" in worker.log()


def test_an_error_without_words_is_still_an_error(worker: WorkerProcess) -> None:
    assert worker.call("fail", text="") == {"result": None, "error": "ValueError", "code": "tool_error"}


@pytest.mark.parametrize("name", ["nowhere", "_hidden", "NotATool", "asyncio", None, 3, ["greet"], {}])
def test_an_unknown_function_is_told_with_those_there_are(worker: WorkerProcess, name: object) -> None:
    answer = worker.call(name)

    assert answer["code"] == "unknown_function"
    assert answer["error"].startswith(f"Unknown function '{name}'. Available: add, cancels_itself, dashed, ")


def test_arguments_that_a_function_does_not_take_are_told_from_its_own_errors(worker: WorkerProcess) -> None:
    missing = worker.call("add")
    unknown = worker.call("greet", name="Ada", extra=1)
    worker.send({"id": 1, "function": "add", "kwargs": [1]})

    assert missing["code"] == "invalid_arguments"
    assert missing["error"] == "The arguments do not fit 'add': missing a required argument: 'a'"
    assert unknown["error"] == "The arguments do not fit 'greet': got an unexpected keyword argument 'extra'"
    assert worker.receive()["error"] == "The arguments do not fit 'add': Expected `object`, got `array`"
    assert worker.call("add", a="x")["error"].startswith("TypeError: ")


def test_whole_numbers_arrive_as_such(worker: WorkerProcess) -> None:
    answer = worker.result("add", a=3.0)

    assert (answer, type(answer)) == (4, int)


def test_a_result_that_json_cannot_hold_is_told(worker: WorkerProcess) -> None:
    assert worker.call("unserialisable") == {
        "result": None,
        "error": (
            "The tool returned an object that JSON cannot hold: an object is not a JSON value. "
            "Return text, numbers, lists, dicts or dataclasses."
        ),
        "code": "bad_result",
    }
    assert worker.result("not_finite") == {"nan": None, "all": [None, 1.5]}


def test_a_line_that_is_no_request_is_answered_and_the_next_one_served(worker: WorkerProcess) -> None:
    worker.send_bytes(b'{"id": 1, oops}\n\n   \n[1]\n\xff\xfe\n{"id": 2} tail\n')
    said = [worker.receive() for _ in range(4)]
    worker.send({"id": 3, "kwargs": {}})

    assert all(answer["result"] is None and "id" not in answer for answer in said)
    assert said[0]["error"].startswith("Invalid JSON: Expecting property name enclosed in double quotes")
    assert [answer["error"].partition(":")[0] for answer in said] == ["Invalid JSON"] * 4
    assert worker.receive() == {
        "id": 3,
        "result": None,
        "error": "Missing 'function' field",
        "code": "invalid_request",
    }
    assert worker.result("add", a=1) == 2


def test_arguments_that_are_nested_too_deeply_to_be_read_are_refused(worker: WorkerProcess) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    worker.send_bytes(b'{"id":"deep","function":"echo","kwargs":{"value":' + deep + b"}}\n")

    assert worker.receive() == {
        "id": "deep",
        "result": None,
        "error": "The arguments are nested too deeply.",
        "code": "invalid_arguments",
    }
    assert worker.result("add", a=1) == 2


def test_requests_in_many_small_pieces_are_put_together(worker: WorkerProcess) -> None:
    request = json.dumps(worker.request("echo", value="ß" * 50)).encode() + b"\n"
    for byte in request:
        worker.send_bytes(bytes([byte]))

    assert worker.receive()["result"] == "ß" * 50


def test_async_functions_run_while_others_wait(worker: WorkerProcess) -> None:
    waiting = worker.begin("wait_for_opening")

    assert worker.call("open_it") == {"result": None, "error": None}
    assert worker.answer(waiting)["result"] == "open"


def test_plain_functions_run_beside_each_other(worker: WorkerProcess) -> None:
    first, second = worker.begin("meet"), worker.begin("meet")

    assert worker.answer(first)["result"] == "met"
    assert worker.answer(second)["result"] == "met"


def test_a_plain_function_that_gives_a_coroutine_is_awaited(worker: WorkerProcess) -> None:
    assert worker.result("wrapped", name="Bo") == "Hello Bo"


def test_a_cancelled_async_call_is_answered_as_cancelled(worker: WorkerProcess) -> None:
    call = worker.begin("forever")
    worker.send({"cancel": call})

    assert worker.receive() == {"id": call, "result": None, "error": "cancelled", "code": "cancelled"}


def test_a_call_cancelled_before_its_first_step_is_answered_once(worker: WorkerProcess) -> None:
    requests = [worker.request("forever") for _ in range(3)]
    worker.send(*requests, *({"cancel": request["id"]} for request in requests))

    assert sorted(worker.receive()["id"] for _ in requests) == sorted(request["id"] for request in requests)
    assert worker.result("add", a=1) == 2


def test_a_coroutine_that_a_cancelled_plain_function_gives_back_is_not_begun(worker: WorkerProcess) -> None:
    call = worker.begin("wrapped_forever")
    assert worker.result("has_begun") is True
    worker.send({"cancel": call})
    worker.result("release")

    assert worker.answer(call) == {"id": call, "result": None, "error": "cancelled", "code": "cancelled"}


def test_cancelling_what_is_over_or_never_was_does_nothing(worker: WorkerProcess) -> None:
    call = worker.begin("add", a=1)
    worker.answer(call)
    worker.send({"cancel": call}, {"cancel": "never"}, {"cancel": None}, {"cancel": [1]})
    worker.send({"reply": 99, "result": 1}, {"reply": [1]}, {"reply": None})

    assert worker.result("add", a=1) == 2


def test_a_function_that_refuses_to_be_cancelled_answers_for_itself(worker: WorkerProcess) -> None:
    call = worker.begin("stubborn")
    worker.result("open_it")
    worker.send({"cancel": call})

    assert worker.answer(call)["result"] == "not cancelled after all"


def test_a_function_that_raises_cancelled_error_by_itself_has_failed(worker: WorkerProcess) -> None:
    assert worker.call("cancels_itself")["error"] == "CancelledError"
    assert worker.call("cancels_itself")["code"] == "tool_error"


def test_twenty_callers_with_distinct_arguments_each_get_their_own_answer(worker: WorkerProcess) -> None:
    for round_ in range(50):
        names = [f"{round_}-{caller}" for caller in range(20)]
        requests = [worker.request("greet" if number % 2 else "echo") for number, _ in enumerate(names)]
        for number, (request, name) in enumerate(zip(requests, names, strict=True)):
            request["kwargs"] = {"name": name} if number % 2 else {"value": f"Hello {name}"}
        worker.send(*requests)
        answers = {answer["id"]: answer["result"] for answer in (worker.receive() for _ in requests)}

        assert answers == {request["id"]: f"Hello {name}" for request, name in zip(requests, names, strict=True)}


def test_many_large_answers_wait_for_a_slow_reader_without_holding_up_the_worker(worker: WorkerProcess) -> None:
    large = "x" * 1_000_000
    requests = [worker.request("echo", value=f"{number}{large}") for number in range(10)]
    for request in requests:
        worker.send(request)

    answers = {answer["id"]: answer["result"] for answer in (worker.receive() for _ in requests)}

    assert answers == {request["id"]: f"{number}{large}" for number, request in enumerate(requests)}
