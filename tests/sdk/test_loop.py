import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import CancelledError

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
