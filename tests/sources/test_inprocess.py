import asyncio
import contextvars
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from jackfield.model.call import Done
from tests.requirement import requirement
from tests.sources.toolbox import BOUND, Toolbox

ROOT = Path(__file__).parents[2]


async def test_async_functions_run_in_the_event_loop_and_others_in_threads(toolbox: Toolbox) -> None:
    toolbox.write(
        "a.py",
        """
        import threading
        async def in_loop():
            return threading.current_thread() is threading.main_thread()
        def in_thread():
            here = threading.current_thread()
            return [here is threading.main_thread(), here.daemon]
        """,
    )
    await toolbox.refresh()

    assert await toolbox.call("in_loop") is True
    assert await toolbox.call("in_thread") == [False, True]


async def test_arguments_come_by_name_and_defaults_hold(toolbox: Toolbox) -> None:
    toolbox.write("a.py", "def join(a, b='B', *, c='C', **more):\n    return [a, b, c, more]\n")
    await toolbox.refresh()

    assert await toolbox.call("join", a="x", c="z", d=1) == ["x", "B", "z", {"d": 1}]


async def test_an_exception_is_a_failure_whose_traceback_is_only_in_the_log(
    toolbox: Toolbox, caplog: pytest.LogCaptureFixture
) -> None:
    toolbox.write(
        "a.py",
        """
        def sync():
            raise ValueError("no such city")
        async def awaited():
            raise KeyError("city")
        async def silent():
            assert False
        """,
    )
    await toolbox.refresh()

    failures = [await toolbox.failure(name) for name in ("sync", "awaited", "silent")]

    assert [(failure.code, failure.message) for failure in failures] == [
        ("tool_error", "ValueError: no such city"),
        ("tool_error", "KeyError: 'city'"),
        ("tool_error", "AssertionError"),
    ]
    records = [record for record in caplog.records if record.name == "jackfield.tools"]
    assert [record.getMessage() for record in records] == [
        f"Tool {name} failed in call call_{n}" for n, name in enumerate(("sync", "awaited", "silent"), 1)
    ]
    assert all("Traceback" in logging.Formatter().format(record) for record in records)


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize(
    "raised", ["SystemExit(3)", "KeyboardInterrupt()", "StopIteration(1)", "GeneratorExit()", "Broken()"]
)
async def test_nothing_that_a_tool_raises_leaves_it(toolbox: Toolbox, kind: str, raised: str) -> None:
    toolbox.write(
        "a.py",
        f"""
        class Broken(BaseException):
            def __str__(self):
                raise RuntimeError
        {kind} quit_all():
            raise {raised}
        {kind} fine():
            return 1
        """,
    )
    await toolbox.refresh()

    failure = await toolbox.failure("quit_all")

    assert failure.code == "tool_error"
    assert await toolbox.call("fine") == 1


async def test_a_tools_own_cancelled_error_is_its_failure(toolbox: Toolbox) -> None:
    toolbox.write("a.py", "import asyncio\nasync def give_up():\n    raise asyncio.CancelledError('mine')\n")
    await toolbox.refresh()

    assert (await toolbox.failure("give_up")).message == "CancelledError: mine"


async def test_cancelling_stops_an_async_tool(toolbox: Toolbox) -> None:
    toolbox.write(
        "a.py",
        """
        import asyncio
        started, stopped = asyncio.Event(), asyncio.Event()
        def module():
            return __name__
        async def forever():
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
        """,
    )
    await toolbox.refresh()
    module = sys.modules[await toolbox.call("module")]
    running = asyncio.create_task(toolbox.source.execute(toolbox.invocation("forever")))
    async with asyncio.timeout(BOUND):
        await module.started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    assert module.stopped.is_set()


async def test_cancelling_abandons_a_threads_tool_at_once(toolbox: Toolbox) -> None:
    toolbox.write(
        "a.py",
        "import threading\ngo = threading.Event()\ndef module():\n    return __name__\ndef hang():\n    go.wait()\n",
    )
    await toolbox.refresh()
    module = sys.modules[await toolbox.call("module")]

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await toolbox.source.execute(toolbox.invocation("hang"))

    assert await toolbox.call("module") == module.__name__
    module.go.set()


HANGING = """
import threading
go = threading.Event()
def module():
    return __name__
def hang():
    go.wait()
    return "back"
def other():
    return "fine"
"""


async def give_up(toolbox: Toolbox, tool: str) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await toolbox.source.execute(toolbox.invocation(tool))


async def test_a_tool_that_hangs_is_refused_after_eight_and_hurts_no_other(toolbox: Toolbox) -> None:
    toolbox.write("a.py", HANGING)
    await toolbox.refresh()
    module = sys.modules[await toolbox.call("module")]
    for _ in range(8):
        await give_up(toolbox, "hang")

    failure = await toolbox.failure("hang")

    assert failure.code == "tool_stuck"
    assert failure.message == (
        "8 calls of 'hang' were given up and still run, so no more are started. "
        "Correct the function in tools/a.py, for example with a timeout of its own, and save the file."
    )
    assert await toolbox.call("other") == "fine"
    module.go.set()
    for _ in range(1000):
        outcome = await toolbox.outcome("hang")
        if isinstance(outcome, Done):
            break
        await asyncio.sleep(0.01)  # the abandoned threads come back one by one
    assert await toolbox.call("hang") == "back"


async def test_a_saved_file_gives_a_tool_that_hung_a_fresh_start(toolbox: Toolbox) -> None:
    toolbox.write("a.py", HANGING)
    await toolbox.refresh()
    module = sys.modules[await toolbox.call("module")]
    for _ in range(8):
        await give_up(toolbox, "hang")
    await toolbox.refresh()
    assert (await toolbox.failure("hang")).code == "tool_stuck"

    toolbox.write("a.py", HANGING.replace("go.wait()", "pass"))
    await toolbox.refresh()

    assert await toolbox.call("hang") == "back"
    module.go.set()


def test_a_hanging_tool_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    script = f"""
import asyncio, pathlib
from tests.sources.toolbox import Toolbox

async def main():
    box = Toolbox(pathlib.Path({str(tmp_path)!r}))
    box.write("a.py", "import time\\ndef hang():\\n    time.sleep(600)\\n")
    await box.source.open()
    await box.refresh()
    try:
        async with asyncio.timeout(0.1):
            await box.source.execute(box.invocation("hang"))
    except TimeoutError:
        await box.source.close()
        print("closed", flush=True)

asyncio.run(main())
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "closed\n", "")


async def test_many_first_calls_load_the_file_once_and_the_loop_goes_on(toolbox: Toolbox) -> None:
    toolbox.write(
        "a.py",
        """
        import sys, time
        time.sleep(0.3)
        sys.loads_of_this_test = getattr(sys, "loads_of_this_test", 0) + 1
        async def loads():
            return sys.loads_of_this_test
        """,
    )
    await toolbox.refresh()
    calls = [asyncio.create_task(toolbox.call("loads")) for _ in range(20)]
    turns = 0
    while not all(call.done() for call in calls):
        await asyncio.sleep(0.01)
        turns += 1

    assert [call.result() for call in calls] == [1] * 20
    assert turns > 5
    del sys.loads_of_this_test  # type: ignore[attr-defined]


async def test_a_file_that_cannot_be_loaded_fails_its_calls_and_leaves_nothing_half_done(
    toolbox: Toolbox, caplog: pytest.LogCaptureFixture
) -> None:
    toolbox.write("a.py", "def broken(): ...\nimport no_such_module\n")
    toolbox.write("b.py", "def also():\n    return 1\nfrom math import no_such_name\n")
    toolbox.write("c.py", "def exits(): ...\nraise SystemExit('at import')\n")
    toolbox.write("d.py", "def fine():\n    return 1\n")
    toolbox.write("e.py", "def vanishes(): ...\ndel vanishes\n")
    before = set(sys.modules)
    await toolbox.refresh()

    said = {name: (await toolbox.failure(name)).message for name in ("broken", "also", "exits", "vanishes")}

    cure = "Correct it, or install what it imports."
    assert said["broken"] == (
        f"The file tools/a.py could not be loaded: ModuleNotFoundError: No module named 'no_such_module'. {cure}"
    )
    assert said["also"].startswith(
        "The file tools/b.py could not be loaded: ImportError: cannot import name 'no_such_name'"
    )
    assert "/" not in said["also"].replace("tools/b.py", "")
    assert said["exits"] == f"The file tools/c.py could not be loaded: SystemExit: at import. {cure}"
    assert said["vanishes"] == "'vanishes' is not a function after tools/e.py was loaded. Correct the file."
    assert await toolbox.call("fine") == 1
    left = [name for name in set(sys.modules) - before if name.startswith("jackfield_tool_file_")]
    assert sorted(name[-1] for name in left) == ["d", "e"]
    assert "could not be loaded" in caplog.text


async def test_a_file_that_could_not_be_loaded_is_tried_again_at_the_next_call(
    toolbox: Toolbox, tmp_path: Path
) -> None:
    needed = tmp_path / "needed.txt"
    toolbox.write(
        "a.py", f"import pathlib\ntext = pathlib.Path({str(needed)!r}).read_text()\ndef get():\n    return text\n"
    )
    await toolbox.refresh()
    assert (await toolbox.failure("get")).code == "tool_error"

    needed.write_text("there", encoding="utf-8")

    assert await toolbox.call("get") == "there"


async def test_a_first_call_that_is_given_up_does_not_stop_the_loading(toolbox: Toolbox) -> None:
    toolbox.write("a.py", "import time\ntime.sleep(0.2)\nasync def one():\n    return 1\n")
    await toolbox.refresh()

    await give_up(toolbox, "one")

    assert await toolbox.call("one") == 1


async def test_context_variables_reach_the_thread(toolbox: Toolbox) -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    sys.variable_of_this_test = variable  # type: ignore[attr-defined]
    toolbox.write("a.py", "import sys\ndef read():\n    return sys.variable_of_this_test.get()\n")
    await toolbox.refresh()

    variable.set("from the caller")

    assert await toolbox.call("read") == "from the caller"
    del sys.variable_of_this_test  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_results_are_what_json_holds_of_them(toolbox: Toolbox, kind: str) -> None:
    toolbox.write(
        "a.py",
        f"""
        import datetime, decimal, enum, pathlib
        from dataclasses import dataclass
        class Model:
            def model_dump(self, mode):
                return {{"mode": mode}}
        @dataclass
        class Thing:
            at: datetime.date
            where: pathlib.Path
            models: list
        {kind} rich():
            return Thing(datetime.date(2026, 1, 2), pathlib.Path("a/b"), [Model()])
        {kind} nothing():
            pass
        {kind} plain():
            return {{"a": [1, 2.5, None, True, "x"], 3: (1,)}}
        """,
    )
    await toolbox.refresh()

    assert await toolbox.call("rich") == {"at": "2026-01-02", "where": "a/b", "models": [{"mode": "json"}]}
    assert await toolbox.call("nothing") is None
    assert await toolbox.call("plain") == {"a": [1, 2.5, None, True, "x"], "3": [1]}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("object()", "an object that JSON cannot hold: an object is not a JSON value."),
        ("[1, {'x': Odd()}]", "a list that JSON cannot hold: an Odd is not a JSON value."),
        ("{(1, 2): 3}", "a dict that JSON cannot hold: Only dicts with str-like or number-like keys are supported."),
        ("'\\ud800'", "a str that JSON cannot hold: 'utf-8' codec can't encode character"),
        ("itself()", "a list that JSON cannot hold: maximum recursion depth exceeded"),
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_a_result_that_json_cannot_hold_is_a_failure_that_names_the_type(
    toolbox: Toolbox, kind: str, value: str, said: str
) -> None:
    toolbox.write(
        "a.py",
        f"""
        class Odd: ...
        def itself():
            x = []
            x.append(x)
            return x
        {kind} give():
            return {value}
        """,
    )
    await toolbox.refresh()

    failure = await toolbox.failure("give")

    assert failure.code == "bad_result"
    assert failure.message.startswith(f"The tool returned {said}")
    assert failure.message.endswith("Return text, numbers, lists, dicts or dataclasses.")


async def test_a_wrapped_async_function_is_awaited_although_its_wrapper_is_not_async(toolbox: Toolbox) -> None:
    toolbox.write(
        "a.py",
        """
        import functools
        def wrapped(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                return function(*args, **kwargs)
            return wrapper
        @wrapped
        async def twice(x: int, ctx) -> int:
            return 2 * x
        @wrapped
        async def fails():
            raise ValueError("inside")
        __all__ = ["twice", "fails"]
        """,
    )
    await toolbox.refresh()

    assert await toolbox.call("twice", x=3.0) == 6
    assert (await toolbox.failure("fails")).message == "ValueError: inside"


async def test_arguments_that_a_function_does_not_take_are_its_failure(toolbox: Toolbox) -> None:
    toolbox.write("a.py", "async def awaited(x): ...\ndef sync(x): ...\n")
    await toolbox.refresh()

    for name in ("awaited", "sync"):
        assert (await toolbox.failure(name)).message.startswith("TypeError: ")


async def test_arguments_that_do_not_fit_the_hints_are_told_apart(toolbox: Toolbox) -> None:
    toolbox.write("a.py", "import datetime\nasync def on(day: datetime.date): ...\n")
    await toolbox.refresh()

    failure = await toolbox.failure("on", day="soon")

    assert failure.code == "invalid_arguments"
    assert failure.message == "The arguments do not fit 'on': Invalid RFC3339 encoded date - at `$.day`"


async def test_more_calls_than_threads_for_one_tool_wait_for_their_turn(toolbox: Toolbox) -> None:
    toolbox.write("a.py", "import time\ndef nap(n: int) -> int:\n    time.sleep(0.01)\n    return n\n")
    await toolbox.refresh()

    results = await asyncio.gather(*(toolbox.call("nap", n=n) for n in range(200)))

    assert results == list(range(200))


@requirement("WORK-inprocess-llm")
async def test_a_function_asks_the_model_and_calls_tools_through_its_context(toolbox: Toolbox) -> None:
    toolbox.write(
        "asks.py",
        """
        async def ask(ctx, question: str) -> str:
            return await ctx.model.ask(question)

        def ask_in_thread(ctx, question: str) -> str:
            return ctx.model.ask_sync(question, model="small")

        async def both(ctx) -> list:
            return [await ctx.tools.call("other", a=1), ctx.tools.list()]
        """,
    )
    await toolbox.refresh()
    assert await toolbox.call("ask", question="why?") == "default says: why?"
    assert await toolbox.call("ask_in_thread", question="how?") == "small says: how?"
    assert await toolbox.call("both") == [{"a": 1}, [{"name": "hello"}]]
