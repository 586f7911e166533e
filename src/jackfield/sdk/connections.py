"""`client.connections`: logins at the servers behind the gateway, yours and the shared ones."""

from msgspec import Struct

from jackfield.sdk.connection import ApiRequest, GatewayConnection, get, given, segment


class ConnectionInfo(Struct, frozen=True, kw_only=True):
    """A login at a source, without its tokens; times are ISO 8601, UTC."""

    source: str
    auth: str
    """`shared`: one for all; `user`: everybody has their own."""
    principal: str | None = None
    """Whose it is; None: everybody's."""
    status: str = "login_needed"
    """`connected`, `login_needed`, or `automatic` where the gateway logs in by itself."""
    scopes: tuple[str, ...] = ()
    issuer: str | None = None
    connected_at: str | None = None
    refreshed_at: str | None = None


class Connections:
    """The logins of the gateway at its sources."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def list(self) -> tuple[ConnectionInfo, ...]:
        """Your own and the shared ones; with an admin key everybody's."""
        return await self._connection.fetch(get("/api/v1/connections"), tuple[ConnectionInfo, ...], "connections")

    async def login(self, source: str) -> str:
        """A link to log in with, in a browser that is signed in at the gateway as the same principal."""
        return await self._connection.fetch(ApiRequest(method="POST", path=_path(source)), str, "login_url")

    async def remove(self, source: str, *, principal: str | None = None) -> None:
        """End a login, your own or the shared one; with an admin key, that of `principal`."""
        params = given({"principal": principal})
        await self._connection.send(ApiRequest(method="DELETE", path=_path(source), params=params))


def _path(source: str) -> str:
    return f"/api/v1/connections/{segment(source)}"
