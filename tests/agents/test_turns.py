"""A place among those at work: held while at work, given back while waiting, and never twice."""

import asyncio

import pytest

from jackfield.agents.cycle_runner import CycleSlot
from tests.requirement import requirement


@pytest.fixture
def places() -> asyncio.Semaphore:
    return asyncio.Semaphore(1)


@requirement("SAFE-waiting-cycles-hold-no-place")
async def test_whoever_waits_lets_another_work_and_takes_its_turn_again(places: asyncio.Semaphore) -> None:
    async with CycleSlot(places) as turn:
        assert places.locked()
        async with turn.waiting():
            async with asyncio.timeout(5), CycleSlot(places):
                assert places.locked()
            assert not places.locked()
        assert places.locked()
        await turn.take()
    assert not places.locked()
    async with asyncio.timeout(5), CycleSlot(places):
        assert places.locked(), "there is one place and not two"


async def test_what_breaks_off_a_wait_leaves_no_place_taken_and_none_too_many(places: asyncio.Semaphore) -> None:
    async def broken() -> None:
        async with CycleSlot(places) as turn, turn.waiting():
            raise ValueError("broken off")

    with pytest.raises(ValueError, match="broken off"):
        await broken()
    async with asyncio.timeout(5), CycleSlot(places):
        assert places.locked()


async def test_waiting_for_a_place_is_not_the_cycles_own_time(places: asyncio.Semaphore) -> None:
    loop = asyncio.get_running_loop()
    async with CycleSlot(places) as turn, turn.within(loop.time() + 3600) as limit:
        before = limit.when()
        assert before is not None
        waiting = asyncio.Event()

        async def other() -> None:
            async with CycleSlot(places):
                waiting.set()
                began = loop.time()
                while loop.time() <= began:  # noqa: ASYNC110 - until the clock has moved
                    await asyncio.sleep(0)

        async with turn.waiting():
            busy = asyncio.create_task(other())
            await waiting.wait()
        await busy
        after = limit.when()
        assert after is not None
        assert after > before


async def test_a_cycle_that_takes_longer_than_it_may_is_stopped(places: asyncio.Semaphore) -> None:
    turn = CycleSlot(places)
    with pytest.raises(TimeoutError):
        async with turn, turn.within(asyncio.get_running_loop().time() - 1), turn.waiting():
            await asyncio.Event().wait()
    assert not places.locked()
