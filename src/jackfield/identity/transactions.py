"""Browsers that are signed in."""

from msgspec import Struct

from jackfield.store.scripts import Script, one

LIFETIME_MS = 30 * 86_400_000


class Login(Struct, frozen=True, kw_only=True):
    """Who is signed in by a cookie, and the digest of the key that opened the login."""

    principal: str
    key: str


def save_login(digest: str, login: Login) -> Script[None]:
    """Keep a browser signed in for a month."""
    values = {"principal": login.principal, "key_digest": login.key, "lifetime_ms": LIFETIME_MS}
    yield "put_login", {"digest": digest, **values}


def find_login(digest: str) -> Script[Login | None]:
    row = yield from one("get_login", digest=digest)
    return None if row is None else Login(principal=row["principal"], key=row["key_digest"])


def drop_login(digest: str) -> Script[None]:
    yield "delete_login", {"digest": digest}
