"""What a tool file may import, used from real files in a real process."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.requirement import requirement
from tests.tool.process import WorkerProcess, launched, started

TOOLS = """
import asyncio, contextvars, functools, threading
import jackfield_tool, ot_sdk
from ot_sdk import *
from jackfield_tool import ToolError, call_tool, get_config, get_pack, get_secret, log, report_progress

ready = asyncio.Event()

def one_module():
    return [jackfield_tool is ot_sdk, call_tool is ot_sdk.call_tool, ot_sdk.__name__]

async def look(path: str = None):
    return [get_config(path, "unset"), get_secret("KEY")]

def look_in_a_thread(path: str = None):
    return [get_config(path, "unset"), get_secret("KEY")]

async def look_twice(hold: float):
    before = [get_config("who"), get_secret("KEY")]
    await asyncio.sleep(hold)
    return [before, [get_config("who"), get_secret("KEY")]]

def look_twice_in_a_thread(hold: float):
    before = [get_config("who"), get_secret("KEY")]
    threading.Event().wait(hold)
    return [before, [get_config("who"), get_secret("KEY")]]

async def progress():
    report_progress(0.5, total=1.0, message="half")
    report_progress(1)
    return "done"

def progress_of_no_use(value: str):
    report_progress({"nan": float("nan"), "inf": float("inf"), "huge": 10**400, "text": "50%", "none": None}[value])
    return "done"

def progress_in_strange_words():
    report_progress(1, float("nan"), 123)
    report_progress(True, 2, chr(0xD800))
    return "done"

def progress_in_a_thread():
    report_progress(1, 2, "one")
    return "done"

async def ask(name: str, **arguments):
    return await call_tool(name, **arguments)

async def ask_two():
    return await asyncio.gather(call_tool("a", n=1), call_tool("b", n=2))

def ask_in_a_thread(name: str, **arguments):
    return call_tool(name, **arguments)

def ask_in_a_loop_of_its_own():
    async def inner():
        return await call_tool("inner")
    return asyncio.run(inner())

def ask_in_a_thread_of_its_own():
    got = []
    def inner():
        got.append(call_tool("inner"))
    thread = threading.Thread(target=functools.partial(contextvars.copy_context().run, inner))
    thread.start()
    thread.join()
    return got

async def ask_and_catch(name: str):
    try:
        await call_tool(name)
    except ToolError as error:
        return [str(error), error.code, error.result]

def pack():
    return get_pack("brave").search(query="x")

async def ask_what_json_cannot_hold():
    await call_tool("a", value=object())

kept = []

async def keep():
    kept.append(contextvars.copy_context())

def ask_after_the_end():
    kept[0].run(call_tool, "late")

def report_after_the_end():
    kept[0].run(report_progress, 1)
    return "quiet"

def ask_outside():
    contextvars.Context().run(call_tool, "nobody")

def write_log(fail: bool = False):
    with log("search", query="q") as span:
        span.add("hits", 3).add(cached=True, odd=object())
        if fail:
            raise ValueError("no luck")

async def context(city: str, ctx):
    ctx.progress(1, 2)
    ctx.log("looked", city=city)
    found = await ctx.call_tool("find", city=city)
    return [ctx.config, ctx.secret("KEY"), ctx.secret("OTHER"), ctx.call_id, found, repr(ctx)]

def context_in_a_thread(ctx):
    return ctx.call_tool_sync("find")

async def wrong_way(ctx):
    return ctx.call_tool_sync("find")

def no_registry(ctx):
    return ctx.registry

def old_ways():
    items = normalize_items(["a", ("b", "B")])
    done = batch_execute(lambda value, label: (label, [value, get_config("who")]), items)
    calls = []

    @cache(ttl=60)
    def square(number):
        calls.append(number)
        return number * number

    squares = [square(3), square(3), square(4)]
    return {
        "truncate": [truncate("short"), truncate("x" * 10, max_length=5)],
        "format_error": [format_error("bad"), format_error("bad", {"a": 1})],
        "batch": done,
        "sections": format_batch_results({"B": "two", "a": "one"}, items),
        "command": run_command(["echo", "hi"]),
        "cache": [squares, calls],
    }

def old_import(name: str):
    __import__("ot_sdk", fromlist=[name])
    exec(f"from ot_sdk import {name}")

worker_main()
"""


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    with started(tmp_path_factory.mktemp("sdk"), TOOLS) as worker:
        yield worker


def with_context(worker: WorkerProcess, function: str, config: Any, secrets: Any, **kwargs: Any) -> dict[str, Any]:
    return {**worker.request(function, **kwargs), "config": config, "secrets": secrets}


@requirement("CON-worker-sdk")
def test_both_names_are_one_module(worker: WorkerProcess) -> None:
    assert worker.result("one_module") == [True, True, "jackfield_tool"]


@pytest.mark.parametrize("function", ["look", "look_in_a_thread"])
@requirement("WORK-request-config", "WORK-request-secrets")
def test_config_and_secrets_are_those_of_the_call(worker: WorkerProcess, function: str) -> None:
    config = {"units": "metric", "tools": {"x": {"timeout": None}}}
    worker.send(with_context(worker, function, config, {"KEY": "s3cret"}))
    assert worker.receive()["result"] == [config, "s3cret"]

    worker.send(with_context(worker, function, config, {}, path="tools.x.timeout"))
    assert worker.receive()["result"] == [None, None]

    worker.send(with_context(worker, function, config, None, path="tools.y.timeout"))
    assert worker.receive()["result"] == ["unset", None]


@pytest.mark.parametrize("function", ["look_twice", "look_twice_in_a_thread"])
def test_no_call_sees_anothers_config_or_secrets(worker: WorkerProcess, function: str) -> None:
    requests = [
        with_context(worker, function, {"who": number}, {"KEY": f"secret {number}"}, hold=0.002 * (number % 5))
        for number in range(60)
    ]
    worker.send(*requests)
    answers = {answer["id"]: answer["result"] for answer in (worker.receive() for _ in requests)}

    own = {request["id"]: [request["config"]["who"], request["secrets"]["KEY"]] for request in requests}
    assert answers == {call: [seen, seen] for call, seen in own.items()}
    assert worker.result("look", path="who") == ["unset", None]


def test_progress_comes_before_the_answer(worker: WorkerProcess) -> None:
    call = worker.begin("progress")
    assert [worker.receive() for _ in range(3)] == [
        {"id": call, "progress": {"progress": 0.5, "total": 1.0, "message": "half"}},
        {"id": call, "progress": {"progress": 1, "total": None, "message": None}},
        {"id": call, "result": "done", "error": None},
    ]

    call = worker.begin("progress_in_a_thread")
    assert worker.receive() == {"id": call, "progress": {"progress": 1, "total": 2, "message": "one"}}
    assert worker.receive()["result"] == "done"


@pytest.mark.parametrize("value", ["nan", "inf", "huge"])
def test_progress_without_end_is_not_told(worker: WorkerProcess, value: str) -> None:
    call = worker.begin("progress_of_no_use", value=value)
    assert worker.receive() == {"id": call, "result": "done", "error": None}


@pytest.mark.parametrize(("value", "kind"), [("text", "str"), ("none", "NoneType")])
def test_progress_that_is_no_number_fails_its_call_and_never_reaches_the_gateway(
    worker: WorkerProcess, value: str, kind: str
) -> None:
    call = worker.begin("progress_of_no_use", value=value)
    said = f"TypeError: Progress must be a number, not a {kind}; put text into message."
    answer = worker.receive()
    assert answer.pop("trace").rstrip().endswith(said)
    assert answer == {"id": call, "result": None, "error": said, "code": "tool_error"}


def test_progress_in_strange_words_is_told_as_far_as_it_can_be(worker: WorkerProcess) -> None:
    call = worker.begin("progress_in_strange_words")
    assert [worker.receive() for _ in range(3)] == [
        {"id": call, "progress": {"progress": 1, "total": None, "message": "123"}},
        {"id": call, "progress": {"progress": 1, "total": 2, "message": "?"}},
        {"id": call, "result": "done", "error": None},
    ]


@pytest.mark.parametrize("function", ["ask", "ask_in_a_thread"])
def test_another_tool_can_be_called_and_its_result_is_returned(worker: WorkerProcess, function: str) -> None:
    call = worker.begin(function, name="geo.code", city="Oslo")
    asked = worker.receive()
    worker.send({"reply": asked["call"], "result": {"lat": 59.9}})

    assert (asked["id"], asked["tool"], asked["kwargs"]) == (call, "geo_code", {"city": "Oslo"})
    assert worker.receive() == {"id": call, "result": {"lat": 59.9}, "error": None}


def test_two_tools_can_be_called_at_once_and_answered_in_any_order(worker: WorkerProcess) -> None:
    call = worker.begin("ask_two")
    first, second = worker.receive(), worker.receive()
    worker.send({"reply": second["call"], "result": "second"}, {"reply": first["call"], "result": None})

    assert (first["tool"], second["tool"]) == ("a", "b")
    assert worker.receive() == {"id": call, "result": [None, "second"], "error": None}


@pytest.mark.parametrize("function", ["ask_in_a_loop_of_its_own", "ask_in_a_thread_of_its_own"])
def test_threads_and_loops_that_a_tool_starts_may_call_tools_too(worker: WorkerProcess, function: str) -> None:
    call = worker.begin(function)
    asked = worker.receive()
    worker.send({"reply": asked["call"], "result": "inside"})

    assert (asked["id"], asked["tool"]) == (call, "inner")
    assert worker.receive()["result"] in ("inside", ["inside"])


def test_a_tool_that_fails_raises_with_its_code(worker: WorkerProcess) -> None:
    worker.begin("ask_and_catch", name="broken")
    worker.send({"reply": worker.receive()["call"], "error": "It broke.", "code": "source_unavailable", "result": [1]})
    assert worker.receive()["result"] == ["It broke.", "source_unavailable", [1]]

    worker.begin("ask_and_catch", name="broken")
    worker.send({"reply": worker.receive()["call"], "error": ""})
    assert worker.receive()["result"] == ["tool_error", "tool_error", None]

    worker.begin("ask", name="broken")
    worker.send({"reply": worker.receive()["call"], "error": "It broke.", "code": "timeout"})
    assert worker.receive()["error"] == "ToolError: It broke."


def test_a_call_that_waits_for_another_tool_can_be_cancelled(worker: WorkerProcess) -> None:
    call = worker.begin("ask", name="slow")
    asked = worker.receive()
    worker.send({"cancel": call})
    assert worker.receive()["code"] == "cancelled"

    worker.send({"reply": asked["call"], "result": "too late"})
    assert worker.result("one_module")[0] is True


def test_a_thread_that_waits_for_another_tool_is_free_when_its_call_is_cancelled(worker: WorkerProcess) -> None:
    call = worker.begin("ask_in_a_thread", name="slow")
    assert worker.receive()["tool"] == "slow"
    worker.send({"cancel": call})
    answer = worker.receive()
    assert (answer["id"], answer["error"]) == (call, "ToolError: The call that asked was cancelled.")


def test_another_tools_result_that_is_nested_too_deeply_fails_who_asked_and_nobody_else(worker: WorkerProcess) -> None:
    call = worker.begin("ask_in_a_thread", name="deep")
    number = worker.receive()["call"]
    worker.send_bytes(b'{"reply":%d,"result":%s}\n' % (number, b"[" * 100_000 + b"]" * 100_000))
    answer = worker.receive()
    assert (answer["id"], "nested too deeply" in answer["error"]) == (call, True)


def test_a_pack_is_its_tools_as_functions(worker: WorkerProcess) -> None:
    worker.begin("pack")
    asked = worker.receive()
    worker.send({"reply": asked["call"], "result": 1})

    assert (asked["tool"], asked["kwargs"]) == ("brave_search", {"query": "x"})
    assert worker.receive()["result"] == 1


def test_calling_tools_outside_of_a_call_or_after_it_is_refused(worker: WorkerProcess) -> None:
    worker.result("keep")

    assert worker.call("ask_outside")["error"] == (
        "RuntimeError: call_tool('nobody') works only while a call runs, in its own tasks and threads."
    )
    assert worker.call("ask_after_the_end")["error"] == (
        "ToolError: The call that asks for 'late' is over, so it cannot be called."
    )
    assert worker.call("ask_what_json_cannot_hold")["error"] == "TypeError: an object is not a JSON value"
    assert worker.call("report_after_the_end") == {"result": "quiet", "error": None}


def test_tools_that_wait_for_each_other_do_not_use_up_the_threads(tmp_path: Path) -> None:
    text = """
    from jackfield_tool import call_tool
    def outer(): return call_tool("inner")
    def inner(): return "reached"
    """
    with started(tmp_path, text, threads=1) as worker:
        outer = [worker.begin("outer") for _ in range(3)]
        asked = [worker.receive()["call"] for _ in outer]
        inner = worker.result("inner")
        worker.send(*({"reply": number, "result": inner} for number in asked))

        assert [worker.answer(call)["result"] for call in outer] == ["reached"] * 3


@requirement("WORK-log-stderr-json")
def test_a_span_is_one_json_line_on_stderr_that_names_its_call(worker: WorkerProcess) -> None:
    call = worker.begin("write_log")
    worker.answer(call)
    entry = worker.log_entries()[-1]

    assert entry.pop("elapsed_ms") >= 0
    assert entry.pop("odd").startswith("<object object at")
    assert entry == {"span": "search", "query": "q", "hits": 3, "cached": True, "call": call}

    assert worker.call("write_log", fail=True)["error"] == "ValueError: no luck"
    assert worker.log_entries()[-1]["error"] == "ValueError: no luck"


def test_a_parameter_called_ctx_gets_the_call(worker: WorkerProcess) -> None:
    request = with_context(worker, "context", {"units": "metric"}, {"KEY": "k"}, city="Oslo")
    call = request["id"]
    worker.send(request)

    assert worker.receive()["progress"] == {"progress": 1, "total": 2, "message": None}
    asked = worker.receive()
    assert (asked["tool"], asked["kwargs"]) == ("find", {"city": "Oslo"})
    worker.send({"reply": asked["call"], "result": "found"})
    seen = f"Context(function='context', call_id='{call}')"
    assert worker.receive()["result"] == [{"units": "metric"}, "k", None, call, "found", seen]
    assert worker.log_entries()[-1] == {"log": "looked", "level": 20, "city": "Oslo", "call": call}

    worker.begin("context_in_a_thread")
    worker.send({"reply": worker.receive()["call"], "result": "found"})
    assert worker.receive()["result"] == "found"


def test_ctx_refuses_what_a_worker_has_not_got(worker: WorkerProcess) -> None:
    assert worker.call("wrong_way")["error"] == (
        "RuntimeError: call_tool_sync would stop the event loop here. In an async def, await ctx.call_tool."
    )
    assert worker.call("no_registry")["error"] == (
        "AttributeError: ctx.registry is not there in a worker process. Remove the '# /// script' block to run the "
        "file in the gateway's process, which has it."
    )


def test_the_small_functions_of_the_seeds_era_are_there(worker: WorkerProcess) -> None:
    worker.send(with_context(worker, "old_ways", {"who": "me"}, {}))

    assert worker.receive()["result"] == {
        "truncate": ["short", "xx..."],
        "format_error": ["Error: bad", "Error: bad (a=1)"],
        "batch": {"a": ["a", "me"], "B": ["b", "me"]},
        "sections": "=== a ===\none\n\n=== B ===\ntwo",
        "command": [0, "hi\n", ""],
        "cache": [[9, 9, 16], [3, 4]],
    }


def test_what_is_not_provided_says_what_to_do(worker: WorkerProcess) -> None:
    assert worker.call("old_import", name="http")["error"] == (
        "ImportError: jackfield_tool has no 'http': it has the standard library only. Use a package for it: "
        "import it in your file, and list it under dependencies in its script block."
    )
    assert "Use pathlib" in worker.call("old_import", name="resolve_cwd_path")["error"]
    assert worker.call("old_import", name="nonsense")["error"].startswith("ImportError: cannot import name 'nonsense'")


def test_nothing_of_the_sdk_is_a_tool(worker: WorkerProcess) -> None:
    available = worker.call("nowhere")["error"].partition("Available: ")[2].split(", ")

    assert not {"call_tool", "log", "cache", "worker_main", "get_pack", "truncate"} & set(available)
    assert "ask_two" in available


@requirement("CON-worker-sdk")
def test_a_file_of_the_seeds_era_runs_unmodified(tmp_path: Path) -> None:
    text = '''
    # /// script
    # requires-python = ">=3.11"
    # dependencies = []
    # ///
    """Search."""

    pack = "old"

    from ot_sdk import get_config, get_secret, log, worker_main

    def search(*, query: str) -> str:
        with log("old.search", query=query) as span:
            span.add(count=1)
            return f"{query} {get_secret('KEY')} {get_config('tools.old.units')}"

    if __name__ == "__main__":
        worker_main()
    '''
    request = {"function": "search", "kwargs": {"query": "q"}, "config": {"tools": {"old": {"units": "metric"}}}}
    with started(tmp_path, text) as worker:
        worker.send({**request, "secrets": {"KEY": "k"}})

        assert worker.receive() == {"result": "q k metric", "error": None}


def test_the_same_file_can_be_started_by_its_own_path(tmp_path: Path) -> None:
    text = """
    import json, sys
    import ot_sdk, jackfield_tool
    print(json.dumps([ot_sdk is jackfield_tool, __name__, sys.argv[0].endswith("tools.py"), ot_sdk.get_config("a", 1)]))
    """
    with launched(tmp_path, text, mode="script") as worker:
        line = worker.connection.recv(1000)

        assert json.loads(line) == [True, "__main__", True, 1]
        assert worker.exit_code() == 0
