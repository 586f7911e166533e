"""`client.switches`: what is off for everybody. For administrators."""

from typing import Literal

from jackfield.sdk.connection import GatewayConnection, get, segment, send_json
from jackfield.sdk.types import SwitchInfo

SwitchKind = Literal["tool", "source", "key"]


class Switches:
    """Tools, sources and keys that are off for everybody."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def list(self) -> tuple[SwitchInfo, ...]:
        """Everything that is off."""
        return await self._connection.fetch(get("/api/v1/switches"), tuple[SwitchInfo, ...], "switches")

    async def off(self, kind: SwitchKind, name: str, *, reason: str = "") -> SwitchInfo:
        """Switch a tool, a source or a key off for everybody, at every gateway. `reason` is said to callers."""
        return await self._put(kind, name, {"enabled": False, "reason": reason})

    async def on(self, kind: SwitchKind, name: str) -> SwitchInfo:
        """Switch it on again."""
        return await self._put(kind, name, {"enabled": True})

    async def _put(self, kind: str, name: str, body: dict[str, object]) -> SwitchInfo:
        path = f"/api/v1/switches/{segment(kind)}/{segment(name)}"
        return await self._connection.fetch(send_json("PUT", path, body), SwitchInfo, "switch")
