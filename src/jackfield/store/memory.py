"""The twin that forgets: the same statements on SQLite's own memory, for tests and throw-away gateways.

It is not a second implementation on purpose. Every move runs the very text that runs on disk, so a test on this store
says something about the others; what it leaves out is the file, the lock and the sync.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from jackfield.protocol.large_results import LARGE_RESULT
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
