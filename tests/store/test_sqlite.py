import asyncio
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from msgspec import Raw

from jackfield.calls import transactions as call_tx
from jackfield.calls.rows import CallFilter, call_page
from jackfield.errors import ConfigError, StoreBusy, Unavailable
from jackfield.model.call import CallStatus, Done, Failed, done
from jackfield.store import gateways as gateway_tx
from jackfield.store import naming, open_store, sqlite
from jackfield.store.scripts import Script, Sql, Statement, load_migrations
from jackfield.store.sqlite import SqliteStore
from tests.requirement import requirement
from tests.store.calls import a_call
from tests.waiting import eventually


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "calls.db")
    await opened.open()
    await opened.write(partial(gateway_tx.enter, "gw_a", is_shared=opened.is_shared))
    yield opened
    await opened.close()


def rows_on_disk(path: Path) -> set[str]:
    """What a second process would see: committed rows only."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as other:
        found = {row[0] for row in other.execute("SELECT id FROM calls")}
    other.close()
    return found


class HeldWriter:
    """Keeps the writer thread busy until released, so that what comes meanwhile ends up in one batch."""

    def __init__(self, store: SqliteStore) -> None:
        self._release = threading.Event()
        self.reply = store.write(self._script)

    def _script(self) -> Script[None]:
        self._release.wait(10)
        yield "ping", {}

    def release(self) -> None:
        self._release.set()


async def test_an_acknowledged_write_is_on_disk(store: SqliteStore, tmp_path: Path) -> None:
    for _ in range(20):
        call = a_call()
        await store.write(
            call_tx.SettledCall(call, done(1), age_ms=0, duration_ms=0.1, large_result=store.large_result)
        )
        assert call.id in rows_on_disk(tmp_path / "calls.db")


async def test_writes_that_gather_are_committed_together(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    commit = sqlite.commit_batch

    def counted(
        connection: sqlite3.Connection, batch: list[sqlite._Job], known: dict[str, Statement]
    ) -> list[sqlite._Result]:
        sizes.append(len(batch))
        return commit(connection, batch, known)

    monkeypatch.setattr(sqlite, "commit_batch", counted)
    held = HeldWriter(store)
    writes = [
        store.write(call_tx.SettledCall(a_call(), done(n), age_ms=0, duration_ms=0.1, large_result=store.large_result))
        for n in range(300)
    ]
    held.release()
    await asyncio.gather(held.reply, *writes)
    assert sum(sizes) == 301
    assert len(sizes) <= 3


async def test_short_calls_in_one_statement_are_the_same_as_one_by_one(store: SqliteStore) -> None:
    outcomes: list[Done | Failed] = [
        done({"n": 1}),
        done(None),
        Failed("tool_error", "no"),
        Failed("x", "y", Raw(b'{"error":"y"}')),
    ] * 30
    calls = [a_call(agent="ada" if n % 2 else None, idempotent=n % 3 == 0) for n in range(len(outcomes))]
    held = HeldWriter(store)
    pairs = zip(calls, outcomes, strict=True)
    writes = [
        store.write(call_tx.SettledCall(call, outcome, age_ms=3, duration_ms=3.5, large_result=store.large_result))
        for call, outcome in pairs
    ]
    held.release()
    together = await asyncio.gather(*writes)
    for settled in together:
        assert await store.read(partial(call_tx.get_call, settled.id)) == settled
    for outcome, settled in zip(outcomes, together, strict=True):
        alone = await store.write(
            call_tx.SettledCall(a_call(), outcome, age_ms=3, duration_ms=3.5, large_result=store.large_result)
        )
        assert (alone.status, alone.error, alone.delivery) == (settled.status, settled.error, settled.delivery)
        assert (alone.result is None) == (settled.result is None)


async def test_a_short_call_that_is_there_twice_fails_alone(store: SqliteStore) -> None:
    twice = a_call()
    await store.write(call_tx.SettledCall(twice, done(1), age_ms=0, duration_ms=0.1, large_result=store.large_result))
    held = HeldWriter(store)
    calls = [a_call() for _ in range(40)]
    writes = [
        store.write(call_tx.SettledCall(call, done(2), age_ms=0, duration_ms=0.1, large_result=store.large_result))
        for call in [*calls, twice]
    ]
    held.release()
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert [isinstance(result, sqlite3.IntegrityError) for result in results] == [False] * 40 + [True]
    assert all([await store.read(partial(call_tx.get_call, call.id)) for call in calls])


async def test_one_bad_statement_in_a_batch_fails_alone(store: SqliteStore, tmp_path: Path) -> None:
    twice = a_call()
    await store.write(partial(call_tx.start_call, twice))
    held = HeldWriter(store)
    good = [a_call() for _ in range(50)]
    before = [store.write(partial(call_tx.start_call, call)) for call in good[:25]]
    bad = store.write(partial(call_tx.start_call, twice))
    after = [store.write(partial(call_tx.start_call, call)) for call in good[25:]]
    held.release()
    results = await asyncio.gather(*before, bad, *after, return_exceptions=True)
    failed = [result for result in results if isinstance(result, BaseException)]
    assert len(failed) == 1
    assert isinstance(failed[0], sqlite3.IntegrityError)
    assert rows_on_disk(tmp_path / "calls.db") == {twice.id, *(call.id for call in good)}


async def test_a_script_that_fails_half_way_leaves_nothing_behind(store: SqliteStore) -> None:
    call = a_call()

    def half() -> Script[None]:
        yield "insert_call", call_tx.insert_values(call, age_ms=0)
        raise RuntimeError("half way")

    held = HeldWriter(store)
    neighbour = store.write(partial(call_tx.start_call, a_call()))
    cut = store.write(half)
    held.release()
    with pytest.raises(RuntimeError, match="half way"):
        await cut
    assert (await neighbour).fresh
    assert await store.read(partial(call_tx.get_call, call.id)) is None


async def test_a_full_queue_refuses_at_once(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "QUEUE_LIMIT", 5)
    held = HeldWriter(store)
    writes = [store.write(partial(call_tx.start_call, a_call())) for _ in range(4)]
    with pytest.raises(StoreBusy, match="Try again"):
        store.write(partial(call_tx.start_call, a_call()))
    held.release()
    assert all(result.fresh for result in await asyncio.gather(*writes))
    assert (await store.write(partial(call_tx.start_call, a_call()))).fresh


async def test_a_write_whose_caller_went_away_happens_all_the_same(store: SqliteStore) -> None:
    held = HeldWriter(store)
    call = a_call()
    write = asyncio.ensure_future(store.write(partial(call_tx.start_call, call)))
    write.cancel()
    held.release()
    await held.reply
    await store.write(partial(call_tx.start_call, a_call()))
    assert await store.read(partial(call_tx.get_call, call.id)) is not None


async def test_closing_finishes_what_was_accepted(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "calls.db")
    await store.open()
    writes = [store.write(partial(call_tx.start_call, a_call())) for _ in range(500)]
    await store.close()
    await asyncio.gather(*writes)
    assert len(rows_on_disk(tmp_path / "calls.db")) == 500
    with pytest.raises(Unavailable, match="stopping"):
        store.write(partial(call_tx.start_call, a_call()))


async def test_a_second_gateway_on_the_same_file_is_refused_with_the_first_ones_pid(
    store: SqliteStore, tmp_path: Path
) -> None:
    second = SqliteStore(tmp_path / "calls.db")
    with pytest.raises(ConfigError, match=r"Another gateway \(pid \d+\) uses the database calls.db"):
        await second.open()
    await second.close()
    assert (await store.write(partial(call_tx.start_call, a_call()))).fresh


async def test_the_records_are_there_after_a_restart(tmp_path: Path) -> None:
    call = a_call()
    for turn in range(2):
        store = SqliteStore(tmp_path / "calls.db")
        await store.open()
        if turn == 0:
            await store.write(
                call_tx.SettledCall(call, done("kept"), age_ms=0, duration_ms=0.1, large_result=store.large_result)
            )
        kept = await store.read(partial(call_tx.get_call, call.id))
        await store.close()
        assert kept is not None
        assert kept.status is CallStatus.COMPLETED


async def test_a_database_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "calls.db"
    with sqlite3.connect(path) as newer:
        newer.execute("PRAGMA user_version = 9999")
    newer.close()
    store = SqliteStore(path)
    with pytest.raises(ConfigError, match="newer Jackfield"):
        await store.open()
    await store.close()


async def test_a_file_that_is_no_database_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "calls.db").write_text("not a database, but long enough to be taken for one " * 100)
    store = SqliteStore(tmp_path / "calls.db")
    with pytest.raises(ConfigError, match="cannot be used"):
        await store.open()
    await store.close()


async def test_what_calls_said_can_be_read_by_the_gateways_user_only(tmp_path: Path) -> None:
    opened = SqliteStore(tmp_path / "new" / "calls.db")
    await opened.open()
    await opened.write(partial(gateway_tx.enter, "gw_a", is_shared=opened.is_shared))
    try:
        kept = [tmp_path / "new", *(tmp_path / "new").iterdir()]
        assert {path.name: path.stat().st_mode & 0o077 for path in kept} == {path.name: 0 for path in kept}
        assert (tmp_path / "new" / "calls.db-wal") in kept
    finally:
        await opened.close()


def test_migrations_are_numbered_without_gap() -> None:
    numbers = [migration.number for migration in load_migrations({})]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:///", "data/jackfield.db"),
        ("sqlite:///.jackfield/x.db", "folder/.jackfield/x.db"),
        ("sqlite:////full/x.db", "/full/x.db"),
    ],
)
def test_a_url_names_its_file(tmp_path: Path, url: str, file: str) -> None:
    store = open_store(url, folder=tmp_path / "folder", data=tmp_path / "data")
    assert isinstance(store, SqliteStore)
    assert store._path == tmp_path / file


def test_an_unknown_kind_of_store_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mongodb://x"):
        open_store("mongodb://x", folder=tmp_path, data=tmp_path)


async def test_a_page_finds_its_calls_by_an_index(store: SqliteStore) -> None:
    """No page may walk the whole table: with a million records that would be felt."""

    def plan(sql: str) -> Script[list[str]]:
        rows = yield Sql("plan", f"EXPLAIN QUERY PLAN {sql}"), {}
        return [row["detail"] for row in rows]

    for condition in ("tool = 'x'", "agent = 'x'", "run_id = 'x'", "principal = 'x'", "status = 'failed'"):
        steps = await store.read(partial(plan, f"SELECT * FROM calls WHERE {condition} ORDER BY id DESC LIMIT 20"))
        assert any("USING INDEX calls_" in step for step in steps), (condition, steps)
    assert (await store.read(partial(call_page, CallFilter(), limit=1))).calls == []


@pytest.mark.parametrize(
    "name",
    [
        "next_seq",
        "messages_after",
        "messages_before",
        "space_events_after",
        "begun_messages",
        "presence_of_run",
        "presence_of_agent",
        "presence_in_space",
        "spaces_of",
        "tell_agents",
        "members_of",
        "live_in_space",
        "prune_space_events",
        "memories_of",
        "goals_of",
        "plans_of",
        "due_plans",
        "next_plan",
        "fire_plan",
    ],
)
async def test_what_spaces_and_agents_ask_often_walks_no_table(store: SqliteStore, name: str) -> None:
    asked = store._statements[name]

    def plan() -> Script[list[str]]:
        rows = yield "plan", dict.fromkeys(asked.parameters)
        return [row["detail"] for row in rows]

    store._statements["plan"] = Statement("plan", f"EXPLAIN QUERY PLAN {asked.sql}", asked.parameters)
    steps = await store.read(plan)
    assert steps
    steps = [step for step in steps if step != "SCAN old"]
    assert [step for step in steps if step.startswith("SCAN") and "USING" not in step] == []


async def test_a_folder_that_cannot_be_made_is_said_and_where_it_was_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    store = open_store("sqlite:///taken/a.db", folder=tmp_path, data=tmp_path)
    said = r"^the\.toml: store\.url: The database a\.db cannot be used"
    with pytest.raises(ConfigError, match=said), naming("the.toml: store.url"):
        await store.open()
    await store.close()


def plain_copy(path: Path) -> Path:
    """The database file alone, as somebody copies it who does not know of its log."""
    return Path(shutil.copy(path, path.with_name("copy.db")))


async def fill(store: SqliteStore, count: int = 300) -> set[str]:
    calls = [a_call() for _ in range(count)]
    big = done("x" * 4_000)
    await asyncio.gather(
        *(
            store.write(call_tx.SettledCall(call, big, age_ms=0, duration_ms=0.1, large_result=store.large_result))
            for call in calls
        )
    )
    return {call.id for call in calls}


@requirement("STORE-log-emptied")
async def test_after_a_burst_the_log_is_emptied_and_a_plain_copy_has_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LOG_KEPT_SECONDS", 0.2)
    monkeypatch.setattr(sqlite, "IDLE_SECONDS", 0.05)
    path = tmp_path / "calls.db"
    store = SqliteStore(path)
    await store.open()
    try:
        made = await fill(store)
        assert len(await store.read(partial(call_tx.calls_among, made))) == len(
            made
        )  # readers with connections of their own
        await asyncio.to_thread(eventually, lambda: log_size(path) == 0)
        assert rows_on_disk(plain_copy(path)) == made
        made |= await fill(store, 1)
        await asyncio.to_thread(eventually, lambda: rows_on_disk(plain_copy(path)) == made)
    finally:
        await store.close()
    assert not path.with_name("calls.db-wal").exists()


@requirement("STORE-log-emptied")
async def test_a_writer_that_never_rests_empties_the_log_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LOG_KEPT_SECONDS", 3600.0)
    monkeypatch.setattr(sqlite, "LOG_KEPT_AT_MOST", 0.0)
    path = tmp_path / "calls.db"
    store = SqliteStore(path)
    await store.open()
    try:
        made = await fill(store)
        await fill(store, 1)
        assert rows_on_disk(plain_copy(path)) >= made
    finally:
        await store.close()


@requirement("STORE-log-emptied")
async def test_a_reader_in_the_way_is_waited_for_shortly_and_the_log_is_emptied_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LOG_KEPT_SECONDS", 0.05)
    monkeypatch.setattr(sqlite, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(sqlite, "CHECKPOINT_WAITS_MS", 1)
    tried: list[bool] = []
    empty = sqlite.empty_log

    def watched(connection: sqlite3.Connection) -> bool:
        tried.append(empty(connection))
        return tried[-1]

    monkeypatch.setattr(sqlite, "empty_log", watched)
    path = tmp_path / "calls.db"
    store = SqliteStore(path)
    await store.open()
    try:
        await fill(store, 10)
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM calls").fetchone()
            made = await fill(store)
            await asyncio.to_thread(eventually, lambda: False in tried)
            assert made <= rows_on_disk(path), "writes go on"
        await asyncio.to_thread(eventually, lambda: log_size(path) == 0)
    finally:
        await store.close()


def log_size(path: Path) -> int:
    return path.with_name(path.name + "-wal").stat().st_size
