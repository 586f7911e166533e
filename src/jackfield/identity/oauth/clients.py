"""Clients of the built-in authorization server: registered by themselves (RFC 7591), or by a metadata document.

Above: the endpoints. Below: rows of the store, and `documents.py`. Anybody may register, so registrations are small,
few per address and in all, and forgotten unless a person uses them soon.
"""

import hmac
import secrets
import time
from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Callable, Mapping
from functools import partial
from urllib.parse import unquote_plus

import msgspec
from msgspec import UNSET, Struct, UnsetType

from jackfield.errors import Unavailable
from jackfield.http.request import Request
from jackfield.identity.address_limit import AddressLimit
from jackfield.identity.keys import digest_of
from jackfield.identity.oauth import transactions as tx
from jackfield.identity.oauth.documents import MOST_REDIRECT_URIS, ClientDocuments, shown_name
from jackfield.identity.oauth.redirects import check_redirect_uri
from jackfield.identity.oauth.types import (
    AUTH_METHODS,
    BY_FORM,
    BY_HEADER,
    GRANT_CODE,
    GRANT_REFRESH,
    PUBLIC,
    Client,
    OAuthError,
)
from jackfield.store import Store

REGISTRATIONS_AT_ONCE = 20
REGISTRATIONS_PER_SECOND = 1 / 30
LONGEST_ID = 500
_UNKNOWN = "The client is unknown here: its registration may have expired. Have the program register again."


class Registration(Struct, frozen=True, kw_only=True):
    """What is read of a registration; the rest of what a client says of itself is left out."""

    redirect_uris: tuple[str, ...] = ()
    client_name: str = ""
    token_endpoint_auth_method: str = BY_HEADER
    grant_types: tuple[str, ...] | None = None
    response_types: tuple[str, ...] = ("code",)


class Registered(Struct, frozen=True, kw_only=True):
    """A new client, as it is told."""

    client_id: str
    client_id_issued_at: int
    redirect_uris: tuple[str, ...]
    grant_types: tuple[str, ...]
    response_types: tuple[str, ...] = ("code",)
    token_endpoint_auth_method: str
    client_name: str
    scope: str
    client_secret: str | UnsetType = UNSET
    client_secret_expires_at: int | UnsetType = UNSET


class Clients:
    """Everybody who may ask for tokens."""

    def __init__(
        self, store: Store, documents: ClientDocuments, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._documents = documents
        self._limit = AddressLimit(
            burst=REGISTRATIONS_AT_ONCE,
            per_second=REGISTRATIONS_PER_SECOND,
            refusal="Too many registrations from this address. Try again later.",
            clock=clock,
        )

    async def find(self, client_id: str) -> Client:
        """The client with this id. Raises `OAuthError` where there is none."""
        if is_document_url(client_id):
            return await self._documents.find(client_id)
        client = None
        if 0 < len(client_id) <= LONGEST_ID and "\x00" not in client_id:
            client = await self._store.read(partial(tx.find_client, client_id))
        if client is None:
            raise OAuthError("invalid_client", _UNKNOWN, status=401)
        return client

    async def register(self, body: bytes, *, address: str, scope: str) -> Registered:
        """Keep a client that registers itself."""
        self._limit.check(address)
        wanted = _read(body)
        secret = None if wanted.token_endpoint_auth_method == PUBLIC else secrets.token_urlsafe(32)
        client = Client(
            id=f"jfclient_{secrets.token_urlsafe(16)}",
            name=shown_name(wanted.client_name),
            redirect_uris=wanted.redirect_uris,
            auth_method=wanted.token_endpoint_auth_method,
            secret_digest=None if secret is None else digest_of(secret),
            grant_types=(GRANT_CODE, GRANT_REFRESH) if wanted.grant_types is None else wanted.grant_types,
        )
        if not await self._store.write(partial(tx.add_client, client)):
            raise Unavailable("Too many clients are registered that nobody uses. Try again in an hour.")
        return Registered(
            client_id=client.id,
            client_id_issued_at=int(time.time()),
            redirect_uris=client.redirect_uris,
            grant_types=client.grant_types,
            token_endpoint_auth_method=client.auth_method,
            client_name=client.name,
            scope=scope,
            client_secret=UNSET if secret is None else secret,
            client_secret_expires_at=UNSET if secret is None else 0,
        )

    async def authenticated(self, request: Request, fields: Mapping[str, str]) -> Client:
        """The client that makes a request to the token or the revocation endpoint."""
        client_id, secret, method = _credentials(request, fields)
        if not client_id:
            raise OAuthError("invalid_client", "The request names no client. Send 'client_id'.", status=401)
        if is_document_url(client_id):  # public: its id says all that its code or token is bound to
            return Client(id=client_id, name="", redirect_uris=())
        client = await self.find(client_id)
        if client.auth_method == PUBLIC:
            if secret:
                raise OAuthError("invalid_client", "This client is public and has no secret. Send none.", status=401)
            return client
        if client.auth_method != method:
            raise OAuthError("invalid_client", f"This client authenticates by '{client.auth_method}'.", status=401)
        if not hmac.compare_digest(digest_of(secret), client.secret_digest or ""):
            raise OAuthError("invalid_client", "The client's secret is wrong.", status=401)
        return client


def is_document_url(client_id: str) -> bool:
    """Whether a client's id is the address of its metadata document."""
    return client_id.startswith(("https://", "http://"))


def _read(body: bytes) -> Registration:
    try:
        wanted = msgspec.json.decode(body, type=Registration)
    except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
        raise OAuthError(
            "invalid_client_metadata", f"The registration is not JSON of the right form. {fault}."
        ) from None
    if not 1 <= len(wanted.redirect_uris) <= MOST_REDIRECT_URIS:
        raise OAuthError("invalid_redirect_uri", f"Register 1 to {MOST_REDIRECT_URIS} redirect URIs.")
    for uri in wanted.redirect_uris:
        check_redirect_uri(uri)
    if wanted.token_endpoint_auth_method not in AUTH_METHODS:
        known = ", ".join(AUTH_METHODS)
        raise OAuthError("invalid_client_metadata", f"'token_endpoint_auth_method' is one of {known}.")
    if "code" not in wanted.response_types:
        raise OAuthError("invalid_client_metadata", "The only response type is 'code'.")
    grants = wanted.grant_types
    if grants is not None:
        if GRANT_CODE not in grants:
            raise OAuthError("invalid_client_metadata", f"'grant_types' must have '{GRANT_CODE}'.")
        kept = tuple(grant for grant in (GRANT_CODE, GRANT_REFRESH) if grant in grants)
        wanted = msgspec.structs.replace(wanted, grant_types=kept)
    return wanted


def _credentials(request: Request, fields: Mapping[str, str]) -> tuple[str, str, str]:
    """Id, secret, and the way in which they were given (RFC 6749, 2.3.1)."""
    header = request.header(b"authorization")
    if header is None:
        secret = fields.get("client_secret", "")
        return fields.get("client_id", ""), secret, BY_FORM if secret else PUBLIC
    scheme, _, encoded = header.strip().partition(" ")
    try:
        client_id, colon, secret = b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (ValueError, BadBase64):
        client_id = colon = secret = ""
    if not colon or scheme.lower() != "basic":
        raise OAuthError("invalid_client", "The Authorization header must be 'Basic', with id and secret.", status=401)
    client_id, secret = unquote_plus(client_id), unquote_plus(secret)
    if "client_secret" in fields or fields.get("client_id", client_id) != client_id:
        raise OAuthError("invalid_request", "The client authenticates in two ways. Use one.")
    return client_id, secret, BY_HEADER
