"""Browsers that are signed in, and keys that were made while the gateway runs."""

import msgspec
from msgspec import Struct

from jackfield.store.scripts import Row, Script, one, wake

KEYS_TOPIC = "keys"
LOGIN_TOPIC = "login-closed:"

LIFETIME_MS = 30 * 86_400_000


class Login(Struct, frozen=True, kw_only=True):
    """Who is signed in by a cookie, and the digest of the key that opened the login."""

    principal: str
    key: str
    left_ms: int = LIFETIME_MS
    """How long it is good for."""


def save_login(digest: str, login: Login) -> Script[None]:
    """Keep a browser signed in for a month."""
    values = {"principal": login.principal, "key_digest": login.key, "lifetime_ms": LIFETIME_MS}
    yield "put_login", {"digest": digest, **values}


def find_login(digest: str) -> Script[Login | None]:
    row = yield from one("get_login", digest=digest)
    if row is None:
        return None
    return Login(principal=row["principal"], key=row["key_digest"], left_ms=row["left_ms"])


def drop_login(digest: str) -> Script[None]:
    yield "delete_login", {"digest": digest}
    yield wake(f"{LOGIN_TOPIC}{digest}")


class KeyRights(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a key is good for, and what it is limited to; None: no limit."""

    scopes: tuple[str, ...]
    tools: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    agents: tuple[str, ...] | None = None
    spaces: tuple[str, ...] | None = None
    budget: int | None = None


class StoredKey(Struct, frozen=True, kw_only=True):
    """A key as it is on record. Times are milliseconds since 1970."""

    name: str
    digest: str
    rights: KeyRights
    old_digest: str | None = None
    """Of the key before the last rotation, while its grace period lasts."""
    old_until: int | None = None
    expires_at: int | None = None
    created_at: int = 0
    created_by: str = ""
    rotated_at: int | None = None


def add_key(
    name: str, digest: str, rights: KeyRights, *, lasts_ms: int | None, created_by: str
) -> Script[StoredKey | None]:
    """Keep a new key; None: there is one of that name."""
    row = yield from one(
        "insert_key",
        name=name,
        digest=digest,
        rights=msgspec.json.encode(rights).decode(),
        lasts_ms=-1 if lasts_ms is None else lasts_ms,
        created_by=created_by,
    )
    yield wake(KEYS_TOPIC)
    return None if row is None else _stored_key(row)


def rotate_key(name: str, digest: str, *, grace_ms: int) -> Script[StoredKey | None]:
    """Give a key a new secret; the old one is good for so long. None: there is no such key."""
    row = yield from one("rotate_key", name=name, digest=digest, grace_ms=grace_ms)
    yield wake(KEYS_TOPIC)
    return None if row is None else _stored_key(row)


def delete_key(name: str) -> Script[StoredKey | None]:
    """Forget a key, and say what it was. None: there was none."""
    row = yield from one("delete_key", name=name)
    yield wake(KEYS_TOPIC)
    return None if row is None else _stored_key(row)


def all_keys() -> Script[list[StoredKey]]:
    rows = yield "all_keys", {}
    return [_stored_key(row) for row in rows]


def _stored_key(row: Row) -> StoredKey:
    return StoredKey(
        name=row["name"],
        digest=row["digest"],
        rights=msgspec.json.decode(row["rights"], type=KeyRights),
        old_digest=row["old_digest"],
        old_until=row["old_until"],
        expires_at=row["expires_at"],
        created_at=row["created_at"],
        created_by=row["created_by"],
        rotated_at=row["rotated_at"],
    )
