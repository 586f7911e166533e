"""OAuth in front of `/mcp` as the settings want it: built in, by an external issuer, or off.

Above: the gateway, which has one `OAuthFront`, and the authenticator, which asks it about tokens. Below: the rest of
this package.
"""

from collections.abc import Callable

from jackfield.errors import ConfigError
from jackfield.http.request import Request
from jackfield.http.routing import Route
from jackfield.identity.browser import Browser
from jackfield.identity.jwks import Issuer
from jackfield.identity.oauth import grants_api
from jackfield.identity.oauth.addresses import Addresses
from jackfield.identity.oauth.api import ResourceApi, ServerApi, resource_routes, server_routes
from jackfield.identity.oauth.assertions import Assertions
from jackfield.identity.oauth.authorize_api import AuthorizeApi, GroupsOf, page_routes
from jackfield.identity.oauth.clients import Clients
from jackfield.identity.oauth.documents import ClientDocuments
from jackfield.identity.oauth.external import ExternalTokens
from jackfield.identity.oauth.grants import Grants
from jackfield.identity.oauth.tokens import BuiltinTokens
from jackfield.identity.oauth.types import DEFAULT_SCOPE
from jackfield.identity.principals import Principals
from jackfield.model.principal import GroupBook, Principal
from jackfield.outgoing import Outgoing
from jackfield.settings import Settings
from jackfield.settings.identity import RoleSettings
from jackfield.store import Store

GROUPS_CLAIM = "groups"


class OAuthFront:
    """What `/mcp` needs as an OAuth resource."""

    def __init__(
        self, settings: Settings, *, store: Store, principals: Principals, groups: GroupBook, outgoing: Outgoing
    ) -> None:
        self.mode = settings.oauth.mode
        self._name = settings.scenario.name
        self._addresses = Addresses(public_url=settings.server.public_url, url=settings.url)
        documents = ClientDocuments(outgoing)
        self._clients = Clients(store, documents)
        self._grants = Grants(store, principals, Assertions(documents, outgoing))
        self._issuer = external_issuer(settings)
        if self._issuer is None:
            self._tokens: BuiltinTokens | ExternalTokens = BuiltinTokens(store, principals, groups=groups)
        else:
            self._tokens = ExternalTokens(
                Issuer(self._issuer, outgoing=outgoing, jwks_url=settings.oauth.jwks_url),
                settings.roles,
                addresses=self._addresses,
                groups=groups,
                people=principals.people,
                groups_claim=GROUPS_CLAIM if settings.oidc is None else settings.oidc.groups_claim,
            )

    def apply(self, roles: dict[str, RoleSettings]) -> None:
        """Give people who come with a token of the external issuer what these roles allow."""
        if isinstance(self._tokens, ExternalTokens):
            self._tokens.apply(roles)

    def on_ended(self, listener: Callable[[str], None]) -> None:
        """From now on, `listener` is told which grants have ended; what was opened under one is to be closed."""
        if isinstance(self._tokens, BuiltinTokens):
            self._tokens.on_ended.append(listener)

    def may_be_token(self, given: bytes) -> bool:
        return self._tokens.may_be_token(given)

    async def find(self, token: bytes, request: Request) -> Principal | None:
        return await self._tokens.find(token, request)

    def challenge(self, request: Request, *, lacks: str | None = None) -> str:
        """What `WWW-Authenticate` says. The scopes of an external issuer are its own affair."""
        if lacks is not None:
            return self._addresses.challenge(request, error="insufficient_scope", scope=lacks)
        scope = DEFAULT_SCOPE if self._issuer is None else None
        error = "invalid_token" if b"authorization" in request.headers else None
        return self._addresses.challenge(request, error=error, scope=scope)

    def lacking(self, request: Request, scope: str) -> str:
        """The challenge where a token lacks a scope."""
        return self.challenge(request, lacks=scope)

    def routes(self, browser: Browser, *, groups_of: GroupsOf) -> list[Route]:
        """Every route of OAuth; none where it is off."""
        if self.mode == "off":
            return []
        resource = resource_routes(ResourceApi(self._addresses, issuer=self._issuer, name=self._name))
        if self._issuer is not None:
            return resource
        consent = AuthorizeApi(
            self._clients, self._grants, addresses=self._addresses, browser=browser, groups_of=groups_of
        )
        server = ServerApi(self._clients, self._grants, addresses=self._addresses)
        return [*resource, *server_routes(server), *page_routes(consent), *grants_api.routes(self._grants)]


def external_issuer(settings: Settings) -> str | None:
    """The external issuer; None where the gateway is the authorization server, or there is none."""
    oauth = settings.oauth
    if oauth.mode != "external":
        return None
    if oauth.issuer is None:
        raise ConfigError(
            f'{settings.path}: auth.oauth.mode is "external", but auth.oauth.issuer is missing. '
            "Add the issuer whose tokens are taken."
        )
    if not settings.roles:
        raise ConfigError(
            f'{settings.path}: auth.oauth.mode is "external", but there is no [auth.roles.NAME], so that nobody could '
            "do anything. Add a role."
        )
    return oauth.issuer
