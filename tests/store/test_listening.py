import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import asyncpg
import pytest

from jackfield.calls import transactions as call_tx
from jackfield.model.call import CallStatus, done
from jackfield.store import bus
from jackfield.store.postgres import PostgresStore
from tests.store.calls import a_waiting_call
from tests.store.shared_postgres import listening_pids

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


async def test_what_is_written_at_one_gateway_wakes_who_waits_at_another(
    store: PostgresStore, other: PostgresStore
) -> None:
    call = a_waiting_call()
    await store.write(partial(call_tx.start_call, call))
    with store.bus.listen(call.id) as here, other.bus.listen(call.id) as there:
        await store.write(partial(call_tx.settle_submitted, call.id, done(1), large_result=store.large_result))
        async with asyncio.timeout(5):
            await here.wait()
            await there.wait()
    kept = await other.read(partial(call_tx.get_call, call.id))
    assert kept is not None
    assert kept.status is CallStatus.COMPLETED


async def test_ids_of_a_large_batch_are_all_heard(store: PostgresStore, other: PostgresStore) -> None:
    calls = [a_waiting_call() for _ in range(600)]
    await asyncio.gather(*(store.write(partial(call_tx.start_call, call)) for call in calls))
    heard: set[str] = set()
    all_heard = asyncio.Event()
    publish = other.bus.publish

    def noted(topic: str) -> None:
        heard.add(topic)
        publish(topic)
        if len(heard) == len(calls):
            all_heard.set()

    other.bus.publish = noted  # type: ignore[method-assign]
    await asyncio.gather(
        *(
            store.write(partial(call_tx.settle_submitted, call.id, done(1), large_result=store.large_result))
            for call in calls
        )
    )
    async with asyncio.timeout(5):
        await all_heard.wait()
    assert heard == {call.id for call in calls}


async def test_own_writes_are_published_once(store: PostgresStore, other: PostgresStore) -> None:
    mine, theirs = a_waiting_call(), a_waiting_call()
    await asyncio.gather(
        store.write(partial(call_tx.start_call, mine)), store.write(partial(call_tx.start_call, theirs))
    )
    published: list[str] = []
    publish = store.bus.publish

    def noted(topic: str) -> None:
        published.append(topic)
        publish(topic)

    store.bus.publish = noted  # type: ignore[method-assign]
    with store.bus.listen(theirs.id) as written, other.bus.listen(mine.id) as heard:
        await store.write(partial(call_tx.settle_submitted, mine.id, done(1), large_result=store.large_result))
        async with asyncio.timeout(5):
            await heard.wait()
            await other.write(partial(call_tx.settle_submitted, theirs.id, done(1), large_result=other.large_result))
            await written.wait()
    assert published == [mine.id, theirs.id]


async def test_a_listener_that_was_cut_off_comes_back_and_wakes_all(
    store: PostgresStore, other: PostgresStore, outside: "Connection"
) -> None:
    call = a_waiting_call()
    await store.write(partial(call_tx.start_call, call))
    with other.bus.listen("call_of_nobody") as anything, other.bus.listen(call.id) as written:
        for pid in await listening_pids(outside):
            await outside.execute("SELECT pg_terminate_backend($1)", pid)
        async with asyncio.timeout(5):
            await anything.wait()
        written.clear()
        await store.write(partial(call_tx.settle_submitted, call.id, done(1), large_result=store.large_result))
        async with asyncio.timeout(5):
            await written.wait()


async def test_a_topic_too_long_to_be_told_wakes_all(store: PostgresStore, other: PostgresStore) -> None:
    with other.bus.listen("call_of_nobody") as anything:
        store.wake("long" * 2_000)
        async with asyncio.timeout(5):
            await anything.wait()


async def test_more_than_can_be_remembered_while_cut_off_wakes_all(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "BACKLOG", 3)
    with other.bus.listen("call_of_nobody") as anything:
        store._listener.tell(f"call_{number}" for number in range(4))
        async with asyncio.timeout(5):
            await anything.wait()


class Hearing:
    """What one store hears from other gateways, message by message, until `last` is among it."""

    def __init__(self, store: PostgresStore, *, last: str) -> None:
        self.messages: list[Sequence[str] | None] = []
        self._last = last
        self._complete = asyncio.Event()
        store.bus.on_foreign(self._hear)

    def _hear(self, topics: Sequence[str] | None) -> None:
        self.messages.append(topics)
        if topics is not None and self._last in topics:
            self._complete.set()

    async def all(self) -> list[Sequence[str] | None]:
        async with asyncio.timeout(5):
            await self._complete.wait()
        return self.messages


async def test_what_others_are_told_comes_in_order_and_many_at_once(store: PostgresStore, other: PostgresStore) -> None:
    topics = [f"news_{number}" for number in range(100)]
    here, there = Hearing(store, last="from the other"), Hearing(other, last=topics[-1])
    for topic in topics:
        store.tell_others(topic)
    assert await there.all() == [topics]
    other.tell_others("from the other")
    assert await here.all() == [["from the other"]], "nobody hears itself"


async def test_what_others_are_told_goes_along_with_a_wake_up(store: PostgresStore, other: PostgresStore) -> None:
    there = Hearing(other, last="news")
    store.tell_others("news")
    store.wake("call_a")
    assert await there.all() == [["call_a", "news"]]


async def test_a_store_that_closes_tells_what_is_untold(postgres_url: str, other: PostgresStore) -> None:
    leaving = PostgresStore(postgres_url)
    await leaving.open()
    there = Hearing(other, last="last words")
    leaving.tell_others("last words")
    await leaving.close()
    assert await there.all() == [["last words"]]


async def test_what_cannot_be_told_now_is_told_later_and_the_newest_of_it_at_least(
    store: PostgresStore, other: PostgresStore, outside: "Connection", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "BACKLOG", 3)
    own = store._listener._connection
    assert own is not None
    there = Hearing(other, last="news_4")
    await outside.execute("SELECT pg_terminate_backend($1)", own.get_server_pid())
    for number in range(5):
        store.tell_others(f"news_{number}")
    assert await there.all() == [["news_2", "news_3", "news_4"]]


def test_topics_are_packed_tightly_and_none_is_left_out() -> None:
    topics = [f"call_{number:04}_{'ü' * (number % 50)}" for number in range(2_000)]
    payloads = bus.pack(topics)
    assert "\n".join(payloads).split("\n") == topics
    sizes = [len(payload.encode()) for payload in payloads]
    assert max(sizes) < 8_000
    assert min(sizes[:-1]) > 7_500
    assert bus.pack([]) == []
