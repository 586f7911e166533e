"""The frame that an app of a tool (MCP Apps) is shown in: a page without our origin, and what it may load.

Above: `apps_api.py`. The page relays messages between the console and the app's own page, which it puts into a second
frame. Both are sandboxed without an origin, and both have the policy of this response: the second one inherits it, also
when the app tries to go elsewhere. Nothing but the domains that the app's resource declares can be reached, and of
those no address in a private network, and not this gateway. Pure.
"""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

FRAME = "app-frame.html"
SANDBOX = "allow-scripts allow-forms"
MOST_DOMAINS = 20
_LONGEST = 255
_DOMAIN = re.compile(
    r"(?P<scheme>https|wss)://(?P<host>(?:\*\.)?(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9])"
    r"(?::[0-9]{1,5})?"
)
_PRIVATE = ("localhost", "local", "internal", "lan", "home.arpa")
_KINDS = {"connect": "connectDomains", "resource": "resourceDomains", "frame": "frameDomains", "base": "baseUriDomains"}


class Domains(Struct, frozen=True, kw_only=True):
    """What an app may reach, by use; and what it declares and may not."""

    connect: tuple[str, ...] = ()
    resource: tuple[str, ...] = ()
    frame: tuple[str, ...] = ()
    base: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """The frame's path for these."""
        asked = {kind: " ".join(domains) for kind in _KINDS if (domains := getattr(self, kind))}
        return f"/apps/frame?{urlencode(asked)}" if asked else "/apps/frame"

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(sorted({*self.connect, *self.resource, *self.frame, *self.base}))


def declared_domains(csp: object, *, own_url: str) -> Domains:
    """What a resource declares in `_meta.ui.csp`, as far as it may be allowed."""
    said = csp if isinstance(csp, dict) else {}
    return allowed_domains({kind: _strings(said.get(key)) for kind, key in _KINDS.items()}, own_url=own_url)


def allowed_domains(wanted: Mapping[str, Sequence[str]], *, own_url: str) -> Domains:
    """Of these domains, by use, those that an app may reach."""
    own = (urlsplit(own_url).hostname or "").lower()
    taken = {kind: tuple(one for one in asked if _may_be_reached(one, own)) for kind, asked in wanted.items()}
    refused = {one for asked in wanted.values() for one in asked if not _may_be_reached(one, own)}
    return Domains(**taken, refused=tuple(sorted(refused)))


def policy(domains: Domains) -> str:
    """The frame's Content-Security-Policy. Never `'self'`, which would be this gateway."""
    load = " ".join(domains.resource)
    rules = {
        "default-src": "'none'",
        "script-src": f"'unsafe-inline' {load}",
        "style-src": f"'unsafe-inline' {load}",
        "img-src": f"data: blob: {load}",
        "font-src": f"data: {load}",
        "media-src": f"data: blob: {load}",
        "connect-src": " ".join(domains.connect) or "'none'",
        "frame-src": " ".join(domains.frame) or "'none'",
        "base-uri": " ".join(domains.base) or "'none'",
        "object-src": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'self'",
        "sandbox": SANDBOX,
    }
    return "; ".join(f"{rule} {value.strip()}" for rule, value in rules.items())


def _may_be_reached(domain: str, own: str) -> bool:
    found = _DOMAIN.fullmatch(domain)
    if found is None or len(domain) > _LONGEST:
        return False
    host = found["host"].removeprefix("*.")
    is_ours = own == host or (own.endswith(f".{host}") and found["host"].startswith("*."))
    return not is_ours and not any(host == end or host.endswith(f".{end}") for end in _PRIVATE)


def _strings(value: object) -> list[str]:
    if not isinstance(value, list):
        return []
    return [one[:_LONGEST].lower().rstrip("/") for one in value[:MOST_DOMAINS] if isinstance(one, str)]
