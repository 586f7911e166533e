"""The vault: what is secret and has to be read again, encrypted in the store with AES-256-GCM.

Above: stored connections, and whatever else keeps a secret of somebody's. Below: rows of the store (kind, id, sealed)
and the keys, from `JACKFIELD_VAULT_KEY` or from a file in the data folder. A sealed text is bound to its kind and id,
and names the key it was sealed with, so that several keys can be in use while they are changed.
"""

import asyncio
import base64
import binascii
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Literal

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct

from jackfield.errors import ConfigError, Conflict, Unavailable
from jackfield.identity.vault_transactions import (
    SealedRow,
    all_key_ids,
    get_sealed,
    reseal,
    rows_of_other_keys,
    seal_once,
)
from jackfield.settings import Settings
from jackfield.store import Store

VAULT_KEY_VARIABLE = "JACKFIELD_VAULT_KEY"
VAULT_KEY_FILE = "vault.key"
KEY_BYTES = 32
NONCE_BYTES = 12
FORMAT = "1"
BATCH = 100
"""Rows that are sealed anew at once."""
CHECK = ("check", "vault")
_CHECK_TEXT = b"jackfield"
_HOW_TO_MAKE = "python3 -c 'import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())'"

Origin = Literal["environment", "file", "memory"]


class VaultStatus(Struct, frozen=True, kw_only=True):
    """How the vault stands."""

    origin: Origin | None
    """Where its key is from; None: nothing needs the vault, and it has none."""
    key_id: str | None
    sealed: int
    """Rows in it."""
    old: int
    """Of these, rows that are sealed with a key that is to be replaced."""


class Vault:
    """Seals and unseals. It has no key until `open`, which needs one only if something needs the vault."""

    def __init__(self, settings: Settings, store: Store, *, is_needed: bool) -> None:
        self._store = store
        self._file = settings.data / VAULT_KEY_FILE
        self._secrets = settings.secrets
        self._listed = _listed_keys(settings.secrets.get(VAULT_KEY_VARIABLE))
        self._is_needed = is_needed
        self._is_in_memory = settings.store_url.startswith("memory")
        self._keys: dict[str, bytes] = {}
        """By id; the first is the one to seal with."""
        self._origin: Origin | None = None
        self._changing = asyncio.Lock()

    async def open(self) -> None:
        """Find the keys and check them against what is sealed. Raises `ConfigError`, and changes nothing then."""
        if not await self._find_keys(make=True):
            return
        check = await self._store.write(partial(seal_once, self.row(*CHECK, _CHECK_TEXT)))
        self.unseal(*CHECK, check.sealed)

    async def examine(self) -> VaultStatus:
        """How it would stand after `open`, without making a key. Raises `ConfigError` like it."""
        await self._find_keys(make=False)
        return await self.status()

    @property
    def is_open(self) -> bool:
        return bool(self._keys)

    async def require(self) -> None:
        """Something needs the vault from now on: it gets a key, if it has none. Raises `Conflict` where it cannot."""
        async with self._changing:
            if self._keys:
                return
            self._is_needed = True
            try:
                await self.open()
            except (ConfigError, Unavailable) as fault:
                self._keys = {}  # those that were found are not good for what is sealed
                raise Conflict(fault.message) from None

    def row(self, kind: str, row_id: str, secret: bytes) -> SealedRow:
        """The secret sealed, for `put_sealed` in a transaction that begins now."""
        key_id = self._current
        nonce = os.urandom(NONCE_BYTES)
        body = AESGCM(self._keys[key_id]).encrypt(nonce, secret, _bound_to(kind, row_id))
        sealed = f"{FORMAT}.{key_id}.{base64.urlsafe_b64encode(nonce + body).decode()}"
        return SealedRow(kind=kind, id=row_id, key_id=key_id, sealed=sealed)

    def unseal(self, kind: str, row_id: str, sealed: str) -> bytes:
        """The secret. Raises `Unavailable` for what was sealed with an unknown key, or for something else."""
        version, _, rest = sealed.partition(".")
        key_id, _, text = rest.partition(".")
        key = self._keys.get(key_id)
        if version != FORMAT or key is None:
            raise Unavailable(
                f"Something in the vault was sealed with the key '{key_id[:16]}', which this gateway does not have. "
                f"Add that key to {VAULT_KEY_VARIABLE} and restart the gateway."
            )
        try:
            data = base64.urlsafe_b64decode(text)
            return AESGCM(key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], _bound_to(kind, row_id))
        except (InvalidTag, ValueError):
            raise Unavailable(
                "Something in the vault cannot be unsealed: it was changed, or belongs to something else. "
                "Remove it and log in again, or restore the database from a backup."
            ) from None

    async def read(self, kind: str, row_id: str) -> bytes | None:
        """One secret of the store; None: there is none."""
        sealed = await self._store.read(partial(get_sealed, kind, row_id))
        return None if sealed is None else self.unseal(kind, row_id, sealed)

    async def status(self) -> VaultStatus:
        counts = await self._store.read(all_key_ids)
        current = self._current if self._keys else None
        return VaultStatus(
            origin=self._origin,
            key_id=current,
            sealed=sum(counts.values()),
            old=sum(count for key_id, count in counts.items() if key_id != current),
        )

    async def rotate(self) -> int:
        """Seal everything with a new key: one made now, or the first of the environment's. How many rows that were.

        A gateway that is killed meanwhile has both keys at its next start, and can go on.
        """
        async with self._changing:
            if not self._keys:
                raise Conflict("Nothing is sealed, so there is no key to rotate.")
            if self._origin == "environment":
                if len(self._keys) == 1:
                    raise Conflict(
                        f"{VAULT_KEY_VARIABLE} has one key. Put a new one in front of it, as NEW,OLD, restart every "
                        f"gateway, and rotate again. To make one: {_HOW_TO_MAKE}"
                    )
                return await self._reseal()
            old = list(self._keys.values())
            new = secrets.token_bytes(KEY_BYTES)
            if self._origin == "file":
                await asyncio.to_thread(_write_key_file, self._file, [new, *old])
            self._take([new, *old])
            count = await self._reseal()
            if self._origin == "file":
                await asyncio.to_thread(_write_key_file, self._file, [new])
            return count

    async def _reseal(self) -> int:
        count = 0
        while rows := await self._store.read(partial(rows_of_other_keys, self._current, limit=BATCH)):
            count += sum(await asyncio.gather(*map(self._reseal_row, rows)))
        return count

    async def _reseal_row(self, row: SealedRow) -> bool:
        anew = self.row(row.kind, row.id, self.unseal(row.kind, row.id, row.sealed))
        return await self._store.write(partial(reseal, row, anew))

    @property
    def _current(self) -> str:
        if not self._keys:
            raise Unavailable("The vault has no key. Restart the gateway.")
        return next(iter(self._keys))

    def _take(self, keys: Iterable[bytes]) -> None:
        self._keys = {_key_id(key): key for key in keys}
        for key in self._keys.values():
            self._secrets.add(_text(key))

    async def _find_keys(self, *, make: bool) -> bool:
        """Whether there is a key now. All that is sealed was sealed with one of those that there are."""
        counts = await self._store.read(all_key_ids)
        if counts or self._is_needed:
            self._take(self._keys_there_are(has_rows=bool(counts), make=make))
        unknown = sum(count for key_id, count in counts.items() if key_id not in self._keys)
        if unknown:
            raise ConfigError(
                f"The vault has {unknown:,} entries that were sealed with a key that is not here. Nothing was changed. "
                f"{self._how_to_give()}"
            )
        return bool(self._keys)

    def _keys_there_are(self, *, has_rows: bool, make: bool) -> list[bytes]:
        if self._listed:
            self._origin = "environment"
            # A file's key is still good for reading, so that one can change from a file to the environment.
            return [*self._listed, *(_read_key_file(self._file) if self._file.exists() else ())]
        if self._store.is_shared:
            raise ConfigError(
                f"{VAULT_KEY_VARIABLE} is not set. Logins are kept encrypted, and gateways that share a database need "
                f"the same key for that. Set it to 32 random bytes in base64url. To make some: {_HOW_TO_MAKE}"
            )
        if self._is_in_memory:
            self._origin = "memory"
            return [secrets.token_bytes(KEY_BYTES)]
        self._origin = "file"
        if self._file.exists():
            return _read_key_file(self._file)
        if has_rows:
            raise ConfigError(
                f"The vault has entries, but its key {self._file} is gone. Nothing was changed. {self._how_to_give()}"
            )
        return _on_disk(_make_key_file, self._file) if make else []

    def _how_to_give(self) -> str:
        if self._store.is_shared or self._origin == "environment":
            return f"Set {VAULT_KEY_VARIABLE} to the key that was used before, or to NEW,OLD to change keys."
        return f"Restore {self._file} from a backup, or set {VAULT_KEY_VARIABLE} to the key that was used before."


def _bound_to(kind: str, row_id: str) -> bytes:
    """What a sealed text is good for, and nothing else."""
    return f"jackfield vault {FORMAT}\0{kind}\0{row_id}".encode()


def _key_id(key: bytes) -> str:
    return hashlib.sha256(b"jackfield vault key\0" + key).hexdigest()[:12]


def _text(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode().rstrip("=")


def _listed_keys(value: str | None) -> list[bytes]:
    """The keys of the environment, the one to seal with first."""
    if value is None or not value.strip():
        return []
    return [_parse_key(part.strip(), f"{VAULT_KEY_VARIABLE}") for part in value.split(",") if part.strip()]


def _parse_key(text: str, where: str) -> bytes:
    try:
        key = base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(f"{where} is not 32 bytes in base64url (43 or 44 characters). To make a key: {_HOW_TO_MAKE}")
    return key


def _on_disk(act: Callable[[Path], list[bytes]], path: Path) -> list[bytes]:
    try:
        return act(path)
    except OSError as fault:
        raise ConfigError(
            f"The key file {path} cannot be made or read: {fault.strerror}. "
            f"Make its folder writable, choose another with JACKFIELD_DATA, or set {VAULT_KEY_VARIABLE}."
        ) from None


def _make_key_file(path: Path) -> list[bytes]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = secrets.token_bytes(KEY_BYTES)
    _write_key_file(path, [key])
    return [key]


def _read_key_file(path: Path) -> list[bytes]:
    return _on_disk(_read_lines, path)


def _read_lines(path: Path) -> list[bytes]:
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        path.chmod(0o600)
    lines = path.read_bytes().decode("utf-8", errors="replace").split()
    if not lines:
        raise ConfigError(f"The key file {path} is empty. Restore it from a backup.")
    return [_parse_key(line, f"A line of the key file {path}") for line in lines]


def _write_key_file(path: Path, keys: list[bytes]) -> None:
    """All of it or nothing, also if the machine stops in the middle. Only its owner can read the file."""
    part = path.with_name(f"{path.name}.new")
    part.unlink(missing_ok=True)
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write("".join(f"{_text(key)}\n" for key in keys))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
