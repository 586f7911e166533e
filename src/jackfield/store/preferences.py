"""What keys want of tools: switched on or off, approval asked or skipped, everywhere or in one chat."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from jackfield.store.scripts import Script, one, wake

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


def all_preferences() -> Script[list[Preference]]:
    rows = yield "all_preferences", {}
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


def put_preference(
    *,
    principal: str,
    chat_id: str,
    scenario: str,
    tool: str,
    by_admin: bool = False,
    enabled: bool | UnsetType | None = UNSET,
    approval: str | UnsetType | None = UNSET,
) -> Script[None]:
    """Set the fields that are given, each on its own; None clears one."""
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
    yield "put_preference", values
    yield wake(PREFERENCES_TOPIC)


def delete_preference(
    *, principal: str, chat_id: str, scenario: str, tool: str, by_admin: bool = False
) -> Script[bool]:
    """Forget both fields. False: there was nothing."""
    values = {"principal": principal, "chat_id": chat_id, "scenario": scenario, "tool": tool}
    row = yield from one("delete_preference", **values, by_admin=int(by_admin))
    yield wake(PREFERENCES_TOPIC)
    return row is not None
