"""Client id metadata documents: a client whose id is an https url, with its metadata at that url.

Above: `clients.py`. Below: the guarded HTTP client, which reaches no private address. Documents are small, fetched
without redirects, and cached for a while; so are failures, so that nobody makes the gateway ask again and again.
"""

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from jackfield.identity.oauth.redirects import check_redirect_uri
from jackfield.identity.oauth.types import BY_KEY, GRANT_CODE, GRANT_REFRESH, PUBLIC, Client, OAuthError
from jackfield.outgoing import Outgoing, OutgoingError

MAX_BYTES = 16 * 1024
REQUEST_SECONDS = 5.0
MOST_CACHED = 500
LONGEST_URL = 500
CACHE_SECONDS = 3_600.0
SHORTEST_CACHE, LONGEST_CACHE = 60.0, 86_400.0
FAILURE_SECONDS = 30.0
MOST_REDIRECT_URIS = 20
LONGEST_NAME = 80
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and signs that show as nothing."""
_STACKED = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f]{3,}"
)
"""Marks over and under a letter, more than any language has."""
_MAX_AGE = re.compile(r"(?:^|[,\s])max-age=(\d{1,9})")


class ClientDocument(Struct, frozen=True, kw_only=True):
    """What is read of a document."""

    client_id: str
    client_name: str
    redirect_uris: tuple[str, ...]
    token_endpoint_auth_method: str = PUBLIC
    jwks_uri: str | None = None
    grant_types: tuple[str, ...] = (GRANT_CODE, GRANT_REFRESH)


class ClientDocuments:
    """Fetches and caches them."""

    def __init__(self, outgoing: Outgoing, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._outgoing = outgoing
        self._clock = clock
        self._cached: OrderedDict[str, tuple[Client | OAuthError, float]] = OrderedDict()
        self._fetching: dict[str, asyncio.Lock] = {}

    async def find(self, client_id: str) -> Client:
        """The client whose id is this url. Raises `OAuthError` where its document cannot be used."""
        check_client_url(client_id)
        found = self._known(client_id)
        if found is None:
            lock = self._fetching.setdefault(client_id, asyncio.Lock())
            try:
                async with lock:
                    found = self._known(client_id) or await self._fetch(client_id)
            finally:
                self._fetching.pop(client_id, None)
        if isinstance(found, OAuthError):
            raise OAuthError(found.error, found.message)
        return found

    def _known(self, client_id: str) -> Client | OAuthError | None:
        found, until = self._cached.get(client_id, (None, 0.0))
        return found if until > self._clock() else None

    async def _fetch(self, client_id: str) -> Client | OAuthError:
        found: Client | OAuthError
        try:
            found, seconds = await self._read(client_id)
        except OAuthError as fault:
            found, seconds = fault, FAILURE_SECONDS
        self._cached[client_id] = found, self._clock() + seconds
        self._cached.move_to_end(client_id)
        if len(self._cached) > MOST_CACHED:
            self._cached.popitem(last=False)
        return found

    async def _read(self, client_id: str) -> tuple[Client, float]:
        try:
            response = await self._outgoing.request(
                "GET", client_id, timeout=REQUEST_SECONDS, max_bytes=MAX_BYTES, max_redirects=0
            )
        except OutgoingError as fault:
            raise _unusable(f"it could not be read. {fault.message}") from None
        if response.status != 200:  # noqa: PLR2004 - OK
            raise _unusable(f"its server answered with status {response.status}.")
        try:
            document = msgspec.json.decode(response.content, type=ClientDocument)
        except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
            raise _unusable(f"it is not JSON of the right form. {fault}.") from None
        return client_from(document, url=client_id), _seconds(response.headers.get("cache-control", ""))


def check_client_url(client_id: str) -> None:
    """Raise `OAuthError` unless this can be the address of a document: https, with a path, without tricks."""
    try:
        parts = urlsplit(client_id)
        _ = parts.port
    except ValueError:
        raise _unusable("its address is not a URL.") from None
    is_plain = (
        len(client_id) <= LONGEST_URL and client_id.isascii() and client_id.isprintable() and " " not in client_id
    )
    if parts.scheme != "https" or not parts.hostname or parts.path in ("", "/") or not is_plain:
        raise _unusable("its address must be an https URL with a path.")
    if "#" in client_id or "@" in parts.netloc or {".", ".."} & set(parts.path.split("/")):
        raise _unusable("its address has a fragment, a user or dots in it.")


def client_from(document: ClientDocument, *, url: str) -> Client:
    """The client of a document that was read at `url`."""
    if document.client_id != url:
        raise _unusable(f"it says that it is '{document.client_id[:200]}', which is another address.")
    method, jwks_uri = document.token_endpoint_auth_method, document.jwks_uri
    if method not in (PUBLIC, BY_KEY):
        raise _unusable(
            f"its client wants to authenticate by '{method[:40]}'. With a document it is '{PUBLIC}' or '{BY_KEY}'."
        )
    if method == BY_KEY and (jwks_uri is None or not jwks_uri.startswith("https://") or len(jwks_uri) > LONGEST_URL):
        raise _unusable(f"its client authenticates by '{BY_KEY}', so it needs a 'jwks_uri' with https.")
    if not 1 <= len(document.redirect_uris) <= MOST_REDIRECT_URIS:
        raise _unusable(f"it must have 1 to {MOST_REDIRECT_URIS} redirect URIs.")
    for uri in document.redirect_uris:
        check_redirect_uri(uri)
    return Client(
        id=url,
        name=shown_name(document.client_name) or urlsplit(url).netloc,
        redirect_uris=document.redirect_uris,
        grant_types=document.grant_types,
        auth_method=method,
        jwks_uri=jwks_uri if method == BY_KEY else None,
        is_verified=True,
    )


def shown_name(name: str) -> str:
    """A name that a client gave itself, as people may see it: short, on one line, without hidden characters."""
    seen = "".join(character for character in name[: 4 * LONGEST_NAME] if character not in _BLANK)
    words = "".join(c for c in " ".join(seen.split()) if c.isprintable())
    return _STACKED.sub("", words)[:LONGEST_NAME].strip()


def _seconds(cache_control: str) -> float:
    if "no-store" in cache_control or "no-cache" in cache_control:
        return SHORTEST_CACHE
    found = _MAX_AGE.search(cache_control)
    return CACHE_SECONDS if found is None else min(max(float(found[1]), SHORTEST_CACHE), LONGEST_CACHE)


def _unusable(why: str) -> OAuthError:
    return OAuthError("invalid_client", f"The metadata document of this client cannot be used: {why}")
