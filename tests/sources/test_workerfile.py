"""Seed 002's scenarios on real workers: started at the first call, kept, reaped, replaced."""

import asyncio
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from jackfield.errors import ConfigError
from jackfield.sources.files import FilesOptions
from jackfield.sources.workerfile import worker_environment
from jackfield.workers import pool
from tests.requirement import requirement
from tests.sources.toolbox import Toolbox
from tests.sources.workers import PID, is_alive, until, worker_box, worker_file


@requirement("WORK-persistent", "WORK-start-on-first-call", "WORK-stays-running", "WORK-lifecycle-managed")
async def test_the_first_call_starts_a_worker_and_listing_starts_none(tmp_path: Path) -> None:
    async with worker_box(tmp_path) as box:
        box.write("where.py", worker_file(PID))
        await box.refresh()
        assert [status.state for status in box.worker_host.statuses()] == ["idle"]
        pid = await box.call("pid")
        assert pid != os.getpid()
        assert is_alive(pid)
        (status,) = box.worker_host.statuses()
        assert (status.state, status.calls, [process.pid for process in status.processes]) == ("running", 1, [pid])
    assert not is_alive(pid)


@requirement("WORK-reuse-routes", "WORK-reuse-no-spawn", "WORK-persistent")
async def test_later_calls_go_to_the_worker_that_runs(tmp_path: Path) -> None:
    async with worker_box(tmp_path) as box:
        box.write("where.py", worker_file(PID))
        await box.refresh()
        assert len({await box.call("pid") for _ in range(20)}) == 1
        (status,) = box.worker_host.statuses()
        assert (status.calls, status.restarts, len(status.processes)) == (20, 0, 1)


@requirement("WORK-idle-terminates", "WORK-idle-removed-from-pool", "WORK-idle-configurable")
async def test_an_idle_worker_is_ended_and_the_next_call_starts_another(tmp_path: Path) -> None:
    async with worker_box(tmp_path, idle_timeout=0.2) as box:
        box.write("where.py", worker_file(PID))
        await box.refresh()
        first = await box.call("pid")
        await until(lambda: not is_alive(first))
        await until(lambda: box.worker_host.statuses()[0].processes == [])
        assert await box.call("pid") != first
        assert box.worker_host.statuses()[0].restarts == 0


@requirement("WORK-idle-default")
def test_the_idle_timeout_is_ten_minutes_unless_configured() -> None:
    assert FilesOptions(path="*.py").idle_timeout == 600


def test_an_idle_timeout_that_would_end_workers_before_their_first_call_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"idle_timeout"):
        Toolbox(tmp_path, idle_timeout=0.001)


@requirement("WORK-call-resets-idle", "WORK-call-extends-life")
async def test_each_call_gives_the_worker_another_full_period(tmp_path: Path) -> None:
    idle = 0.6
    async with worker_box(tmp_path, idle_timeout=idle) as box:
        box.write("where.py", worker_file(PID))
        await box.refresh()
        began = asked = time.monotonic()
        first = await box.call("pid")
        while time.monotonic() < began + 2 * idle:
            await until(lambda: time.monotonic() > asked + idle / 2)  # noqa: B023 - asked within this turn
            sent = time.monotonic()
            now = await box.call("pid")
            if time.monotonic() - asked > 0.9 * idle:  # the machine was late: from here anew
                began, first = sent, now
            assert now == first
            asked = sent
        await until(lambda: not is_alive(first))


@requirement("CON-worker-no-orphan")
async def test_a_worker_is_never_reaped_during_a_call(tmp_path: Path) -> None:
    text = "import asyncio, os\n\nasync def slow() -> int:\n    await asyncio.sleep(0.8)\n    return os.getpid()\n"
    async with worker_box(tmp_path, idle_timeout=0.1) as box:
        box.write("slow.py", worker_file(text))
        await box.refresh()
        assert is_alive(await box.call("slow"))


@requirement(
    "WORK-response-error", "WORK-response-error-raised", "WORK-response-success", "WORK-response-result-returned"
)
async def test_an_exception_is_a_failed_call_and_the_worker_lives_on(tmp_path: Path) -> None:
    text = PID + "\ndef divide(a: float, b: float) -> float:\n    return a / b\n"
    async with worker_box(tmp_path) as box:
        box.write("sums.py", worker_file(text))
        await box.refresh()
        before = await box.call("pid")
        failure = await box.failure("divide", a=1, b=0)
        assert (failure.code, failure.message) == ("tool_error", "ZeroDivisionError: division by zero")
        assert await box.call("divide", a=6, b=3) == 2
        assert await box.call("pid") == before


async def test_null_and_other_empty_results_are_results(tmp_path: Path) -> None:
    text = "from typing import Any\n\ndef give(value: Any = None) -> Any:\n    return value\n"
    async with worker_box(tmp_path) as box:
        box.write("give.py", worker_file(text))
        await box.refresh()
        values: list[Any] = [None, False, 0, "", [], {}]
        for value in values:
            assert await box.call("give", value=value) == value


@requirement("WORK-request-awaits-response", "CON-worker-multiplex")
async def test_twenty_callers_at_once_each_get_their_own_answer_thousands_of_times(tmp_path: Path) -> None:
    text = """
    import asyncio, random

    async def later(value: str) -> str:
        await asyncio.sleep(random.random() / 500)
        return value

    def threaded(value: str) -> str:
        return value
    """
    async with worker_box(tmp_path) as box:
        box.write("echo.py", worker_file(text))
        await box.refresh()

        async def caller(number: int) -> int:
            right = 0
            for turn in range(100):
                tool = "later" if turn % 2 else "threaded"
                right += await box.call(tool, value=f"{number}/{turn}") == f"{number}/{turn}"
            return right

        assert await asyncio.gather(*map(caller, range(20))) == [100] * 20
        assert len(box.worker_host.statuses()[0].processes) == 1


@requirement("WORK-crash-detected", "WORK-crash-respawn")
async def test_a_crash_fails_its_calls_clearly_and_the_next_call_starts_a_new_worker(tmp_path: Path) -> None:
    text = PID + "\ndef crash(code: int) -> None:\n    os._exit(code)\n"
    async with worker_box(tmp_path) as box:
        box.write("fragile.py", worker_file(text))
        await box.refresh()
        before = await box.call("pid")
        failure = await box.failure("crash", code=7)
        assert failure.code == "worker_crashed"
        assert failure.message.startswith("The worker of fragile ended while it ran this: it exited with code 7.")
        assert await box.call("pid") != before
        (status,) = box.worker_host.statuses()
        assert status.restarts == 1


@requirement("WORK-crash-detected")
async def test_a_segmentation_fault_is_named_and_the_calls_beside_it_fail_with_it(tmp_path: Path) -> None:
    text = """
    import asyncio, ctypes

    async def wait() -> None:
        await asyncio.sleep(60)

    def segfault() -> None:
        ctypes.string_at(0)
    """
    async with worker_box(tmp_path) as box:
        box.write("fragile.py", worker_file(text))
        await box.refresh()
        beside = asyncio.create_task(box.outcome("wait"))
        await until(lambda: [p.in_flight for s in box.worker_host.statuses() for p in s.processes] == [1])
        failure = await box.failure("segfault")
        assert "it was killed by SIGSEGV" in failure.message
        assert await beside == failure


async def test_a_file_that_keeps_crashing_is_not_started_for_every_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "FIRST_PAUSE", 20.0)
    async with worker_box(tmp_path) as box:
        box.write("broken.py", worker_file("import nowhere_to_be_found\n" + PID))
        await box.refresh()
        first = await box.failure("pid")
        said = r"The file broken could not be loaded: line \d+: ModuleNotFoundError: No module named 'nowhere"
        assert first.code == "worker_failed"
        assert re.match(said, first.message)
        await box.failure("pid")
        third = await box.failure("pid")
        assert "ended 2 times in a row" in third.message
        assert "The next try is in" in third.message
        assert box.worker_host.statuses()[0].state == "crashing"


async def test_a_cancelled_coroutine_stops_and_its_worker_stays(tmp_path: Path) -> None:
    text = PID + "\nimport asyncio\n\nasync def sleep() -> None:\n    await asyncio.sleep(60)\n"
    async with worker_box(tmp_path) as box:
        box.write("sleepy.py", worker_file(text))
        await box.refresh()
        before = await box.call("pid")
        await _cancelled(box, "sleep")
        await until(lambda: box.worker_host.statuses()[0].processes[0].in_flight == 0)
        assert await box.call("pid") == before


async def test_a_call_that_does_not_yield_has_its_worker_replaced_when_its_neighbours_are_done(tmp_path: Path) -> None:
    text = (
        PID
        + """
import asyncio, time

def stuck() -> None:
    time.sleep(60)

async def neighbour() -> int:
    await asyncio.sleep(2)
    return os.getpid()
"""
    )
    async with worker_box(tmp_path) as box:
        box.write("stubborn.py", worker_file(text))
        await box.refresh()
        before = await box.call("pid")
        neighbour = asyncio.create_task(box.call("neighbour"))
        await _cancelled(box, "stuck")
        await until(lambda: not box.worker_host.statuses()[0].processes or _is_replaced(box, before))
        assert await box.call("pid") != before
        assert await neighbour == before
        await until(lambda: not is_alive(before))
        assert box.worker_host.statuses()[0].restarts == 0


async def test_running_calls_finish_on_the_old_version_of_an_edited_file(tmp_path: Path) -> None:
    old = "import asyncio\n\nasync def say() -> str:\n    await asyncio.sleep({seconds})\n    return '{word}'\n"
    async with worker_box(tmp_path) as box:
        box.write("say.py", worker_file(old.format(word="old", seconds=0.5)))
        await box.refresh()
        running = asyncio.create_task(box.call("say"))
        await until(lambda: bool(box.worker_host.statuses()[0].processes))
        (before,) = box.worker_host.statuses()
        box.write("say.py", worker_file(old.format(word="new", seconds=0)))
        await box.refresh()
        assert await box.call("say") == "new"
        assert await running == "old"
        assert before.processes[0].pid is not None
        await until(lambda: not is_alive(before.processes[0].pid or 0))
        (after,) = box.worker_host.statuses()
        assert after.version != before.version


@requirement("CON-worker-print", "WORK-log-captured", "WORK-log-stderr-json")
async def test_what_a_tool_prints_and_logs_is_in_its_log_and_not_in_its_answer(tmp_path: Path) -> None:
    text = """
    import os, subprocess, sys
    from jackfield_tool import log

    def chatty() -> str:
        print("to stdout")
        print("to stderr", file=sys.stderr)
        os.write(1, b"to descriptor 1\\n")
        subprocess.run(["echo", "from a child"], check=True)
        with log("work", city="Bern") as span:
            span.add(rows=3)
        return "the answer"
    """
    async with worker_box(tmp_path) as box:
        box.write("chatty.py", worker_file(text))
        await box.refresh()
        assert await box.call("chatty") == "the answer"
        await until(lambda: any(line.span for line in box.worker_host.log("chatty", limit=100)))
        lines = box.worker_host.log("chatty", limit=100)
        said = {line.text for line in lines}
        assert {"to stdout", "to stderr", "to descriptor 1", "from a child"} <= said
        (span,) = (line.span for line in lines if line.span)
        assert (span["span"], span["city"], span["rows"]) == ("work", "Bern", 3)


async def test_a_worker_sees_path_home_and_what_the_config_names_and_secrets_only_by_call(tmp_path: Path) -> None:
    text = """
    import os
    from jackfield_tool import get_config, get_secret

    def look() -> dict:
        return {"env": sorted(os.environ), "units": get_config("units"), "key": get_secret("WEATHER_KEY"),
                "unset": get_secret("UNSET_KEY"), "foreign": get_secret("OTHER_KEY"), "text": str(os.environ)}
    """
    async with worker_box(tmp_path, env={"REGION": "north"}) as box:
        box.write("look.py", worker_file(text))
        await box.refresh()
        seen = await box.call("look")
    assert set(seen["env"]) - {"LC_CTYPE"} == {"PATH", "HOME", "REGION"}  # Python itself may set LC_CTYPE
    assert (seen["units"], seen["key"], seen["unset"], seen["foreign"]) == ("metric", "sunny-side-up", None, None)
    assert "sunny-side-up" not in seen["text"]


def test_nothing_of_the_gateways_environment_but_path_and_home_is_passed_on() -> None:
    ours = {"PATH": "/bin", "HOME": "/home/ada", "OPENAI_API_KEY": "sk-secret", "JACKFIELD_ADMIN_KEY": "k"}
    assert worker_environment(ours, {"LANG": "C"}) == {"PATH": "/bin", "HOME": "/home/ada", "LANG": "C"}


@requirement("CON-worker-sdk")
async def test_a_worker_calls_another_tool_with_its_callers_name(tmp_path: Path) -> None:
    text = """
    from jackfield_tool import call_tool

    async def ask(question: str) -> str:
        return await call_tool("oracle", question=question)

    def ask_blocking(question: str) -> str:
        return call_tool("oracle", question=question)
    """
    async with worker_box(tmp_path) as box:
        box.write("ask.py", worker_file(text))
        await box.refresh()
        for tool in ("ask", "ask_blocking"):
            assert await box.call(tool, question="why") == {"question": "why"}
        asked = [(name, parent.principal, parent.tool.name) for name, _, parent in box.asked_to_call]
        assert asked == [("oracle", "ops", "ask"), ("oracle", "ops", "ask_blocking")]


async def test_progress_of_a_worker_is_told(tmp_path: Path) -> None:
    text = "from jackfield_tool import report_progress\n\ndef far() -> None:\n    report_progress(1, 2, 'half')\n"
    async with worker_box(tmp_path) as box:
        box.write("far.py", worker_file(text))
        await box.refresh()
        await box.call("far")
        told = [(p.progress, p.total, p.message) for p in box.progress if p.total]
        assert told == [(1, 2, "half")]


async def test_more_processes_take_turns_the_least_busy_first(tmp_path: Path) -> None:
    text = "import asyncio, os\n\nasync def slow() -> int:\n    await asyncio.sleep(0.1)\n    return os.getpid()\n"
    async with worker_box(tmp_path, processes=2) as box:
        box.write("slow.py", worker_file(text))
        await box.refresh()
        await asyncio.gather(*(box.call("slow") for _ in range(4)))
        await until(lambda: len(box.worker_host.statuses()[0].processes) == 2)
        pids = await asyncio.gather(*(box.call("slow") for _ in range(10)))
        assert sorted(pids.count(pid) for pid in set(pids)) == [5, 5]


async def test_an_eager_file_has_its_worker_before_the_first_call(tmp_path: Path) -> None:
    async with worker_box(tmp_path, eager=True) as box:
        box.write("where.py", worker_file(PID))
        await box.refresh()
        await until(lambda: box.worker_host.statuses()[0].state == "running")
        (process,) = box.worker_host.statuses()[0].processes
        assert await box.call("pid") == process.pid


async def _cancelled(box: Toolbox, tool: str) -> None:
    """A call that is given up once it is in its worker."""
    before = _in_flight(box)
    running = asyncio.create_task(box.source.execute(box.invocation(tool)))
    await until(lambda: _in_flight(box) > before)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def _in_flight(box: Toolbox) -> int:
    return sum(process.in_flight for status in box.worker_host.statuses() for process in status.processes)


def _is_replaced(box: Toolbox, pid: int) -> bool:
    """Whether the worker with this process takes no more calls."""
    return any(process.is_retiring for process in box.worker_host.statuses()[0].processes if process.pid == pid)
