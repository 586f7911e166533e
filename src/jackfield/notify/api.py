"""Notifications over HTTP: what was delivered and what was not, once more, and a test. For administrators.

Above: the URL map. Below: `service.py`.
"""

from typing import Annotated

from msgspec import Meta, Raw, Struct

from jackfield.errors import BadRequest
from jackfield.http.request import Name, Request
from jackfield.http.response import Response, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.model.principal import Scope
from jackfield.model.text import Time, iso_time
from jackfield.notify.service import Notifications
from jackfield.notify.types import Notification, NotificationStatus


class NotificationRecord(Struct, frozen=True, kw_only=True):
    """One event for one target."""

    id: str
    """The `webhook-id` of every attempt."""
    target: str
    type: str
    status: NotificationStatus
    attempts: int
    """So far; a retry counts anew."""
    error: str | None
    """Why the last attempt failed."""
    created_at: Time
    next_attempt_at: Time | None
    """While it is pending."""
    finished_at: Time | None
    data: Annotated[Raw, Meta(extra_json_schema={"type": "object"})]


class OneNotification(Struct, frozen=True, kw_only=True):
    """A notification in its envelope."""

    notification: NotificationRecord


class NotificationPage(Struct, frozen=True, kw_only=True):
    """Notifications, newest first. `next_cursor` is where the next page begins; null: this was the last."""

    notifications: list[NotificationRecord]
    next_cursor: str | None


class NotifyTargetRecord(Struct, frozen=True, kw_only=True):
    """A target of this gateway's config."""

    name: str
    kind: str
    on: tuple[str, ...]
    waiting: int
    """Notifications that are still to be delivered."""
    oldest_seconds: float
    """How long the oldest of them has waited."""
    failed: int
    """Those that were given up and are still on record."""


class NotifyTargetList(Struct, frozen=True, kw_only=True):
    """Every target."""

    targets: list[NotifyTargetRecord]


class NotifyTestResult(Struct, frozen=True, kw_only=True):
    """Whether a target took a test message."""

    success: bool
    error: str | None


Cursor = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=20,
        description="The `next_cursor` of the page before",
        extra_json_schema={"pattern": "^[0-9]+$"},
    ),
]


class NotificationQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which notifications."""

    status: NotificationStatus | None = None
    target: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    cursor: Cursor | None = None


class NotificationsApi:
    """Handlers of `/api/v1/notifications`."""

    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications

    async def list_notifications(self, request: Request) -> Response:
        """A page of notifications, the newest first."""
        query = request.query(NotificationQuery)
        if query.cursor is not None and not (query.cursor.isascii() and query.cursor.isdecimal()):
            raise BadRequest(
                "The cursor is not one of ours. Use the 'next_cursor' of a page unchanged.", param="cursor"
            )
        found, following = await self._notifications.page(
            status=query.status,
            target=query.target,
            limit=query.limit,
            before=None if query.cursor is None else min(int(query.cursor), 2**62),
        )
        next_cursor = None if following is None else str(following)
        return json_response(NotificationPage(notifications=[*map(self._record, found)], next_cursor=next_cursor))

    async def retry_notification(self, request: Request) -> Response:
        """Deliver what was given up."""
        retried = await self._notifications.retry(request.part("id"))
        return json_response(OneNotification(notification=self._record(retried)))

    async def list_targets(self, _request: Request) -> Response:
        """The targets, and what waits for each."""
        depths, targets = await self._notifications.depths(), self._notifications.targets
        records = [
            NotifyTargetRecord(
                name=name,
                kind=targets[name].settings.kind,
                on=targets[name].settings.on,
                waiting=depth.waiting,
                oldest_seconds=depth.oldest_ms / 1000,
                failed=depth.failed,
            )
            for name, depth in depths.items()
        ]
        return json_response(NotifyTargetList(targets=records))

    async def test_target(self, request: Request) -> Response:
        """Send a message now, past the outbox."""
        error = await self._notifications.test(request.part("name"), sent_by=request.principal.name)
        return json_response(NotifyTestResult(success=error is None, error=error))

    def _record(self, notification: Notification) -> NotificationRecord:
        is_pending = notification.status is NotificationStatus.PENDING
        finished = notification.finished_at
        return NotificationRecord(
            id=notification.id,
            target=notification.target,
            type=notification.type,
            status=notification.status,
            attempts=notification.attempts,
            error=notification.error,
            created_at=iso_time(notification.created_at),
            next_attempt_at=iso_time(notification.next_at) if is_pending else None,
            finished_at=None if finished is None else iso_time(finished),
            data=self._notifications.shown(notification),
        )


def routes(notifications: Notifications) -> list[Route]:
    """Every route about notifications."""
    api = NotificationsApi(notifications)
    return [
        Route(
            method="GET",
            path="/api/v1/notifications",
            handler=api.list_notifications,
            scope=Scope.ADMIN,
            tag="Notifications",
            summary="Notifications and what became of them, newest first",
            query=NotificationQuery,
            responses={200: ResponseSpec(description="A page", type=NotificationPage)},
        ),
        Route(
            method="GET",
            path="/api/v1/notifications/targets",
            handler=api.list_targets,
            scope=Scope.ADMIN,
            tag="Notifications",
            summary="The targets of the config, and what waits for each",
            responses={200: ResponseSpec(description="The targets", type=NotifyTargetList)},
        ),
        Route(
            method="POST",
            path="/api/v1/notifications/targets/{name}/test",
            handler=api.test_target,
            scope=Scope.ADMIN,
            tag="Notifications",
            summary="Send a test message to a target now",
            responses={200: ResponseSpec(description="Whether the target took it", type=NotifyTestResult)},
            errors=(404,),
        ),
        Route(
            method="POST",
            path="/api/v1/notifications/{id}/retry",
            handler=api.retry_notification,
            scope=Scope.ADMIN,
            tag="Notifications",
            summary="Deliver a notification that was given up",
            responses={200: ResponseSpec(description="The notification, pending again", type=OneNotification)},
            errors=(404, 409),
        ),
    ]
