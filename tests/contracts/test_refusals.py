"""Refused calls (T14), in every store: one record a minute for one refusal, shared by gateways; a hundred in all."""

import asyncio
from functools import partial

from msgspec import Raw
from msgspec.structs import replace

from jackfield.calls import refusal_transactions as refusal_tx
from jackfield.calls import transactions as call_tx
from jackfield.calls.refusal_transactions import MOST_RECORDS, OTHER
from jackfield.calls.rows import CallFilter, call_page
from jackfield.gateway.retention import prune
from jackfield.model.call import Call, CallError, CallStatus, Failed
from jackfield.model.ids import new_id
from jackfield.store import Store, scripts
from jackfield.store.scripts import Sql
from tests.requirement import requirement

OLD = f"call_{1:012x}{0:016x}"
MINUTE_AGO = Sql("age", "UPDATE calls SET created_at = created_at - 60000 RETURNING id")


def refused(tool: str = "nothing", *, code: str = "tool_not_found", principal: str = "guest") -> Call:
    return Call(
        id=new_id("call"),
        run_id=new_id("run"),
        tool=tool,
        source="",
        tool_version="",
        arguments=Raw(b'{"a":1}'),
        principal=principal,
        status=CallStatus.REFUSED,
        error=CallError(code, "There is none."),
        attempt=1,
    )


async def records(store: Store) -> list[Call]:
    """Every refused call, in no order: those of one millisecond have none."""
    page = await store.read(partial(call_page, CallFilter(status=(CallStatus.REFUSED,)), limit=1000))
    return page.calls


@requirement("OPS-REFUSAL-recorded", "OPS-REFUSAL-count")
async def test_a_repeat_within_a_minute_counts_and_another_refusal_is_another_record(store: Store) -> None:
    first = await store.write(partial(refusal_tx.refuse, refused()))
    assert first.is_new
    again = await store.write(partial(refusal_tx.refuse, refused(), more=2))
    assert (again.call_id, again.is_new) == (first.call_id, False)
    for other in (refused("else"), refused(code="forbidden"), refused(principal="ops")):
        assert (await store.write(partial(refusal_tx.refuse, other))).is_new
    assert await store.write(partial(refusal_tx.count_refusals, first.call_id, more=7))
    found = {call.id: call for call in await records(store)}
    one, others = found.pop(first.call_id), list(found.values())
    assert (one.status, one.count, one.delivery) == (CallStatus.REFUSED, 10, None)
    assert (one.error, bytes(one.arguments)) == (CallError("tool_not_found", "There is none."), b'{"a":1}')
    assert [call.count for call in others] == [1, 1, 1]


@requirement("OPS-REFUSAL-count")
async def test_after_a_minute_the_same_refusal_is_a_new_record(store: Store) -> None:
    first = await store.write(partial(refusal_tx.refuse, refused()))
    await store.write(partial(scripts.run, MINUTE_AGO))
    second = await store.write(partial(refusal_tx.refuse, refused()))
    assert second.is_new
    assert {call.id for call in await records(store)} == {first.call_id, second.call_id}


@requirement("OPS-REFUSAL-hundred")
async def test_what_a_principal_invents_beyond_its_records_is_counted_in_one(store: Store) -> None:
    for number in range(MOST_RECORDS + 20):
        await store.write(partial(refusal_tx.refuse, refused(f"invented_{number}")))
    await store.write(partial(refusal_tx.refuse, refused(principal="ops")))
    found = await records(store)
    mine = [call for call in found if call.principal == "guest"]
    assert (len(mine), sum(call.count for call in mine)) == (MOST_RECORDS, MOST_RECORDS + 20)
    assert [call.count for call in mine if call.tool == OTHER] == [21]
    assert [call.tool for call in found if call.principal == "ops"] == ["nothing"]


async def test_refusals_at_once_are_all_counted(store: Store) -> None:
    """Two that are first at the same instant may each make a record; no count is lost."""
    first = await store.write(partial(refusal_tx.refuse, refused()))
    more = [store.write(partial(refusal_tx.count_refusals, first.call_id, more=1)) for _ in range(50)]
    again = [store.write(partial(refusal_tx.refuse, refused())) for _ in range(50)]
    await asyncio.gather(*more, *again)
    assert sum(call.count for call in await records(store)) == 101


@requirement("OPS-REFUSAL-recorded")
async def test_a_refused_call_is_final(store: Store) -> None:
    kept = await store.write(partial(refusal_tx.refuse, refused()))
    over = Failed("cancelled", "Stopped.")
    for move in (
        partial(call_tx.settle_cancelled, kept.call_id, over),
        partial(call_tx.settle_submitted, kept.call_id, over, large_result=0),
        partial(call_tx.settle_rejected, kept.call_id, over, large_result=0),
        partial(call_tx.settle_expired, kept.call_id, over),
        partial(call_tx.approve, kept.call_id, runs_here=True),
        partial(call_tx.claim, kept.call_id, owner="gw_a"),
    ):
        assert not (await store.write(move)).moved
    (call,) = await records(store)
    assert (call.status, call.count) == (CallStatus.REFUSED, 1)


async def test_refused_calls_are_pruned_like_others(store: Store) -> None:
    await store.write(partial(refusal_tx.refuse, replace(refused(), id=OLD)))
    kept = await store.write(partial(refusal_tx.refuse, refused("new")))
    assert await prune(store, keep_days=1) == 1
    assert [call.id for call in await records(store)] == [kept.call_id]
    assert not await store.write(partial(refusal_tx.count_refusals, OLD, more=1))
