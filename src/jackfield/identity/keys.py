"""Who a key belongs to. Keys are kept as SHA-256 digests, so that a lookup compares no secret byte by byte.

Above: the gateway, which holds one `Keyring`, and the handlers, which ask it. Below: settings and the data folder.
"""

import hashlib
import math
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from msgspec import Struct

from jackfield.errors import ConfigError, KeyDisabled
from jackfield.identity.transactions import StoredKey
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
    """What a login or a token is bound to, and whose it is."""

    key: str
    """The digest of a key; for a person, what changes when they are signed out everywhere."""
    principal: Principal


class ConfiguredKeys(Struct, frozen=True, kw_only=True):
    """The keys of the config, of `JACKFIELD_ADMIN_KEY` and of the data folder."""

    by_digest: dict[str, Principal]
    file: Path | None
    """Where the key is that was made at first start; None where it is not in use."""


class Keyring:
    """Every key this gateway knows, by digest, and the one-time codes of its login links."""

    def __init__(
        self,
        principals: dict[str, Principal],
        *,
        key_file: Path | None = None,
        groups: GroupBook | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.key_file = key_file
        """Where the key is that was made at first start; None where it is not in use."""
        self._by_digest = principals
        self._by_name = {principal.name: principal for principal in principals.values()}
        self._lent: dict[str, Principal] = {}
        """By digest: keys for a while, which are in `_by_digest` too."""
        self._codes: dict[str, tuple[Credential, float]] = {}
        self._clock = clock
        self._now = now
        self._groups = groups or _NoGroups()
        self.stored: dict[str, StoredKey] = {}
        """By name: keys that were made while the gateway runs."""
        self._stored_digests: dict[str, tuple[Principal, float]] = {}
        """Whose each of them is, and until when, in seconds since 1970."""
        self.on_revoked: Callable[[AbstractSet[str]], None] = lambda _: None
        """Told the names of keys that are revoked, rotated or expired."""
        self._looked_at = self._now()
        self.off: Mapping[str, str] = {}
        """Why keys are off for everybody, by name."""

    @classmethod
    def from_settings(cls, settings: Settings, *, groups: GroupBook | None = None) -> "Keyring":
        """The keys as `configured_keys` finds them. `groups` knows what is in the groups that keys are limited to."""
        found = configured_keys(settings, groups=groups)
        return cls(found.by_digest, key_file=found.file, groups=groups)

    def apply(self, keys: ConfiguredKeys) -> frozenset[str]:
        """Have these for the configured keys. Those that are gone or changed end; the names of those that are gone."""
        before, named = self._by_digest, self._by_name
        self.key_file = keys.file
        self._by_digest = {**keys.by_digest, **self._lent}
        self._by_name = {principal.name: principal for principal in keys.by_digest.values()}
        ended = {
            principal.name
            for digest, principal in before.items()
            if digest not in self._lent and keys.by_digest.get(digest) != principal
        }
        shadowed = self._by_name.keys() & self.stored.keys() - named.keys()
        self.take_stored(self.stored.values())
        if told := ended | shadowed:
            self.on_revoked(told)
        return frozenset(named.keys() - self._by_name.keys() - self.stored.keys())

    def find(self, key: str | bytes) -> Principal | None:
        """Whose key this is, if anybody's. Raises `KeyDisabled` for one that is switched off."""
        return self._on(self.known(key))

    def known(self, key: str | bytes) -> Principal | None:
        """The same, also of one that is switched off."""
        digest = digest_of(key)
        return self._by_digest.get(digest) or self._stored_holder(digest)

    def credential(self, key: str | bytes) -> Credential | None:
        """The same, for a login that is to end with this key."""
        digest = digest_of(key)
        principal = self._on(self._by_digest.get(digest) or self._stored_holder(digest))
        return None if principal is None else Credential(key=digest, principal=principal)

    def holder(self, key_digest: str, *, name: str) -> Principal | None:
        """The principal of that name, as long as the key with this digest is still its own."""
        if name in self.off:
            return None
        principal = self._by_digest.get(key_digest)
        if principal is None:
            stored = self._stored_holder(key_digest)
            return stored if stored is not None and stored.name == name else None
        return principal if principal == self._by_name.get(name) else None

    def named(self, name: str) -> Principal | None:
        """The principal of that name, as long as it still has a key, and that is not switched off."""
        if name in self.off:
            return None
        stored = self.stored.get(name)
        return self._by_name.get(name) or (None if stored is None else self._stored_holder(stored.digest))

    def _on(self, principal: Principal | None) -> Principal | None:
        if principal is not None and (why := self.off.get(principal.on_record)) is not None:
            raise KeyDisabled(why)
        return principal

    def switch_off(self, why: Mapping[str, str]) -> None:
        """These keys, by name, are off from now on, and no others. What they have open ends."""
        gone = why.keys() - self.off.keys()
        self.off = why
        if gone:
            self.on_revoked(gone)

    def is_configured(self, name: str) -> bool:
        """Whether the key of this name comes from the config or the data folder."""
        return name in self._by_name

    @property
    def configured(self) -> list[Principal]:
        """Those keys, by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    @property
    def names(self) -> list[str]:
        """Of every key, whatever it comes from."""
        return sorted({*self._by_name, *self.stored})

    @property
    def lasting(self) -> set[str]:
        """The administrator's key of the environment or the data folder."""
        return {ADMIN.name} & self._by_name.keys()

    def take_stored(self, keys: Iterable[StoredKey]) -> None:
        """These are the keys of the store from now on."""
        before = self._stored_digests
        self.stored = {key.name: key for key in keys}
        self._stored_digests = {
            digest: (self._principal_of(key), until)
            for key in self.stored.values()
            if key.name not in self._by_name
            for digest, until in _digests(key)
        }
        gone = {principal.name for digest, (principal, _) in before.items() if digest not in self._stored_digests}
        if gone := gone - self._by_name.keys():
            self.on_revoked(gone)

    def look_for_expired(self) -> None:
        """Tell whose keys have expired since the last look, or whose rotation's grace period has ended."""
        before, self._looked_at = self._looked_at, self._now()
        ends = self._stored_digests.values()
        if gone := {principal.name for principal, until in ends if before < until <= self._looked_at}:
            self.on_revoked(gone)

    def _principal_of(self, key: StoredKey) -> Principal:
        rights = key.rights
        return Principal(
            name=key.name,
            scopes=frozenset(rights.scopes),
            tools=rights.tools,
            groups=None if rights.groups is None else GroupLimit(rights.groups, self._groups),
            agents=rights.agents,
            spaces=rights.spaces,
            budget=rights.budget,
        )

    def _stored_holder(self, digest: str) -> Principal | None:
        found = self._stored_digests.get(digest)
        return found[0] if found is not None and found[1] > self._now() else None

    def acts_as(self, agent: str) -> bool:
        """Whether a key was given to this agent, which may be a program outside that nothing else here knows."""
        everybody = (*self._by_name.values(), *(principal for principal, _ in self._stored_digests.values()))
        return any(agent in principal.named("agent") for principal in everybody)

    def lend(self, key: str, principal: Principal) -> None:
        """A key for a while: found by itself, and by nobody's name, so that no login can be made of it."""
        self._lent[digest_of(key)] = self._by_digest[digest_of(key)] = principal

    def take_back(self, key: str) -> None:
        self._lent.pop(digest_of(key), None)
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


def configured_keys(settings: Settings, *, groups: GroupBook | None = None) -> ConfiguredKeys:
    """The keys of the config, of `JACKFIELD_ADMIN_KEY` and of the data folder; without any, one is made there."""
    principals: dict[str, Principal] = {}
    for name, key in settings.keys.items():
        principal = Principal(
            name=name,
            scopes=frozenset(key.scopes),
            tools=key.tools,
            groups=None if key.groups is None else GroupLimit(key.groups, groups or _NoGroups()),
            agents=key.agents,
            spaces=key.spaces,
            budget=key.budget,
        )
        _add(principals, key.key, principal, f"auth.keys.{name}.key")
    if admin_key := settings.secrets.get(ADMIN_KEY_VARIABLE):
        _add(principals, admin_key, ADMIN, ADMIN_KEY_VARIABLE)
    path = settings.data / ADMIN_KEY_FILE
    if not settings.admin_key or (principals and not path.exists()):
        return ConfiguredKeys(by_digest=_some(principals), file=None)
    _add(principals, made_or_kept_key(path), ADMIN, str(path))
    return ConfiguredKeys(by_digest=principals, file=path)


def _digests(key: StoredKey) -> Iterator[tuple[str, float]]:
    """The digests that a key is known by, and until when each is, in seconds since 1970."""
    end = math.inf if key.expires_at is None else key.expires_at / 1000
    yield key.digest, end
    if key.old_digest is not None and key.old_until is not None:
        yield key.old_digest, min(end, key.old_until / 1000)


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
