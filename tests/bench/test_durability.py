from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from msgspec import Raw

from bench.durability import written
from bench.rows.growth import fill, forget
from jackfield.calls import transactions as call_tx
from jackfield.calls.rows import CallFilter, call_page
from jackfield.model.call import Call, CallStatus, done
from jackfield.model.ids import new_id
from jackfield.store.sqlite import SqliteStore


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "jackfield.db")
    await store.open()
    yield store
    await store.close()


def a_call() -> Call:
    return Call(
        id=new_id("call"),
        run_id=new_id("run"),
        tool="echo",
        source="local",
        tool_version="1",
        arguments=Raw(b"{}"),
        principal="admin",
        status=CallStatus.RUNNING,
        attempt=1,
    )


async def test_rows_and_commits_are_counted_in_the_databases_own_files(store: SqliteStore, tmp_path: Path) -> None:
    before = written(tmp_path / "jackfield.db")
    for _ in range(5):
        await store.write(
            call_tx.SettledCall(a_call(), done(1), age_ms=0, duration_ms=0.0, large_result=store.large_result)
        )

    after = written(tmp_path / "jackfield.db")
    assert after.calls - before.calls == 5
    assert after.commits - before.commits == 5
    assert after.log == before.log


async def test_filled_records_are_read_by_the_store_like_its_own(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "many.db")
    await store.open()
    await store.close()
    fill(tmp_path / "many.db", calls=250)

    store = SqliteStore(tmp_path / "many.db")
    await store.open()
    try:
        page = await store.read(partial(call_page, CallFilter(tool="echo"), limit=1000))
        newest = new_id("call")
    finally:
        await store.close()
    assert len({call.id for call in page.calls}) == 250
    assert {call.status for call in page.calls} == {CallStatus.COMPLETED}
    assert all(len(call.id) == len(newest) and call.id < newest for call in page.calls)


async def test_of_filled_records_the_oldest_stay_when_the_rest_is_forgotten(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "few.db")
    await store.open()
    await store.close()
    fill(tmp_path / "few.db", calls=10)

    store = SqliteStore(tmp_path / "few.db")
    await store.open()
    try:
        oldest = (await store.read(partial(call_page, CallFilter(), limit=10))).calls[-3:]
        forget(tmp_path / "few.db", all_but=3)
        assert (await store.read(partial(call_page, CallFilter(), limit=10))).calls == oldest
    finally:
        await store.close()
