"""Files that change while their workers start or run: nothing of the old text is left, and nothing is mixed up."""

import asyncio
from pathlib import Path

import pytest

from jackfield.errors import NotFound
from jackfield.model.call import Outcome
from tests.requirement import requirement
from tests.sources.workers import PID, is_alive, until, worker_box, worker_file

SLOW_START = """
import os, pathlib, time

pathlib.Path({notes!r}).write_text(str(os.getpid()))
time.sleep({seconds})

def pid() -> int:
    return os.getpid()
"""


@requirement("CON-worker-no-orphan")
@pytest.mark.parametrize("eager", [True, False])
async def test_a_worker_that_is_ready_when_nobody_wants_its_text_any_more_ends(tmp_path: Path, *, eager: bool) -> None:
    notes = tmp_path / "notes"
    async with worker_box(tmp_path, eager=eager) as box:
        box.write("slow.py", worker_file(SLOW_START.format(notes=str(notes), seconds=0.5)))
        await box.refresh()
        call = None if eager else asyncio.create_task(box.outcome("pid"))
        await until(lambda: notes.exists() and notes.read_text() != "")
        if call is not None:
            call.cancel()
        box.write("slow.py", worker_file(PID))
        await box.refresh()
        old = int(notes.read_text())
        assert is_alive(old)
        await until(lambda: not is_alive(old))
        assert await box.call("pid") != old


async def test_a_call_that_waits_for_a_start_gets_its_answer_from_the_text_that_it_was_made_for(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with worker_box(tmp_path) as box:
        box.write("slow.py", worker_file(SLOW_START.format(notes=str(notes), seconds=0.5)))
        await box.refresh()
        call = asyncio.create_task(box.call("pid"))
        await until(lambda: notes.exists() and notes.read_text() != "")
        box.write("slow.py", worker_file(PID))
        await box.refresh()
        old = int(notes.read_text())
        assert await call == old
        await until(lambda: not is_alive(old))


async def test_the_log_tells_the_processes_of_two_texts_apart(tmp_path: Path) -> None:
    async with worker_box(tmp_path) as box:
        for text in ("one", "two"):
            box.write("talk.py", worker_file(f"def talk() -> None:\n    print({text!r})\n"))
            await box.refresh()
            await box.call("talk")
        await until(lambda: len(box.worker_host.log("talk", limit=10)) == 2)
        assert [(line.worker, line.text) for line in box.worker_host.log("talk", limit=10)] == [(1, "one"), (2, "two")]


async def test_two_files_of_one_name_are_told_apart_by_where_they_are(tmp_path: Path) -> None:
    async with worker_box(tmp_path, path=["tools/*.py", "more/*.py"]) as box:
        box.write("same.py", worker_file("def first() -> None:\n    print('first')\n"))
        box.write("../more/same.py", worker_file("def second() -> None:\n    print('second')\n"))
        await box.refresh()
        await box.call("second")
        with pytest.raises(NotFound, match=r"Say 'more/same\.py' or 'tools/same\.py'\."):
            box.worker_host.log("same", limit=10)
        await until(lambda: [line.text for line in box.worker_host.log("more/same.py", limit=10)] == ["second"])
        assert box.worker_host.log("tools/same.py", limit=10) == []


async def test_a_tool_whose_own_call_breaks_the_gateway_is_told_and_does_not_wait(tmp_path: Path) -> None:
    def breaks(_: object) -> Outcome:
        raise RuntimeError("not foreseen")

    async with worker_box(tmp_path) as box:
        box.answer = breaks
        text = "from jackfield_tool import call_tool\n\ndef ask() -> str:\n    return call_tool('other')\n"
        box.write("ask.py", worker_file(text))
        await box.refresh()
        said = "ToolError: Tool 'other' could not be called. The gateway's log says why."
        assert (await box.failure("ask")).message == said


async def test_a_result_that_is_nested_too_deeply_fails_its_call_and_no_other(tmp_path: Path) -> None:
    text = """
    import asyncio, os, sys

    async def wait(seconds: float) -> int:
        await asyncio.sleep(seconds)
        return os.getpid()

    def deep() -> list:
        sys.setrecursionlimit(100_000)
        value = []
        for _ in range(5_000):
            value = [value]
        return value
    """
    async with worker_box(tmp_path) as box:
        box.write("deep.py", worker_file(text))
        await box.refresh()
        beside = asyncio.create_task(box.call("wait", seconds=0.5))
        await until(lambda: [p.in_flight for s in box.worker_host.statuses() for p in s.processes] == [1])
        assert (await box.failure("deep")).code == "bad_result"
        assert await beside == await box.call("wait", seconds=0)
