"""The PostgreSQL at the other end of a url: connecting, the schema, and a sentence for everything it may say.

Above: `postgres.py`. Below: asyncpg. No password ever gets into a message: urls are never quoted, only their parts.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from jackfield.errors import ConfigError, Unavailable
from jackfield.model.text import counted
from jackfield.protocol.backoff import RetryDelays
from jackfield.store.scripts import load_migrations

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = asyncpg.Connection[asyncpg.Record]
    Lent = PoolConnectionProxy[asyncpg.Record]
    Pool = asyncpg.Pool[asyncpg.Record]

WORDS = {
    # One instant within a statement, as SQLite's, and in a long batch not the batch's beginning. A statement that
    # waited for a row judges deadlines by when it was sent: a little early, so it may find nothing due, never too much.
    "clock_ms()": "CAST(floor(extract(epoch FROM statement_timestamp()) * 1000) AS BIGINT)",
    "each_of(:ids)": "SELECT jsonb_array_elements_text(CAST(:ids AS jsonb))",
}
SCHEMA_WORDS = WORDS | {
    "serial_key": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    # Ids are compared byte by byte, whatever the database's locale, and an update of libc cannot disorder an index.
    " TEXT": ' TEXT COLLATE "C"',
}
SETUP = """
SET statement_timeout = '25s'; SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '60s';
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
"""
MIGRATION_LOCK = 0x6A61636B
MIGRATION_SECONDS = 600.0
LOOK_SECONDS = 0.5
RUNNING = f"SELECT id, alive_until FROM gateways WHERE dead = 0 AND alive_until > {WORDS['clock_ms()']}"  # noqa: S608
CONNECT_SECONDS = 5.0
STATEMENT_SECONDS = 30.0
PATIENCE_SECONDS = 2.0
FIRST_PAUSE = 0.02
IDLE_SECONDS = 300.0
KEPT_STATEMENTS = 256

# What asyncpg raises when a server cannot be reached or breaks off. A timeout is an OSError too.
FAULTS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError)
# The connection cannot be used any more, whatever asyncpg thinks of it; a server that became a replica counts.
_LOST = (
    ConnectionError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.ReadOnlySQLTransactionError,
)
# Somebody else was in the way; the same may well succeed now.
PASSING = (asyncpg.TransactionRollbackError, asyncpg.InvalidCachedStatementError)
# The server's own trouble rather than a fault in what it was asked.
_SERVERS_TROUBLE = (
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.PostgresSystemError,
    asyncpg.PostgresConnectionError,
    asyncpg.LockNotAvailableError,
    asyncpg.ReadOnlySQLTransactionError,
    *PASSING,
)


class Away(Exception):
    """No connection could be had; nothing was asked."""


class Server:
    """One database on one server."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.database, self.host, self.user = _parts(url)

    async def prepare(self) -> str:
        """Bring the schema up to date; the channel for wake-ups of everybody who uses this schema."""
        try:
            connection = await self.connect()
        except (*FAULTS, ValueError) as fault:
            raise self.unusable(fault) from None
        try:
            await self._check(connection)
            async with connection.transaction(isolation="read_committed"):
                await migrate(connection, f"'{self.database}' at {self.host}")
            schema = await connection.fetchval("SELECT current_schema()::regnamespace::oid")
        except FAULTS as fault:
            raise self.unusable(fault) from None
        finally:
            await connection.close(timeout=CONNECT_SECONDS)
        return f"jackfield_{schema}"

    async def connect(self) -> "Connection":
        connection: Connection = await asyncpg.connect(self._url, **_HOW)
        try:
            await connection.execute(SETUP)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def pool(self, size: int) -> "Pool":
        """Up to `size` connections, made when they are needed and dropped when they are not."""
        return await asyncpg.create_pool(
            self._url,
            min_size=0,
            max_size=size,
            max_inactive_connection_lifetime=IDLE_SECONDS,
            init=_set_up,
            reset=_leave_as_it_is,
            **_HOW,
        )

    @asynccontextmanager
    async def lend(self, pool: "Pool") -> "AsyncIterator[Lent]":
        """A connection. A server that is just restarting is waited for a little, then `Away`."""
        connection = await self._acquire(pool)
        try:
            yield connection
        finally:
            await pool.release(connection)

    async def _acquire(self, pool: "Pool") -> "Lent":
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_SECONDS
        delays = RetryDelays(first=FIRST_PAUSE, longest=PATIENCE_SECONDS)
        while True:
            pause = delays.next()
            try:
                return await pool.acquire(timeout=CONNECT_SECONDS)
            except FAULTS as fault:
                if isinstance(fault, TimeoutError) or loop.time() + pause > deadline:
                    raise Away(f"{type(fault).__name__}: {fault}") from fault
            await asyncio.sleep(pause)

    def away(self) -> Unavailable:
        return Unavailable(
            f"The database at {self.host} cannot be reached. Nothing was changed. Try again in a moment."
        )

    async def _check(self, connection: "Connection") -> None:
        encoding, schema = await connection.fetchrow("SELECT current_setting('server_encoding'), current_schema()")  # type: ignore[misc]
        if encoding != "UTF8":
            raise ConfigError(
                f"The database '{self.database}' at {self.host} keeps its text as {encoding}, which cannot hold every "
                "character. Create one with ENCODING 'UTF8' and name it in [store] url."
            )
        if schema is None:
            raise ConfigError(
                f"The search_path of user '{self.user}' names no schema that exists in the database '{self.database}'. "
                "Create the schema, or name another in [store] url: …?search_path=NAME."
            )

    def unusable(self, fault: Exception) -> ConfigError:
        where = f"at {self.host}"
        match fault:
            case asyncpg.InvalidCatalogNameError():
                told = f"There is no database '{self.database}' {where}. Create it (createdb {self.database})"
            case asyncpg.InvalidAuthorizationSpecificationError():
                told = (
                    f"PostgreSQL {where} does not let user '{self.user}' in: {_words(fault)}. Check user and password"
                )
            case asyncpg.InsufficientPrivilegeError():
                told = (
                    f"User '{self.user}' may not use the database '{self.database}' {where}: {_words(fault)}. "
                    "Make it the owner of the database or of its schema"
                )
            case asyncpg.DuplicateTableError() | asyncpg.DuplicateObjectError():
                told = (
                    f"The database '{self.database}' {where} is somebody else's: {_words(fault)}. "
                    "Give Jackfield a database of its own"
                )
            case asyncpg.PostgresError():
                told = f"The database '{self.database}' {where} cannot be used: {_words(fault)}. Look into its log"
            case TimeoutError():
                told = f"PostgreSQL {where} did not answer in time. Check that it runs and that no firewall is between"
            case OSError():
                told = f"PostgreSQL {where} cannot be reached: {_reason(fault)}. Check that it runs and listens there"
            case _:
                return ConfigError(UNREADABLE)
        return ConfigError(f"{told}, or set another [store] url.")


UNREADABLE = (
    "The store url cannot be read. Write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, and in user and password "
    "every special character as % and its code (@ is %40, / is %2F, # is %23)."
)
_HOW: dict[str, Any] = {
    "timeout": CONNECT_SECONDS,
    "command_timeout": STATEMENT_SECONDS,
    "statement_cache_size": KEPT_STATEMENTS,
    "max_cached_statement_lifetime": 0,
    "server_settings": {"application_name": "jackfield"},
}


def is_lost(fault: Exception, connection: "Lent") -> bool:
    """Whether the connection is gone, and with it whatever it had not committed."""
    try:
        return isinstance(fault, _LOST) or connection.is_closed()
    except asyncpg.InterfaceError:  # the pool has taken it back already, as it does when the other end hangs up
        return True


def told(fault: Exception) -> Exception:
    """What the caller of a failed script is raised: the server's troubles are ours to say, a script's own stay."""
    if isinstance(fault, TimeoutError):
        return Unavailable(f"The database did not answer within {STATEMENT_SECONDS:g} s. Nothing was changed.")
    if isinstance(fault, _SERVERS_TROUBLE):
        return Unavailable(f"The database could not do it: {_words(fault)}. Nothing was changed.")
    return fault


async def migrate(connection: "Connection", name: str) -> None:
    """Bring the schema to the newest number. Of several gateways that start at once, one does it, the others wait."""
    await connection.execute("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")
    await connection.execute(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})", timeout=MIGRATION_SECONDS)
    if await connection.fetchval("SELECT to_regclass('schema_version')") is None:
        await connection.execute("CREATE TABLE schema_version (number BIGINT PRIMARY KEY, name TEXT NOT NULL)")
    present = await connection.fetchval("SELECT COALESCE(max(number), 0) FROM schema_version")
    migrations = load_migrations(SCHEMA_WORDS)
    if present > migrations[-1].number:
        raise ConfigError(
            f"The database {name} belongs to a newer Jackfield (schema {present}, this one knows "
            f"{migrations[-1].number}). Install that one, or name another database in [store] url."
        )
    if 0 < present < migrations[-1].number:
        await _wait_for_older(connection, name, f"(schema {present}, this one needs {migrations[-1].number})")
    for migration in migrations:
        if migration.number > present:
            await connection.execute(migration.sql, timeout=MIGRATION_SECONDS)
            row = (migration.number, migration.name)
            await connection.execute("INSERT INTO schema_version (number, name) VALUES ($1, $2)", *row)


async def _wait_for_older(connection: "Connection", name: str, numbers: str) -> None:
    """See to it that no older gateway runs on the schema that is about to change.

    One that was killed counts as running until its lease is over, which is waited for; one that beats does run.
    """
    running = first = await _running(connection)
    while running:
        if not running.items() <= first.items():
            raise ConfigError(
                f"The database {name} is in use by {counted(len(running), 'gateway')} of an older Jackfield "
                f"{numbers}. Nothing was changed. Stop the older ones first, then start this one; calls that wait are "
                "kept."
            )
        await asyncio.sleep(LOOK_SECONDS)
        running = await _running(connection)


async def _running(connection: "Connection") -> dict[str, int]:
    """The gateways whose lease is not over, and when it will be."""
    return {row["id"]: row["alive_until"] for row in await connection.fetch(RUNNING)}


async def _set_up(connection: "Connection") -> None:
    await connection.execute(SETUP)


async def _leave_as_it_is(_connection: "Connection") -> None:
    """Nothing we do leaves a trace in a session, so returning a connection needs no round trip."""


def _parts(url: str) -> tuple[str, str, str]:
    """Database, host and user as messages name them. Where the url is silent, PG* variables or libpq's habits speak."""
    try:
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        host = parts.hostname or query.get("host", ["this machine"])[0]
        port = parts.port or query.get("port", [""])[0]
    except ValueError:
        raise ConfigError(UNREADABLE) from None
    user = unquote(parts.username or query.get("user", ["(unnamed)"])[0])
    return unquote(parts.path.strip("/")) or user, f"{host}:{port}" if port else host, user


def _words(fault: Exception) -> str:
    return str(fault).strip().rstrip(".")


def _reason(fault: OSError) -> str:
    return (fault.strerror or str(fault)).strip().rstrip(".") or type(fault).__name__
