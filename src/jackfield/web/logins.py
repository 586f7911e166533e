"""Who is signed in by cookie. The browser holds an opaque id; the store has its digest, whose it is,
and the digest of the key that opened it: the login ends when that key is changed or removed.

Above: `admission.py` and the login doors. Below: the store and the keyring. What the store said is remembered for a
minute, so a page's many requests ask it once, and a logout at another gateway still counts soon.
"""

import secrets
import time
from collections.abc import Callable

from jackfield.keys import Credential, Keyring, digest_of
from jackfield.model.principal import Principal
from jackfield.store import Login, Store

COOKIE = "jackfield"
SECURE_COOKIE = f"__Host-{COOKIE}"
"""Its name on https: browsers take it from this very host only, and over TLS only."""
LIFETIME_SECONDS = 30 * 24 * 3600
_REMEMBER_SECONDS = 60.0
_MOST_REMEMBERED = 10_000


class Logins:
    """The sign-ins of this gateway's pages."""

    def __init__(self, store: Store, keyring: Keyring, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._keyring = keyring
        self._clock = clock
        self._seen: dict[str, tuple[Login, float]] = {}

    async def open(self, credential: Credential) -> str:
        """A new login's id, on record before it is given out."""
        login = secrets.token_urlsafe(32)
        await self._store.save_login(digest_of(login), Login(principal=credential.principal.name, key=credential.key))
        return login

    async def find(self, login: str) -> Principal | None:
        """Who is signed in with this id; a principal whose key is gone is not."""
        digest = digest_of(login)
        kept, until = self._seen.get(digest, (None, 0.0))
        if kept is None or until < self._clock():
            kept = await self._store.find_login(digest)
            self._remember(digest, kept)
        return self._keyring.holder(kept.key, name=kept.principal) if kept is not None else None

    async def close(self, login: str) -> None:
        """Sign out: the id is worth nothing from now on."""
        digest = digest_of(login)
        self._seen.pop(digest, None)
        await self._store.drop_login(digest)

    def _remember(self, digest: str, login: Login | None) -> None:
        self._seen.pop(digest, None)
        if login is None:
            return
        if len(self._seen) >= _MOST_REMEMBERED:
            self._seen.clear()
        self._seen[digest] = (login, self._clock() + _REMEMBER_SECONDS)


def login_in(cookie_header: str | None, *, secure: bool) -> str | None:
    """The login id in a Cookie header, if there is one."""
    if cookie_header is None or COOKIE not in cookie_header:
        return None
    wanted = SECURE_COOKIE if secure else COOKIE
    for pair in cookie_header.split(";"):
        name, _, value = pair.strip().partition("=")
        if name == wanted and value:
            return value
    return None


def login_cookie(login: str | None, *, secure: bool) -> bytes:
    """The Set-Cookie value that signs in, or out for None."""
    lifetime = LIFETIME_SECONDS if login else 0
    text = f"{SECURE_COOKIE if secure else COOKIE}={login or ''}; Path=/; Max-Age={lifetime}; HttpOnly; SameSite=Strict"
    return (text + ("; Secure" if secure else "")).encode()
