import asyncio
import logging
import os
import signal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import msgspec
import pytest

from jackfield.calls import transactions as call_tx
from jackfield.calls.transactions import Started
from jackfield.errors import ConfigError, Unavailable
from jackfield.model.call import done
from jackfield.store import gateways as gateway_tx
from jackfield.store import open_store, postgres_batches
from jackfield.store import postgres_server as reaching
from jackfield.store.postgres import PostgresStore
from jackfield.store.postgres_server import WORDS
from jackfield.store.scripts import load_migrations, load_statements
from tests.postgres import PASSWORD, PostgresServer
from tests.requirement import requirement
from tests.store.calls import a_call, a_waiting_call, decoded
from tests.store.shared_postgres import kept_ids, opened, until_waiting, writers_held
from tests.waiting import TIMEOUT, Stopwatch

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


@pytest.mark.parametrize("how", ["in order", "by a crash"])
async def test_after_a_restart_of_the_server_everything_works_again(
    store: PostgresStore, other: PostgresStore, postgres_server: PostgresServer, how: str
) -> None:
    call = a_waiting_call()
    await store.write(partial(call_tx.start_call, call))
    assert await other.read(partial(call_tx.get_call, call.id)) is not None
    with other.bus.listen("call_of_nobody") as anything, other.bus.listen(call.id) as written:
        postgres_server.stop(at_once=how == "by a crash")
        postgres_server.start()
        watch = Stopwatch()
        assert (
            await store.write(
                partial(call_tx.settle_submitted, call.id, done("after"), large_result=store.large_result)
            )
        ).moved
        kept = await other.read(partial(call_tx.get_call, call.id))
        assert kept is not None
        assert decoded(kept.result) == "after"
        async with asyncio.timeout(TIMEOUT):
            await anything.wait()
            await written.wait()
        assert watch.seconds() < 3


async def test_while_the_server_is_away_writes_and_reads_are_refused_soon(
    store: PostgresStore, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaching, "PATIENCE_SECONDS", 0.3)
    call = a_call()
    await store.write(partial(call_tx.start_call, a_call()))
    postgres_server.stop()
    try:
        watch = Stopwatch()
        refused = await asyncio.gather(
            *(store.write(partial(call_tx.start_call, one)) for one in [call, *(a_call() for _ in range(700))]),
            store.read(partial(call_tx.get_call, call.id)),
            return_exceptions=True,
        )
        assert {type(answer) for answer in refused} == {Unavailable}
        assert "Nothing was changed" in str(refused[0])
        assert watch.seconds() < 5
    finally:
        postgres_server.start()
    assert await store.read(partial(call_tx.get_call, call.id)) is None
    assert (await store.write(partial(call_tx.start_call, call))).fresh


async def test_a_server_that_does_not_answer_is_not_waited_for_without_end(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(reaching._HOW, "command_timeout", 0.3)
    monkeypatch.setattr(postgres_batches, "ROLLBACK_SECONDS", 0.3)
    async with opened(postgres_url) as store:
        call = a_call()
        await store.write(partial(call_tx.start_call, a_call()))
        assert store._writers is not None
        async with store._server.lend(store._writers) as connection:
            stopped = connection.get_server_pid()
        os.kill(stopped, signal.SIGSTOP)
        try:
            with pytest.raises(Unavailable, match="Nothing was changed"):
                async with asyncio.timeout(5):
                    await store.write(partial(call_tx.start_call, call))
            assert (await store.write(partial(call_tx.start_call, call))).fresh
        finally:
            os.kill(stopped, signal.SIGCONT)


async def test_a_server_that_became_a_replica_is_left_for_the_next(
    store: PostgresStore, postgres_server: PostgresServer, outside: "Connection"
) -> None:
    await store.write(partial(call_tx.start_call, a_call()))
    postgres_server.run("ALTER DATABASE swept SET default_transaction_read_only = on")
    await outside.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    try:
        with pytest.raises(Unavailable, match="Nothing was changed"):
            await store.write(partial(call_tx.start_call, a_call()))
    finally:
        postgres_server.run("SET default_transaction_read_only = off; ALTER DATABASE swept RESET ALL")
    assert (await store.write(partial(call_tx.start_call, a_call()))).fresh


async def test_a_connection_lost_before_the_commit_writes_once_on_another(
    store: PostgresStore, outside: "Connection"
) -> None:
    calls = [a_call() for _ in range(20)]
    async with writers_held(outside):
        writes = [store.write(partial(call_tx.start_call, call)) for call in calls]
        for pid in await until_waiting(outside):
            await outside.execute("SELECT pg_terminate_backend($1)", pid)
    assert all(started.fresh for started in await asyncio.gather(*writes))
    assert await kept_ids(outside) == {call.id for call in calls}


async def test_a_read_that_loses_its_connection_is_asked_again(store: PostgresStore, outside: "Connection") -> None:
    call = a_call()
    await store.write(partial(call_tx.start_call, call))
    async with writers_held(outside):
        read = asyncio.ensure_future(store.read(partial(call_tx.get_call, call.id)))
        for pid in await until_waiting(outside):
            await outside.execute("SELECT pg_terminate_backend($1)", pid)
    kept = await read
    assert kept is not None
    assert kept.id == call.id


async def test_a_commit_that_the_server_refuses_is_known_to_have_failed(
    postgres_server: PostgresServer, empty_database: str
) -> None:
    refuses = """
    CREATE FUNCTION refuses() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
    CREATE CONSTRAINT TRIGGER refuses_at_commit AFTER INSERT ON calls DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.tool = 'bad') EXECUTE FUNCTION refuses()
    """
    async with opened(postgres_server.url(empty_database)) as store:
        postgres_server.run(refuses, database=empty_database)
        results = await asyncio.gather(
            *(store.write(partial(call_tx.start_call, a_call(tool=tool))) for tool in ("good", "bad", "good")),
            return_exceptions=True,
        )
    assert isinstance(results[1], asyncpg.RaiseError)
    assert [isinstance(result, Started) for result in results] == [True, False, True]


async def test_when_the_answer_to_a_commit_is_lost_the_caller_is_told_that_nobody_knows(
    postgres_server: PostgresServer, empty_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    dies = """
    CREATE FUNCTION dies() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER dies_at_commit AFTER INSERT ON calls DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.tool = 'fatal') EXECUTE FUNCTION dies()
    """
    async with opened(postgres_server.url(empty_database)) as store:
        postgres_server.run(dies, database=empty_database)
        call = a_call(tool="fatal")
        with caplog.at_level(logging.CRITICAL), pytest.raises(Unavailable, match="not known whether it was written"):
            await store.write(partial(call_tx.start_call, call))
        assert await store.read(partial(call_tx.get_call, call.id)) is None
        assert (await store.write(partial(call_tx.start_call, a_call()))).fresh


async def test_gateways_that_start_at_once_make_the_schema_once(
    postgres_server: PostgresServer, empty_database: str
) -> None:
    stores = [PostgresStore(postgres_server.url(empty_database)) for _ in range(5)]
    await asyncio.gather(*(store.open() for store in stores))
    await asyncio.gather(
        *(
            store.write(partial(gateway_tx.enter, f"gw_{number}", is_shared=store.is_shared))
            for number, store in enumerate(stores)
        )
    )
    assert all(await asyncio.gather(*(store.write(partial(gateway_tx.beat, "gw_0")) for store in stores)))
    await asyncio.gather(*(store.close() for store in stores))
    numbers = postgres_server.run("SELECT number FROM schema_version ORDER BY number", database=empty_database)
    assert [int(number) for number in numbers.split()] == list(range(1, len(numbers.split()) + 1))


async def test_a_database_of_a_newer_version_is_left_alone(
    postgres_server: PostgresServer, empty_database: str
) -> None:
    newer = "CREATE TABLE schema_version (number BIGINT, name TEXT); INSERT INTO schema_version VALUES (9999, 'x')"
    postgres_server.run(newer, database=empty_database)
    with pytest.raises(ConfigError, match="newer Jackfield"):
        await PostgresStore(postgres_server.url(empty_database)).open()
    assert postgres_server.run("SELECT to_regclass('calls') IS NULL", database=empty_database) == "t"


def one_more_migration(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on stores are of a version whose schema has a table more."""
    ours = load_migrations(reaching.SCHEMA_WORDS)
    more = msgspec.structs.replace(
        ours[-1], number=ours[-1].number + 1, name="more", sql="CREATE TABLE more (id BIGINT)"
    )
    monkeypatch.setattr(reaching, "load_migrations", lambda _words: (*ours, more))


@requirement("OPS-rolling-upgrade")
async def test_a_newer_version_changes_nothing_while_an_older_gateway_runs(
    postgres_server: PostgresServer, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres_server.url(empty_database)
    async with opened(url) as older:
        await older.write(partial(gateway_tx.enter, "gw_old", is_shared=older.is_shared))
        one_more_migration(monkeypatch)
        newer = asyncio.create_task(PostgresStore(url).open())
        while not newer.done():
            assert await older.write(partial(gateway_tx.beat, "gw_old"))
            await asyncio.wait([newer], timeout=0.05)
        with pytest.raises(ConfigError, match=r"in use by 1 gateway of an older Jackfield.*Nothing was changed"):
            await newer
        assert postgres_server.run("SELECT to_regclass('more') IS NULL", database=empty_database) == "t"
        assert (await older.write(partial(call_tx.start_call, a_call()))).fresh

        await older.write(partial(gateway_tx.leave, "gw_old"))
        async with opened(url):
            assert postgres_server.run("SELECT to_regclass('more') IS NULL", database=empty_database) == "f"


@requirement("OPS-rolling-upgrade")
async def test_a_newer_version_waits_until_the_lease_of_a_killed_gateway_is_over(
    postgres_server: PostgresServer, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres_server.url(empty_database)
    async with opened(url) as older:
        await older.write(partial(gateway_tx.enter, "gw_killed", is_shared=older.is_shared))
    one_more_migration(monkeypatch)
    lease = "extract(epoch FROM clock_timestamp()) * 1000 + 700"
    postgres_server.run(f"UPDATE gateways SET alive_until = {lease}", database=empty_database)
    async with opened(url):
        over = "SELECT bool_and(alive_until < extract(epoch FROM clock_timestamp()) * 1000) FROM gateways"
        assert postgres_server.run(over, database=empty_database) == "t"
        assert postgres_server.run("SELECT to_regclass('more') IS NULL", database=empty_database) == "f"


async def test_a_schema_named_in_the_url_is_used_and_has_its_own_wake_ups(
    postgres_server: PostgresServer, empty_database: str
) -> None:
    postgres_server.run("CREATE SCHEMA blue", "CREATE SCHEMA green", database=empty_database)
    url = postgres_server.url(empty_database)
    async with opened(f"{url}&search_path=blue") as blue, opened(f"{url}&search_path=green") as green:
        call = a_call()
        await blue.write(partial(call_tx.start_call, call))
        assert await green.read(partial(call_tx.get_call, call.id)) is None
        assert blue._listener._channel != green._listener._channel


async def refusal(url: str) -> str:
    """What the operator reads when a store does not open."""
    store = PostgresStore(url)
    with pytest.raises(ConfigError) as told:
        await store.open()
    await store.close()
    assert PASSWORD not in str(told.value)
    assert "sesame" not in str(told.value)
    return str(told.value)


async def test_what_stops_a_start_is_said_with_its_cure_and_without_the_password(
    postgres_server: PostgresServer, empty_database: str
) -> None:
    port = postgres_server.port
    wrong = await refusal(postgres_server.tcp_url(password="sesame, open"))
    assert wrong.startswith(f"PostgreSQL at 127.0.0.1:{port} does not let user 'jackfield' in: password")
    missing = await refusal(postgres_server.tcp_url("nowhere"))
    assert missing.startswith(f"There is no database 'nowhere' at 127.0.0.1:{port}. Create it (createdb nowhere)")
    nobody_there = await refusal("postgresql://jackfield:open%20sesame@127.0.0.1:1/jackfield")
    assert nobody_there.startswith("PostgreSQL at 127.0.0.1:1 cannot be reached: Connect call failed")
    assert nobody_there.endswith("Check that it runs and listens there, or set another [store] url.")
    postgres_server.run("CREATE TABLE calls (what TEXT)", database=empty_database)
    taken = await refusal(postgres_server.url(empty_database))
    assert 'is somebody else\'s: relation "calls" already exists' in taken
    no_schema = await refusal(f"{postgres_server.url(empty_database)}&search_path=nowhere")
    assert "names no schema that exists" in no_schema


async def test_a_role_that_may_not_make_tables_is_told_so(postgres_server: PostgresServer, empty_database: str) -> None:
    postgres_server.run("CREATE ROLE guest LOGIN", database=empty_database)
    try:
        told = await refusal(postgres_server.url(empty_database).replace("jackfield@", "guest@"))
        assert told.startswith(f"User 'guest' may not use the database '{empty_database}'")
    finally:
        postgres_server.run("DROP ROLE guest")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://jackfield:open/sesame@127.0.0.1:5432/x",
        "postgresql://jackfield:open[sesame@127.0.0.1/x",
        "postgresql://jackfield:open@127.0.0.1:sesame/x",
    ],
)
async def test_an_unreadable_url_is_said_without_quoting_it(url: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read") as told:
        await PostgresStore(url).open()
    assert "sesame" not in str(told.value)
    assert "%40" in str(told.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_url_is_all_it_takes(tmp_path: Path, scheme: str) -> None:
    store = open_store(f"{scheme}://ops@db.example/jackfield", folder=tmp_path, data=tmp_path)
    assert isinstance(store, PostgresStore)
    assert (store._server.user, store._server.host, store._server.database) == ("ops", "db.example", "jackfield")


def test_an_unknown_kind_of_store_does_not_show_its_password(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'mysql://…@db/x' is not one") as told:
        open_store("mysql://ops:sesame@db/x", folder=tmp_path, data=tmp_path)
    assert "sesame" not in str(told.value)


async def test_every_statement_is_understood(store: PostgresStore, outside: "Connection") -> None:
    refused = {}
    for name, statement in load_statements(WORDS, "$").items():
        try:
            await outside.prepare(statement.sql)
        except asyncpg.PostgresError as fault:
            refused[name] = str(fault)
    assert refused == {}
