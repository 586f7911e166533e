"""Urls in one normal form, and their origins. Pure.

The host that is checked is the host that is connected to, because both come from the same parsed url.
"""

from functools import lru_cache
from urllib.parse import quote, urlencode

import httpx2
from msgspec import Struct

from jackfield.outgoing.errors import OutgoingBadUrl
from jackfield.outgoing.guard import is_host_name, literal

_PORTS = {"http": 80, "https": 443}
_LAST_PORT = 65535


class HttpOrigin(Struct, frozen=True):
    """Scheme, host and port: what a config url names when it names its own host."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")


class RequestTarget(Struct, frozen=True):
    """Where a request goes, taken apart once."""

    url: str
    origin: HttpOrigin
    host: str
    """For the Host header."""
    path: str
    """With the query."""

    @classmethod
    def of(cls, url: httpx2.URL) -> "RequestTarget":
        """The target of a url in its normal form, without a user."""
        return cls(str(url), origin_of(url), url.netloc.decode("ascii"), url.raw_path.decode("ascii"))


def parse_url(url: str | httpx2.URL) -> httpx2.URL:
    """`url` in its normal form: host in lower case and ASCII, addresses in their usual notation, no fragment.

    Raises `OutgoingBadUrl` for everything that HTTP cannot reach. The user and password stay; see `take_user`.
    """
    try:
        parsed = httpx2.URL(url)
        host = parsed.raw_host.decode("ascii").removesuffix(".")
    except (httpx2.InvalidURL, UnicodeError) as fault:
        raise OutgoingBadUrl(f"The url {_shown(str(url))} cannot be used: {fault}") from None
    if parsed.scheme not in _PORTS:
        raise OutgoingBadUrl(f"The url {_shown(str(url))} is not an http or https url. Only these are requested.")
    if parsed.port is not None and not 0 < parsed.port <= _LAST_PORT:
        raise OutgoingBadUrl(f"The url {_shown(str(url))} has the port {parsed.port}. Ports go from 1 to {_LAST_PORT}.")
    address = literal(host)
    if address is None and not is_host_name(host):
        raise OutgoingBadUrl(f"The url {_shown(str(url))} has no usable host name ('{host}').")
    spelled = str(address) if address is not None else host
    return parsed.copy_with(host=spelled, fragment=None)


def take_user(url: httpx2.URL) -> tuple[httpx2.URL, tuple[str, str] | None]:
    """`url` without its user and password, and the two, so that they are sent but shown nowhere."""
    if not url.userinfo:
        return url, None
    return url.copy_with(username=None, password=None), (url.username, url.password)


def origin_of(url: httpx2.URL) -> HttpOrigin:
    """The origin of a url that `parse_url` gave."""
    return HttpOrigin(url.scheme, url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme])


@lru_cache(maxsize=1024)
def named_origin(config_url: str) -> HttpOrigin:
    """The origin that a url in the operator's config names."""
    return origin_of(parse_url(config_url))


@lru_cache(maxsize=1024)
def target_of(url: str) -> RequestTarget | None:
    """Where a url leads; None for one that has a user or password in it."""
    parsed = parse_url(url)
    return None if parsed.userinfo else RequestTarget.of(parsed)


def with_params(url: httpx2.URL, params: tuple[tuple[str, str], ...]) -> httpx2.URL:
    """`url` with `params` after the query it has."""
    if not params:
        return url
    query = "&".join(part for part in (url.query.decode("ascii"), urlencode(params, quote_via=quote)) if part)
    return url.copy_with(query=query.encode("ascii"))


def _shown(url: str) -> str:
    """The url for a message: short, printable, and without what may be secret (user, query)."""
    bare = url.partition("?")[0].partition("#")[0]
    scheme, separator, rest = bare.partition("://")
    authority, slash, path = rest.partition("/")
    shown = f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}"
    return repr(shown if len(shown) <= 120 else f"{shown[:120]}…")  # noqa: PLR2004 - one line
