"""Agents' inboxes: durable, ordered, each event once by its id."""

from functools import partial
from typing import Any

from msgspec import Raw, Struct

from jackfield.store import moves
from jackfield.store.access import Read, Write
from jackfield.store.moves import INBOX_TOPIC
from jackfield.store.rows import Row
from jackfield.store.statements import make_statement


class InboxEvent(Struct, frozen=True, kw_only=True):
    """Something that an agent should know when it wakes."""

    seq: int
    event_id: str
    agent: str
    type: str
    """`tool_result`, `cycle_failed`, `space_message`, `plan` or `service`."""
    status: str
    """`pending`, `processing` or `processed`."""
    data: Raw
    created_at: int


class Inbox:
    """The inbox part of a store. Results of calls arrive by settling them, in the same transaction."""

    def __init__(self, write: Write, read: Read, *, placeholder: str) -> None:
        self._write = write
        self._read = read
        self._placeholder = placeholder

    async def push(self, agent: str, *, event_id: str, type: str, data: str) -> bool:  # noqa: A002 - the column
        """Put an event into an inbox. False: it was there already, and stays as it was."""
        values = {"agent": agent, "event_id": event_id, "type": type, "data": data}
        row = await self._write(partial(moves.one, "push_event", **values), wakes=INBOX_TOPIC + agent)
        return row is not None

    async def page(
        self, agent: str, *, status: str | None = None, limit: int = 100, after: int = 0
    ) -> tuple[list[InboxEvent], int | None]:
        """Events in the order they came, and where the next page begins."""
        values: dict[str, Any] = {"agent": agent, "after": after, "limit": limit + 1}
        condition = ""
        if status is not None:
            condition = " AND status = :status"
            values["status"] = status
        sql = f"SELECT * FROM inbox WHERE agent = :agent AND seq > :after{condition} ORDER BY seq LIMIT :limit"  # noqa: S608 - our own words
        statement = make_statement("inbox_page", sql, self._placeholder)
        rows = await self._read(partial(moves.run, statement, **values))
        events = [event_from(row) for row in rows[:limit]]
        return events, events[-1].seq if len(rows) > limit else None


def event_from(row: Row) -> InboxEvent:
    """The event that a row of `inbox` holds."""
    return InboxEvent(
        seq=row["seq"],
        event_id=row["event_id"],
        agent=row["agent"],
        type=row["type"],
        status=row["status"],
        data=Raw(row["data"].encode()),
        created_at=row["created_at"],
    )
