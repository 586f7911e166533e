"""A notification on its way to a target, and a target."""

from enum import Enum
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Raw, Struct

from jackfield.model.event import Event
from jackfield.settings.notify import Globs, NotifySettings

TEST_TYPE = "notification.test"
"""What is sent to see whether a target can be reached; no event."""


class NotificationStatus(Enum):
    """Where a notification stands."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class Notification(Struct, frozen=True, kw_only=True):
    """One event for one target. Times are milliseconds since 1970, by the database's clock."""

    seq: int
    id: str
    """The `webhook-id`, the same for every attempt."""
    target: str
    type: str
    data: Raw
    status: NotificationStatus
    attempts: int
    error: str | None
    next_at: int
    since: int
    created_at: int
    finished_at: int | None


class Message(Struct, frozen=True, kw_only=True):
    """What is sent: a notification, with the links that it carries."""

    id: str
    type: str
    at: int
    data: dict[str, Any]


class Target(Struct, frozen=True):
    """`[notify.NAME]`."""

    name: str
    settings: NotifySettings

    def wants(self, event: Event) -> bool:
        where = self.settings.where
        return event.type in self.settings.on and all(
            _fits(globs, value)
            for globs, value in ((where.tool, event.tool), (where.source, event.source), (where.agent, event.agent))
        )


class Undelivered(Exception):
    """A target did not take a message; the text says why."""

    def __init__(self, message: str, *, is_refused: bool = False, pause: float = 0.0) -> None:
        super().__init__(message)
        self.is_refused = is_refused
        """For good: another attempt would come to the same."""
        self.pause = pause
        """Seconds that the target asks to be left alone, at least."""


def _fits(globs: Globs, value: str | None) -> bool:
    """Whether a value is among the globs; no globs take anything, and no value fits none."""
    if not globs:
        return True
    patterns = (globs,) if isinstance(globs, str) else globs
    return value is not None and any(fnmatchcase(value, pattern) for pattern in patterns)
