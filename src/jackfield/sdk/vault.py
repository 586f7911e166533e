"""`client.vault`: how the vault of secrets stands. For administrators; nothing in it is ever shown."""

from msgspec import Struct

from jackfield.sdk.connection import ApiRequest, GatewayConnection, get


class VaultInfo(Struct, frozen=True, kw_only=True):
    """The vault, without anything of what is in it."""

    key: str = "none"
    """Where its key is from: `environment`, `file`, `memory`, or `none` where nothing needs it."""
    key_id: str | None = None
    entries: int = 0
    old: int = 0
    """Entries that are sealed with an older key."""


class Rotation(Struct, frozen=True, kw_only=True):
    """What a rotation did."""

    resealed: int
    key_id: str | None = None


class Vault:
    """The vault of the gateway."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def status(self) -> VaultInfo:
        """How it stands."""
        return await self._connection.fetch(get("/api/v1/vault"), VaultInfo)

    async def rotate(self) -> Rotation:
        """Seal everything with a new key, while the gateway runs. Raises `Conflict` where there is no new key."""
        return await self._connection.fetch(ApiRequest(method="POST", path="/api/v1/vault/rotate"), Rotation)
