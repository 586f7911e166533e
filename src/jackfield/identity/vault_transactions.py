"""Sealed rows: put, read, remove them, and seal them anew. What is in them only the vault knows."""

from msgspec import Struct

from jackfield.store.scripts import Row, Script, one, run


class SealedRow(Struct, frozen=True, kw_only=True):
    """A secret as it is in the store."""

    kind: str
    id: str
    key_id: str
    sealed: str


def put_sealed(row: SealedRow) -> Script[None]:
    """Keep it, in place of what was there."""
    yield "put_sealed", _values(row)


def seal_once(row: SealedRow) -> Script[SealedRow]:
    """Keep it unless there is one; the one that is there now."""
    yield "insert_sealed", _values(row)
    found = yield from one("get_sealed", kind=row.kind, id=row.id)
    return row if found is None else _sealed_row(found)


def get_sealed(kind: str, row_id: str) -> Script[str | None]:
    row = yield from one("get_sealed", kind=kind, id=row_id)
    return None if row is None else row["sealed"]


def delete_sealed(kind: str, row_id: str) -> Script[None]:
    yield "delete_sealed", {"kind": kind, "id": row_id}


def all_key_ids() -> Script[dict[str, int]]:
    """How many rows are sealed with each key."""
    rows = yield from run("sealed_by_key")
    return {row["key_id"]: row["count"] for row in rows}


def rows_of_other_keys(key_id: str, *, limit: int) -> Script[list[SealedRow]]:
    """Some rows that are sealed with another key than this one."""
    rows = yield from run("sealed_with_others", key_id=key_id, limit=limit)
    return [_sealed_row(row) for row in rows]


def reseal(before: SealedRow, after: SealedRow) -> Script[bool]:
    """Replace a row by the same secret sealed anew. False: it has changed meanwhile."""
    return (yield from one("reseal", **_values(after), before=before.sealed)) is not None


def _values(row: SealedRow) -> dict[str, str]:
    return {"kind": row.kind, "id": row.id, "key_id": row.key_id, "sealed": row.sealed}


def _sealed_row(row: Row) -> SealedRow:
    return SealedRow(kind=row["kind"], id=row["id"], key_id=row["key_id"], sealed=row["sealed"])
