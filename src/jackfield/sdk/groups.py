"""`client.groups`: named parts of the catalog, each with its own MCP endpoint."""

from collections.abc import Iterable

from msgspec import Struct

from jackfield.sdk.connection import ApiRequest, GatewayConnection, get, segment, send_json


class GroupInfo(Struct, frozen=True, kw_only=True):
    """One group of tools."""

    name: str
    description: str = ""
    instructions: str = ""
    """What clients of its MCP endpoint are told."""
    tools: tuple[str, ...] | None = None
    """Names, globs and `source:*`; None: the key is not an administrator's."""
    tool_count: int = 0
    """How many of its tools the key sees now."""
    origin: str = ""
    """`config` or `api`."""
    url: str = ""
    """Its MCP endpoint."""


class Groups:
    """The groups of tools that the key may use."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def list(self) -> tuple[GroupInfo, ...]:
        """Every group, by name."""
        return await self._connection.fetch(get("/api/v1/groups"), tuple[GroupInfo, ...], "groups")

    async def get(self, name: str) -> GroupInfo:
        """One group. Raises `NotFound`."""
        return await self._connection.fetch(get(_group_path(name)), GroupInfo, "group")

    async def put(self, name: str, tools: Iterable[str], *, description: str = "", instructions: str = "") -> GroupInfo:
        """Make a group or replace it, at every gateway. Raises `Conflict` for a group of the config."""
        body = {"tools": [*tools], "description": description, "instructions": instructions}
        return await self._connection.fetch(send_json("PUT", _group_path(name), body), GroupInfo, "group")

    async def delete(self, name: str) -> None:
        """Delete a group that was made over the API."""
        await self._connection.send(ApiRequest(method="DELETE", path=_group_path(name)))


def _group_path(name: str) -> str:
    return f"/api/v1/groups/{segment(name)}"
