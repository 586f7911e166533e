"""From a url in the config to a store. A new kind of database is one line here."""

from pathlib import Path

from jackfield.errors import ConfigError
from jackfield.model.large_result import LARGE_RESULT
from jackfield.store.base import Store
from jackfield.store.memory import MemoryStore
from jackfield.store.postgres import PostgresStore
from jackfield.store.sqlite import SqliteStore

DEFAULT_FILE = "jackfield.db"


def open_store(url: str, *, folder: Path, data: Path, large_result: int = LARGE_RESULT) -> Store:
    """The store for `url`, not opened yet.

    Relative files (three slashes) start at `folder`, four slashes make
    a full path, and no file means the one in `data`. Results of more than `large_result` bytes are kept apart.
    """
    scheme, _, rest = url.partition(":")
    if scheme == "memory":
        return MemoryStore(large_result=large_result)
    if scheme == "sqlite":
        file = rest.removeprefix("//").removeprefix("/")
        return SqliteStore(folder / file if file else data / DEFAULT_FILE, large_result=large_result)
    if scheme in {"postgresql", "postgres"}:
        return PostgresStore(url, large_result=large_result)
    raise ConfigError(
        f"The store url '{_without_password(url)}' is not one this version knows. "
        "Use sqlite:///FILE, sqlite:///, postgresql://USER:PASSWORD@HOST/DATABASE or memory:."
    )


def _without_password(url: str) -> str:
    _, at, tail = url.rpartition("@")
    return f"{url.partition(':')[0]}://…@{tail}" if at else url
