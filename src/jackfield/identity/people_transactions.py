"""People on record, and sign-ins that have begun at the provider."""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from jackfield.store.scripts import Row, Script, json_list, one, wake

USER_TOPIC = "user-changed:"
SIGN_IN_MS = 600_000
"""How long a sign-in at the provider may take."""
PRUNED = 10


class Person(Struct, frozen=True, kw_only=True):
    """Who signed in, as the provider says, and the roles that they have by it."""

    id: str
    """`user:<sub>`"""
    issuer: str
    name: str
    email: str | None
    """Verified, or None."""
    roles: tuple[str, ...]


class User(Person, frozen=True, kw_only=True):
    """The same on record. Times are milliseconds since 1970."""

    sign_outs: int
    """How often they were signed out everywhere."""
    signed_out_at: int | None
    """None: signed in since."""
    tokens_since: int | None
    """When they were last signed out everywhere: an issuer's older tokens are worth nothing."""
    signed_in_at: int
    created_at: int

    @property
    def credential(self) -> str:
        """What their logins and tokens are bound to; it changes whenever they are signed out everywhere."""
        return f"sign-outs:{self.sign_outs}"

    @property
    def version(self) -> tuple[int, int]:
        """Greater for what was written later."""
        return self.sign_outs, max(self.signed_in_at, self.signed_out_at or 0)


def sign_in(person: Person, login_digest: str, *, lifetime_ms: int) -> Script[User]:
    """Keep a person and their new login."""
    row = yield from one(
        "put_user",
        id=person.id,
        issuer=person.issuer,
        name=person.name,
        email=person.email,
        roles=msgspec.json.encode(person.roles).decode(),
    )
    assert row is not None
    user = _user(row)
    yield (
        "put_login",
        {"digest": login_digest, "principal": user.id, "key_digest": user.credential, "lifetime_ms": lifetime_ms},
    )
    yield wake(f"{USER_TOPIC}{user.id}")
    return user


def sign_out(name: str) -> Script[User | None]:
    """End every login of a person. None: there is nobody of that name."""
    row = yield from one("sign_out_user", id=name)
    if row is None:
        return None
    yield "delete_logins_of", {"principal": name}
    yield wake(f"{USER_TOPIC}{name}")
    return _user(row)


def all_users() -> Script[list[User]]:
    rows = yield "all_users", {}
    return [_user(row) for row in rows]


def users_by_id(names: Iterable[str]) -> Script[list[User]]:
    rows = yield "users_by_id", {"ids": json_list(names)}
    return [_user(row) for row in rows]


def _user(row: Row) -> User:
    return User(
        id=row["id"],
        issuer=row["issuer"],
        name=row["name"],
        email=row["email"],
        roles=tuple(msgspec.json.decode(row["roles"], type=list[str])),
        sign_outs=row["sign_outs"],
        signed_out_at=row["signed_out_at"],
        tokens_since=row["tokens_since"],
        signed_in_at=row["signed_in_at"],
        created_at=row["created_at"],
    )


class BegunSignIn(Struct, frozen=True, kw_only=True):
    """What the provider's answer is checked against."""

    issuer: str
    nonce: str
    verifier: str
    """Of PKCE."""
    return_to: str


def begin_sign_in(state_digest: str, browser_digest: str, begun: BegunSignIn) -> Script[None]:
    """Keep a sign-in that begins. Old ones that nobody finished go, so that there are never many."""
    yield "prune_sign_ins", {"limit": PRUNED}
    values = {"state": state_digest, "browser": browser_digest, "lifetime_ms": SIGN_IN_MS}
    yield "insert_sign_in", {**values, **msgspec.structs.asdict(begun)}


def take_sign_in(state_digest: str, browser_digest: str) -> Script[BegunSignIn | None]:
    """The sign-in that this browser began, used up by asking; None: there is none, or it is too old."""
    row = yield from one("take_sign_in", state=state_digest, browser=browser_digest)
    if row is None or not row["is_open"]:
        return None
    return BegunSignIn(issuer=row["issuer"], nonce=row["nonce"], verifier=row["verifier"], return_to=row["return_to"])
