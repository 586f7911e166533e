"""From a url in the config to a store. A new kind of database is one line here."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from jackfield.errors import ConfigError
from jackfield.protocol.large_results import LARGE_RESULT
from jackfield.store.base import Store
from jackfield.store.postgres import PostgresStore
from jackfield.store.scripts import Script
from jackfield.store.sqlite import SqliteStore, migrate

T = TypeVar("T")


class MemoryStore(SqliteStore):
    """Gone when it is closed."""

    def __init__(self, *, large_result: int = LARGE_RESULT) -> None:
        super().__init__(Path(":memory:"), large_result=large_result)

    def _prepare(self) -> sqlite3.Connection:
        connection = self._connect()
        migrate(connection, "in memory")
        return connection

    async def read(self, script: Callable[[], Script[T]]) -> T:
        # A memory database belongs to its one connection, so reads take their turn among the writes.
        return await self.write(script)


DEFAULT_FILE = "jackfield.db"


def open_store(url: str, *, folder: Path, data: Path, large_result: int = LARGE_RESULT) -> Store:
    """The store for `url`, not opened yet.

    Relative files (three slashes) start at `folder`, four slashes make
    a full path, and no file means the one in `data`. Results of more than `large_result` bytes are kept apart.
    """
    scheme = url.partition(":")[0]
    if scheme == "memory":
        return MemoryStore(large_result=large_result)
    if scheme == "sqlite":
        return SqliteStore(_sqlite_file(url, folder=folder, data=data), large_result=large_result)
    if scheme in {"postgresql", "postgres"}:
        return PostgresStore(url, large_result=large_result)
    raise ConfigError(
        f"The store url '{_without_password(url)}' is not one this version knows. "
        "Use sqlite:///FILE, sqlite:///, postgresql://USER:PASSWORD@HOST/DATABASE or memory:."
    )


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Say in a `ConfigError` about the store where its url was given, if it was."""
    try:
        yield
    except ConfigError as fault:
        raise ConfigError(f"{where}: {fault.message}" if where else fault.message) from None


def database_files(url: str, *, folder: Path, data: Path) -> tuple[Path, ...]:
    """The files on this machine that hold what the store keeps; none where a server does."""
    if not url.startswith("sqlite:"):
        return ()
    file = _sqlite_file(url, folder=folder, data=data)
    return (file, *(file.with_name(file.name + end) for end in ("-wal", "-shm")))


def _sqlite_file(url: str, *, folder: Path, data: Path) -> Path:
    file = url.partition(":")[2].removeprefix("//").removeprefix("/")
    return folder / file if file else data / DEFAULT_FILE


def _without_password(url: str) -> str:
    _, at, tail = url.rpartition("@")
    return f"{url.partition(':')[0]}://…@{tail}" if at else url
