"""`client.keys`: keys that are made while the gateway runs. For administrators."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from jackfield.sdk.connection import ApiRequest, GatewayConnection, get, segment, send_json


class KeyInfo(Struct, frozen=True, kw_only=True):
    """One key. A limit that is None limits nothing; times are ISO 8601, UTC."""

    name: str
    scopes: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    agents: tuple[str, ...] | None = None
    spaces: tuple[str, ...] | None = None
    budget: int | None = None
    origin: str = ""
    """`config`, `api`, or `file` for the administrator's key."""
    created_at: str | None = None
    created_by: str | None = None
    expires_at: str | None = None
    rotated_at: str | None = None
    old_key_until: str | None = None
    """While a rotation's grace period lasts: its end."""
    key: str | None = None
    """The key itself; only from `create` and `rotate`."""


class Keys:
    """The keys of the gateway."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def list(self) -> tuple[KeyInfo, ...]:
        """Every key, those of the config first."""
        return await self._connection.fetch(get("/api/v1/keys"), tuple[KeyInfo, ...], "keys")

    async def create(
        self,
        name: str,
        *,
        scopes: Iterable[str] = ("call",),
        tools: Iterable[str] | None = None,
        groups: Iterable[str] | None = None,
        agents: Iterable[str] | None = None,
        spaces: Iterable[str] | None = None,
        budget: int | None = None,
        expires_in: int | None = None,
    ) -> KeyInfo:
        """Make a key; its `key` is shown this once. Raises `Conflict` where the name is taken."""
        limits = {"tools": tools, "groups": groups, "agents": agents, "spaces": spaces}
        body: dict[str, Any] = {"name": name, "scopes": [*scopes]}
        body |= {field: [*names] for field, names in limits.items() if names is not None}
        numbers = {"budget": budget, "expires_in": expires_in}
        body |= {field: number for field, number in numbers.items() if number is not None}
        return await self._connection.fetch(send_json("POST", "/api/v1/keys", body), KeyInfo)

    async def rotate(self, name: str, *, grace: int = 0) -> KeyInfo:
        """Give a key a new secret; the old one is good for `grace` seconds more."""
        return await self._connection.fetch(send_json("POST", f"{_path(name)}/rotate", {"grace": grace}), KeyInfo)

    async def revoke(self, name: str) -> None:
        """End a key, its logins, and what it has waiting."""
        await self._connection.send(ApiRequest(method="DELETE", path=_path(name)))


def _path(name: str) -> str:
    return f"/api/v1/keys/{segment(name)}"
