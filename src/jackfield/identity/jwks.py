"""An issuer of tokens outside: its metadata, its signing keys, and whether a JWT is from it.

Above: sign-in by OpenID Connect, and `/mcp` with tokens of an external issuer. Below: the guarded HTTP client and
joserfc. Documents are cached; keys are read again when a token names one that is not known.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key
from msgspec import Struct

from jackfield.errors import Unauthenticated, Unavailable
from jackfield.outgoing import Outgoing, OutgoingError
from jackfield.protocol.json_bodies import UNREADABLE

log = logging.getLogger(__name__)

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""Signatures with a public key. Never `none`, and never a shared secret: everybody has the public key."""
METADATA_SECONDS = 3_600.0
KEYS_SECONDS = 600.0
STALE_SECONDS = 86_400.0
"""How long known keys are good while their issuer cannot be reached."""
RETRY_SECONDS = 10.0
"""At most so often is an issuer asked again for a key that it did not have, whatever tokens come."""
REQUEST_SECONDS = 10.0
MAX_BYTES = 512 * 1024
MOST_KEYS = 100
LONGEST_TOKEN = 16 * 1024
LEEWAY_SECONDS = 60
"""How far the issuer's clock may be off."""
_OPENID = "/.well-known/openid-configuration"
_OAUTH = "/.well-known/oauth-authorization-server"
_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class IssuerMetadata(Struct, frozen=True, kw_only=True):
    """What an issuer says of itself, by OpenID Connect Discovery or RFC 8414."""

    issuer: str
    jwks_uri: str | None = None
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    userinfo_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class _KeyList(Struct, frozen=True):
    keys: list[dict[str, Any]]


class Issuer:
    """One issuer: that of the operator's config, or a client that signs for itself."""

    def __init__(
        self,
        issuer: str,
        *,
        outgoing: Outgoing,
        jwks_url: str | None = None,
        is_configured: bool = True,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`jwks_url`: where its keys are, if not where its metadata says. Only one that the config names
        (`is_configured`) is reached at a private address.
        """
        self.issuer = issuer
        self._named_by = (jwks_url or issuer) if is_configured else None
        self._outgoing = outgoing
        self._jwks_url = jwks_url
        self._clock = clock
        self._now = now
        self._metadata: tuple[IssuerMetadata, float] | None = None
        self._keys: tuple[Key, ...] = ()
        self._keys_read_at = -STALE_SECONDS
        self._tried_at = -STALE_SECONDS
        self._reading = asyncio.Lock()
        self._is_failing = False
        """Whether its keys could not be read the last time."""
        self._rereading: asyncio.Task[None] | None = None
        self.faults: list[str] = []
        """Why its metadata could not be used the last time, each with the url."""

    async def metadata(self) -> IssuerMetadata:
        """Its metadata, from memory for an hour. Raises `Unavailable` where it cannot be had."""
        async with self._reading:
            return await self._read_metadata()

    async def verify(self, token: str, *, audience: str | tuple[str, ...]) -> dict[str, Any]:
        """The claims of a JWT that this issuer signed for `audience`, or one of several, and that is good now.

        Raises `Unauthenticated` for any other token, and `Unavailable` while the keys cannot be had.
        """
        if len(token) > LONGEST_TOKEN:
            raise Unauthenticated(f"The token is longer than {LONGEST_TOKEN:,} characters.")
        algorithm, key_id = _header_of(token)
        claims = _claims_of(token, await self._keys_for(algorithm, key_id))
        self._check(claims, (audience,) if isinstance(audience, str) else audience)
        return claims

    def _check(self, claims: dict[str, Any], audiences: tuple[str, ...]) -> None:
        if claims.get("iss") != self.issuer:
            raise Unauthenticated(f"The token is from another issuer than {self.issuer}.")
        given = claims.get("aud")
        listed = given if isinstance(given, list) else [given]
        if not any(audience in listed for audience in audiences):
            raise Unauthenticated(f"The token is for another audience than {audiences[0]}.")
        now, end = self._now(), _time(claims.get("exp"))
        if end is None or end + LEEWAY_SECONDS < now:
            raise Unauthenticated("The token has expired, or does not say when. Get a new one.")
        for name in ("nbf", "iat"):
            start = _time(claims.get(name, 0))
            if start is None or start - LEEWAY_SECONDS > now:
                raise Unauthenticated(f"The token is not good yet (its '{name}' is in the future).")

    async def _keys_for(self, algorithm: str, key_id: str | None) -> list[Key]:
        """Keys that may have signed it; the issuer is asked again where there is none, or after a while.

        Nobody with a key that is known waits for an issuer that is slow, unless it was not asked for long.
        """
        found, age = self._known(algorithm, key_id), self._clock() - self._keys_read_at
        if found and age < KEYS_SECONDS:
            return found
        if found and (age < 2 * KEYS_SECONDS or (self._is_failing and age <= STALE_SECONDS)):
            self._read_again()
            return found
        async with self._reading:
            found = self._known(algorithm, key_id)
            is_fresh = self._clock() - self._keys_read_at < KEYS_SECONDS
            if not (found and is_fresh) and self._clock() - self._tried_at >= RETRY_SECONDS:
                has_read = await self._read_keys()
                if is_fresh or not has_read:  # a regular reading does not count: keys may change right after it
                    self._tried_at = self._clock()
                found = self._known(algorithm, key_id)
        if self._clock() - self._keys_read_at > STALE_SECONDS:
            raise Unavailable(f"The keys of {self.issuer} cannot be read now. Try again in a moment.")
        if not found:
            raise Unauthenticated(f"The token is not signed with a key of {self.issuer}.")
        return found

    def _read_again(self) -> None:
        """Read the keys in a task of its own, one at a time."""
        is_reading = self._rereading is not None and not self._rereading.done()
        if not is_reading and self._clock() - self._tried_at >= RETRY_SECONDS:
            self._tried_at = self._clock()
            self._rereading = asyncio.create_task(self._reread(), name=f"keys of {self.issuer}")

    async def _reread(self) -> None:
        async with self._reading:
            await self._read_keys()

    def _known(self, algorithm: str, key_id: str | None) -> list[Key]:
        kind = _KINDS[algorithm[:2]]
        return [
            key
            for key in self._keys
            if key.key_type == kind
            and (key_id is None or key.kid is None or key.kid == key_id)
            and key.get("alg") in (None, algorithm)
        ]

    async def _read_keys(self) -> bool:
        """Read its keys. False: those that are known stay, because it does not answer."""
        self._is_failing = True
        try:
            url = self._jwks_url or (await self._read_metadata()).jwks_uri or ""
            listed = msgspec.json.decode(await self._get(url), type=_KeyList).keys
            self._keys = tuple(key for data in listed[:MOST_KEYS] if (key := _signing_key(data)) is not None)
            self._keys_read_at = self._clock()
        except (Unavailable, *UNREADABLE) as fault:
            log.warning("The keys of %s could not be read: %s", self.issuer, fault)
            return False
        self._is_failing = False
        return True

    async def _read_metadata(self) -> IssuerMetadata:
        if self._metadata is not None and self._metadata[1] > self._clock():
            return self._metadata[0]
        faults = self.faults = list[str]()
        for url in metadata_urls(self.issuer):
            try:
                found = msgspec.json.decode(await self._get(url), type=IssuerMetadata)
            except (Unavailable, *UNREADABLE) as fault:
                faults.append(f"{url}: {fault}")
                continue
            if found.issuer != self.issuer:
                faults.append(f"{url}: it is the metadata of '{found.issuer[:200]}'.")
                continue
            self._metadata = found, self._clock() + METADATA_SECONDS
            return found
        if self._metadata is not None:
            return self._metadata[0]
        log.warning("The metadata of the issuer %s cannot be used. %s", self.issuer, " ".join(faults))
        raise Unavailable(f"The metadata of {self.issuer} cannot be read now. The gateway's log says why.")

    async def _get(self, url: str) -> bytes:
        try:
            response = await self._outgoing.request(
                "GET", url, timeout=REQUEST_SECONDS, max_bytes=MAX_BYTES, named_by=self._named_by
            )
        except OutgoingError as fault:
            raise Unavailable(fault.message) from None
        if response.status != 200:  # noqa: PLR2004 - OK
            raise Unavailable(f"It answered with status {response.status}.")
        return response.content


def metadata_urls(issuer: str) -> tuple[str, ...]:
    """Where the metadata of an issuer may be, the likeliest first."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    return tuple(dict.fromkeys((f"{origin}{path}{_OPENID}", f"{origin}{_OAUTH}{path}", f"{origin}{_OPENID}{path}")))


def _header_of(token: str) -> tuple[str, str | None]:
    """The algorithm and key id that a token claims; the algorithm is one that is taken."""
    try:
        header = jws.extract_compact(token.encode()).headers()
    except (JoseError, ValueError) as fault:
        raise Unauthenticated("The token is not a JWT.") from fault
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise Unauthenticated(f"The token is signed with '{str(algorithm)[:40]}', which is not taken.")
    return algorithm, key_id if isinstance(key_id, str) else None


def _claims_of(token: str, keys: list[Key]) -> dict[str, Any]:
    """What is in the token, if one of the keys signed it."""
    for key in keys:
        try:
            return jwt.decode(token, _always(key), algorithms=list(ALGORITHMS)).claims
        except (JoseError, ValueError, TypeError):
            continue
    raise Unauthenticated("The signature of the token is wrong.")


def _always(key: Key) -> Callable[[object], Key]:
    """The key was chosen already."""
    return lambda _signature: key


def _signing_key(data: dict[str, Any]) -> Key | None:
    """A public key that signs; None for any other, and for one that cannot be read."""
    if data.get("use") not in (None, "sig") or data.get("kty") not in _KINDS.values():
        return None
    try:
        return JWKRegistry.import_key(data)
    except (JoseError, ValueError, TypeError, KeyError):
        return None


def _time(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
