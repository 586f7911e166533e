"""Reading the audit log: pages of entries that fit a filter, and whole chains."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from jackfield.audit.types import AuditEntry, Chain, Checkpoint, entry_id
from jackfield.model.text import iso_time
from jackfield.store.scripts import Row, Script, Sql, one, run

EVERY = ".*"
"""At the end of an action: everything that was done with such things."""


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Which entries are meant; None: all. Times are milliseconds since 1970."""

    actor: str | None = None
    action: str | None = None
    """`key.created`, or `key.*`."""
    since: int | None = None
    until: int | None = None

    def conditions(self) -> dict[str, str | int]:
        """SQL conditions, and the value of the one parameter that each has."""
        action = self.action or ""
        kind = action.removesuffix(EVERY) if action.endswith(EVERY) else None
        wanted: dict[str, str | int | None] = {
            "actor = :actor": self.actor,
            "action = :action": self.action if kind is None else None,
            "action >= :kind_first": None if kind is None else f"{kind}.",
            "action < :kind_last": None if kind is None else f"{kind}/",
            "id >= :since": None if self.since is None else entry_id(max(self.since, 0), 0),
            "id < :until": None if self.until is None else entry_id(max(self.until, 0), 0),
        }
        return {condition: value for condition, value in wanted.items() if value is not None}


def entries(
    wanted: AuditFilter, *, limit: int, cursor: str | None = None, oldest_first: bool = False
) -> Script[list[AuditEntry]]:
    """Entries that fit, after the one whose id is `cursor`."""
    conditions = wanted.conditions()
    if cursor is not None:
        conditions["id > :cursor" if oldest_first else "id < :cursor"] = cursor
    text = f"SELECT * FROM audit WHERE {' AND '.join([*conditions, '1 = 1'])} "  # noqa: S608 - our own conditions
    text += f"ORDER BY id {'ASC' if oldest_first else 'DESC'} LIMIT :limit"
    values = {condition.rpartition(":")[2]: value for condition, value in conditions.items()}
    rows = yield Sql("audit_entries", text), {**values, "limit": limit}
    return [entry_from(row) for row in rows]


def chain_ids(*, after: str, limit: int) -> Script[list[str]]:
    """The gateways that have chains, by id."""
    rows = yield from run("audit_chain_ids", after=after, limit=limit)
    return [str(row["id"]) for row in rows]


def chain_page(gateway: str, *, after: int, limit: int) -> Script[tuple[Chain | None, list[AuditEntry]]]:
    """Entries of a chain in order, after a number; then how far the chain is, so never less far than they are.

    A chain that is pruned meanwhile has its checkpoint after the entries were read that it stands for.
    """
    rows = yield from run("audit_of_chain", gateway=gateway, after=after, limit=limit)
    row = yield from one("audit_chain", gateway=gateway)
    return None if row is None else _chain_from(row), [entry_from(row) for row in rows]


def heads() -> Script[Sequence[Chain]]:
    """How far the chains are that no other one names."""
    rows = yield from run("audit_heads")
    return [Chain(gateway=row["id"], length=row["length"], head=row["head"]) for row in rows]


def entry_from(row: Row) -> AuditEntry:
    return AuditEntry(
        id=row["id"],
        at=iso_time(row["at"]),
        actor=row["actor"],
        action=row["action"],
        subject=row["subject"],
        before=_decoded(row["before"]),
        after=_decoded(row["after"]),
        hash=row["hash"],
        gateway=row["gateway"],
        number=row["number"],
    )


def _decoded(text: str) -> Any:
    """A text that somebody put there and that is no JSON is shown as it is; its hash does not fit."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _chain_from(row: Row) -> Chain:
    checkpoint = (
        UNSET
        if not row["cut"]
        else Checkpoint(
            number=row["cut"],
            hash=row["cut_hash"] or "",
            at=iso_time(row["cut_at"] or 0),
            signed_by=row["signed_by"] or "",
            signature=row["signature"] or "",
        )
    )
    return Chain(gateway=row["id"], length=row["length"], head=row["head"], checkpoint=checkpoint)
