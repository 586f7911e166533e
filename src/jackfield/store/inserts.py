"""Many inserts as one statement, for SQLite.

Statement by statement the writer thread would ask for the interpreter's lock several times a row and wait for the event
loop each time. One statement with many rows runs outside the lock from its first row to its last.
Above: `sqlite.py`. Rows are the same as the script would write; a test holds the two together.
"""

import sqlite3
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any

from jackfield.store.scripts import InsertScript

WORDS = {
    # julianday is good to 0.05 ms, needs no Python callback, and is one instant within a statement.
    "clock_ms()": "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)",
    " FOR UPDATE SKIP LOCKED": "",
    " FOR UPDATE": "",
    "each_of(:ids)": "SELECT value FROM json_each(:ids)",
    "serial_key": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "DOUBLE PRECISION": "REAL",
    "BYTEA": "BLOB",
}

MOST = 64
"""Rows in one statement at most."""
Kind = type[InsertScript[Any]]
Values = tuple[object, ...]


@cache
def _statements(kind: Kind, clock: str) -> tuple[list[str], str]:
    """An INSERT for each number of rows, and what asks when one was finished; the connection keeps them prepared.

    One row is answered at once. Many are not: their answers would be fetched under the interpreter's lock.
    """
    row = f"({', '.join('?' * (len(kind.columns) - 2))}, {clock} - ?, {clock})"
    head = f"INSERT INTO {kind.table} ({', '.join(kind.columns)}) VALUES "  # noqa: S608 - our own column names
    finished = f"SELECT finished_at FROM {kind.table} WHERE id = ?"  # noqa: S608 - as above
    inserts = [head + ", ".join([row] * size) for size in range(MOST + 1)]
    inserts[1] += " RETURNING finished_at"
    return inserts, finished


def insert_together(connection: sqlite3.Connection, kind: Kind, rows: Sequence[Values]) -> int:
    """Write up to `MOST` rows; when they were finished, by the database's clock.

    Within one statement the clock stands still, so one row tells for all.
    """
    statements, finished = _statements(kind, WORDS["clock_ms()"])
    values = tuple(chain.from_iterable(rows))
    written = connection.execute(statements[len(rows)], values).fetchall()
    if written:
        return int(written[0][0])
    return int(connection.execute(finished, values[:1]).fetchone()[0])


def insert_all(connection: sqlite3.Connection, kind: Kind, rows: Sequence[Values]) -> list[int]:
    """Write them all, in as few statements as can be; when each was finished."""
    finished: list[int] = []
    for first in range(0, len(rows), MOST):
        chunk = rows[first : first + MOST]
        finished += [insert_together(connection, kind, chunk)] * len(chunk)
    return finished
