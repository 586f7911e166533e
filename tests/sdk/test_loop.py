import asyncio
import itertools
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import CancelledError
from typing import Any

import pytest

from jackfield.sdk.loop import LoopThread


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


def test_a_coroutine_runs_to_its_end_on_the_other_thread(loop: LoopThread) -> None:
    async def who() -> str:
        return threading.current_thread().name

    assert loop.run(who()) == "jackfield-sdk"


def test_an_error_comes_back_as_itself(loop: LoopThread) -> None:
    async def fail() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        loop.run(fail())


def test_leaving_an_iteration_ends_the_asynchronous_one(loop: LoopThread) -> None:
    ended = threading.Event()

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            for number in range(100):
                yield number
        finally:
            ended.set()

    for number in loop.iterate(numbers()):
        if number == 2:
            break
    assert ended.wait(5)


def test_closing_cancels_what_still_runs(loop: LoopThread) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def wait_for_ever() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def wait() -> None:
        with pytest.raises(CancelledError):
            loop.run(wait_for_ever())

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert begun.wait(5)
    loop.close()
    waiter.join(5)
    assert cancelled.is_set()
    assert not waiter.is_alive()
    assert not loop.is_running


def test_an_interrupted_work_that_tidies_up_is_waited_for(loop: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, tidied = threading.Event(), threading.Event()

    async def serve() -> None:
        try:
            begun.set()
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            tidied.set()

    plain, calls = loop.run, itertools.count(1)

    def second_is_interrupted(work: Coroutine[Any, Any, Any]) -> Any:
        if next(calls) != 2:
            return plain(work)
        assert begun.wait(10)
        work.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "run", second_is_interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop.run_to_its_end(serve())
    assert tidied.is_set()


def test_work_that_ends_by_itself_gives_its_result_or_its_error(loop: LoopThread) -> None:
    async def fail() -> None:
        raise LookupError("gone")

    async def one() -> int:
        return 1

    assert loop.run_to_its_end(one()) == 1
    with pytest.raises(LookupError, match="gone"):
        loop.run_to_its_end(fail())
