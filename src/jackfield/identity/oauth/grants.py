"""Codes and tokens of the built-in authorization server: issue, exchange, refresh, revoke.

Above: the endpoints. Below: rows of the store, and `Principals`, who says whether a person is still there. Nothing is
kept but digests; a token never holds more than the person who allowed it.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from jackfield.errors import NotFound
from jackfield.identity.keys import digest_of
from jackfield.identity.oauth import transactions as tx
from jackfield.identity.oauth.assertions import Assertions
from jackfield.identity.oauth.types import (
    ACCESS_PREFIX,
    ACCESS_SECONDS,
    CODE_PREFIX,
    REFRESH_PREFIX,
    SCOPES,
    Client,
    Grant,
    IssuedTokens,
    NewGrant,
    OAuthError,
)
from jackfield.identity.principals import Principals
from jackfield.model.ids import new_id
from jackfield.model.principal import GroupBook, GroupLimit, Principal, Scope
from jackfield.store import Store

MOST_LISTED = 1_000
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_BAD_CODE = (
    "The code is used up, too old, or not for this client, redirect URI and verifier. "
    "Begin again at the authorization endpoint."
)
_BAD_REFRESH = "The refresh token is used up, expired or revoked. Begin again at the authorization endpoint."


class TokenResponse(Struct, frozen=True, kw_only=True):
    """What the token endpoint answers (RFC 6749, 5.1)."""

    access_token: str
    expires_in: int
    scope: str
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105 - a kind, not a token
    refresh_token: str | UnsetType = UNSET


class TokenEndpoint(Struct, frozen=True, kw_only=True):
    """What a token request is addressed to."""

    audiences: tuple[str, ...]
    """How a client may name this server in what it signs."""
    resource: str | None
    """The path of the resource that the request names, if it does."""


class Grants:
    """What people allowed clients, and the tokens for it."""

    def __init__(self, store: Store, principals: Principals, assertions: Assertions) -> None:
        self._store = store
        self._principals = principals
        self._assertions = assertions

    async def allow(self, grant: NewGrant) -> str:
        """Keep what a person just allowed; the code for it."""
        code = f"{CODE_PREFIX}{secrets.token_urlsafe(32)}"
        await self._store.write(partial(tx.add_grant, new_id("grant"), digest_of(code), grant))
        return code

    async def exchange(self, client: Client, fields: Mapping[str, str], at: TokenEndpoint) -> TokenResponse:
        """Tokens for a code."""
        code, verifier = _field(fields, "code"), _field(fields, "code_verifier")
        redirect_uri = fields.get("redirect_uri")  # OAuth 2.1 has it no more; where it is given it must be right
        digest = digest_of(code)
        grant = await self._store.read(partial(tx.code_grant, digest))
        if grant is not None:
            await self._check(grant, client, fields, at)
        scopes = () if grant is None else await self._scopes_now(grant, grant.rights.scopes)
        response, tokens = _new_tokens(scopes, refreshes=client.refreshes)

        def accepts(kept: tx.StoredCode, of: Grant) -> bool:
            return (
                of.client_id == client.id
                and redirect_uri in (None, kept.redirect_uri)
                and _proves(verifier, kept.challenge)
                and bool(scopes)
            )

        if await self._store.write(partial(tx.take_code, digest, tokens, accepts=accepts)) is None:
            raise OAuthError("invalid_grant", _BAD_CODE)
        return response

    async def refresh(self, client: Client, fields: Mapping[str, str], at: TokenEndpoint) -> TokenResponse:
        """New tokens for a refresh token, which is spent by it. One that was spent before ends all of them."""
        digest = digest_of(_field(fields, "refresh_token"))
        grant = await self._store.read(partial(tx.refresh_grant, digest))
        if grant is None or grant.client_id != client.id:
            raise OAuthError("invalid_grant", _BAD_REFRESH)
        await self._check(grant, client, fields, at)
        wanted = fields.get("scope", "").split()
        if not set(wanted) <= set(grant.rights.scopes):
            raise OAuthError("invalid_scope", "A refresh cannot have more scopes than were allowed.")
        scopes = await self._scopes_now(grant, wanted or grant.rights.scopes)
        if not scopes:
            raise OAuthError("invalid_grant", "The person who allowed this may not do it any more, or is signed out.")
        response, tokens = _new_tokens(scopes, refreshes=True)
        if not await self._store.write(partial(tx.rotate_refresh, digest, tokens)):
            raise OAuthError("invalid_grant", _BAD_REFRESH)
        return response

    async def revoke(self, client: Client, token: str) -> None:
        """End a token of this client (RFC 7009); one that is unknown is ended already."""
        if not await self._store.write(partial(tx.revoke_token, digest_of(token), client_id=client.id)):
            raise OAuthError("invalid_grant", "The token was issued to another client.")

    async def all_of(self, principal: Principal) -> list[Grant]:
        """What this person allowed and is still good; for administrators, what everybody did."""
        name = "" if _sees_all(principal) else principal.name
        found = await self._store.read(partial(tx.grants_of, name, limit=MOST_LISTED))
        return [one for one in found if self._principals.holder(one.credential, name=one.principal) is not None]

    async def end(self, grant_id: str, principal: Principal) -> None:
        """Take back what was allowed. Raises `NotFound` for what somebody else allowed."""
        grant = await self._store.read(partial(tx.find_grant, grant_id))
        is_theirs = grant is not None and (_sees_all(principal) or grant.principal == principal.name)
        if not is_theirs or not await self._store.write(partial(tx.end_grant, grant_id)):
            raise NotFound(f"There is no grant '{grant_id[:100]}'. 'jackfield grants' lists those there are.")

    async def _check(self, grant: Grant, client: Client, fields: Mapping[str, str], at: TokenEndpoint) -> None:
        """Raise `OAuthError` for another resource than was allowed, and for a client that does not prove itself."""
        if at.resource is not None and at.resource != grant.resource:
            raise _wrong_resource()
        if grant.client_auth is not None and grant.client_id == client.id:
            await self._assertions.check(client.id, fields, audiences=at.audiences)

    async def _scopes_now(self, grant: Grant, scopes: Iterable[str]) -> tuple[str, ...]:
        """Those of the scopes that the person still holds; none if they are gone."""
        holder = self._principals.holder(grant.credential, name=grant.principal)
        if holder is None:  # perhaps they signed in at another gateway a moment ago
            await self._principals.read(grant.principal)
            holder = self._principals.holder(grant.credential, name=grant.principal)
        return () if holder is None else left_of(holder, scopes)


def _sees_all(principal: Principal) -> bool:
    """Whether it may see and end what others allowed: an administrator without limits."""
    return principal.is_admin and not principal.is_limited


def held_scopes(principal: Principal, scopes: Iterable[str]) -> tuple[str, ...]:
    """Those of the scopes that this principal can pass on. A key of an agent or a tool server has none: `call` without
    its `agent:NAME` would be more.
    """
    wanted, held = set(scopes), principal.scopes
    return tuple(
        scope
        for scope in SCOPES
        if scope in wanted
        and (scope in held or principal.is_admin or (scope == Scope.READ.value and Scope.CALL.value in held))
    )


def left_of(principal: Principal, scopes: Iterable[str]) -> tuple[str, ...]:
    """What is left of scopes that were allowed: who may not call any more may still `read`, which `call` holds."""
    allowed = set(scopes)
    kept = held_scopes(principal, allowed)
    if Scope.CALL.value in allowed and Scope.CALL.value not in kept:
        return held_scopes(principal, {*allowed, Scope.READ.value})
    return kept


def narrowed(
    principal: Principal,
    scopes: Iterable[str],
    groups: tuple[str, ...] | None,
    book: GroupBook,
    *,
    grant: str | None = None,
) -> Principal:
    """The person within what they allowed: never more than they hold themselves."""
    kept = set(left_of(principal, scopes))
    if Scope.CALL.value in kept:
        kept |= {scope for scope in principal.scopes if scope.startswith("agent:")}
    limit = principal.groups
    if groups is not None:
        own = None if limit is None else set(limit.names)
        limit = GroupLimit(tuple(name for name in groups if own is None or name in own), book)
    return msgspec.structs.replace(principal, scopes=frozenset(kept), groups=limit, grant=grant)


def _new_tokens(scopes: tuple[str, ...], *, refreshes: bool) -> tuple[TokenResponse, IssuedTokens]:
    access = f"{ACCESS_PREFIX}{secrets.token_urlsafe(32)}"
    refresh = f"{REFRESH_PREFIX}{secrets.token_urlsafe(32)}" if refreshes else None
    response = TokenResponse(
        access_token=access,
        expires_in=ACCESS_SECONDS,
        scope=" ".join(scopes),
        refresh_token=UNSET if refresh is None else refresh,
    )
    kept = None if refresh is None else digest_of(refresh)
    return response, IssuedTokens(access=digest_of(access), refresh=kept, scopes=scopes)


def _proves(verifier: str, challenge: str) -> bool:
    """PKCE with S256 (RFC 7636)."""
    if _VERIFIER.fullmatch(verifier) is None:
        return False
    made = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
    return hmac.compare_digest(made, challenge.encode())


def _field(fields: Mapping[str, str], name: str) -> str:
    value = fields.get(name, "")
    if not value:
        raise OAuthError("invalid_request", f"The request has no '{name}'. Send it.")
    return value


def _wrong_resource() -> OAuthError:
    return OAuthError("invalid_target", "The resource is not the one that was allowed. Leave it out, or name that one.")
