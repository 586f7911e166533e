"""Gateways' stores on one PostgreSQL, and somebody who looks at it from outside."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import asyncpg
import pytest

from jackfield.store import gateways as gateway_tx
from jackfield.store.postgres import PostgresStore
from tests.waiting import eventually_async

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    async with opened(postgres_url) as one:
        await one.write(partial(gateway_tx.enter, "gw_a", is_shared=one.is_shared))
        yield one


@pytest.fixture
async def other(store: PostgresStore, postgres_url: str) -> AsyncIterator[PostgresStore]:
    """The store of a second gateway on the same database."""
    async with opened(postgres_url) as one:
        await one.write(partial(gateway_tx.enter, "gw_b", is_shared=one.is_shared))
        yield one


@pytest.fixture
async def outside(postgres_url: str) -> "AsyncIterator[Connection]":
    """Somebody who looks at the database from outside."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def writers_held(outside: "Connection") -> AsyncIterator[None]:
    """Nothing can be written, so that what comes meanwhile ends up in one batch behind those that wait."""
    async with outside.transaction():
        await outside.execute("LOCK TABLE calls IN ACCESS EXCLUSIVE MODE")
        yield


async def kept_ids(outside: "Connection") -> set[str]:
    """What another process would see: committed rows only."""
    return {row["id"] for row in await outside.fetch("SELECT id FROM calls")}


async def until_waiting(outside: "Connection", *, count: int = 1) -> list[int]:
    """The processes of the server that wait for a lock, once there are that many."""
    query = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"

    async def waiting() -> list[int] | None:
        await outside.execute("SELECT pg_stat_clear_snapshot()")
        found = await outside.fetch(query)
        return [row["pid"] for row in found] if len(found) >= count else None

    return await eventually_async(waiting)


async def listening_pids(outside: "Connection") -> set[int]:
    query = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN %' OR query LIKE 'SELECT pg_notify%'"
    return {row["pid"] for row in await outside.fetch(query)}


async def deadlocks(outside: "Connection", *, of: list[PostgresStore]) -> int:
    """How many there were in this database. The stores are closed: a connection tells its own at the latest then."""
    await asyncio.gather(*(store.close() for store in of))
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

    async def alone() -> bool:
        return not await outside.fetchval(others)

    await eventually_async(alone)
    count: int = await outside.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return count
