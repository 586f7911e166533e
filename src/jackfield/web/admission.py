"""Who asks: the key in a request's headers or the login in its cookie, made into a principal.

Above: `guard.py`. Below: the keyring and `logins.py`. A refusal says what is missing and how to give it.
"""

import hmac

from jackfield.errors import BadRequest, Forbidden, Unauthenticated
from jackfield.model.principal import Principal, Scope
from jackfield.web.door import Door, SocketDoor
from jackfield.web.logins import login_in
from jackfield.web.needs import Need
from jackfield.web.visit import Visit

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_KEY_HEADERS = (b"x-api-key", b"x-secret-key")
_HOW = "Send it as 'Authorization: Bearer KEY', 'x-api-key: KEY' or 'x-secret-key: KEY'."


async def admit(visit: Visit, door: Door | SocketDoor, *, needs: Scope | Need) -> Principal:
    """The principal who asks, if its key is good for this door."""
    what, for_sessions = door.name, door.for_sessions
    principal = await recognise(visit)
    if principal is None and door.is_discovery:
        principal = visit.gateway.settings.discovery.reader
    if principal is None:
        raise Unauthenticated(f"{what} needs a key. {_HOW}")
    if isinstance(needs, Need):
        if not needs.holds(principal):
            raise Forbidden(f"{what} needs {needs.says}, which the key '{principal.name}' lacks. Use another key.")
    elif not principal.may(needs) and not (for_sessions and visit.gateway.sessions.is_live(principal.session)):
        raise Forbidden(
            f"The key '{principal.name}' lacks the scope '{needs.value}', which {what} needs. "
            f"Use another key, or add '{needs.value}' to its scopes in [auth.keys.{principal.name}]."
        )
    return principal


async def recognise(visit: Visit) -> Principal | None:
    """The principal who asks, or None when neither key nor login is given. What is given must be right."""
    key = key_in(visit.headers)
    if key is not None:
        principal = visit.gateway.keyring.find(key)
        visit.reception.throttle.check(visit.address, key, principal)
        if principal is None:
            raise Unauthenticated("The key is not one of this gateway's. Check it for typing errors.")
        return principal
    login = login_in(visit.header(b"cookie"), secure=visit.is_https)
    return None if login is None else await _signed_in(visit, login)


def key_in(headers: dict[bytes, bytes]) -> bytes | None:
    """The one key that the headers carry; two different ones are a mistake of the client."""
    given: bytes | None = None
    if (authorization := headers.get(b"authorization")) is not None:
        scheme, _, given = authorization.strip().partition(b" ")
        given = given.strip()
        if scheme.lower() != b"bearer" or not given:
            raise Unauthenticated("The Authorization header is not 'Bearer KEY'. Write it so.")
    for name in _KEY_HEADERS:
        other = headers.get(name)
        if other is None:
            continue
        if given is not None and not hmac.compare_digest(given, other.strip()):
            raise BadRequest("The request carries two different keys. Send one of them.")
        given = other.strip()
    return given


async def _signed_in(visit: Visit, login: str) -> Principal:
    principal = await visit.reception.logins.find(login)
    if principal is None:
        raise Unauthenticated("You are signed out. Open the link that the gateway printed, or give a key.")
    if visit.scope.get("method", "WEBSOCKET") not in SAFE_METHODS and not _from_own_page(visit):
        raise Forbidden(
            "A login cookie counts only for requests from the gateway's own page. Send a key in a header instead."
        )
    return principal


def _from_own_page(visit: Visit) -> bool:
    origin = visit.headers.get(b"origin")
    if origin is None:
        return visit.headers.get(b"sec-fetch-site") in (b"same-origin", b"none")
    scheme = "https" if visit.scope["scheme"] in ("https", "wss") else "http"
    return visit.reception.hosts.is_own_origin(origin, scheme=scheme, host=visit.headers.get(b"host", b""))
