"""Keys that are made while the gateway runs: create, rotate, revoke, at every gateway of the database.

Above: `keys_api.py`. Below: rows of the store, read as a whole and kept in the keyring, so that a request asks no
database. A key is shown once, when it is made; what is kept is its digest.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.audit.log import AuditLog
from jackfield.audit.types import Entry
from jackfield.errors import Conflict, NotFound
from jackfield.identity.keys import ADMIN, ADMIN_KEY_FILE, ADMIN_KEY_VARIABLE, Keyring, digest_of
from jackfield.identity.transactions import (
    KEYS_TOPIC,
    KeyRights,
    StoredKey,
    add_key,
    all_keys,
    delete_key,
    rotate_key,
)
from jackfield.model.text import iso_time, nearest
from jackfield.protocol.backoff import RetryDelays
from jackfield.store import Store

log = logging.getLogger("jackfield")

MOST_KEYS = 10_000
LONGEST_GRACE = 30 * 86_400
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0


class NewKey(Struct, frozen=True, kw_only=True):
    """A key that was just made, or given a new secret."""

    stored: StoredKey
    key: str
    """The key itself, which is nowhere else."""


class StoredKeys:
    """The keys of the store, and the keyring that knows them."""

    def __init__(
        self,
        keyring: Keyring,
        store: Store,
        *,
        audit: AuditLog,
        end_calls: Callable[[str], Awaitable[None]],
        end_logins: Callable[[str], Awaitable[None]],
    ) -> None:
        """`end_calls`: cancels what a principal has waiting, once its key is revoked; `end_logins` forgets its logins
        at sources.
        """
        self._end_logins = end_logins
        self._keyring = keyring
        self._store = store
        self._audit = audit
        self._end_calls = end_calls
        self._reading = asyncio.Lock()

    async def create(self, name: str, rights: KeyRights, *, seconds: int | None, created_by: str) -> NewKey:
        """Make a key; `seconds`: how long it is good for. Raises `Conflict` where the name is taken."""
        self._require_free(name)
        if len(self._keyring.stored) >= MOST_KEYS:
            raise Conflict(f"There are {MOST_KEYS:,} keys already. Revoke some.")
        key = new_secret()
        lasts_ms = None if seconds is None else seconds * 1000
        script = partial(add_key, name, digest_of(key), rights, lasts_ms=lasts_ms, created_by=created_by)
        stored = await self._store.write(self._audit.noting(script, partial(_created, created_by)))
        if stored is None:
            raise Conflict(f"There is a key '{name}' already. Choose another name, or rotate it.", param="name")
        await self._end_logins(name)  # of a key of that name in an earlier config
        await self.reload()
        return NewKey(stored=stored, key=key)

    async def rotate(self, name: str, *, grace: int, by: str) -> NewKey:
        """Give a key a new secret. The old one, and the logins made with it, end after `grace` seconds."""
        self._require_stored(name)
        key = new_secret()
        script = partial(rotate_key, name, digest_of(key), grace_ms=grace * 1000)
        stored = await self._store.write(self._audit.noting(script, partial(_rotated, by)))
        if stored is None:
            raise self._unknown(name)
        await self.reload()
        return NewKey(stored=stored, key=key)

    async def revoke(self, name: str, *, by: str) -> None:
        """End a key, its logins, and what it has waiting."""
        self._require_stored(name)
        if await self._store.write(self._audit.noting(partial(delete_key, name), partial(_revoked, by))) is None:
            raise self._unknown(name)
        await self.reload()
        await self._end_calls(name)
        await self._end_logins(name)

    def _require_free(self, name: str) -> None:
        if self._keyring.is_configured(name):
            raise Conflict(f"The key '{name}' is in the config. Choose another name.", param="name")

    def _require_stored(self, name: str) -> None:
        if self._keyring.is_configured(name):
            raise Conflict(self._how_to_change(name), param="name")
        if name not in self._keyring.stored:
            raise self._unknown(name)

    def _how_to_change(self, name: str) -> str:
        if self._keyring.named(name) == ADMIN:
            return (
                f"The key '{name}' comes from {ADMIN_KEY_VARIABLE} or from {ADMIN_KEY_FILE} in the data folder. "
                "Change the variable or delete the file, and restart the gateway."
            )
        return f"The key '{name}' is in the config. Change [auth.keys.{name}] there."

    def _unknown(self, name: str) -> NotFound:
        hint = nearest(name[:100], sorted(self._keyring.stored))
        return NotFound(f"There is no key '{name[:100]}'.{hint} 'jackfield keys' lists those there are.", param="name")

    async def reload(self) -> None:
        """Read the keys anew, one reading after another."""
        async with self._reading:
            self._keyring.take_stored(await self._store.read(all_keys))

    async def follow(self) -> None:
        """Read whenever a gateway of this store has written; a store that fails is asked again."""
        with self._store.bus.listen(KEYS_TOPIC) as written:
            written.set()  # what was written before this gateway listened
            delays = RetryDelays(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
            while True:
                await written.wait()
                written.clear()
                try:
                    await self.reload()
                    delays.reset()
                except Exception:
                    log.exception("the keys could not be read; it is tried again")
                    await asyncio.sleep(delays.next())
                    written.set()


def _created(by: str, key: StoredKey | None) -> Entry | None:
    return None if key is None else Entry(actor=by, action="key.created", subject=key.name, after=_audited(key))


def _rotated(by: str, key: StoredKey | None) -> Entry | None:
    if key is None:
        return None
    until = None if key.old_until is None else iso_time(key.old_until)
    return Entry(actor=by, action="key.rotated", subject=key.name, after={"old_key_until": until})


def _revoked(by: str, key: StoredKey | None) -> Entry | None:
    return None if key is None else Entry(actor=by, action="key.revoked", subject=key.name, before=_audited(key))


def _audited(key: StoredKey) -> dict[str, Any]:
    """A key without its digests."""
    expires = None if key.expires_at is None else iso_time(key.expires_at)
    return {**msgspec.to_builtins(key.rights), "expires_at": expires}


def new_secret() -> str:
    """A key that nobody guesses, and that secret scanners know by its beginning."""
    return f"jf_{secrets.token_urlsafe(32)}"
