"""Sources that are made while the gateway runs, and the secrets for them."""

from msgspec import Struct

from jackfield.identity.vault_transactions import SealedRow, delete_sealed, put_sealed
from jackfield.store.scripts import Row, Script, one, run, wake

SOURCES_TOPIC = "sources"
RESTART_TOPIC = "source-restart:"
SECRET = "secret"  # noqa: S105 - the kind of rows in the vault
"""The kind of such secrets in the vault."""


class StoredSource(Struct, frozen=True, kw_only=True):
    """A source as it is on record. Times are milliseconds since 1970."""

    name: str
    settings: str
    """JSON, with `${NAME}` for secrets."""
    created_by: str
    created_at: int
    updated_at: int


class StoredSecret(Struct, frozen=True, kw_only=True):
    """A secret as it is on record."""

    name: str
    version: int
    updated_by: str
    updated_at: int
    sealed: str | None = None


def add_source(name: str, settings: str, *, created_by: str) -> Script[StoredSource | None]:
    """Keep a new source; None: there is one of that name."""
    row = yield from one("insert_source", name=name, settings=settings, created_by=created_by)
    yield wake(SOURCES_TOPIC)
    return None if row is None else _source(row)


def change_source(name: str, settings: str, *, before: str, is_elsewhere: bool = False) -> Script[StoredSource | None]:
    """Give a source other settings; None: it is gone, or was changed since it had those of `before`.

    `is_elsewhere`: it is another server's now, and what that one lists is not known.
    """
    row = yield from one("change_source", name=name, settings=settings, before=before)
    if row is not None and is_elsewhere:
        yield "delete_listing", {"source": name}
    yield wake(SOURCES_TOPIC)
    return None if row is None else _source(row)


def delete_source(name: str) -> Script[StoredSource | None]:
    """Forget a source, and what it listed; None: there was none."""
    row = yield from one("delete_source", name=name)
    yield "delete_listing", {"source": name}
    yield wake(SOURCES_TOPIC)
    return None if row is None else _source(row)


def restart_source(name: str) -> Script[None]:
    """Have every gateway close a source and open it again."""
    yield wake(f"{RESTART_TOPIC}{name}")


def put_secret(row: SealedRow, *, updated_by: str) -> Script[StoredSecret]:
    """Keep a secret, in place of the one of its name."""
    kept = yield from run("put_secret", name=row.id, updated_by=updated_by)
    yield from put_sealed(row)
    yield wake(SOURCES_TOPIC)
    return _secret(kept[0])


def delete_secret(name: str) -> Script[bool]:
    """Forget a secret. False: there was none."""
    row = yield from one("delete_secret", name=name)
    yield from delete_sealed(SECRET, name)
    yield wake(SOURCES_TOPIC)
    return row is not None


def sources_and_secrets() -> Script[tuple[list[StoredSource], list[StoredSecret]]]:
    """All of them, as of one moment."""
    sources = yield "all_sources", {}
    secrets = yield "all_secrets", {}
    return [_source(row) for row in sources], [_secret(row, row["sealed"]) for row in secrets]


def _source(row: Row) -> StoredSource:
    return StoredSource(
        name=row["name"],
        settings=row["settings"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _secret(row: Row, sealed: str | None = None) -> StoredSecret:
    return StoredSecret(
        name=row["name"],
        version=row["version"],
        updated_by=row["updated_by"],
        updated_at=row["updated_at"],
        sealed=sealed,
    )
