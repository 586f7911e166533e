"""What foreign tools were when they were first seen, or last accepted, and the public names that all tools have.

For all gateways of this database.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.store import moves
from jackfield.store.access import Read, Write
from jackfield.store.moves import Script

PINS_TOPIC = "pins"
AT_ONCE = 500
"""First sights in one transaction, so that a server with thousands of tools does not hold up other writes."""


class Pin(Struct, frozen=True, kw_only=True):
    """One tool's definition, and its digest. What they mean is not this room's business."""

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


class PinnedTools:
    """The pins part of a store."""

    def __init__(self, write: Write, read: Read) -> None:
        self._write = write
        self._read = read

    async def digests(self) -> dict[tuple[str, str], str]:
        """Every pin's digest, by source and tool."""
        rows = await self._read(partial(moves.run, "all_pins"))
        return {(row["source"], _name(row["tool"])): row["digest"] for row in rows}

    async def get(self, source: str, tool: str) -> Pin | None:
        row = await self._read(partial(moves.one, "get_pin", source=source, tool=_kept(tool)))
        if row is None:
            return None
        return Pin(
            source=row["source"],
            tool=_name(row["tool"]),
            digest=row["digest"],
            definition=row["definition"],
            accepted_by=row["accepted_by"],
        )

    async def add(self, pins: Sequence[Pin]) -> None:
        """Pin tools that were seen for the first time. One that has a pin by now keeps it."""
        for start in range(0, len(pins), AT_ONCE):
            await self._write(partial(_each, "pin_at_first_sight", pins[start : start + AT_ONCE]), wakes=PINS_TOPIC)

    async def put(self, pins: Sequence[Pin]) -> None:
        """Pin tools anew, all of them or none."""
        await self._write(partial(_each, "put_pin", pins), wakes=PINS_TOPIC)

    async def names(self) -> list[ToolName]:
        """Every name that a tool has."""
        rows = await self._read(partial(moves.run, "all_names"))
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

    async def rename(self, *, freed: Sequence[ToolName], taken: Sequence[ToolName]) -> None:
        """Free names, then give them. A name that somebody else has by now stays with him."""
        for statement, names in (("free_name", freed), ("take_name", taken)):
            for start in range(0, len(names), AT_ONCE):
                some = names[start : start + AT_ONCE]
                await self._write(partial(_each_name, statement, some), wakes=PINS_TOPIC)


def _each_name(statement: str, names: Sequence[ToolName]) -> Script[None]:
    for one in names:
        values: dict[str, Any] = {"source": one.source, "tool": _kept(one.tool), "name": one.name}
        if statement == "take_name":
            values |= {"wish": one.wish, "is_foreign": int(one.is_foreign)}
        yield statement, values


def _each(statement: str, pins: Sequence[Pin]) -> Script[None]:
    for pin in pins:
        values: dict[str, Any] = {
            "source": pin.source,
            "tool": _kept(pin.tool),
            "digest": pin.digest,
            "definition": pin.definition,
        }
        yield statement, values | ({"accepted_by": pin.accepted_by} if statement == "put_pin" else {})


def _kept(name: str) -> str:
    """A foreign name as every database takes it: as in JSON, for it may hold a NUL character."""
    return msgspec.json.encode(name).decode()[1:-1]


def _name(kept: str) -> str:
    return msgspec.json.decode(f'"{kept}"', type=str)
