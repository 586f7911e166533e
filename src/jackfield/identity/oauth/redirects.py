"""Redirect URIs: which a client may have, whether a given one is among them, and what people are told of it. Pure.

https for programs on a server, http on the loopback interface with any port for programs on the person's machine
(RFC 8252), and schemes of their own for apps. Everything else is compared character by character.
"""

import re
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from jackfield.identity.oauth.types import OAuthError

LONGEST = 2_000
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_SCHEME = re.compile(r"[a-z][a-z0-9+.\-]*")
_FORBIDDEN_SCHEMES = re.compile(
    "about|blob|chrome|chrome-extension|content|data|file|filesystem|ftp|gopher|intent|jar|javascript|mailto|ms-.*|"
    "resource|search-ms|sms|smb|ssh|tel|vbscript|view-source|ws|wss"
)
"""Schemes that run something, read something, or belong to the browser."""


class RedirectTarget(Struct, frozen=True, kw_only=True):
    """Where a code goes, in words for the person who decides."""

    where: str
    """The host, or the scheme of an app."""
    note: str
    is_suspicious: bool = False


def check_redirect_uri(uri: str) -> None:
    """Raise `OAuthError` for one that no client may have."""
    if len(uri) > LONGEST or not uri.isascii() or not uri.isprintable() or set(uri) & set(' \\"<>^`{|}*'):
        raise _unusable(uri, "it has characters that a URI has not, or is too long")
    parts = _split(uri)
    if "#" in uri:
        raise _unusable(uri, "it has a fragment")
    if "@" in parts.netloc:
        raise _unusable(uri, "it has a user in it")
    if parts.scheme == "https":
        if not parts.hostname:
            raise _unusable(uri, "it has no host")
    elif parts.scheme == "http":
        if parts.hostname not in LOOPBACK:
            raise _unusable(uri, "http is for 127.0.0.1, [::1] and localhost only. Use https")
    elif _SCHEME.fullmatch(parts.scheme) is None or _FORBIDDEN_SCHEMES.fullmatch(parts.scheme):
        raise _unusable(uri, "its scheme is not https or an app's own")


def is_registered(uri: str, registered: tuple[str, ...]) -> bool:
    """Whether a redirect URI is one of the client's own; on the loopback interface the port may differ."""
    # Parsers leave out tabs and line ends, so that a URI with some would seem to be another one.
    return uri in registered or (uri.isprintable() and any(_differs_in_port(uri, own) for own in registered))


def _differs_in_port(uri: str, own: str) -> bool:
    try:
        given, known = _split(uri), _split(own)
    except OAuthError:
        return False
    if given.scheme != "http" or known.scheme != "http" or given.hostname not in LOOPBACK or "@" in given.netloc:
        return False
    return (given.hostname, given.path, given.query, given.fragment) == (
        known.hostname,
        known.path,
        known.query,
        known.fragment,
    )


def describe(uri: str) -> RedirectTarget:
    """What the person is told of where the code goes."""
    parts = _split(uri)
    if parts.scheme == "http":
        return RedirectTarget(
            where=parts.netloc,
            note="A program on this computer. Any program that runs here can claim this name: "
            "allow it only if you have just started it.",
        )
    if parts.scheme != "https":
        return RedirectTarget(
            where=f"{parts.scheme}:", note=f"An app on this device that opens '{parts.scheme}:' links."
        )
    host = parts.netloc
    if "xn--" in host:
        return RedirectTarget(
            where=host,
            note="This address has letters that can look like others. Compare it character by character.",
            is_suspicious=True,
        )
    return RedirectTarget(where=host, note="A website. It gets the permission, whatever its name is.")


def form_targets(uri: str) -> tuple[str, ...]:
    """Sources for `form-action`: browsers check the redirect that follows a form, and redirects after that."""
    parts = _split(uri)
    if parts.scheme == "https":
        return ("https:",)
    if parts.scheme != "http":
        return (f"{parts.scheme}:",)
    # No source expression names an IPv6 address.
    return ("http:", "https:") if parts.hostname == "::1" else (f"http://{parts.netloc}", "https:")


def _split(uri: str) -> SplitResult:
    try:
        parts = urlsplit(uri)
        _ = parts.port, parts.hostname
    except ValueError:
        raise _unusable(uri, "it is not a URI") from None
    return parts


def _unusable(uri: str, why: str) -> OAuthError:
    shown = "".join(character if character.isprintable() else "?" for character in uri[:200])
    return OAuthError("invalid_redirect_uri", f"The redirect URI '{shown}' cannot be used: {why}.")
