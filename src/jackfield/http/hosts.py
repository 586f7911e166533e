"""Which Host and Origin a request may carry, so that a web page cannot reach a gateway on its visitor's machine.

Above: `app.py`. Below: `[server]` of the settings. Pure, apart from a memory of Host headers that were fine.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

from jackfield.errors import Forbidden, Misdirected
from jackfield.settings import ServerSettings

ANY = "*"
_MEMORY = 256


class Hosts:
    """The names this gateway answers to."""

    def __init__(self, server: ServerSettings) -> None:
        self._allowed = frozenset(_name_of(host) for host in server.allowed_hosts) | _own_names(server)
        self._any = ANY in server.allowed_hosts
        self._public_origin = origin_of(server.public_url) if server.public_url else None
        self._is_public_https = bool(server.public_url and server.public_url.lower().startswith("https://"))
        self._fine: set[bytes] = set()

    def check_host(self, header: bytes | None) -> None:
        """Raise `Misdirected` unless the Host header names this gateway."""
        if header is None:
            raise Misdirected("The request has no Host header. Send one that names this gateway.")
        if header in self._fine:
            return
        host = _name_of(header.decode("latin-1"))
        if not host or not self._is_ours(host):
            raise Misdirected(
                f"This gateway does not answer to the host '{_shown(host)}'. If it should, add that name to "
                "[server] allowed_hosts, or set [server] public_url."
            )
        if len(self._fine) < _MEMORY:
            self._fine.add(header)

    def check_origin(self, header: bytes | None) -> None:
        """Raise `Forbidden` for a request that a foreign web page makes. No Origin: not a page."""
        if header is None:
            return
        origin = header.decode("latin-1")
        host = _origin_host(origin)
        if not host or not self._is_ours(host):
            raise Forbidden(
                f"Requests from pages of the origin '{_shown(origin)}' are refused. If they should be let in, add it "
                "to [server] cors_origins; if it is this gateway by another name, its host to [server] allowed_hosts."
            )

    def is_own_origin(self, origin: bytes | None, *, scheme: str, host: bytes) -> bool:
        """Whether a page of this very gateway, port included, makes the request."""
        if origin is None:
            return False
        text = origin.decode("latin-1").lower()
        return text == self._public_origin or text == origin_of(f"{scheme}://{host.decode('latin-1')}")

    def is_https(self, scheme: str) -> bool:
        """Whether people reach this gateway over TLS: by this very request, or by what the config says."""
        return self._is_public_https or scheme in ("https", "wss")

    def _is_ours(self, host: str) -> bool:
        return self._any or host in self._allowed


def origin_of(url: str) -> str | None:
    """`https://Host:443/path` → `https://host`: as browsers write it, without the scheme's own port."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if not parts.hostname:
        return None
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    own_port = {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{name}" + (f":{port}" if port is not None and port != own_port else "")


def _own_names(server: ServerSettings) -> frozenset[str]:
    """The public url's host and the address we listen on, if that is one address and not all of them."""
    names = {_name_of(server.host)}
    try:
        if ip_address(server.host).is_unspecified:
            names = set()
    except ValueError:
        pass  # a name, not an address
    if server.public_url and (public := urlsplit(server.public_url).hostname):
        names.add(public.lower())
    return frozenset(name for name in names if name)


def _name_of(host: str) -> str:
    """`LocalHost:8420` → `localhost`, `[::1]:8420` → `::1`; the empty string for what is no host."""
    host = host.strip().lower()
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        return name if bracket and _is_port(port.removeprefix(":")) else ""
    if host.count(":") > 1:
        return host
    name, _, port = host.partition(":")
    return name if _is_port(port) else ""


def _is_port(text: str) -> bool:
    return not text or (text.isascii() and text.isdigit())


def _origin_host(origin: str) -> str:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or parts.path or parts.query or parts.fragment:
        return ""
    return _name_of(parts.netloc)


def _shown(text: str) -> str:
    """Foreign text in a sentence: short, and without what could disturb a terminal."""
    return "".join(character if character.isprintable() else "?" for character in text[:100])
