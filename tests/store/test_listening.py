import asyncio
from functools import partial
from typing import TYPE_CHECKING

import asyncpg
import pytest

from jackfield.model.call import CallStatus, done
from jackfield.store import listening, moves
from jackfield.store.postgres import PostgresStore
from tests.store.making import a_waiting_call
from tests.store.shared_postgres import listening_pids

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


async def test_what_is_written_at_one_gateway_wakes_who_waits_at_another(
    store: PostgresStore, other: PostgresStore
) -> None:
    call = a_waiting_call()
    await store.start_call(call)
    with store.bus.listen(call.id) as here, other.bus.listen(call.id) as there:
        await store.settle_submitted(call.id, done(1))
        async with asyncio.timeout(5):
            await here.wait()
            await there.wait()
    kept = await other.get_call(call.id)
    assert kept is not None
    assert kept.status is CallStatus.COMPLETED


async def test_ids_of_a_large_batch_are_all_heard(store: PostgresStore, other: PostgresStore) -> None:
    calls = [a_waiting_call() for _ in range(600)]
    await asyncio.gather(*(store.start_call(call) for call in calls))
    heard: set[str] = set()
    all_heard = asyncio.Event()
    publish = other.bus.publish

    def noted(topic: str) -> None:
        heard.add(topic)
        publish(topic)
        if len(heard) == len(calls):
            all_heard.set()

    other.bus.publish = noted  # type: ignore[method-assign]
    await asyncio.gather(*(store.settle_submitted(call.id, done(1)) for call in calls))
    async with asyncio.timeout(5):
        await all_heard.wait()
    assert heard == {call.id for call in calls}


async def test_own_writes_are_published_once(store: PostgresStore, other: PostgresStore) -> None:
    mine, theirs = a_waiting_call(), a_waiting_call()
    await asyncio.gather(store.start_call(mine), store.start_call(theirs))
    published: list[str] = []
    publish = store.bus.publish

    def noted(topic: str) -> None:
        published.append(topic)
        publish(topic)

    store.bus.publish = noted  # type: ignore[method-assign]
    with store.bus.listen(theirs.id) as written, other.bus.listen(mine.id) as heard:
        await store.settle_submitted(mine.id, done(1))
        async with asyncio.timeout(5):
            await heard.wait()
            await other.settle_submitted(theirs.id, done(1))
            await written.wait()
    assert published == [mine.id, theirs.id]


async def test_a_listener_that_was_cut_off_comes_back_and_wakes_all(
    store: PostgresStore, other: PostgresStore, outside: "Connection"
) -> None:
    call = a_waiting_call()
    await store.start_call(call)
    with other.bus.listen("call_of_nobody") as anything, other.bus.listen(call.id) as written:
        for pid in await listening_pids(outside):
            await outside.execute("SELECT pg_terminate_backend($1)", pid)
        async with asyncio.timeout(5):
            await anything.wait()
        written.clear()
        await store.settle_submitted(call.id, done(1))
        async with asyncio.timeout(5):
            await written.wait()


async def test_a_topic_too_long_to_be_told_wakes_all(store: PostgresStore, other: PostgresStore) -> None:
    with other.bus.listen("call_of_nobody") as anything:
        await store._write(partial(moves.one, "beat", id="gw_a"), wakes="long" * 2_000)
        async with asyncio.timeout(5):
            await anything.wait()


async def test_more_than_can_be_remembered_while_cut_off_wakes_all(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "BACKLOG", 3)
    with other.bus.listen("call_of_nobody") as anything:
        store._listener.tell(f"call_{number}" for number in range(4))
        async with asyncio.timeout(5):
            await anything.wait()


def test_topics_are_packed_tightly_and_none_is_left_out() -> None:
    topics = [f"call_{number:04}_{'ü' * (number % 50)}" for number in range(2_000)]
    payloads = listening.pack(topics)
    assert "\n".join(payloads).split("\n") == topics
    sizes = [len(payload.encode()) for payload in payloads]
    assert max(sizes) < 8_000
    assert min(sizes[:-1]) > 7_500
    assert listening.pack([]) == []
