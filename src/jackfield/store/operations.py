"""Work that goes on at a tool's owner: which of it has to be looked after, when, and who does it now.

Above: `calls/operations.py`. Below: the named statements. Every row is in at most one gateway's hands: each claim
raises its epoch, and who comes back with an older one changes nothing.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.model.call import Call
from jackfield.store import moves
from jackfield.store.access import Read, Write
from jackfield.store.moves import Script
from jackfield.store.rows import Row

OFFERED_TO = "operation"
"""The tool server, so to say, that has the calls of operations: all gateways together."""


class Operation(Struct, frozen=True, kw_only=True):
    """One piece of work."""

    call_id: str
    epoch: int
    owner: str | None
    reference: Raw | None
    """How it is found again at its owner; None: it was begun, and nobody knows what came of that."""
    begins: int
    looks: int
    faults: int
    """Looks in a row that came to nothing."""


class Operations:
    """The operations part of a store."""

    def __init__(self, write: Write, read: Read) -> None:
        self._write = write
        self._read = read

    async def untaken(self, tools: Iterable[str], *, limit: int) -> list[Call]:
        """Calls of these tools that nobody has in hand, the oldest first."""
        ids = msgspec.json.encode(list(tools)).decode()
        return await self._read(partial(moves.calls_in, "untaken_operations", ids=ids, limit=limit))

    async def take(self, call_id: str, *, owner: str, lease_ms: int) -> Operation | None:
        """Take a new call in hand, to begin its work; None: another has it, or it is over."""
        return await self._write(partial(_take, call_id, owner=owner, lease_ms=lease_ms))

    async def claim(self, operation: Operation, *, owner: str, lease_ms: int) -> Operation | None:
        """Take known work in hand, as it was seen; None: another was quicker."""
        values = {"call_id": operation.call_id, "epoch": operation.epoch, "owner": owner, "lease_ms": lease_ms}
        values["begins"] = operation.begins
        row = await self._write(partial(moves.one, "claim_operation", **values))
        return None if row is None else _operation(row)

    async def put_off(self, operation: Operation, *, pause_ms: int) -> bool:
        """Let go of it, as it is now, until so much time has passed; False: it is in other hands."""
        values: dict[str, Any] = {
            "call_id": operation.call_id,
            "epoch": operation.epoch,
            "reference": None if operation.reference is None else bytes(operation.reference).decode(),
            "begins": operation.begins,
            "looks": operation.looks,
            "faults": operation.faults,
            "pause_ms": pause_ms,
        }
        return await self._write(partial(moves.one, "put_off_operation", **values)) is not None

    async def forget(self, call_id: str) -> None:
        """It is over."""
        await self._write(partial(moves.one, "delete_operation", call_id=call_id))

    async def due(self, *, limit: int) -> list[Operation]:
        """What has to be looked after now."""
        return [_operation(row) for row in await self._read(partial(moves.run, "due_operations", limit=limit))]

    async def among(self, call_ids: Iterable[str]) -> list[Operation]:
        """The work of these calls, as far as it is not over."""
        ids = msgspec.json.encode(list(call_ids)).decode()
        return [_operation(row) for row in await self._read(partial(moves.run, "operations_among", ids=ids))]

    async def keep_way(self, call_id: str, via: tuple[str, ...], *, config: dict[str, Any] | None = None) -> None:
        """Remember what a call brought along, before it is on record: the gateways it came through, its options."""
        text = msgspec.json.encode(config).decode() if config else None
        await self._write(partial(moves.run, "put_way", call_id=call_id, via=",".join(via), config=text))

    async def way_of(self, call_id: str) -> tuple[str, ...]:
        return (await self.brought_along(call_id))[0]

    async def brought_along(self, call_id: str) -> tuple[tuple[str, ...], dict[str, Any]]:
        """The gateways that a call came through, and the options that its request gave the tool."""
        row = await self._read(partial(moves.one, "get_way", call_id=call_id))
        if row is None:
            return (), {}
        way = tuple(part for part in str(row["via"]).split(",") if part)
        return way, msgspec.json.decode(row["config"]) if row["config"] else {}


def _take(call_id: str, *, owner: str, lease_ms: int) -> Script[Operation | None]:
    offered = yield "offer", {"id": call_id, "client": OFFERED_TO, "gateway": owner}
    if not offered:
        return None
    rows = yield "insert_operation", {"call_id": call_id, "owner": owner, "lease_ms": lease_ms}
    return _operation(rows[0]) if rows else None


def _operation(row: Row) -> Operation:
    return Operation(
        call_id=row["call_id"],
        epoch=row["epoch"],
        owner=row["owner"],
        reference=None if row["reference"] is None else Raw(row["reference"].encode()),
        begins=row["begins"],
        looks=row["looks"],
        faults=row["faults"],
    )
