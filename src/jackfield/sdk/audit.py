"""`client.audit`: who changed what. For administrators."""

from collections.abc import AsyncGenerator
from typing import Any

from msgspec import Struct

from jackfield.sdk.connection import GatewayConnection, get

PAGE_SIZE = 500


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One change; `at` is ISO 8601, UTC."""

    id: str
    at: str
    actor: str
    action: str
    subject: str
    before: Any = None
    after: Any = None
    hash: str = ""
    gateway: str = ""
    """Whose chain it is in."""
    number: int = 0
    """Its place there, from 1."""


class AuditPage(Struct, frozen=True, kw_only=True):
    """Entries, newest first, and where the next page begins."""

    audit: tuple[AuditEntry, ...] = ()
    next_cursor: str | None = None


class Audit:
    """The audit log of the gateway's database."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def list(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> AuditPage:
        """A page of entries; `action` may end in `.*`; times are ISO 8601."""
        wanted = {"actor": actor, "action": action, "since": since, "until": until}
        params = {**wanted, "limit": limit, "cursor": cursor}
        return await self._connection.fetch(get("/api/v1/audit", params), AuditPage)

    async def export(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """The log as JSON lines, in pieces of any size. Raises when it breaks off; only a whole export verifies."""
        wanted = {"actor": actor, "action": action, "since": since, "until": until}
        async for piece in self._connection.download(get("/api/v1/audit/export", wanted)):
            yield piece
