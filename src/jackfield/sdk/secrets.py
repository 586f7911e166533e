"""`client.secrets`: what sources made at run time use as `${NAME}`. For administrators; no value is ever shown."""

from msgspec import Struct

from jackfield.sdk.connection import ApiRequest, GatewayConnection, get, segment, send_json


class SecretInfo(Struct, frozen=True, kw_only=True):
    """A secret without its value."""

    name: str
    updated_at: str = ""
    updated_by: str = ""


class Secrets:
    """The secrets of the gateway."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def list(self) -> tuple[SecretInfo, ...]:
        """Every secret by name."""
        return await self._connection.fetch(get("/api/v1/secrets"), tuple[SecretInfo, ...], "secrets")

    async def set(self, name: str, value: str) -> SecretInfo:
        """Keep a secret, in place of the one of its name. Sources that use it begin anew."""
        return await self._connection.fetch(send_json("PUT", _secret_path(name), {"value": value}), SecretInfo)

    async def delete(self, name: str) -> None:
        """Forget a secret. Sources that use it go down."""
        await self._connection.send(ApiRequest(method="DELETE", path=_secret_path(name)))


def _secret_path(name: str) -> str:
    return f"/api/v1/secrets/{segment(name)}"
