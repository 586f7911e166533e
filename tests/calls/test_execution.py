"""What becomes of calls when a tool will not stop or the store will not write."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jackfield.calls import transactions as call_tx
from jackfield.calls.transactions import SettledCall
from jackfield.errors import Unavailable
from jackfield.model.call import Call, CallStatus, Outcome, done
from jackfield.sources.base import Invocation
from tests.calls.harness import OPS, FunctionSource, Harness, pipeline_harness


class Stubborn:
    """A tool that does not listen until the test is over."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.release = asyncio.Event()

    async def __call__(self, _: Invocation) -> Outcome:
        self.began.set()
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                continue
        return done("too late")


@pytest.fixture
def stubborn() -> Stubborn:
    return Stubborn()


@pytest.fixture
async def harness(stubborn: Stubborn, tmp_path: Path) -> AsyncIterator[Harness]:
    source = FunctionSource()
    source.offer("stubborn", stubborn)
    async with pipeline_harness(source, tmp_path) as made:
        yield made
        stubborn.release.set()


async def test_who_waits_for_a_cancelled_tool_that_will_not_stop_is_told_soon(
    harness: Harness, stubborn: Stubborn
) -> None:
    waiting = asyncio.create_task(harness.call("stubborn"))
    await stubborn.began.wait()
    [call_id] = harness.executor._running

    cancelled = await harness.pipeline.cancel(call_id, principal=OPS)
    told = await asyncio.wait_for(waiting, 2)

    assert told.status is cancelled.status is CallStatus.CANCELLED
    assert told.error == cancelled.error
    assert harness.executor.running(call_id) is None
    assert harness.executor.counters.running == 0


async def test_a_stopping_gateway_cuts_off_a_tool_that_will_not_stop(harness: Harness, stubborn: Stubborn) -> None:
    waiting = asyncio.create_task(harness.call("stubborn"))
    await stubborn.began.wait()

    async with asyncio.timeout(2):
        await harness.pipeline.close(grace=0.05)
        call = await waiting

    assert call.error is not None
    assert call.error.code == "interrupted"
    assert await harness.store.read(partial(call_tx.get_call, call.id)) == call
    stubborn.release.set()


async def test_a_call_whose_row_cannot_be_written_is_refused_its_tool_stopped_and_forgotten(tmp_path: Path) -> None:
    began, stopped = asyncio.Event(), asyncio.Event()

    async def long(_: Invocation) -> Outcome:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return done(None)

    source = FunctionSource()
    source.offer("long", long)
    async with pipeline_harness(source, tmp_path) as harness:
        waiting = asyncio.create_task(harness.call("long"))
        await began.wait()
        await harness.store.close()

        with pytest.raises(Unavailable, match="The store is closed"):
            await asyncio.wait_for(waiting, 2)

        await asyncio.wait_for(stopped.wait(), 2)
        assert harness.executor._running == {}
        assert harness.executor.counters.running == 0


async def test_a_call_whose_outcome_cannot_be_written_is_refused_and_forgotten(tmp_path: Path) -> None:
    async def close_the_store(_: Invocation) -> Outcome:
        await made.store.close()
        return done(None)

    source = FunctionSource()
    source.offer("closes", close_the_store)
    async with pipeline_harness(source, tmp_path) as made:
        with pytest.raises(Unavailable, match="The store is closed"):
            await made.call("closes")

        assert made.executor._running == {}
        async with asyncio.timeout(2):
            await made.pipeline.close(grace=1)


async def test_an_outcome_outlives_a_store_that_is_away_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def quick(_: Invocation) -> Outcome:
        return done("kept")

    source = FunctionSource()
    source.offer("quick", quick)
    async with pipeline_harness(source, tmp_path) as harness:
        write, failures = harness.store.write, 2

        def away(script: Any) -> asyncio.Future[Any]:
            nonlocal failures
            if failures and isinstance(script, SettledCall):
                failures -= 1
                failed: asyncio.Future[Call] = asyncio.get_running_loop().create_future()
                failed.set_exception(Unavailable("The database is restarting."))
                return failed
            return write(script)

        monkeypatch.setattr(harness.store, "write", away)
        call = await harness.call("quick")
        assert failures == 0
        assert call.status is CallStatus.COMPLETED
        assert await harness.store.read(partial(call_tx.get_call, call.id)) == call
