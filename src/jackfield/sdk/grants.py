"""`client.grants`: OAuth clients that people allowed to act for them at `/mcp`."""

from msgspec import Struct

from jackfield.sdk.connection import ApiRequest, GatewayConnection, get, segment


class GrantInfo(Struct, frozen=True, kw_only=True):
    """What a person allowed an OAuth client; times are ISO 8601, UTC."""

    id: str
    client: str = ""
    """What the client calls itself."""
    client_id: str = ""
    principal: str = ""
    resource: str = ""
    """`/mcp`, or `/mcp/NAME` for one group."""
    scopes: tuple[str, ...] = ()
    groups: tuple[str, ...] | None = None
    """Groups of tools that it is limited to; None: no limit."""
    created_at: str | None = None
    used_at: str | None = None
    """When it last got tokens."""
    expires_at: str | None = None


class Grants:
    """What OAuth clients were allowed."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def list(self) -> tuple[GrantInfo, ...]:
        """What you allowed, the newest first; for administrators, what everybody did."""
        return await self._connection.fetch(get("/api/v1/grants"), tuple[GrantInfo, ...], "grants")

    async def revoke(self, grant_id: str) -> None:
        """End one; the client's tokens are worth nothing from then on."""
        await self._connection.send(ApiRequest(method="DELETE", path=f"/api/v1/grants/{segment(grant_id)}"))
