"""Tools that misbehave, and the end of a worker."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tool.process import TIMEOUT, WorkerProcess, gone_within, is_alive, started

TOOLS = r"""
import asyncio, os, subprocess, sys, threading, time

def talk(size: int):
    print("x" * size)
    sys.__stdout__.write("through the original\n")
    os.write(1, b"through the descriptor\n")
    subprocess.run(["echo", "through a child"], check=True)
    subprocess.run(["cat"], check=True)
    return sys.stdin.read()

async def fine(value=None):
    return value

async def exit_async():
    sys.exit(3)

def exit_in_a_thread():
    raise SystemExit

async def interrupt():
    raise KeyboardInterrupt

class Silent(Exception):
    def __str__(self): raise RuntimeError("no words")

class Loud(Exception):
    def __str__(self): sys.exit("from __str__")
    __repr__ = __str__

class Odd(BaseException, metaclass=type("Meta", (type,), {"__name__": property(lambda cls: 1 / 0)})): ...

class Half(Exception):
    def __str__(self): return "half \ud83d of a sign\nand a second line"

async def raise_it(name: str):
    raise globals()[name]()

def raise_in_a_thread(name: str):
    raise globals()[name]()

class Evil(dict):
    def items(self): sys.exit("from items")

def evil_result():
    return Evil(a=1)

def half_a_sign():
    return ["\ud83d"]

def circle():
    circle = []
    circle.append(circle)
    return circle

def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value

def generator():
    return (n for n in range(3))

async def leave_a_task_that_exits():
    async def leave(): sys.exit("from a task")
    asyncio.create_task(leave())

async def leave_a_task_that_interrupts():
    async def leave(): raise KeyboardInterrupt
    asyncio.create_task(leave())

async def stop_the_loop():
    asyncio.get_running_loop().stop()

def close_the_streams():
    sys.stdin.close()
    sys.stdout.close()
    sys.stderr.close()

def fork_and_both_return():
    return os.fork() == 0

def fork_and_write():
    if os.fork() == 0:
        for descriptor in range(3, 64):
            try:
                os.write(descriptor, b"garbage\n")
            except OSError:
                pass
        os._exit(0)
    return os.wait()[1]

def inherited():
    return subprocess.run(["ls", "-l", "/proc/self/fd"], capture_output=True, text=True).stdout

def start_a_child():
    return subprocess.Popen(["sleep", "600"]).pid

async def block(seconds: float):
    time.sleep(seconds)

def close_everything():
    os.closerange(3, 256)

def spin(seconds: float):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
"""


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    with started(tmp_path_factory.mktemp("hostile"), TOOLS) as worker:
        yield worker


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[WorkerProcess]:
    with started(tmp_path, TOOLS) as worker:
        yield worker


def test_whatever_is_printed_reaches_the_log_and_not_the_channel(worker: WorkerProcess) -> None:
    assert worker.result("talk", size=3_000_000) == ""
    lines = worker.log().splitlines()

    assert "x" * 3_000_000 in lines
    assert "through the original" in lines
    assert "through the descriptor" in lines
    assert "through a child" in lines


@pytest.mark.parametrize(
    ("function", "error"),
    [("exit_async", "SystemExit: 3"), ("exit_in_a_thread", "SystemExit"), ("interrupt", "KeyboardInterrupt")],
)
def test_a_tool_that_tries_to_end_the_process_only_fails(worker: WorkerProcess, function: str, error: str) -> None:
    assert worker.call(function) == {"result": None, "error": error, "code": "tool_error"}
    assert worker.result("fine", value=1) == 1


@pytest.mark.parametrize("function", ["raise_it", "raise_in_a_thread"])
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("Silent", "Silent"),
        ("Loud", "Loud"),
        ("Odd", "Odd"),
        ("Half", "Half: half ? of a sign\nand a second line"),
    ],
)
def test_strange_exceptions_are_told_as_far_as_they_can_be(
    worker: WorkerProcess, function: str, name: str, error: str
) -> None:
    assert worker.call(function, name=name) == {"result": None, "error": error, "code": "tool_error"}
    assert worker.result("fine", value=1) == 1


@pytest.mark.parametrize("function", ["half_a_sign", "circle", "deep", "generator"])
def test_results_that_cannot_be_sent_are_told(worker: WorkerProcess, function: str) -> None:
    answer = worker.call(function)

    assert answer["code"] == "bad_result"
    assert answer["error"].endswith("Return text, numbers, lists, dicts or dataclasses.")
    assert worker.result("fine", value=1) == 1


def test_a_result_whose_own_code_exits_ends_only_its_call(worker: WorkerProcess) -> None:
    assert worker.call("evil_result")["error"] == "SystemExit: from items"
    assert worker.result("fine", value=1) == 1


@pytest.mark.parametrize(
    "function", ["leave_a_task_that_exits", "leave_a_task_that_interrupts", "stop_the_loop", "close_the_streams"]
)
def test_what_a_tool_does_to_loop_and_streams_leaves_the_worker_serving(fresh: WorkerProcess, function: str) -> None:
    assert fresh.call(function) == {"result": None, "error": None}
    assert [fresh.result("fine", value=number) for number in range(3)] == [0, 1, 2]
    assert fresh.call("raise_it", name="Half")["code"] == "tool_error"


def test_a_forked_child_that_comes_back_answers_nothing(fresh: WorkerProcess) -> None:
    assert fresh.result("fork_and_both_return") is False
    assert fresh.result("fine", value=1) == 1


def test_a_forked_child_does_not_have_the_channel(fresh: WorkerProcess) -> None:
    assert fresh.result("fork_and_write") == 0
    assert fresh.result("fine", value=1) == 1


def test_a_program_that_a_tool_starts_inherits_no_socket(worker: WorkerProcess) -> None:
    assert "socket:" not in worker.result("inherited")


def test_busy_threads_leave_the_loop_its_turn(fresh: WorkerProcess) -> None:
    for _ in range(4):
        fresh.begin("spin", seconds=600)
    assert fresh.result("fine", value=1) == 1


def test_when_the_gateway_hangs_up_the_worker_and_its_children_go(fresh: WorkerProcess) -> None:
    child = fresh.result("start_a_child")
    assert is_alive(child)

    fresh.hang_up()

    assert fresh.exit_code() == -signal.SIGKILL
    assert gone_within(child, TIMEOUT)


@pytest.mark.parametrize("function", ["block", "spin"])
def test_a_tool_that_blocks_does_not_keep_the_worker_when_the_gateway_hangs_up(
    fresh: WorkerProcess, function: str
) -> None:
    fresh.begin(function, seconds=600)

    fresh.hang_up()

    assert fresh.exit_code() == -signal.SIGKILL


def test_a_worker_that_has_lost_its_channel_ends(fresh: WorkerProcess) -> None:
    fresh.begin("close_everything")

    assert fresh.exit_code() != 0


def test_a_killed_worker_hangs_up(fresh: WorkerProcess) -> None:
    os.kill(fresh.process.pid, signal.SIGKILL)

    assert fresh.connection.recv(100) == b""
