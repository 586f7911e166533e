"""What keys preferred before an administrator's word was kept apart is still theirs after the schema's step."""

import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from jackfield.catalog.transactions import Preference, all_preferences
from jackfield.store import postgres_server as postgresql
from jackfield.store import sqlite
from jackfield.store.postgres import PostgresStore
from jackfield.store.scripts import Migration, load_migrations
from jackfield.store.sqlite import SqliteStore
from tests.postgres import PostgresServer

BEFORE = next(one.number for one in load_migrations({}) if one.name.endswith("_preferences.sql"))
ROW = """INSERT INTO preferences (principal, chat_id, scenario, tool, enabled, approval)
VALUES ('k', 'c', 's', 't', 0, 'skip')"""
KEPT = Preference(principal="k", chat_id="c", scenario="s", tool="t", enabled=False, approval="skip")


@pytest.fixture
def until_then(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Databases are made as they were before the step."""

    def earlier(words: dict[str, str]) -> list[Migration]:
        return [one for one in load_migrations(words) if one.number < BEFORE]

    for module in (sqlite, postgresql):
        monkeypatch.setattr(module, "load_migrations", earlier)
    return monkeypatch


async def test_on_sqlite(tmp_path: Path, until_then: pytest.MonkeyPatch) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as old:
        sqlite.migrate(old, "old.db")
        old.execute(ROW)
        old.commit()
    until_then.undo()
    store = SqliteStore(path)
    await store.open()
    try:
        assert await store.read(all_preferences) == [KEPT]
    finally:
        await store.close()


async def test_on_postgresql(
    postgres_server: PostgresServer, empty_database: str, until_then: pytest.MonkeyPatch
) -> None:
    url = postgres_server.url(empty_database)
    old = await asyncpg.connect(url)
    try:
        async with old.transaction():
            await postgresql.migrate(old, "old")
        await old.execute(ROW)
    finally:
        await old.close()
    until_then.undo()
    store = PostgresStore(url)
    await store.open()
    try:
        assert await store.read(all_preferences) == [KEPT]
    finally:
        await store.close()
