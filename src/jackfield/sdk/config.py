"""`client.config`: the config file of the gateway, read anew while it runs. For administrators."""

from msgspec import Struct

from jackfield.sdk.connection import ApiRequest, GatewayConnection


class ConfigChanges(Struct, frozen=True, kw_only=True):
    """What a reload changed, by names such as `sources.github` and `auth.keys.ci`."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    restart_needed: tuple[str, ...] = ()
    """Different in the file, and in force only after a restart."""


class Config:
    """The config of the gateway."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def reload(self) -> ConfigChanges:
        """Read the file anew and apply it. Raises `Conflict` where it has a fault; then nothing has changed."""
        return await self._connection.fetch(ApiRequest(method="POST", path="/api/v1/config/reload"), ConfigChanges)
