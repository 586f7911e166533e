"""Agents' inboxes: durable, ordered, each event once by its id.

Results of calls arrive by settling them, in the same transaction.
"""

from typing import Any

from msgspec import Raw, Struct

from jackfield.store.scripts import INBOX_TOPIC, Row, Script, one, wake


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


def push_event(agent: str, *, event_id: str, type: str, data: str) -> Script[bool]:  # noqa: A002 - the column
    """Put an event into an inbox. False: it was there already, and stays as it was."""
    row = yield from one("push_event", agent=agent, event_id=event_id, type=type, data=data)
    yield wake(INBOX_TOPIC + agent)
    return row is not None


def inbox_page(
    agent: str, *, status: str | None = None, limit: int = 100, after: int = 0
) -> Script[tuple[list[InboxEvent], int | None]]:
    """Events in the order they came, and where the next page begins."""
    values: dict[str, Any] = {"agent": agent, "after": after, "limit": limit + 1}
    if status is None:
        rows = yield "inbox_page", values
    else:
        rows = yield "inbox_page_with_status", values | {"status": status}
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
