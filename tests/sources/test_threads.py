import asyncio
import threading
from collections.abc import Iterator

import pytest

from jackfield.sources import threads as threads_module
from jackfield.sources.threads import MOST_RUNNING, Lane, Threads
from tests.sources.toolbox import BOUND


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads()
    yield made
    made.close()


async def test_an_idle_thread_is_used_again(threads: Threads) -> None:
    first = await threads.run(threading.get_ident)

    assert await threads.run(threading.get_ident) == first


async def test_busy_threads_are_joined_by_new_ones(threads: Threads) -> None:
    everybody = threading.Barrier(20, timeout=BOUND)

    await asyncio.gather(*(threads.run(everybody.wait) for _ in range(20)))


async def test_an_error_goes_to_who_waits(threads: Threads) -> None:
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)


async def test_an_idle_thread_leaves_after_a_while(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "IDLE_SECONDS", 0.05)
    thread = await threads.run(threading.current_thread)

    await asyncio.to_thread(thread.join, BOUND)

    assert not thread.is_alive()
    assert await threads.run(lambda: "still here") == "still here"


async def test_closing_lets_idle_threads_go_at_once_and_busy_ones_when_they_are_done() -> None:
    threads = Threads()
    go = threading.Event()
    busy = threads.run(lambda: (threading.current_thread(), go.wait(BOUND))[0])
    idle = await threads.run(threading.current_thread)

    threads.close()
    await asyncio.to_thread(idle.join, BOUND)

    assert not idle.is_alive()
    go.set()
    thread = await busy
    await asyncio.to_thread(thread.join, BOUND)
    assert not thread.is_alive()


def test_a_job_that_outlives_its_event_loop_ends_quietly(threads: Threads) -> None:
    go, ended = threading.Event(), threading.Event()

    async def leave_it() -> None:
        def job() -> None:
            go.wait(BOUND)
            ended.set()

        threads.run(job)

    asyncio.run(leave_it())
    go.set()

    assert ended.wait(BOUND)


async def test_a_lane_runs_no_more_than_its_share_at_once(threads: Threads) -> None:
    lane = Lane(threads)
    go = threading.Event()
    running = threading.Semaphore(0)

    def job() -> None:
        running.release()
        go.wait(BOUND)

    jobs = [asyncio.create_task(lane.run(job)) for _ in range(MOST_RUNNING + 5)]
    started = await asyncio.to_thread(lambda: [running.acquire(timeout=BOUND) for _ in range(MOST_RUNNING)])
    assert all(started)
    assert not running.acquire(blocking=False)

    go.set()
    await asyncio.gather(*jobs)
