"""Many short calls as one INSERT, for SQLite.

Statement by statement the writer thread would ask for the interpreter's lock several times a row and wait for the event
loop each time. One statement with many rows runs outside the lock from its first row to its last.
Above: `sqlite.py`. Below: the model. Rows are the same as `insert_settled_call` writes; a test holds the two together.
"""

import sqlite3
from collections.abc import Sequence
from itertools import chain

from jackfield.model.call import Call, Done, Failed
from jackfield.store.moves import settled_copy
from jackfield.store.sqlite_words import WORDS

COLUMNS = (
    "id",
    "run_id",
    "tool",
    "source",
    "tool_version",
    "arguments",
    "principal",
    "agent",
    "space_id",
    "chat_id",
    "status",
    "delivery",
    "result",
    "error_code",
    "error_message",
    "idempotent",
    "attempt",
    "owner",
    "timeout_ms",
    "expires_in_ms",
    "shown",
    "duration_ms",
    "created_at",
    "finished_at",
)
MOST = 64
"""Rows in one statement at most."""
_CLOCK = WORDS["clock_ms()"]
_ONE_ROW = f"({', '.join('?' * (len(COLUMNS) - 2))}, {_CLOCK} - ?, {_CLOCK})"
_HEAD = f"INSERT INTO calls ({', '.join(COLUMNS)}) VALUES "  # noqa: S608 - our own column names
_STATEMENTS = [_HEAD + ", ".join([_ONE_ROW] * size) for size in range(MOST + 1)]
"""One for each number of rows; the connection keeps them prepared."""
_FINISHED_AT = "SELECT finished_at FROM calls WHERE id = ?"


class ShortCall:
    """A call that ended before it was on record. Made on the event loop, so that the writer has nothing to compute."""

    __slots__ = ("_age_ms", "_call", "_duration_ms", "_outcome", "values")

    def __init__(self, call: Call, outcome: Done | Failed, age_ms: int, duration_ms: float) -> None:
        self._call = call
        self._outcome = outcome
        self._age_ms = age_ms
        self._duration_ms = duration_ms
        failed = outcome if isinstance(outcome, Failed) else None
        self.values: tuple[object, ...] = (
            call.id,
            call.run_id,
            call.tool,
            call.source,
            call.tool_version,
            bytes(call.arguments).decode(),
            call.principal,
            call.agent,
            call.space_id,
            call.chat_id,
            "completed" if failed is None else "failed",
            "inline",
            None if outcome.result is None else bytes(outcome.result).decode(),
            failed and failed.code,
            failed and failed.message,
            int(call.idempotent),
            1,
            call.owner,
            call.timeout_ms,
            call.expires_in_ms,
            call.shown,
            duration_ms,
            age_ms,
        )
        """In the order of `COLUMNS`, but for the times, which are the database's."""

    def settled(self, finished_at: int) -> Call:
        """The call as its row has it."""
        return settled_copy(
            self._call, self._outcome, finished_at=finished_at, age_ms=self._age_ms, duration_ms=self._duration_ms
        )


def insert_in_one(connection: sqlite3.Connection, calls: Sequence[ShortCall]) -> int:
    """Write up to `MOST` of them; when they were finished, by the database's clock.

    Within one statement the clock stands still, so one row tells for all.
    """
    values = tuple(chain.from_iterable(call.values for call in calls))
    connection.execute(_STATEMENTS[len(calls)], values)
    return int(connection.execute(_FINISHED_AT, values[:1]).fetchone()[0])


def insert_short_calls(connection: sqlite3.Connection, calls: Sequence[ShortCall]) -> list[int]:
    """Write them all, in as few statements as can be; when each was finished."""
    finished: list[int] = []
    for first in range(0, len(calls), MOST):
        chunk = calls[first : first + MOST]
        finished += [insert_in_one(connection, chunk)] * len(chunk)
    return finished
