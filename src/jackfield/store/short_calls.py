"""Many short calls as one INSERT, for SQLite.

Statement by statement the writer thread would ask for the interpreter's lock several times a row and wait for the event
loop each time. One statement with many rows runs outside the lock from its first row to its last.
Above: `sqlite.py`. Below: the model. Rows are the same as `insert_settled_call` writes; a test holds the two together.
"""

import sqlite3
from collections.abc import Sequence
from itertools import chain

from jackfield.model.call import Call, Done, Failed
from jackfield.store.moves import final_status, settled_copy

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
    "created_at",
    "finished_at",
    "duration_ms",
)
SIZES = (64, 16, 4, 1)
"""Rows per statement: few different ones, so that each stays prepared."""
_ONE_ROW = f"({', '.join('?' * len(COLUMNS))})"
_HEAD = f"INSERT INTO calls ({', '.join(COLUMNS)}) VALUES "  # noqa: S608 - our own column names
_STATEMENTS = {size: _HEAD + ", ".join([_ONE_ROW] * size) for size in SIZES}


class ShortCall:
    """A call that ended before it was on record."""

    __slots__ = ("_age_ms", "_call", "_duration_ms", "_outcome")

    def __init__(self, call: Call, outcome: Done | Failed, age_ms: int, duration_ms: float) -> None:
        self._call = call
        self._outcome = outcome
        self._age_ms = age_ms
        self._duration_ms = duration_ms

    def row(self, now: int) -> tuple[object, ...]:
        """Its values in the order of `COLUMNS`."""
        call, outcome = self._call, self._outcome
        failed = outcome if isinstance(outcome, Failed) else None
        return (
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
            final_status(outcome).value,
            "inline",
            None if outcome.result is None else bytes(outcome.result).decode(),
            failed and failed.code,
            failed and failed.message,
            int(call.idempotent),
            1,
            call.owner,
            call.timeout_ms,
            call.expires_in_ms,
            now - self._age_ms,
            now,
            self._duration_ms,
        )

    def settled(self, now: int) -> Call:
        """The call as its row has it."""
        return settled_copy(
            self._call, self._outcome, finished_at=now, age_ms=self._age_ms, duration_ms=self._duration_ms
        )


def insert_short_calls(connection: sqlite3.Connection, calls: Sequence[ShortCall], now: int) -> None:
    """Write them all, in as few statements as can be."""
    done = 0
    for size in SIZES:
        while len(calls) - done >= size:
            rows = (call.row(now) for call in calls[done : done + size])
            connection.execute(_STATEMENTS[size], tuple(chain.from_iterable(rows)))
            done += size
