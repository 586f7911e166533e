"""What every store holds of work that goes on at a tool's owner: each piece in one gateway's hands, and never lost."""

import asyncio
from functools import partial

import msgspec
from msgspec import Raw

from jackfield.calls import operation_transactions as operation_tx
from jackfield.calls import transactions as call_tx
from jackfield.calls.operation_transactions import Operation
from jackfield.model.call import Call, CallStatus, Delivery, Failed, FirstReply
from jackfield.model.ids import new_id
from jackfield.store import Store, gateways

LEASE = 60_000


async def pending(store: Store) -> str:
    """A call that waits for its work, on record."""
    call = Call(
        id=new_id("call"),
        run_id="run_1",
        tool="start",
        source="far",
        tool_version="1",
        arguments=Raw(b"{}"),
        principal="ops",
        status=CallStatus.PENDING,
        delivery=Delivery.INBOX,
        first_reply=FirstReply.PENDING,
    )
    await store.write(partial(call_tx.start_call, call))
    return call.id


async def taken(store: Store, call_id: str, *, owner: str = "gw_a", lease_ms: int = LEASE) -> Operation:
    found = await store.write(partial(operation_tx.take_operation, call_id, owner=owner, lease_ms=lease_ms))
    assert found is not None
    return found


async def test_a_call_is_taken_by_one_of_many(store: Store) -> None:
    call_id = await pending(store)
    takes = [store.write(partial(operation_tx.take_operation, call_id, owner="gw_a", lease_ms=LEASE)) for _ in range(8)]
    found = [one for one in await asyncio.gather(*takes) if one is not None]
    assert [(one.call_id, one.epoch, one.begins, one.reference) for one in found] == [(call_id, 1, 1, None)]
    assert await store.read(partial(call_tx.calls_to_offer, "start")) == []


async def test_work_that_no_gateway_has_offered_stays_where_it_is_when_all_gateways_are_dead(store: Store) -> None:
    call = Call(
        id=new_id("call"),
        run_id="run_1",
        tool="start",
        source="far",
        tool_version="1",
        arguments=Raw(b"{}"),
        principal="ops",
        status=CallStatus.RUNNING,
        owner="gw_a",
        attempt=1,
        idempotent=True,
    )
    await store.write(partial(call_tx.start_call, call))
    assert (await store.write(partial(operation_tx.park_operation, call.id, Raw(b"{}"), attempt=1))).moved
    await store.write(partial(gateways.leave, "gw_a"))
    assert await store.write(call_tx.release_offers) == []
    assert await store.read(partial(call_tx.calls_to_offer, "start")) == []


async def test_a_call_that_is_over_is_not_taken(store: Store) -> None:
    call_id = await pending(store)
    await store.write(partial(call_tx.settle_cancelled, call_id, _failed()))
    assert await store.write(partial(operation_tx.take_operation, call_id, owner="gw_a", lease_ms=LEASE)) is None


async def test_what_is_put_off_is_due_when_its_time_has_come_with_all_that_was_kept(store: Store) -> None:
    operation = await taken(store, await pending(store))
    assert await store.read(partial(operation_tx.due_operations, limit=10)) == []
    kept = msgspec.structs.replace(operation, reference=Raw(b'{"id":"r1"}'), looks=3, faults=1)
    assert await store.write(partial(operation_tx.put_off_operation, kept, pause_ms=0))
    [due] = await store.read(partial(operation_tx.due_operations, limit=10))
    assert (due.reference, due.looks, due.faults, due.owner) == (Raw(b'{"id":"r1"}'), 3, 1, None)
    later = msgspec.structs.replace(due, looks=4)
    assert await store.write(partial(operation_tx.put_off_operation, later, pause_ms=LEASE))
    assert await store.read(partial(operation_tx.due_operations, limit=10)) == []


async def test_due_work_is_claimed_by_one_of_many_and_who_was_before_changes_nothing(store: Store) -> None:
    first = await taken(store, await pending(store))
    await store.write(partial(operation_tx.put_off_operation, first, pause_ms=0))
    [due] = await store.read(partial(operation_tx.due_operations, limit=10))
    claims = [store.write(partial(operation_tx.claim_operation, due, owner="gw_a", lease_ms=LEASE)) for _ in range(8)]
    [claimed] = [one for one in await asyncio.gather(*claims) if one is not None]
    assert claimed.epoch == first.epoch + 1
    assert not await store.write(partial(operation_tx.put_off_operation, first, pause_ms=0)), "its hands are empty"
    assert await store.read(partial(operation_tx.due_operations, limit=10)) == []


async def test_work_whose_lease_is_over_or_whose_gateway_is_gone_is_due(store: Store) -> None:
    late = await taken(store, await pending(store), lease_ms=0)
    orphan = await taken(store, await pending(store), owner="gw_gone")
    await taken(store, await pending(store))
    assert {one.call_id for one in await store.read(partial(operation_tx.due_operations, limit=10))} == {
        late.call_id,
        orphan.call_id,
    }


async def test_what_is_over_is_forgotten(store: Store) -> None:
    operation = await taken(store, await pending(store), lease_ms=0)
    assert [
        one.call_id for one in await store.read(partial(operation_tx.operations_among, [operation.call_id, "call_x"]))
    ] == [operation.call_id]
    await store.write(partial(operation_tx.forget_operation, operation.call_id))
    assert (
        await store.read(partial(operation_tx.due_operations, limit=10))
        == await store.read(partial(operation_tx.operations_among, [operation.call_id]))
        == []
    )


async def test_the_way_of_a_call_is_kept(store: Store) -> None:
    await store.write(partial(operation_tx.keep_way, "call_1", ("house_a", "house_b")))
    assert await store.read(partial(operation_tx.way_of, "call_1")) == ("house_a", "house_b")
    assert await store.read(partial(operation_tx.way_of, "call_2")) == ()


def _failed() -> Failed:
    return Failed("cancelled", "x")
