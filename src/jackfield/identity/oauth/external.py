"""Bearer tokens of an external issuer at `/mcp`: JWTs, checked with its keys.

Above: the authenticator. Below: `jwks.py`. Rights come from `[auth.roles]` by the claims; scopes of ours in the token
narrow them. A token that was verified is remembered until it expires, a minute at most.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jackfield.errors import Forbidden, Unauthenticated
from jackfield.http.request import Request
from jackfield.identity.jwks import Issuer
from jackfield.identity.keys import digest_of
from jackfield.identity.oauth.addresses import Addresses
from jackfield.identity.oauth.grants import narrowed
from jackfield.identity.oauth.types import SCOPES
from jackfield.identity.oidc import groups_in, is_subject, verified_email
from jackfield.identity.people import USER_PREFIX, People
from jackfield.identity.roles import role_principal, roles_for
from jackfield.model.principal import GroupBook, Principal
from jackfield.settings.identity import RoleSettings

REMEMBER_SECONDS = 60.0
MOST_REMEMBERED = 10_000
_JWT_START = b"eyJ"


class _Verified(NamedTuple):
    """A token that was good a moment ago."""

    principal: Principal
    until: float
    issued_at: float


class ExternalTokens:
    """Tokens of the issuer in `[auth.oauth]`."""

    def __init__(
        self,
        issuer: Issuer,
        roles: Mapping[str, RoleSettings],
        *,
        addresses: Addresses,
        groups: GroupBook,
        groups_claim: str,
        people: People,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._issuer = issuer
        self._roles = roles
        self._addresses = addresses
        self._groups = groups
        self._groups_claim = groups_claim
        self._people = people
        self._clock = clock
        self._now = now
        self._known: OrderedDict[tuple[str, str], _Verified] = OrderedDict()

    def apply(self, roles: Mapping[str, RoleSettings]) -> None:
        """Give whoever brings a token what these roles allow, also those who were let in before."""
        self._roles = roles
        self._known.clear()

    def may_be_token(self, given: bytes) -> bool:
        return given.startswith(_JWT_START) and given.count(b".") == 2  # noqa: PLR2004 - header, claims, signature

    async def find(self, token: bytes, request: Request) -> Principal | None:
        audience = self._addresses.resource(request, request.scope["path"])
        known = digest_of(token), audience
        found = self._known.get(known)
        if found is None or found.until <= self._clock():
            found = await self._verify(token, audience)
            self._known[known] = found
            self._known.move_to_end(known)
            if len(self._known) > MOST_REMEMBERED:
                self._known.popitem(last=False)
        user = self._people.user(found.principal.name)
        if user is not None and user.tokens_since is not None and found.issued_at * 1000 <= user.tokens_since:
            raise Unauthenticated("You were signed out everywhere. Log in again.")
        return found.principal

    async def _verify(self, token: bytes, audience: str) -> "_Verified":
        claims = await self._issuer.verify(token.decode("ascii", "replace"), audience=audience)
        left = max(0.0, float(claims["exp"]) - self._now())
        until = self._clock() + min(REMEMBER_SECONDS, left)
        return _Verified(self._principal_of(claims), until, float(claims.get("iat", 0)))

    def _principal_of(self, claims: dict[str, Any]) -> Principal:
        subject = claims.get("sub")
        if not is_subject(subject):
            raise Forbidden("The token does not say whose it is ('sub').")
        groups = groups_in(claims, self._groups_claim) or ()
        held = roles_for(self._roles, groups=groups, email=verified_email(claims))
        principal = role_principal(f"{USER_PREFIX}{subject}", held, self._roles, groups=self._groups)
        if principal is None:
            raise Forbidden(
                f"'{USER_PREFIX}{subject}' has no role here. Ask the operator to add one under [auth.roles]."
            )
        asked = _scopes_in(claims)
        return narrowed(principal, asked or SCOPES, None, self._groups)


def _scopes_in(claims: dict[str, Any]) -> set[str]:
    """Scopes of ours that the token has; an issuer that has none of them narrows nothing."""
    given = claims.get("scope", claims.get("scp", ""))
    words = given.split() if isinstance(given, str) else given if isinstance(given, list) else []
    return {word for word in words if isinstance(word, str)} & SCOPES.keys()
