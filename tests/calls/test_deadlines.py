"""A call's deadline stands still while something else than its tool takes time."""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from jackfield.calls import transactions as call_tx
from jackfield.model.call import CallStatus, Outcome, done
from jackfield.sources.base import Invocation
from tests.calls.harness import FunctionSource, Harness, pipeline_harness
from tests.waiting import eventually_async

TIMEOUT_MS = 300


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    async with pipeline_harness(FunctionSource(), tmp_path) as made:
        yield made


async def offer(harness: Harness, held: float, *, most: float, then: float = 0.0) -> None:
    async def tool(invocation: Invocation) -> Outcome:
        with invocation.hold(most):
            await asyncio.sleep(held)
        await asyncio.sleep(then)
        return done("done")

    harness.source.offer("tool", tool, timeout_ms=TIMEOUT_MS)
    await harness.source_registry.refresh()
    harness.catalog.update(harness.source_registry.listings())


async def test_time_that_is_held_is_not_the_tools(harness: Harness) -> None:
    await offer(harness, held=1.0, most=30)
    call = await harness.call("tool")
    assert (call.status, call.duration_ms > 900) == (CallStatus.COMPLETED, True)


async def test_what_comes_after_has_the_tools_own_time_and_no_more(harness: Harness) -> None:
    await offer(harness, held=0.6, most=10, then=60)
    began = time.monotonic()
    call = await harness.call("tool")
    assert call.error is not None
    assert call.error.code == "timeout"
    assert 0.85 < time.monotonic() - began < 30


async def test_holding_has_an_end_too(harness: Harness) -> None:
    await offer(harness, held=60, most=0.3)
    began = time.monotonic()
    call = await harness.call("tool")
    assert call.error is not None
    assert call.error.code == "timeout"
    assert 0.55 < time.monotonic() - began < 30


async def test_the_row_tells_others_the_later_deadline(harness: Harness) -> None:
    holding, go_on = asyncio.Event(), asyncio.Event()

    async def tool(invocation: Invocation) -> Outcome:
        with invocation.hold(100):
            holding.set()
            await go_on.wait()
        return done("done")

    harness.source.offer("tool", tool, timeout_ms=TIMEOUT_MS)
    await harness.source_registry.refresh()
    harness.catalog.update(harness.source_registry.listings())
    waiting = asyncio.create_task(harness.call("tool"))
    await holding.wait()
    [call_id] = harness.executor._running

    async def extended() -> bool:
        row = await harness.store.read(partial(call_tx.get_call, call_id))
        return row is not None and (row.deadline or 0) >= row.created_at + 50_000

    await eventually_async(extended)
    go_on.set()
    assert (await waiting).status is CallStatus.COMPLETED
