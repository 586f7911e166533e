"""T15 on every store: who takes a call to ask about it, how often, and what nobody may do meanwhile."""

import asyncio
from functools import partial
from typing import Any

import pytest

from jackfield.calls import transactions as call_tx
from jackfield.calls.transactions import Moved
from jackfield.model.call import Call, CallStatus, Doubt, Failed, done
from jackfield.store import Store, scripts
from jackfield.store.scripts import Sql
from tests.requirement import requirement
from tests.store.calls import a_call

OVERDUE_MS = 16_000
FAILED = Failed("timeout", "It took too long.")


async def started(store: Store, **fields: Any) -> Call:
    result = await store.write(partial(call_tx.start_call, a_call(**{"verify": "was_it"} | fields)))
    assert result.call is not None
    return result.call


async def taken(store: Store, call: Call, *, seen: int, why: Doubt = "timeout", **more: Any) -> Moved:
    return await store.write(
        partial(call_tx.take_to_verify, call.id, owner="gw_b", seen=seen, why=why, left_ms=5_000, **more)
    )


async def settled(store: Store, call: Call, *, attempt: int) -> Moved:
    script = partial(
        call_tx.settle_executed,
        call.id,
        done(1),
        attempt=attempt,
        duration_ms=None,
        large_result=store.large_result,
        verified_by="call_asked",
    )
    return await store.write(script)


async def pass_deadline(store: Store, call: Call) -> None:
    late = Sql("late", "UPDATE calls SET deadline = deadline - :ms WHERE id = :id")
    ms = call.timeout_ms + OVERDUE_MS
    await store.write(partial(scripts.run, late, id=call.id, ms=ms))


@requirement("RUN-verify-model")
async def test_whoever_takes_it_settles_it_and_the_attempt_before_does_not(store: Store) -> None:
    call = await started(store)
    assert (call.verify, call.verifying, call.verifications) == ("was_it", None, 0)
    moved = await taken(store, call, seen=1, why="interrupted")
    assert moved.moved
    assert moved.call is not None
    now = moved.call
    assert (now.status, now.owner, now.attempt) == (CallStatus.RUNNING, "gw_b", 2)
    assert (now.verifying, now.verifications) == ("interrupted", 1)
    assert not (await settled(store, call, attempt=1)).moved
    over = await settled(store, call, attempt=2)
    assert over.moved
    assert over.call is not None
    assert (over.call.status, over.call.verified_by) == (CallStatus.COMPLETED, "call_asked")
    assert await store.read(partial(call_tx.get_call, call.id)) == over.call


@requirement("RUN-verify-model")
async def test_one_of_two_takes_it(store: Store) -> None:
    call = await started(store)
    moves = await asyncio.gather(*(taken(store, call, seen=1) for _ in range(2)))
    assert sorted(moved.moved for moved in moves) == [False, True]


@requirement("RUN-verify-model")
async def test_it_is_taken_three_times_and_the_first_reason_stays(store: Store) -> None:
    call = await started(store)
    assert (await taken(store, call, seen=1, why="timeout")).moved
    for seen in (2, 3):
        assert (await taken(store, call, seen=seen, why="interrupted")).moved
    last = await taken(store, call, seen=4)
    assert not last.moved
    assert last.call is not None
    assert (last.call.verifying, last.call.verifications, last.call.attempt) == ("timeout", 3, 4)


@requirement("RUN-verify-model")
@pytest.mark.parametrize(
    "fields",
    [{"verify": None}, {"attempt": 0, "owner": None}, {"status": CallStatus.WAITING, "attempt": 0, "owner": None}],
)
async def test_what_has_nobody_to_ask_or_does_not_run_is_not_taken(store: Store, fields: dict[str, Any]) -> None:
    call = await started(store, **fields)
    assert not (await taken(store, call, seen=call.attempt)).moved


@requirement("RUN-verify-model")
async def test_what_is_being_asked_about_is_not_run_again(store: Store) -> None:
    call = await started(store, idempotent=True)
    assert (await taken(store, call, seen=1)).moved
    assert not (await store.write(partial(call_tx.reclaim, call.id, owner="gw_c", seen=2))).moved


@requirement("RUN-verify-model")
async def test_the_sweeper_takes_only_what_is_late_and_settles_only_what_nobody_can_ask_about(store: Store) -> None:
    call = await started(store)
    assert not (await taken(store, call, seen=1, is_late=True)).moved
    await pass_deadline(store, call)
    assert not (await store.write(partial(call_tx.settle_overdue, call.id, FAILED))).moved
    for seen in (1, 2, 3):
        assert (await taken(store, call, seen=seen, is_late=True)).moved
        await pass_deadline(store, call)
    assert not (await taken(store, call, seen=4, is_late=True)).moved
    assert (await store.write(partial(call_tx.settle_overdue, call.id, FAILED))).moved


@requirement("RUN-verify-model")
async def test_a_final_call_is_not_taken(store: Store) -> None:
    call = await started(store)
    assert (await settled(store, call, attempt=1)).moved
    assert not (await taken(store, call, seen=1)).moved
