"""Durable steps of the built-in authorization server. Each is one transaction; what is kept are digests.

Whatever ends a grant publishes its topic, so that every gateway forgets the tokens that it has in memory.
"""

from collections.abc import Callable

import msgspec
from msgspec import Struct

from jackfield.identity.oauth.types import (
    ACCESS_SECONDS,
    CODE_SECONDS,
    GRANT_SECONDS,
    REFRESH_SECONDS,
    Client,
    Grant,
    IssuedTokens,
    NewGrant,
    Rights,
)
from jackfield.store.scripts import Row, Script, one, wake

GRANT_TOPIC = "oauth-grant:"
MOST_CLIENTS = 5_000
UNUSED_CLIENT_MS = 86_400_000
IDLE_CLIENT_MS = 90 * 86_400_000
CROWDED_CLIENT_MS = 3_600_000
"""How long a client that was never used is kept when there are too many."""
KEPT_MS = 86_400_000
"""How long what has expired is still known, so that a client is told so."""


class StoredCode(Struct, frozen=True, kw_only=True):
    """A code that was just used up."""

    redirect_uri: str
    challenge: str


class AccessToken(Struct, frozen=True, kw_only=True):
    """An access token with the grant that it belongs to."""

    grant_id: str
    principal: str
    credential: str
    resource: str
    scopes: tuple[str, ...]
    groups: tuple[str, ...] | None
    left_ms: int
    """Until it expires; negative: since."""


def add_client(client: Client) -> Script[bool]:
    """Keep a client that registered. Where there are too many, those go that nobody used within an hour."""
    values = {
        "id": client.id,
        "secret_digest": client.secret_digest,
        "metadata": msgspec.json.encode(client).decode(),
        "most": MOST_CLIENTS,
    }
    row = yield from one("insert_oauth_client", **values)
    if row is None:
        yield "prune_oauth_clients", {"unused_ms": CROWDED_CLIENT_MS, "idle_ms": IDLE_CLIENT_MS, "limit": MOST_CLIENTS}
        row = yield from one("insert_oauth_client", **values)
    return row is not None


def find_client(client_id: str) -> Script[Client | None]:
    row = yield from one("get_oauth_client", id=client_id)
    if row is None:
        return None
    client = msgspec.json.decode(row["metadata"], type=Client)
    return msgspec.structs.replace(client, secret_digest=row["secret_digest"])


def add_grant(grant_id: str, code_digest: str, grant: NewGrant) -> Script[None]:
    """Keep what a person allowed, and the code for it. Until the code is taken the grant lives as long as that."""
    lifetime_ms = CODE_SECONDS * 1000
    yield (
        "insert_oauth_grant",
        {
            "id": grant_id,
            "client_id": grant.client_id,
            "client_name": grant.client_name,
            "client_auth": grant.client_auth,
            "principal": grant.principal,
            "credential": grant.credential,
            "resource": grant.resource,
            "rights": msgspec.json.encode(grant.rights).decode(),
            "lifetime_ms": lifetime_ms,
        },
    )
    yield (
        "insert_oauth_code",
        {
            "digest": code_digest,
            "grant_id": grant_id,
            "redirect_uri": grant.redirect_uri,
            "challenge": grant.challenge,
            "lifetime_ms": lifetime_ms,
        },
    )


def code_grant(code_digest: str) -> Script[Grant | None]:
    """The grant of a code that may still be good."""
    row = yield from one("get_oauth_code", digest=code_digest)
    return None if row is None else (yield from find_grant(row["grant_id"]))


def take_code(
    code_digest: str, tokens: IssuedTokens, *, accepts: Callable[[StoredCode, Grant], bool]
) -> Script[Grant | None]:
    """Use a code up and keep its tokens. None: it is unknown, expired or not for this request.

    A code that comes a second time, or with the wrong proof, ends its grant and all that was issued for it.
    """
    row = yield from one("use_oauth_code", digest=code_digest)
    if row is None:
        known = yield from one("get_oauth_code", digest=code_digest)
        if known is not None and known["used_at"] is not None:
            yield from end_grant(known["grant_id"])
        return None
    grant = yield from find_grant(row["grant_id"])
    if grant is None:
        return None
    if not accepts(StoredCode(redirect_uri=row["redirect_uri"], challenge=row["challenge"]), grant):
        yield from end_grant(grant.id)
        return None
    yield from _keep_tokens(grant.id, tokens)
    yield "use_oauth_client", {"id": grant.client_id}
    return grant


def refresh_grant(refresh_digest: str) -> Script[Grant | None]:
    """The grant of a refresh token, whether that is spent or not."""
    row = yield from one("get_oauth_token", digest=refresh_digest)
    if row is None or row["kind"] != "refresh":
        return None
    return (yield from find_grant(row["grant_id"]))


def rotate_refresh(refresh_digest: str, tokens: IssuedTokens) -> Script[bool]:
    """Spend a refresh token and keep the next. False: it has expired, or was spent before, which ends the grant."""
    row = yield from one("spend_refresh_token", digest=refresh_digest)
    if row is None:
        known = yield from one("get_oauth_token", digest=refresh_digest)
        if known is not None and known["spent_at"] is not None:
            yield from end_grant(known["grant_id"])
        return False
    yield from _keep_tokens(row["grant_id"], tokens)
    return True


def end_grant(grant_id: str) -> Script[bool]:
    """Forget a grant, its codes and its tokens. False: it was gone."""
    row = yield from one("delete_oauth_grant", id=grant_id)
    yield "delete_oauth_tokens", {"grant_id": grant_id}
    yield "delete_oauth_codes", {"grant_id": grant_id}
    yield wake(f"{GRANT_TOPIC}{grant_id}")
    return row is not None


def revoke_token(digest: str, *, client_id: str) -> Script[bool]:
    """End a token of this client; with a refresh token, its whole grant. False: it is another client's."""
    token = yield from one("get_oauth_token", digest=digest)
    grant = None if token is None else (yield from find_grant(token["grant_id"]))
    if token is None or grant is None:
        return True
    if grant.client_id != client_id:
        return False
    if token["kind"] == "refresh":
        yield from end_grant(grant.id)
    else:
        yield "delete_oauth_token", {"digest": digest}
        yield wake(f"{GRANT_TOPIC}{grant.id}")
    return True


def find_access_token(digest: str) -> Script[AccessToken | None]:
    row = yield from one("find_access_token", digest=digest)
    if row is None:
        return None
    return AccessToken(
        grant_id=row["grant_id"],
        principal=row["principal"],
        credential=row["credential"],
        resource=row["resource"],
        scopes=tuple(row["scopes"].split()),
        groups=msgspec.json.decode(row["rights"], type=Rights).groups,
        left_ms=row["left_ms"],
    )


def find_grant(grant_id: str) -> Script[Grant | None]:
    row = yield from one("get_oauth_grant", id=grant_id)
    return None if row is None else _grant(row)


def grants_of(principal: str, *, limit: int) -> Script[list[Grant]]:
    """What a person allowed, the newest first; of everybody for the empty string."""
    rows = yield "grants_of", {"principal": principal, "limit": limit}
    return [_grant(row) for row in rows]


def prune(*, limit: int) -> Script[None]:
    """Delete one step of what has expired."""
    yield "prune_oauth_codes", {"kept_ms": KEPT_MS, "limit": limit}
    yield "prune_oauth_tokens", {"kept_ms": KEPT_MS, "limit": limit}
    yield "prune_oauth_grants", {"limit": limit}
    yield "prune_oauth_clients", {"unused_ms": UNUSED_CLIENT_MS, "idle_ms": IDLE_CLIENT_MS, "limit": limit}


def _keep_tokens(grant_id: str, tokens: IssuedTokens) -> Script[None]:
    scopes = " ".join(tokens.scopes)
    kept = [(tokens.access, "access", ACCESS_SECONDS)]
    if tokens.refresh is not None:
        kept.append((tokens.refresh, "refresh", REFRESH_SECONDS))
    for digest, kind, seconds in kept:
        yield (
            "insert_oauth_token",
            {"digest": digest, "grant_id": grant_id, "kind": kind, "scopes": scopes, "lifetime_ms": seconds * 1000},
        )
    longest = {"lifetime_ms": kept[-1][2] * 1000, "longest_ms": GRANT_SECONDS * 1000}
    yield "extend_oauth_grant", {"id": grant_id, **longest}


def _grant(row: Row) -> Grant:
    return Grant(
        id=row["id"],
        client_id=row["client_id"],
        client_name=row["client_name"],
        principal=row["principal"],
        credential=row["credential"],
        resource=row["resource"],
        rights=msgspec.json.decode(row["rights"], type=Rights),
        client_auth=row["client_auth"],
        created_at=row["created_at"],
        used_at=row["used_at"],
        expires_at=row["expires_at"],
    )
