"""The outbox, as scripts. Below: `queries.sql`."""

from typing import Any

from msgspec import Raw, Struct

from jackfield.model.event import Event
from jackfield.notify.types import Notification, NotificationStatus
from jackfield.store.scripts import Row, Script, Sql, happened, one, wake

OUTBOX_TOPIC = "outbox:"
"""With a target's name: there is something to deliver, or nobody who does."""


class OutboxDepth(Struct, frozen=True, kw_only=True):
    """What waits for one target, and what was given up."""

    waiting: int = 0
    oldest_ms: int = 0
    failed: int = 0


def put_notification(
    notification_id: str,
    *,
    target: str,
    type: str,  # noqa: A002 - the column
    data: str,
    event_key: str | None = None,
) -> Script[bool]:
    """One more for a target. False: what has this key was told before."""
    values = {"id": notification_id, "target": target, "type": type, "data": data, "event_key": event_key}
    rows = yield "insert_notification", values
    if rows:
        yield wake(OUTBOX_TOPIC + target)
    return bool(rows)


def claim_target(target: str, *, owner: str) -> Script[bool]:
    """From now on this gateway delivers to the target. False: another does."""
    return (yield from one("claim_target", target=target, owner=owner)) is not None


def release_target(target: str, *, owner: str) -> Script[None]:
    """Another gateway may deliver to the target."""
    yield "release_target", {"target": target, "owner": owner}
    yield wake(OUTBOX_TOPIC + target)


def next_notifications(target: str, *, limit: int) -> Script[tuple[list[Notification], int]]:
    """What is to be delivered to a target, in order, and the time; the first may have to wait."""
    rows = yield "next_notifications", {"target": target, "limit": limit}
    return [notification_from(row) for row in rows], int(rows[0]["now"]) if rows else 0


def note_delivered(notification_id: str, *, owner: str) -> Script[bool]:
    """The target has it. False: another gateway delivers to the target."""
    return (yield from one("note_delivered", id=notification_id, owner=owner)) is not None


def note_undelivered(
    notification_id: str, *, owner: str, error: str, is_refused: bool, pause_ms: int, give_up_ms: int
) -> Script[Notification | None]:
    """The target did not take it: later, or never. None: another gateway delivers to the target."""
    row = yield from one(
        "note_undelivered",
        id=notification_id,
        owner=owner,
        error=error,
        is_refused=int(is_refused),
        pause_ms=pause_ms,
        give_up_ms=give_up_ms,
    )
    return None if row is None else notification_from(row)


def retry(notification_id: str) -> Script[tuple[Notification | None, bool]]:
    """Deliver once more what was given up; None: there is no such thing. False: it was not given up."""
    rows = yield "retry_notification", {"id": notification_id}
    if rows:
        retried = notification_from(rows[0])
        yield wake(OUTBOX_TOPIC + retried.target)
        return retried, True
    row = yield from one("get_notification", id=notification_id)
    return (None if row is None else notification_from(row)), False


def notification_page(
    *, status: NotificationStatus | None, target: str | None, limit: int, before: int | None
) -> Script[tuple[list[Notification], int | None]]:
    """One page, the newest first, and where the next one begins."""
    given = {"target": target, "before": before}
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    conditions = ["seq < :before"] if before is not None else []
    conditions += ["target = :target"] if target is not None else []
    conditions += [f"status = '{status.value}'"] if status is not None else []  # the word itself, for its index
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    sql = f"SELECT * FROM outbox{where} ORDER BY seq DESC LIMIT :limit"  # noqa: S608 - built from our own names
    rows = yield Sql("list_notifications", sql), values | {"limit": limit + 1}
    found = [notification_from(row) for row in rows[:limit]]
    return found, found[-1].seq if len(rows) > limit else None


def outbox_depths() -> Script[dict[str, OutboxDepth]]:
    """What waits for each target, and what was given up."""
    waiting = yield "outbox_depths", {}
    failed = yield "count_failed_notifications", {}
    counts = {row["target"]: int(row["failed"]) for row in failed}
    depths = {
        row["target"]: OutboxDepth(
            waiting=int(row["waiting"]),
            oldest_ms=max(0, int(row["oldest_ms"])),
            failed=counts.pop(row["target"], 0),
        )
        for row in waiting
    }
    return depths | {target: OutboxDepth(failed=count) for target, count in counts.items()}


def source_down(event: Event, *, gateway: str) -> Script[None]:
    """A gateway finds a source down: told by the first that does."""
    values = {"source": event.source}
    told = yield "tell_source_down", values
    if not told and not (yield "hold_source_told", values):  # it came up a moment ago, as another gateway found
        told = yield "tell_source_down", values
    yield "note_source_down", values | {"gateway": gateway}
    if told:
        yield happened(event)


def source_up(event: Event, *, gateway: str) -> Script[None]:
    """A gateway finds a source up: told when no living gateway finds it down any more."""
    values = {"source": event.source}
    if not (yield "hold_source_told", values):
        return
    yield "note_source_up", values | {"gateway": gateway}
    if (yield "tell_source_up", values):
        yield happened(event)


def notification_from(row: Row) -> Notification:
    """The notification that a row of `outbox` holds."""
    return Notification(
        seq=row["seq"],
        id=row["id"],
        target=row["target"],
        type=row["type"],
        data=Raw(row["data"].encode()),
        status=NotificationStatus(row["status"]),
        attempts=row["attempts"],
        error=row["error"],
        next_at=row["next_at"],
        since=row["since"],
        created_at=row["created_at"],
        finished_at=row["finished_at"],
    )
