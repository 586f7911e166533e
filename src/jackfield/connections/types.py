"""Connections as they are on record, and the sources that have them. Pure."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from jackfield.connections.oauth import AuthorizationRequest, Challenge, Client, Target
from jackfield.errors import ConfigError
from jackfield.outgoing.urls import parse_url
from jackfield.settings.identity import SourceOAuth
from jackfield.settings.tools import SourceSettings

SHARED = ""
"""The principal of a connection that all share, as it is on record."""
_KINDS = ("mcp", "openapi", "manifest")


class ConnectedSource(Struct, frozen=True, kw_only=True):
    """A source whose requests need a login."""

    name: str
    url: str
    """Of the server; what tokens are for, unless it or the config says otherwise."""
    auth: Literal["shared", "user"]
    oauth: SourceOAuth
    is_mcp: bool

    @property
    def is_per_user(self) -> bool:
        return self.auth == "user"

    @property
    def is_for_machines(self) -> bool:
        """No person is needed to get a token."""
        if self.oauth.grant == "enterprise":
            return self.oauth.token_file is not None
        return self.oauth.grant != "code"

    def principal(self, name: str) -> str:
        """Under whose name this caller's connection is on record."""
        return name if self.is_per_user else SHARED


class Wanted(Struct, frozen=True, kw_only=True):
    """What a server asked for when it refused a request."""

    challenge: Challenge | None = None
    scopes: tuple[str, ...] = ()
    """Those that the next login asks for, if the server was not content with the last one's."""
    attempts: int = 0
    """How often in a row it was not."""


NOTHING = Wanted()


class Connection(Struct, frozen=True, kw_only=True):
    """A connection without its tokens. Times are milliseconds since 1970."""

    source: str
    principal: str
    """Empty: shared."""
    is_connected: bool
    version: int
    """Greater whenever its tokens are others."""
    issuer: str
    scopes: tuple[str, ...]
    wanted: Wanted
    expires_at: int | None
    """When the access token ends; None: the server did not say."""
    created_at: int
    updated_at: int

    @property
    def id(self) -> str:
        return connection_id(self.source, self.principal)


class WaitingCall(Struct, frozen=True, kw_only=True):
    """A call that waits for a login."""

    tool: str
    source: str
    """The source that wants the login."""
    caller: str
    """In whose name the call is on record."""
    lasts_ms: int
    """How long it still waits."""


class Flow(Struct, frozen=True, kw_only=True):
    """A login under way."""

    id: str
    """The call's that waits for it, or one of its own."""
    source: str
    principal: str
    asked_by: str
    """Who is signed in at the gateway in the browser that makes the login."""
    browser: str | None
    """The digest of that sign-in; None: nobody has opened the link."""


class FlowSecrets(Struct, frozen=True, kw_only=True):
    """What the answer of the authorization server is checked against, and where to redeem it; sealed in the store."""

    request: AuthorizationRequest
    target: Target
    client: Client


def connection_id(source: str, principal: str) -> str:
    """Unambiguous, because no source has a colon in its name."""
    return f"{source}:{principal}"


def connected_sources(sources: Iterable[SourceSettings]) -> dict[str, ConnectedSource]:
    """Every source that has logins. Raises `ConfigError` for those that cannot have them."""
    return {source.name: _connected(source) for source in sources if source.auth != "none"}


def _connected(source: SourceSettings) -> ConnectedSource:
    where = f"sources.{source.name}"
    auth = source.auth
    if auth == "none" or source.kind not in _KINDS:
        raise ConfigError(
            f"{where}.auth is for servers that are reached over HTTP, not for the kind '{source.kind}'. Remove it."
        )
    url = source.options.get("base_url") or source.options.get("url")
    if not isinstance(url, str):
        raise ConfigError(f"{where}.auth is for a server with a url, not for one that is started here. Remove it.")
    headers = source.options.get("headers")
    if isinstance(headers, dict) and any(str(name).lower() == "authorization" for name in headers):
        raise ConfigError(f"{where}: both auth and headers set 'Authorization'. Remove one of the two.")
    return ConnectedSource(
        name=source.name, url=str(parse_url(url)), auth=auth, oauth=source.oauth, is_mcp=source.kind == "mcp"
    )
