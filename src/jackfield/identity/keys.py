"""Who a key belongs to. Keys are kept as SHA-256 digests, so that a lookup compares no secret byte by byte.

Above: the gateway, which holds one `Keyring`, and the handlers, which ask it. Below: settings and the data folder.
"""

import hashlib
import os
import secrets
import stat
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from jackfield.errors import ConfigError
from jackfield.model.principal import GroupBook, GroupLimit, Principal, Scope
from jackfield.settings import Settings

ADMIN = Principal(name="admin", scopes=frozenset({Scope.ADMIN.value}))
ADMIN_KEY_VARIABLE = "JACKFIELD_ADMIN_KEY"
ADMIN_KEY_FILE = "admin.key"
CODE_LIFETIME = 600.0
"""Seconds in which a login link can be used."""


class _NoGroups:
    """Where there are no groups: a key that is limited to some sees nothing."""

    def patterns(self, _names: tuple[str, ...]) -> tuple[str, ...]:
        return ()


def digest_of(secret: str | bytes) -> str:
    """How a key, a code or a login id is kept and looked up: never as itself."""
    return hashlib.sha256(secret.encode() if isinstance(secret, str) else secret).hexdigest()


class Credential(Struct, frozen=True, kw_only=True):
    """A key as a login refers to it: by its digest, and whose it is."""

    key: str
    principal: Principal


class Keyring:
    """Every key this gateway knows, by digest, and the one-time codes of its login links."""

    def __init__(
        self,
        principals: dict[str, Principal],
        *,
        key_file: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.key_file = key_file
        """Where the key is that was made at first start; None where it is not in use."""
        self._by_digest = principals
        self._by_name = {principal.name: principal for principal in principals.values()}
        self._codes: dict[str, tuple[Credential, float]] = {}
        self._clock = clock

    @classmethod
    def from_settings(cls, settings: Settings, *, groups: GroupBook | None = None) -> "Keyring":
        """The keys of the config, of `JACKFIELD_ADMIN_KEY` and of the data folder; without any, one is made there.

        `groups` knows what is in the groups that keys are limited to.
        """
        principals: dict[str, Principal] = {}
        for name, key in settings.keys.items():
            principal = Principal(
                name=name,
                scopes=frozenset(key.scopes),
                tools=key.tools,
                groups=None if key.groups is None else GroupLimit(key.groups, groups or _NoGroups()),
                budget=key.budget,
            )
            _add(principals, key.key, principal, f"auth.keys.{name}.key")
        if admin_key := settings.secrets.get(ADMIN_KEY_VARIABLE):
            _add(principals, admin_key, ADMIN, ADMIN_KEY_VARIABLE)
        path = settings.data / ADMIN_KEY_FILE
        if not settings.admin_key or (principals and not path.exists()):
            return cls(_some(principals))
        _add(principals, made_or_kept_key(path), ADMIN, str(path))
        return cls(principals, key_file=path)

    def find(self, key: str | bytes) -> Principal | None:
        """Whose key this is, if anybody's."""
        return self._by_digest.get(digest_of(key))

    def credential(self, key: str | bytes) -> Credential | None:
        """The same, for a login that is to end with this key."""
        digest = digest_of(key)
        principal = self._by_digest.get(digest)
        return None if principal is None else Credential(key=digest, principal=principal)

    def holder(self, key_digest: str, *, name: str) -> Principal | None:
        """The principal of that name, as long as the key with this digest is still its own."""
        principal = self._by_digest.get(key_digest)
        return principal if principal is not None and principal == self._by_name.get(name) else None

    def named(self, name: str) -> Principal | None:
        """The principal of that name, as long as it still has a key."""
        return self._by_name.get(name)

    def acts_as(self, agent: str) -> bool:
        """Whether a key was given to this agent, which may be a program outside that nothing else here knows."""
        return any(agent in principal.named("agent") for principal in self._by_name.values())

    def lend(self, key: str, principal: Principal) -> None:
        """A key for a while: found by itself, and by nobody's name, so that no login can be made of it."""
        self._by_digest[digest_of(key)] = principal

    def take_back(self, key: str) -> None:
        self._by_digest.pop(digest_of(key), None)

    @property
    def host(self) -> Credential:
        """Whom the printed link signs in: an administrator if there is one, else the first key."""
        everybody = [Credential(key=digest, principal=held) for digest, held in self._by_digest.items()]
        return next((one for one in everybody if one.principal.is_admin), everybody[0])

    def new_code(self, credential: Credential) -> str:
        """A code that signs its principal in, once, within ten minutes."""
        now = self._clock()
        self._codes = {kept: entry for kept, entry in self._codes.items() if entry[1] > now}
        code = secrets.token_urlsafe(32)
        self._codes[digest_of(code)] = (credential, now + CODE_LIFETIME)
        return code

    def take_code(self, code: str) -> Credential | None:
        """Whom the code signs in; it is used up by asking."""
        credential, until = self._codes.pop(digest_of(code), (None, 0.0))
        return credential if until > self._clock() else None


def made_or_kept_key(path: Path) -> str:
    """The key in `path`, made on the first start. Only its owner can read the file."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return _kept_key(path)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            key = f"jf_{secrets.token_urlsafe(32)}"
            file.write(key + "\n")
    except OSError as fault:
        raise ConfigError(
            f"The key file {path} cannot be made or read: {fault.strerror}. "
            f"Make its folder writable, choose another with JACKFIELD_DATA, or set {ADMIN_KEY_VARIABLE}."
        ) from None
    return key


def _kept_key(path: Path) -> str:
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        path.chmod(0o600)
    key = path.read_bytes().decode("utf-8", errors="replace").strip()
    if not key:
        raise ConfigError(f"The key file {path} is empty. Delete it; the next start makes a new one.")
    return key


def _some(principals: dict[str, Principal]) -> dict[str, Principal]:
    if not principals:
        raise ConfigError(
            "auth.admin_key is false and there is no other key, so nobody could use this gateway. "
            f"Add a key as [auth.keys.NAME], set {ADMIN_KEY_VARIABLE}, or remove auth.admin_key."
        )
    return principals


def _add(principals: dict[str, Principal], key: str, principal: Principal, where: str) -> None:
    same_key = principals.get(digest_of(key))
    if same_key is not None and same_key != principal:
        raise ConfigError(f"{where} is also the key of '{same_key.name}'. Give each its own key.")
    if any(known.name == principal.name and known != principal for known in principals.values()):
        raise ConfigError(
            f"{where} belongs to '{principal.name}', and so does auth.keys.{principal.name}. "
            f"Rename that table, or do without the other key: unset {ADMIN_KEY_VARIABLE}, or write "
            "admin_key = false under [auth]."
        )
    principals[digest_of(key)] = principal
