"""Files of the seed's era: a main block of their own that reads requests on stdin and prints answers."""

import asyncio
from pathlib import Path

from tests.requirement import requirement
from tests.sources.workers import is_alive, until, worker_box, worker_file

SCRIPT = """
import json, os, sys, time

def show(word: str = "") -> dict: ...
def fail() -> None: ...
def slow(seconds: float) -> int: ...
def chat() -> str: ...

def main():
    for line in sys.stdin:
        request = json.loads(line)
        function = request["function"]
        if function == "show":
            answer = {"result": {"request": request, "pid": os.getpid()}, "error": None}
        elif function == "fail":
            answer = {"result": None, "error": "ValueError: boom"}
        elif function == "slow":
            time.sleep(request["kwargs"]["seconds"])
            answer = {"result": os.getpid()}
        else:
            print("a stray line")
            print('{"level": "info"}')
            answer = {"result": "said", "error": None}
        print(json.dumps(answer), flush=True)

if __name__ == "__main__":
    main()
"""


@requirement(
    "WORK-rpc-stdio",
    "WORK-request-function",
    "WORK-request-kwargs",
    "WORK-request-config",
    "WORK-request-secrets",
    "WORK-response-success",
)
async def test_a_script_gets_function_kwargs_config_and_secrets_with_each_request(tmp_path: Path) -> None:
    async with worker_box(tmp_path) as box:
        box.write("script.py", worker_file(SCRIPT))
        await box.refresh()
        for word in ("one", "two"):
            box.secrets["WEATHER_KEY"] = f"key for {word}"
            request = (await box.call("show", word=word))["request"]
            assert request["function"] == "show"
            assert request["kwargs"] == {"word": word}
            assert request["config"] == {"units": "metric"}
            assert request["secrets"] == {"WEATHER_KEY": f"key for {word}"}


@requirement("WORK-response-error", "WORK-response-error-raised")
async def test_a_scripts_error_is_a_failed_call_and_the_script_lives_on(tmp_path: Path) -> None:
    async with worker_box(tmp_path) as box:
        box.write("script.py", worker_file(SCRIPT))
        await box.refresh()
        before = (await box.call("show"))["pid"]
        failure = await box.failure("fail")
        assert (failure.code, failure.message) == ("tool_error", "ValueError: boom")
        assert (await box.call("show"))["pid"] == before


@requirement("CON-worker-multiplex")
async def test_a_script_is_served_one_call_at_a_time_and_every_answer_is_the_right_one(tmp_path: Path) -> None:
    async with worker_box(tmp_path) as box:
        box.write("script.py", worker_file(SCRIPT))
        await box.refresh()
        answers = await asyncio.gather(*(box.call("show", word=str(n)) for n in range(50)))
        assert [answer["request"]["kwargs"]["word"] for answer in answers] == [str(n) for n in range(50)]
        assert len({answer["pid"] for answer in answers}) == 1


async def test_what_else_a_script_prints_is_its_log(tmp_path: Path) -> None:
    async with worker_box(tmp_path) as box:
        box.write("script.py", worker_file(SCRIPT))
        await box.refresh()
        assert await box.call("chat") == "said"
        assert [line.text for line in box.worker_host.log("script", limit=9)] == ["a stray line", '{"level": "info"}']


async def test_a_call_that_was_given_up_never_answers_the_next_one(tmp_path: Path) -> None:
    async with worker_box(tmp_path) as box:
        box.write("script.py", worker_file(SCRIPT))
        await box.refresh()
        pid = (await box.call("show"))["pid"]
        slow = asyncio.create_task(box.source.execute(box.invocation("slow", seconds=0.3)))
        await until(lambda: box.worker_host.statuses()[0].processes[0].in_flight == 1)
        waiting = asyncio.create_task(box.call("show", word="next"))
        await until(lambda: box.worker_host.statuses()[0].processes[0].in_flight == 2)
        slow.cancel()
        answer = await waiting
        assert answer["request"]["kwargs"] == {"word": "next"}
        assert answer["pid"] != pid
        await until(lambda: not is_alive(pid))


PREPARES = """
from jackfield_tool import call_tool, report_progress, worker_main

def ask(question: str) -> str:
    report_progress(1, 2, "asking")
    return call_tool("oracle", question=question)

def prepare() -> None: ...

if __name__ == "__main__":
    prepare()
    worker_main()
"""


async def test_a_script_that_prepares_and_then_serves_may_call_tools_and_tell_progress(tmp_path: Path) -> None:
    async with worker_box(tmp_path) as box:
        box.write("prepares.py", worker_file(PREPARES))
        await box.refresh()
        assert await box.call("ask", question="why") == {"question": "why"}
        assert [told.message for told in box.progress if told.total] == ["asking"]
