"""The addresses of the OAuth resource and its authorization server, as the client of a request sees them.

Above: every handler and the challenge of `/mcp`. Below: `[server] public_url`; where it is not set, the Host of the
request, which `http/hosts.py` has checked.
"""

import re
from urllib.parse import quote, unquote, urlsplit

from jackfield.http.hosts import origin_of
from jackfield.http.request import Request
from jackfield.identity.oauth.types import OAuthError

RESOURCE_PATH = "/mcp"
PROTECTED_RESOURCE = "/.well-known/oauth-protected-resource"
_HOST = re.compile(r"[A-Za-z0-9._\-]+(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?")


class Addresses:
    """Where this gateway is."""

    def __init__(self, *, public_url: str | None, url: str) -> None:
        """`url`: where it listens, for requests whose Host says nothing."""
        self._public_url = public_url.rstrip("/") if public_url else None
        self._url = url

    def base(self, request: Request) -> str:
        """The url before every path; also the issuer of the built-in server."""
        if self._public_url is not None:
            return self._public_url
        host = request.header(b"host") or ""
        if _HOST.fullmatch(host) is None:
            return self._url
        return f"{'https' if request.is_https else 'http'}://{host}"

    def resource(self, request: Request, path: str) -> str:
        """The resource at a path, as tokens and metadata name it."""
        return f"{self.base(request)}{quote(path)}"

    def resource_metadata(self, request: Request, path: str) -> str:
        """Where the metadata of the resource at a path is (RFC 9728)."""
        return f"{self.base(request)}{PROTECTED_RESOURCE}{quote(path)}"

    def challenge(self, request: Request, *, error: str | None = None, scope: str | None = None) -> str:
        """The `WWW-Authenticate` of a refusal at a resource (RFC 6750, RFC 9728)."""
        said = [] if error is None else [f'error="{error}"']
        if scope is not None:
            said.append(f'scope="{scope}"')
        said.append(f'resource_metadata="{self.resource_metadata(request, request.scope["path"])}"')
        return f"Bearer {', '.join(said)}"

    def path_of(self, resource: str, request: Request) -> str:
        """The path of the resource that a client names (RFC 8707): `/mcp` or `/mcp/NAME`."""
        base = self.base(request)
        try:
            parts, own = urlsplit(resource), urlsplit(base)
        except ValueError:
            raise _no_resource(resource, base) from None
        path = unquote(parts.path.removeprefix(own.path)).rstrip("/")
        is_here = origin_of(resource) == origin_of(base) and parts.path.startswith(own.path)
        if not is_here or "#" in resource or parts.query or parts.username is not None:
            raise _no_resource(resource, base)
        if path in ("", RESOURCE_PATH):
            return RESOURCE_PATH
        if not path.startswith(f"{RESOURCE_PATH}/") or "/" in path.removeprefix(f"{RESOURCE_PATH}/"):
            raise _no_resource(resource, base)
        return path


def group_of(path: str) -> str | None:
    """The group that a resource is about; None: all tools."""
    return path.removeprefix(f"{RESOURCE_PATH}/") if path != RESOURCE_PATH else None


def _no_resource(resource: str, base: str) -> OAuthError:
    shown = "".join(character if character.isprintable() else "?" for character in resource[:200])
    return OAuthError(
        "invalid_target", f"There is no resource '{shown}' here. It is {base}{RESOURCE_PATH}, or that and a group."
    )
