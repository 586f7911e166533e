import asyncio
from functools import partial
from typing import TYPE_CHECKING

import asyncpg
import pytest

from jackfield.calls import transactions as call_tx
from jackfield.errors import StoreBusy, Unavailable
from jackfield.model.call import CallStatus, Failed, done
from jackfield.store import postgres, postgres_server
from jackfield.store.postgres import PostgresStore
from jackfield.store.scripts import Script
from tests.postgres import PostgresServer
from tests.requirement import requirement
from tests.store.calls import a_call, a_waiting_call, decoded
from tests.store.shared_postgres import kept_ids, opened, until_waiting, writers_held
from tests.waiting import eventually_async

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


async def test_an_acknowledged_write_is_committed(store: PostgresStore, outside: "Connection") -> None:
    for _ in range(20):
        call = a_call()
        await store.write(
            call_tx.SettledCall(call, done(1), age_ms=0, duration_ms=0.1, large_result=store.large_result)
        )
        assert call.id in await kept_ids(outside)


async def test_a_commit_waits_for_the_disk_even_where_the_database_would_not(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    postgres_server.run("ALTER DATABASE swept SET synchronous_commit = off")
    try:
        async with opened(postgres_url) as store:
            assert store._writers is not None
            async with store._server.lend(store._writers) as connection:
                assert await connection.fetchval("SHOW synchronous_commit") == "on"
    finally:
        postgres_server.run("ALTER DATABASE swept RESET synchronous_commit")


async def test_writes_that_gather_are_committed_together(store: PostgresStore, outside: "Connection") -> None:
    writes = [
        store.write(call_tx.SettledCall(a_call(), done(n), age_ms=0, duration_ms=0.1, large_result=store.large_result))
        for n in range(400)
    ]
    settled = await asyncio.gather(*writes)
    assert [decoded(call.result) for call in settled] == list(range(400))
    assert await outside.fetchval("SELECT count(*) FROM calls") == 400
    assert await outside.fetchval("SELECT count(DISTINCT xmin::text) FROM calls") == 1


@requirement("OPS-METRICS-families")
async def test_how_many_writes_wait_and_connections_are_open_is_known(store: PostgresStore) -> None:
    pools = {pool.name: pool for pool in store.pools}
    assert set(pools) == {"readers", "writers"}
    assert all(0 <= pool.idle <= pool.open <= pool.most for pool in pools.values())
    writes = [store.write(partial(call_tx.start_call, a_waiting_call())) for _ in range(5)]
    assert store.queued == 5
    await asyncio.gather(*writes)
    await eventually_async(lambda: store.queued == 0)
    [one] = [one for one in await store.read(call_tx.count_waiting) if one.calls]
    assert (one.status, one.calls) == (CallStatus.WAITING, 5)
    assert 0 <= one.oldest_ms < 60_000


async def test_answers_of_one_round_trip_go_to_those_who_asked(store: PostgresStore) -> None:
    """Half of them find a call that is over, which answers nothing, among others that answer."""
    calls = [a_waiting_call() for _ in range(60)]
    await asyncio.gather(*(store.write(partial(call_tx.start_call, call)) for call in calls))
    await asyncio.gather(
        *(
            store.write(partial(call_tx.settle_submitted, call.id, done("first"), large_result=store.large_result))
            for call in calls[::2]
        )
    )
    moved = await asyncio.gather(
        *(
            store.write(partial(call_tx.settle_submitted, call.id, done(call.id), large_result=store.large_result))
            for call in calls
        )
    )
    for position, (call, move) in enumerate(zip(calls, moved, strict=True)):
        assert move.call is not None
        assert move.call.id == call.id
        assert move.moved is (position % 2 == 1)
        assert decoded(move.call.result) == (call.id if move.moved else "first")


async def test_two_moves_of_one_call_in_one_batch_keep_their_order(store: PostgresStore) -> None:
    call = a_call(idempotent=True)
    start = store.write(partial(call_tx.start_call, call))
    again = store.write(partial(call_tx.reclaim, call.id, owner="gw_b", seen=1))
    once_more = store.write(partial(call_tx.reclaim, call.id, owner="gw_c", seen=2))
    assert (await start).fresh
    assert (await again).moved
    moved = await once_more
    assert moved.moved
    assert moved.call is not None
    assert (moved.call.attempt, moved.call.owner) == (3, "gw_c")


async def test_one_bad_statement_in_a_batch_fails_alone(store: PostgresStore, outside: "Connection") -> None:
    twice = a_call()
    await store.write(partial(call_tx.start_call, twice))
    good = [a_call() for _ in range(50)]
    writes = [store.write(partial(call_tx.start_call, call)) for call in (*good[:25], twice, *good[25:])]
    results = await asyncio.gather(*writes, return_exceptions=True)
    failed = [result for result in results if isinstance(result, BaseException)]
    assert len(failed) == 1
    assert isinstance(failed[0], asyncpg.UniqueViolationError)
    assert await kept_ids(outside) == {twice.id, *(call.id for call in good)}


async def test_a_script_that_fails_half_way_leaves_nothing_behind(store: PostgresStore) -> None:
    call = a_call()

    def half() -> Script[None]:
        yield "insert_call", call_tx.insert_values(call, age_ms=0)
        raise RuntimeError("half way")

    neighbour = store.write(partial(call_tx.start_call, a_call()))
    cut = store.write(half)
    with pytest.raises(RuntimeError, match="half way"):
        await cut
    assert (await neighbour).fresh
    assert await store.read(partial(call_tx.get_call, call.id)) is None


async def test_a_script_that_fails_before_it_asks_anything_fails_alone(store: PostgresStore) -> None:
    call = a_call()

    def broken() -> Script[None]:
        if call.tool:
            raise RuntimeError("at once")
        yield "ping", {}

    neighbour = store.write(partial(call_tx.start_call, a_call()))
    with pytest.raises(RuntimeError, match="at once"):
        await store.write(broken)
    assert (await neighbour).fresh


async def test_a_nul_in_a_text_is_replaced_and_harms_no_neighbour(store: PostgresStore) -> None:
    call, neighbour = a_call(), a_call()
    await asyncio.gather(
        store.write(partial(call_tx.start_call, call)), store.write(partial(call_tx.start_call, neighbour))
    )
    settled, beside = await asyncio.gather(
        store.write(
            partial(
                call_tx.settle_executed,
                call.id,
                Failed("tool_error", "bad \0 byte"),
                attempt=1,
                duration_ms=1.0,
                large_result=store.large_result,
            )
        ),
        store.write(
            partial(
                call_tx.settle_executed,
                neighbour.id,
                done("fine"),
                attempt=1,
                duration_ms=1.0,
                large_result=store.large_result,
            )
        ),
    )
    assert settled.call is not None
    assert settled.call.error is not None
    assert settled.call.error.message == "bad \ufffd byte"
    assert beside.moved
    assert await store.read(partial(call_tx.get_call, "call_\0")) is None


async def test_a_full_queue_refuses_at_once(
    store: PostgresStore, outside: "Connection", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "QUEUE_LIMIT", 5)
    async with writers_held(outside):
        writes = [store.write(partial(call_tx.start_call, a_call())) for _ in range(5)]
        with pytest.raises(StoreBusy, match="Try again"):
            store.write(partial(call_tx.start_call, a_call()))
    assert all(result.fresh for result in await asyncio.gather(*writes))
    assert (await store.write(partial(call_tx.start_call, a_call()))).fresh


async def test_a_write_whose_caller_went_away_happens_all_the_same(store: PostgresStore, outside: "Connection") -> None:
    call = a_call()
    write = asyncio.ensure_future(store.write(partial(call_tx.start_call, call)))
    write.cancel()
    await store.write(partial(call_tx.start_call, a_call()))
    assert call.id in await kept_ids(outside)


async def test_closing_finishes_what_was_accepted(postgres_url: str, outside: "Connection") -> None:
    store = PostgresStore(postgres_url)
    await store.open()
    writes = [store.write(partial(call_tx.start_call, a_call())) for _ in range(1200)]
    await store.close()
    await asyncio.gather(*writes)
    assert len(await kept_ids(outside)) == 1200
    with pytest.raises(Unavailable, match="stopping"):
        store.write(partial(call_tx.start_call, a_call()))
    with pytest.raises(Unavailable, match="stopping"):
        await store.read(partial(call_tx.get_call, "call_x"))


async def test_closing_gives_up_on_a_database_that_holds_everything_back(
    postgres_url: str, outside: "Connection", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "CLOSE_SECONDS", 0.2)
    monkeypatch.setattr(postgres, "BATCH_LIMIT", 3)
    store = PostgresStore(postgres_url)
    await store.open()
    async with writers_held(outside):
        writes = [store.write(partial(call_tx.start_call, a_call())) for _ in range(20)]
        await until_waiting(outside)
        async with asyncio.timeout(5):
            await store.close()
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert {type(result) for result in results} == {Unavailable}


async def test_a_row_that_somebody_holds_for_long_fails_only_its_own_write(
    postgres_url: str, outside: "Connection", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_server, "SETUP", "SET lock_timeout = '200ms'")
    async with opened(postgres_url) as store:
        calls = [a_waiting_call() for _ in range(5)]
        await asyncio.gather(*(store.write(partial(call_tx.start_call, call)) for call in calls))
        async with outside.transaction():
            await outside.execute("SELECT 1 FROM calls WHERE id = $1 FOR UPDATE", calls[2].id)
            writes = [
                store.write(partial(call_tx.settle_submitted, call.id, done(1), large_result=store.large_result))
                for call in calls
            ]
            results = await asyncio.gather(*writes, return_exceptions=True)
        failed = [position for position, result in enumerate(results) if isinstance(result, Unavailable)]
        assert failed == [2]
        assert (
            await store.write(partial(call_tx.settle_submitted, calls[2].id, done(1), large_result=store.large_result))
        ).moved


async def test_a_schema_that_a_newer_gateway_widens_meanwhile_does_no_harm(
    postgres_server: PostgresServer, empty_database: str
) -> None:
    async with opened(postgres_server.url(empty_database)) as store:
        calls = [a_waiting_call() for _ in range(3)]
        await asyncio.gather(*(store.write(partial(call_tx.start_call, call)) for call in calls))
        assert (
            await store.write(partial(call_tx.settle_submitted, calls[0].id, done(1), large_result=store.large_result))
        ).moved
        assert await store.read(partial(call_tx.get_call, calls[0].id)) is not None
        postgres_server.run("ALTER TABLE calls ADD COLUMN mood TEXT", database=empty_database)
        moved = await asyncio.gather(
            *(
                store.write(partial(call_tx.settle_submitted, call.id, done(2), large_result=store.large_result))
                for call in calls
            )
        )
        assert [move.moved for move in moved] == [False, True, True]
        assert await store.read(partial(call_tx.get_call, calls[1].id)) is not None
