"""What keys want of tools: switched on or off, approval asked or skipped, everywhere or in one chat."""

from functools import partial
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from jackfield.store import moves
from jackfield.store.access import Read, Write

PREFERENCES_TOPIC = "preferences"


class Preference(Struct, frozen=True, kw_only=True):
    """One row. None says nothing about that field; an empty `chat_id` means everywhere.

    With `by_admin` it is what an administrator says for that key, or for an empty `principal` for everybody.
    """

    principal: str
    chat_id: str
    scenario: str
    tool: str
    enabled: bool | None = None
    approval: str | None = None
    """`require` or `skip`."""
    by_admin: bool = False


class Preferences:
    """The preferences part of a store. Each field is set on its own and leaves the other as it was."""

    def __init__(self, write: Write, read: Read) -> None:
        self._write = write
        self._read = read

    async def all(self) -> list[Preference]:
        rows = await self._read(partial(moves.run, "all_preferences"))
        return [
            Preference(
                principal=row["principal"],
                chat_id=row["chat_id"],
                scenario=row["scenario"],
                tool=row["tool"],
                enabled=None if row["enabled"] is None else bool(row["enabled"]),
                approval=row["approval"],
                by_admin=bool(row["by_admin"]),
            )
            for row in rows
        ]

    async def put(
        self,
        *,
        principal: str,
        chat_id: str,
        scenario: str,
        tool: str,
        by_admin: bool = False,
        enabled: bool | UnsetType | None = UNSET,
        approval: str | UnsetType | None = UNSET,
    ) -> None:
        """Set the fields that are given; None clears one."""
        values: dict[str, Any] = {
            "principal": principal,
            "chat_id": chat_id,
            "scenario": scenario,
            "tool": tool,
            "by_admin": int(by_admin),
            "enabled": None if enabled is UNSET or enabled is None else int(enabled),
            "approval": None if approval is UNSET else approval,
            "sets_enabled": int(enabled is not UNSET),
            "sets_approval": int(approval is not UNSET),
        }
        await self._write(partial(moves.run, "put_preference", **values), wakes=PREFERENCES_TOPIC)

    async def delete(self, *, principal: str, chat_id: str, scenario: str, tool: str, by_admin: bool = False) -> bool:
        """Forget both fields. False: there was nothing."""
        values = {
            "principal": principal,
            "chat_id": chat_id,
            "scenario": scenario,
            "tool": tool,
            "by_admin": int(by_admin),
        }
        row = await self._write(partial(moves.one, "delete_preference", **values), wakes=PREFERENCES_TOPIC)
        return row is not None
