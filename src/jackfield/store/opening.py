"""From a url in the config to a store. A new kind of database is one line here."""

from pathlib import Path

from jackfield.errors import ConfigError
from jackfield.store.base import Store
from jackfield.store.memory import MemoryStore
from jackfield.store.sqlite import SqliteStore

DEFAULT_FILE = "jackfield.db"


def open_store(url: str, *, folder: Path, data: Path) -> Store:
    """The store for `url`, not opened yet.

    Relative files (three slashes) start at `folder`, four slashes make
    a full path, and no file means the one in `data`.
    """
    scheme, _, rest = url.partition(":")
    if scheme == "memory":
        return MemoryStore()
    if scheme == "sqlite":
        file = rest.removeprefix("//").removeprefix("/")
        return SqliteStore(folder / file if file else data / DEFAULT_FILE)
    raise ConfigError(
        f"The store url '{url}' is not one this version knows. Use sqlite:///FILE, sqlite:/// or memory:."
    )
