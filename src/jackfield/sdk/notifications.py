"""`client.notifications`: what targets were told of, and what could not be delivered. For administrators."""

from typing import Any

from msgspec import Struct

from jackfield.sdk.connection import ApiRequest, GatewayConnection, get, segment


class NotificationInfo(Struct, frozen=True, kw_only=True):
    """One event for one target; times are ISO 8601, UTC."""

    id: str
    """The `webhook-id` of every attempt."""
    target: str = ""
    type: str = ""
    status: str = ""
    """`pending`, `delivered` or `failed`."""
    attempts: int = 0
    error: str | None = None
    """Why the last attempt failed."""
    created_at: str | None = None
    next_attempt_at: str | None = None
    finished_at: str | None = None
    data: dict[str, Any] = {}


class NotificationPage(Struct, frozen=True, kw_only=True):
    """Notifications, newest first. `next_cursor` is where the next page begins; None: this was the last."""

    notifications: tuple[NotificationInfo, ...] = ()
    next_cursor: str | None = None


class NotifyTargetInfo(Struct, frozen=True, kw_only=True):
    """A target of the gateway's config, and what waits for it."""

    name: str
    kind: str = ""
    on: tuple[str, ...] = ()
    waiting: int = 0
    oldest_seconds: float = 0
    failed: int = 0


class NotifyTestInfo(Struct, frozen=True, kw_only=True):
    """Whether a target took a test message."""

    success: bool = False
    error: str | None = None


class Notifications:
    """Notifications of the gateway."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def list(
        self, *, status: str | None = None, target: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> NotificationPage:
        """A page, the newest first."""
        wanted = {"status": status, "target": target, "limit": limit, "cursor": cursor}
        request = get("/api/v1/notifications", wanted)
        return await self._connection.fetch(request, NotificationPage)

    async def targets(self) -> tuple[NotifyTargetInfo, ...]:
        """The targets of the config, and what waits for each."""
        return await self._connection.fetch(
            get("/api/v1/notifications/targets"), tuple[NotifyTargetInfo, ...], "targets"
        )

    async def retry(self, notification_id: str) -> NotificationInfo:
        """Deliver one that was given up. Raises `Conflict` where it was not."""
        request = ApiRequest(method="POST", path=f"/api/v1/notifications/{segment(notification_id)}/retry")
        return await self._connection.fetch(request, NotificationInfo, "notification")

    async def test(self, target: str) -> NotifyTestInfo:
        """Send a test message to a target now."""
        request = ApiRequest(method="POST", path=f"/api/v1/notifications/targets/{segment(target)}/test")
        return await self._connection.fetch(request, NotifyTestInfo)
