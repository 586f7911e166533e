"""Enterprise-managed authorization: the identity provider vouches for its people at the server (ID-JAG).

A person signs in at the provider, with single sign-on mostly without being asked. The id token is exchanged there for a
grant that the server's authorization server takes. The provider decides who may use the server; nobody consents.
"""

from collections.abc import Mapping

from msgspec import Struct, structs

from jackfield.connections.oauth.authorization import authorization_request, check_callback
from jackfield.connections.oauth.challenges import OFFLINE_ACCESS
from jackfield.connections.oauth.discovery import choose_server, is_same_issuer
from jackfield.connections.oauth.endpoint import TokenEndpoints
from jackfield.connections.oauth.errors import CallbackRefused, OAuthError
from jackfield.connections.oauth.http import JsonAnswer, OAuthHttp, host_of
from jackfield.connections.oauth.tokens import (
    ID_JAG,
    ID_TOKEN,
    TOKEN_EXCHANGE,
    parse_assertion,
    parse_id_token,
    parse_refresh_token,
)
from jackfield.connections.oauth.types import AuthorizationRequest, AuthorizationServer, Client, Target
from jackfield.settings.identity import SourceOAuth


class SignIn(Struct, frozen=True, kw_only=True):
    """Somebody who is signed in at the provider."""

    id_token: str
    refresh_token: str | None = None

    def __repr__(self) -> str:
        return "SignIn(…)"


class EnterpriseProvider:
    """The identity provider of one source. `identity` is the gateway's client there (`[auth.oidc]`)."""

    def __init__(
        self, http: OAuthHttp, endpoints: TokenEndpoints, config: SourceOAuth, *, identity: Client | None, host: str
    ) -> None:
        self._http = http
        self._endpoints = endpoints
        self._config = config
        self._identity = identity
        self._host = host

    async def discover(self) -> AuthorizationServer:
        """The provider's metadata. The operator names it, so nobody has to prove that it knows PKCE."""
        issuer = self._config.identity_provider
        if issuer is None:
            raise OAuthError(f'The source at {self._host} has `grant = "enterprise"` but no `identity_provider`.')
        server = await choose_server(self._http, (issuer,), preferred=None, url=issuer)
        return structs.replace(server, origin="config")

    def begin(
        self, provider: AuthorizationServer, *, scopes: tuple[str, ...], redirect_uri: str, state: str | None
    ) -> AuthorizationRequest:
        """A sign-in for a person's browser; `scopes` are those wanted at the server afterwards."""
        offline = (OFFLINE_ACCESS,) if OFFLINE_ACCESS in (provider.scopes_supported or ()) else ()
        there = Target(url=provider.issuer, server=provider, resource=None)
        request = authorization_request(
            there, self._client(provider), scopes=("openid", *offline), redirect_uri=redirect_uri, state=state
        )
        return structs.replace(request, scopes=scopes)

    async def finish(
        self, provider: AuthorizationServer, request: AuthorizationRequest, callback: Mapping[str, str]
    ) -> SignIn:
        """The sign-in that a callback completes."""
        identity = self._client(provider)
        if (request.issuer, request.client_id) != (provider.issuer, identity.client_id):
            raise CallbackRefused(
                f"The sign-in was begun at {host_of(request.issuer)}, but is wanted elsewhere now. Start it again."
            )
        form = {
            "grant_type": "authorization_code",
            "code": check_callback(request, callback),
            "redirect_uri": request.redirect_uri,
            "code_verifier": request.verifier,
        }
        return _sign_in(await self._endpoints.ask(provider, identity, form, resource=None), provider)

    async def refresh(self, provider: AuthorizationServer, refresh_token: str) -> SignIn:
        """The same person's sign-in, with an id token that is good again."""
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token, "scope": "openid"}
        answer = await self._endpoints.ask(provider, self._client(provider), form, resource=None)
        return _sign_in(answer, provider, before=refresh_token)

    async def exchange(
        self, provider: AuthorizationServer, id_token: str, *, audience: str, resource: str, scopes: tuple[str, ...]
    ) -> str:
        """The grant for the authorization server `audience`, in exchange for the id token."""
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": ID_JAG,
            "audience": audience,
            "subject_token": id_token,
            "subject_token_type": ID_TOKEN,
        }
        if scopes:
            form["scope"] = " ".join(scopes)
        identity = None if self._identity is None else self._client(provider)
        return parse_assertion(await self._endpoints.ask(provider, identity, form, resource=resource), provider)

    def _client(self, provider: AuthorizationServer) -> Client:
        identity = self._identity
        if identity is None:
            raise OAuthError(
                f"The source at {self._host} takes people of {host_of(provider.issuer)}, but the gateway has no client "
                f"there. Add [auth.oidc] with that issuer."
            )
        if not is_same_issuer(identity.issuer, provider.issuer):
            raise OAuthError(
                f"People sign in at {host_of(identity.issuer)}, but `identity_provider` of the source is "
                f"{host_of(provider.issuer)}. They have to be the same."
            )
        supported = provider.token_endpoint_auth_methods_supported or ("client_secret_basic",)
        if identity.auth_method == "client_secret_basic" and "client_secret_basic" not in supported:
            return structs.replace(identity, auth_method="client_secret_post")
        return identity


def _sign_in(answer: JsonAnswer, provider: AuthorizationServer, *, before: str | None = None) -> SignIn:
    return SignIn(
        id_token=parse_id_token(answer, provider), refresh_token=parse_refresh_token(answer, provider) or before
    )
