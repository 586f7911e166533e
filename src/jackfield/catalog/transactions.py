"""What foreign tools were when they were first seen, or last accepted, and the public names that all tools have.

For all gateways of this database.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from jackfield.store.scripts import Row, Script, one, wake

PINS_TOPIC = "pins"


class Pin(Struct, frozen=True, kw_only=True):
    """One tool's definition, and its digest."""

    source: str
    tool: str
    digest: str
    definition: str
    accepted_by: str | None = None
    """The key that accepted it; None: it was seen first."""


class ToolName(Struct, frozen=True, kw_only=True):
    """The public name of one tool, and the one that it had asked for."""

    source: str
    tool: str
    name: str
    wish: str
    is_foreign: bool


def pin_digests() -> Script[dict[tuple[str, str], str]]:
    """Every pin's digest, by source and tool."""
    rows = yield "all_pins", {}
    return {(row["source"], _name(row["tool"])): row["digest"] for row in rows}


def get_pin(source: str, tool: str) -> Script[Pin | None]:
    row = yield from one("get_pin", source=source, tool=_kept(tool))
    if row is None:
        return None
    return Pin(
        source=row["source"],
        tool=_name(row["tool"]),
        digest=row["digest"],
        definition=row["definition"],
        accepted_by=row["accepted_by"],
    )


def add_pins(pins: Sequence[Pin]) -> Script[None]:
    """Pin tools that were seen for the first time. One that has a pin by now keeps it."""
    for pin in pins:
        yield "pin_at_first_sight", _values(pin)
    yield wake(PINS_TOPIC)


def put_pins(pins: Sequence[Pin]) -> Script[None]:
    """Pin tools anew, all of them or none."""
    for pin in pins:
        yield "put_pin", _values(pin) | {"accepted_by": pin.accepted_by}
    yield wake(PINS_TOPIC)


class RefusedDefinition(Struct, frozen=True, kw_only=True):
    """A definition that a person refused. The time is in milliseconds since 1970."""

    digest: str
    refused_by: str
    refused_at: int


def refuse_definitions(digests: Mapping[tuple[str, str], str], *, refused_by: str) -> Script[None]:
    """Note by source and tool what was refused, all of it or nothing."""
    for (source, tool), digest in sorted(digests.items()):
        values = {"source": source, "tool": _kept(tool), "refused": digest, "refused_by": refused_by}
        yield "refuse_definition", values
    yield wake(PINS_TOPIC)


def refused_definitions() -> Script[dict[tuple[str, str], RefusedDefinition]]:
    """What is refused, by source and tool."""
    rows = yield "all_refused", {}
    return {
        (row["source"], _name(row["tool"])): RefusedDefinition(
            digest=row["refused"], refused_by=row["refused_by"], refused_at=row["refused_at"]
        )
        for row in rows
    }


def tool_names() -> Script[list[ToolName]]:
    """Every name that a tool has."""
    rows = yield "all_names", {}
    return [
        ToolName(
            source=row["source"],
            tool=_name(row["tool"]),
            name=row["name"],
            wish=row["wish"],
            is_foreign=bool(row["is_foreign"]),
        )
        for row in rows
    ]


def free_names(names: Sequence[ToolName]) -> Script[None]:
    for freed in names:
        yield "free_name", {"source": freed.source, "tool": _kept(freed.tool), "name": freed.name}
    yield wake(PINS_TOPIC)


def take_names(names: Sequence[ToolName]) -> Script[None]:
    """Give tools their names. A name that somebody else has by now stays with him."""
    for taken in names:
        values: dict[str, Any] = {"source": taken.source, "tool": _kept(taken.tool), "name": taken.name}
        yield "take_name", values | {"wish": taken.wish, "is_foreign": int(taken.is_foreign)}
    yield wake(PINS_TOPIC)


def _values(pin: Pin) -> dict[str, Any]:
    return {"source": pin.source, "tool": _kept(pin.tool), "digest": pin.digest, "definition": pin.definition}


def _kept(name: str) -> str:
    """A foreign name as every database takes it: as in JSON, for it may hold a NUL character."""
    return msgspec.json.encode(name).decode()[1:-1]


def _name(kept: str) -> str:
    return msgspec.json.decode(f'"{kept}"', type=str)


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


GROUPS_TOPIC = "groups"


class StoredGroup(Struct, frozen=True, kw_only=True):
    """A group of tools that was made over the API."""

    name: str
    tools: tuple[str, ...]
    description: str
    instructions: str


def all_groups() -> Script[list[StoredGroup]]:
    """Every group that was made over the API, by name."""
    rows = yield "all_groups", {}
    return [_group(row) for row in rows]


class PutGroup(Struct, frozen=True):
    """What came of it, and what was there before."""

    is_put: bool
    before: StoredGroup | None


def put_group(group: StoredGroup, *, updated_by: str, most: int) -> Script[PutGroup]:
    """Make or replace a group, unless it is new and there are as many as there may be."""
    known = {row["name"]: _group(row) for row in (yield "all_groups", {})}
    before = known.get(group.name)
    if before is None and len(known) >= most:
        return PutGroup(is_put=False, before=None)
    values = {"name": group.name, "description": group.description, "instructions": group.instructions}
    yield "put_group", {**values, "tools": msgspec.json.encode(group.tools).decode(), "updated_by": updated_by}
    yield wake(GROUPS_TOPIC)
    return PutGroup(is_put=True, before=before)


def delete_group(name: str) -> Script[StoredGroup | None]:
    """Forget a group, and say what it was. None: there was none."""
    row = yield from one("delete_group", name=name)
    if row is None:
        return None
    yield wake(GROUPS_TOPIC)
    return _group(row)


def _group(row: Row) -> StoredGroup:
    return StoredGroup(
        name=row["name"],
        tools=msgspec.json.decode(row["tools"], type=tuple[str, ...]),
        description=row["description"],
        instructions=row["instructions"],
    )
