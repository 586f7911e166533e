"""What is switched off for everybody, for all gateways of this database."""

from enum import Enum

import msgspec
from msgspec import Struct

from jackfield.store.scripts import Row, Script, one, run, wake

SWITCHES_TOPIC = "switches"


class SwitchKind(Enum):
    """What can be switched off for everybody."""

    TOOL = "tool"
    SOURCE = "source"
    KEY = "key"


class Target(Struct, frozen=True):
    """What a switch is about."""

    kind: SwitchKind
    name: str
    """A tool's as its source spells it."""
    source: str = ""
    """Of a tool, else empty."""


class Switch(Struct, frozen=True, kw_only=True):
    """Something that is off for everybody."""

    target: Target
    title: str
    """What it is called: a tool's public name."""
    reason: str
    by: str
    at: int
    """Milliseconds since 1970."""

    @property
    def sentence(self) -> str:
        """That it is off, why, and who can change that."""
        what = f"{self.target.kind.value.capitalize()} '{self.title}' is switched off for everybody"
        said = f"{what}: {self.reason.rstrip('. ')}." if self.reason.strip() else f"{what}."
        return f"{said} An administrator can switch it on again."


def all_switches() -> Script[list[Switch]]:
    return [_switch(row) for row in (yield from run("all_switches"))]


def switch_off(target: Target, *, title: str, reason: str, by: str) -> Script[Switch]:
    """Off from now on; what was off already has this reason."""
    values = _values(target) | {"title": title, "reason": reason, "switched_by": by}
    rows = yield "put_switch", values
    yield wake(SWITCHES_TOPIC)
    return _switch(rows[0])


def switch_on(target: Target) -> Script[Switch | None]:
    """On again: what it was. None: it was not off."""
    row = yield from one("delete_switch", **_values(target))
    if row is None:
        return None
    yield wake(SWITCHES_TOPIC)
    return _switch(row)


def _values(target: Target) -> dict[str, str]:
    # A foreign name as every database takes it: as in JSON, for it may hold a NUL character.
    name = msgspec.json.encode(target.name).decode()[1:-1]
    return {"kind": target.kind.value, "source": target.source, "name": name}


def _switch(row: Row) -> Switch:
    name = msgspec.json.decode(f'"{row["name"]}"', type=str)
    return Switch(
        target=Target(SwitchKind(row["kind"]), name, row["source"]),
        title=row["title"],
        reason=row["reason"],
        by=row["switched_by"],
        at=int(row["switched_at"]),
    )
