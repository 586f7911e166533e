"""`client.users`: people who signed in by the provider of `[auth.oidc]`. For administrators."""

from msgspec import Struct

from jackfield.sdk.connection import ApiRequest, GatewayConnection, get, segment


class UserInfo(Struct, frozen=True, kw_only=True):
    """Somebody who signed in, as they were at the last login; times are ISO 8601, UTC."""

    id: str
    """`user:<sub>`, the name that their calls are on record under."""
    name: str = ""
    email: str | None = None
    """If the provider verified it."""
    roles: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    """What the roles allow now; nothing once they are signed out everywhere."""
    signed_in_at: str | None = None
    signed_out_at: str | None = None
    """When they were signed out everywhere; None: they have signed in since."""
    created_at: str | None = None


class Users:
    """The people of the gateway."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def list(self) -> tuple[UserInfo, ...]:
        """Everybody who ever signed in, by id."""
        return await self._connection.fetch(get("/api/v1/users"), tuple[UserInfo, ...], "users")

    async def sign_out(self, user: str) -> None:
        """End all logins, tokens and waiting calls of `user:<sub>`, at every gateway."""
        await self._connection.send(ApiRequest(method="POST", path=f"/api/v1/users/{segment(user)}/sign-out"))
