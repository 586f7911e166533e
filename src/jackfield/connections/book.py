"""Who is connected where, in memory at every gateway, so that no call asks the database. Tokens are not in it.

Above: `connections.py`. Below: rows of the store, each read again when a gateway has written it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from jackfield.connections import transactions as tx
from jackfield.connections.transactions import CONNECTION_TOPIC
from jackfield.connections.types import Connection
from jackfield.protocol.backoff import RetryDelays
from jackfield.store import Store

log = logging.getLogger("jackfield")

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
Changed = Callable[[Connection], None]
"""Told of a login that was made or has ended; not of one that was refreshed."""


class ConnectionBook:
    """Every connection, by its id."""

    def __init__(self, store: Store, *, on_change: Changed) -> None:
        self._store = store
        self._on_change = on_change
        self._known: dict[str, Connection] = {}
        self._written: set[str] = set()
        self._reads_all = False
        self._wake = asyncio.Event()

    def get(self, name: str) -> Connection | None:
        return self._known.get(name)

    @property
    def all(self) -> list[Connection]:
        return [self._known[name] for name in sorted(self._known)]

    def take(self, connection: Connection) -> None:
        """It is so from now on."""
        before = self._known.get(connection.id)
        if before is not None and before.updated_at > connection.updated_at:
            return
        self._known[connection.id] = connection
        if _login_of(before) != _login_of(connection):
            self._on_change(connection)

    def drop(self, name: str) -> None:
        """It is gone."""
        before = self._known.pop(name, None)
        if before is not None and before.is_connected:
            self._on_change(before)

    async def reload(self) -> None:
        """Read all of them anew."""
        rows = await self._store.read(tx.all_connections)
        self._replace(set(self._known), rows)

    async def _read(self, names: set[str]) -> None:
        self._replace(names, await self._store.read(partial(tx.connections_by_id, sorted(names))))

    def _replace(self, asked: set[str], rows: Iterable[Connection]) -> None:
        found = {row.id: row for row in rows}
        for name in asked - found.keys():
            self.drop(name)
        for row in found.values():
            self.take(row)

    async def follow(self) -> None:
        """Read whatever a gateway of this store has written; a store that fails is asked again."""
        self._store.bus.watch(CONNECTION_TOPIC, self._hear)
        self._store.bus.on_foreign(self._hear_foreign)
        self._reads_all = True  # what was written before this gateway listened
        self._wake.set()
        delays = RetryDelays(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        while True:
            await self._wake.wait()
            self._wake.clear()
            names, self._written = self._written, set()
            reads_all, self._reads_all = self._reads_all, False
            try:
                await (self.reload() if reads_all else self._read(names))
                delays.reset()
            except Exception:
                log.exception("the connections could not be read; it is tried again")
                await asyncio.sleep(delays.next())
                self._reads_all = True
                self._wake.set()

    def _hear(self, topic: str) -> None:
        self._written.add(topic.removeprefix(CONNECTION_TOPIC))
        self._wake.set()

    def _hear_foreign(self, topics: Sequence[str] | None) -> None:
        if topics is None:  # some were lost
            self._reads_all = True
            self._wake.set()


def _login_of(connection: Connection | None) -> tuple[bool, int]:
    """Differs between two logins, and between one and none; a refresh changes nothing."""
    if connection is None or not connection.is_connected:
        return False, 0
    return True, connection.created_at
