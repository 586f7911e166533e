"""Who asks: the key in a request's headers or the login in its cookie, made into a principal.

Above: `http/app.py`. Below: the keyring and the logins in the store. A refusal says what is missing and how to give it.
"""

import asyncio
import hmac
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Protocol

from msgspec import Struct

from jackfield.audit.log import AuditLog
from jackfield.audit.types import Entry
from jackfield.errors import BadRequest, Forbidden, KeyDisabled, RateLimited, Refused, Unauthenticated
from jackfield.http.request import NOBODY, Request
from jackfield.http.routing import Permission, Route, SocketRoute
from jackfield.identity import transactions as login_tx
from jackfield.identity.keys import Credential, Keyring, digest_of
from jackfield.identity.people import USER_PREFIX
from jackfield.identity.principals import Principals
from jackfield.identity.transactions import Login
from jackfield.model.principal import Principal, Scope
from jackfield.store import Store

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_KEY_HEADERS = (b"x-api-key", b"x-secret-key")
UNKNOWN_KEY = "The key is unknown to this gateway. Check it for typos."
_HOW = "Send it as 'Authorization: Bearer KEY', 'x-api-key: KEY' or 'x-secret-key: KEY'."


class TokenResource(Protocol):
    """Knows whose an OAuth token is, and says where to get one."""

    def may_be_token(self, given: bytes) -> bool:
        """Whether this looks like a token rather than a key."""
        ...

    async def find(self, token: bytes, request: Request) -> Principal | None:
        """The principal that the token stands for at this resource; None: it is unknown.

        Raises `Unauthenticated` for a token that is not good, or not good here.
        """
        ...

    def challenge(self, request: Request, *, lacks: str | None = None) -> str:
        """What `WWW-Authenticate` says; `lacks`: the scope that a token has to have as well."""
        ...


class Authenticator:
    """Makes the key in a request's headers, or the login in its cookie, into a principal."""

    def __init__(
        self,
        keyring: Keyring,
        logins: "Logins",
        throttle: "Throttle",
        *,
        public_reader: Principal | None,
        is_live_session: Callable[[str | None], bool],
        tokens: "TokenResource | None" = None,
    ) -> None:
        self._keyring = keyring
        self._logins = logins
        self._throttle = throttle
        self._public_reader = public_reader
        """Who reads the catalog without a key, where `[discovery] public` allows it."""
        self._is_live_session = is_live_session
        self._tokens = tokens
        """Takes OAuth tokens at `/mcp`; None where they are off."""

    async def authenticate(self, request: Request, route: Route | SocketRoute) -> Principal:
        """The principal who asks, if its key is good for this route."""
        scope = route.scope
        try:
            principal = await self.recognise(request, takes_tokens=route.takes_tokens)
        except Unauthenticated as refusal:
            raise self._challenging(refusal, request, route) from refusal.__cause__
        except KeyDisabled:
            request.principal = self._holder(request)  # in whose name the attempt goes on record
            raise
        if principal is None and route.is_discovery:
            principal = self._public_reader
        if principal is None:
            raise self._challenging(Unauthenticated(f"{route.name} needs a key. {_HOW}"), request, route)
        request.principal = principal
        if isinstance(scope, Permission):
            if not scope.holds(principal):
                raise Forbidden(
                    f"{route.name} needs {scope.description}, which the key '{principal.name}' lacks. Use another key."
                )
        elif scope is not None and not (
            principal.may(scope) or (route.for_sessions and self._is_live_session(principal.session))
        ):
            lacking = Forbidden(
                f"The key '{principal.name}' lacks the scope '{scope.value}', which {route.name} needs. "
                f"{self._how_to_widen(principal, scope)}"
            )
            raise self._challenging(lacking, request, route, lacks=scope.value)
        return principal

    def _holder(self, request: Request) -> Principal:
        key = key_in(request.headers)
        return (None if key is None else self._keyring.known(key)) or NOBODY

    def _challenging(
        self, refusal: Refused, request: Request, route: Route | SocketRoute, *, lacks: str | None = None
    ) -> Refused:
        """The refusal, which says where to get a token at a route that takes them."""
        if route.takes_tokens and self._tokens is not None:
            refusal.challenge = self._tokens.challenge(request, lacks=lacks)
        return refusal

    def _how_to_widen(self, principal: Principal, scope: Scope) -> str:
        if principal.name.startswith(USER_PREFIX):
            return "Ask for a role that has it ([auth.roles]), or use a key."
        if principal.name in self._keyring.stored and not self._keyring.is_configured(principal.name):
            return "Use another key, or create one with it: 'jackfield keys create'."
        return f"Use another key, or add '{scope.value}' to its scopes in [auth.keys.{principal.name}]."

    async def recognise(self, request: Request, *, takes_tokens: bool = False) -> Principal | None:
        """The principal who asks, or None when neither key nor login is given. What is given must be right."""
        key = key_in(request.headers)
        if key is not None:
            principal = self._keyring.find(key)
            if principal is None and self._tokens is not None and self._tokens.may_be_token(key):
                if not takes_tokens:
                    raise Unauthenticated("This is an OAuth token, which is good at /mcp only. Send a key here.")
                principal = await self._tokens.find(key, request)
            self._throttle.check(request.address, key, principal)
            if principal is None:
                raise Unauthenticated(UNKNOWN_KEY)
            return principal
        login = login_in(request.header(b"cookie"), secure=request.is_https)
        return None if login is None else await self._signed_in(request, login)

    async def _signed_in(self, request: Request, login: str) -> Principal:
        principal = await self._logins.find(login)
        request.login = digest_of(login)
        if principal is None:
            raise Unauthenticated(
                "You are signed out. Sign in at /sign-in, open the link that the gateway printed, or give a key."
            )
        is_safe = request.scope.get("method", "WEBSOCKET") in SAFE_METHODS
        # `Lax` lets a link on another site open a GET with the cookie. That is for pages, which read it themselves.
        is_foreign = request.headers.get(b"sec-fetch-site") == b"cross-site"
        if (is_safe and is_foreign) or not (is_safe or request.is_from_own_page):
            raise Forbidden(
                "A login cookie counts only for requests from the gateway's own page. Send a key in a header instead."
            )
        return principal


def key_in(headers: dict[bytes, bytes]) -> bytes | None:
    """The one key that the headers carry; two different ones are a mistake of the client."""
    given: bytes | None = None
    if (authorization := headers.get(b"authorization")) is not None:
        scheme, _, given = authorization.strip().partition(b" ")
        given = given.strip()
        if scheme.lower() != b"bearer" or not given:
            raise Unauthenticated("The Authorization header must have the form 'Bearer KEY'.")
    for name in _KEY_HEADERS:
        other = headers.get(name)
        if other is None:
            continue
        if given is not None and not hmac.compare_digest(given, other.strip()):
            raise BadRequest("The request carries two different keys. Send one of them.")
        given = other.strip()
    return given


COOKIE = "jackfield"
"""On https its name begins with `__Host-`: browsers take it from this very host only, and over TLS only."""
LIFETIME_SECONDS = 30 * 24 * 3600
_REMEMBER_SECONDS = 60.0
_MOST_REMEMBERED = 10_000
_FAILED_SECONDS = 60.0
_MOST_FAILED = 100


class Logins:
    """The sign-ins of this gateway's pages."""

    def __init__(
        self,
        store: Store,
        principals: Principals,
        *,
        audit: AuditLog,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._audit = audit
        self._principals = principals
        self._clock = clock
        self._seen: dict[str, tuple[Login, float]] = {}
        """Logins by digest, and until when each is remembered."""
        self._ends: dict[str, asyncio.TimerHandle] = {}
        """When logins that were used here run out: what they have open ends then."""
        self._closed = 0
        """How many logins were closed; what was read meanwhile is not remembered."""
        self.on_closed: Callable[[str], None] = lambda _: None
        """Told the digests of logins that are closed, at whichever gateway, or have run out."""
        self._failed: dict[tuple[str, str], float] = {}
        """From where and with what nobody could sign in lately, and until when it is not told again."""
        store.bus.watch(login_tx.LOGIN_TOPIC, self._hear)
        store.bus.on_foreign(self._hear_foreign)

    async def open(self, credential: Credential) -> str:
        """A new login's id, on record before it is given out."""
        login, name = secrets.token_urlsafe(32), credential.principal.name
        script = partial(login_tx.save_login, digest_of(login), Login(principal=name, key=credential.key))
        change = Entry(actor=name, action="login.created", subject=name)
        await self._store.write(self._audit.noting(script, lambda _: change))
        return login

    async def note_failure(self, address: str, subject: str, reason: str) -> None:
        """Put it in the audit log that nobody could sign in. `subject`: a `key`, a `code`, or the person it was.

        The same from one network is one entry a minute, and a gateway writes a hundred a minute: a flood fills no log.
        """
        now, key = self._clock(), (network_of(address), subject)
        self._failed = {known: until for known, until in self._failed.items() if until > now}
        if key in self._failed or len(self._failed) >= _MOST_FAILED:
            return
        self._failed[key] = now + _FAILED_SECONDS
        change = Entry(actor=f"address:{address}", action="login.failed", subject=subject, after={"reason": reason})
        await self._store.write(partial(self._audit.record, change))

    async def find(self, login: str) -> Principal | None:
        """Who is signed in with this id; a principal whose key is gone, or who is signed out everywhere, is not."""
        credential = await self.credential(login)
        return None if credential is None else credential.principal

    async def credential(self, login: str) -> Credential | None:
        """The same, for what is to end together with this login."""
        digest = digest_of(login)
        kept, until = self._seen.get(digest, (None, 0.0))
        is_read = kept is None or until < self._clock()
        if is_read:
            closed = self._closed
            kept = await self._store.read(partial(login_tx.find_login, digest))
            if closed == self._closed:
                self._remember(digest, kept)
        if kept is None:
            return None
        principal = self._principals.holder(kept.key, name=kept.principal)
        if principal is None and is_read:
            await self._principals.read(kept.principal)
            principal = self._principals.holder(kept.key, name=kept.principal)
        return None if principal is None else Credential(key=kept.key, principal=principal)

    async def close(self, login: str) -> None:
        """Sign out: the id is worth nothing from now on."""
        await self._store.write(partial(login_tx.drop_login, digest_of(login)))

    def _hear(self, topic: str) -> None:
        digest = topic.removeprefix(login_tx.LOGIN_TOPIC)
        self._closed += 1
        if (timer := self._ends.get(digest)) is not None:
            timer.cancel()
        self._end(digest)

    def _end(self, digest: str) -> None:
        self._ends.pop(digest, None)
        self._seen.pop(digest, None)
        self.on_closed(digest)

    def _hear_foreign(self, topics: Sequence[str] | None) -> None:
        if topics is None:  # some were lost
            self._closed += 1
            self._seen.clear()

    def _remember(self, digest: str, login: Login | None) -> None:
        self._seen.pop(digest, None)
        if login is None:
            return
        if len(self._seen) >= _MOST_REMEMBERED:
            self._seen.clear()
        left = login.left_ms / 1000
        self._seen[digest] = (login, self._clock() + min(_REMEMBER_SECONDS, left))
        if digest not in self._ends and len(self._ends) < _MOST_REMEMBERED:
            self._ends[digest] = asyncio.get_running_loop().call_later(left, self._end, digest)


def login_in(cookie_header: str | None, *, secure: bool) -> str | None:
    """The login id in a Cookie header, if there is one."""
    return cookie_in(cookie_header, COOKIE, secure=secure)


def cookie_in(cookie_header: str | None, name: str, *, secure: bool) -> str | None:
    """The value of one of our cookies in a Cookie header."""
    if cookie_header is None or name not in cookie_header:
        return None
    wanted = f"__Host-{name}" if secure else name
    for pair in cookie_header.split(";"):
        given, _, value = pair.strip().partition("=")
        if given == wanted and value:
            return value
    return None


def login_cookie(login: str | None, *, secure: bool, lifetime: int = LIFETIME_SECONDS) -> bytes:
    """The Set-Cookie value that signs in, or out for None."""
    return set_cookie(COOKIE, login or "", secure=secure, lifetime=lifetime if login else 0)


def set_cookie(name: str, value: str, *, secure: bool, lifetime: int) -> bytes:
    """A Set-Cookie value that scripts cannot read and that foreign pages do not send with what changes something.

    `Lax`, because people come back from the provider, and with links, by navigating from other sites.
    """
    host = "__Host-" if secure else ""
    text = f"{host}{name}={value}; Path=/; Max-Age={lifetime}; HttpOnly; SameSite=Lax"
    return (text + ("; Secure" if secure else "")).encode()


log = logging.getLogger(__name__)

BURST = 60
"""Different wrong keys that an address may send at once; as many repeats of them."""
PER_SECOND = 1.0
"""How many more it may send in every second after that."""
MOST = 10_000
"""Addresses, and keys at addresses, that are remembered."""
UNGUESSABLE = 32
"""Characters of a key that nobody finds by trying; those that the gateway makes have more."""
KEPT = 16
"""Wrong keys of an address that are known again, as digests."""


class _Bucket:
    """What is spent of a burst; it comes back with time."""

    __slots__ = ("at", "spent")

    def __init__(self) -> None:
        self.spent = 0.0
        self.at = 0.0

    def require(self, now: float, *, takes: int) -> None:
        """Take so much, or nothing and raise `RateLimited`; 0 only asks whether there is room."""
        self.spent = max(0.0, self.spent - (now - self.at) * PER_SECOND)
        self.at = now
        if self.spent > BURST - 1:
            raise RateLimited(
                "Too many wrong keys from this address. Check the key and try again later.",
                retry_after=(self.spent - BURST + 1) / PER_SECOND,
            )
        self.spent += takes


class _Address(Struct):
    guesses: _Bucket
    repeats: _Bucket
    wrong: list[str]


class Throttle:
    """What each address has left of its bursts, and who has come from where."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def check(self, address: str, key: str | bytes, principal: Principal | None) -> None:
        """Raise `RateLimited` where too many wrong keys came from `address`. `principal`: whose key it is, if right."""
        if principal is None:
            self._count(network_of(address), digest_of(key))
            return
        if self._addresses:
            is_known = len(key) >= UNGUESSABLE or (address, principal.name) in self._known
            self._let_in(network_of(address), is_known=is_known)
        if (address, principal.name) not in self._known:
            self._known[address, principal.name] = None
            if len(self._known) > MOST:
                self._known.popitem(last=False)

    def _let_in(self, network: str, *, is_known: bool) -> None:
        found = self._addresses.get(network)
        if found is None:
            return
        if not is_known:
            found.guesses.require(self._clock(), takes=0)
        found.repeats.spent = 0.0

    def _count(self, network: str, digest: str) -> None:
        found = self._addresses.get(network)
        if found is None:
            found = self._addresses[network] = _Address(_Bucket(), _Bucket(), [])
            if len(self._addresses) > MOST:
                self._addresses.popitem(last=False)
        else:
            self._addresses.move_to_end(network)
        if digest in found.wrong:
            found.repeats.require(self._clock(), takes=1)
            return
        found.guesses.require(self._clock(), takes=1)
        found.wrong = [*found.wrong[1 - KEPT :], digest]
        if found.guesses.spent > BURST - 1:
            log.warning("Many wrong keys from %s: its requests are throttled.", network or "an unknown address")


@lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """Whom an address stands for: of IPv6 a whole /64, because a single machine has that many."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((parsed, 64), strict=False))
    return address
