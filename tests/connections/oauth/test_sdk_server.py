"""The OAuth client against the Python SDK's authorization server, as most MCP servers in Python have it."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes, create_protected_resource_routes
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette

from jackfield.connections.oauth import GrantEnded, OAuthClient
from jackfield.outgoing import Outgoing
from jackfield.settings.identity import SourceOAuth
from tests.connections.oauth.scene import REDIRECT, browse
from tests.harness.process import free_port
from tests.requirement import requirement
from tests.waiting import eventually_async


class Grants(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Says yes to everybody; the SDK checks clients, redirects and PKCE."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        assert client.client_id is not None
        code = AuthorizationCode(
            code=secrets.token_urlsafe(16),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        assert client
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._tokens(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        assert client
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]
        return self._tokens(client, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)

    def _tokens(self, client: OAuthClientInformationFull, scopes: list[str], resource: str | None) -> OAuthToken:
        assert client.client_id is not None
        access = AccessToken(
            token=secrets.token_urlsafe(16), client_id=client.client_id, scopes=scopes, resource=resource
        )
        refresh = RefreshToken(
            token=secrets.token_urlsafe(16), client_id=client.client_id, scopes=scopes, resource=resource
        )
        self.access[access.token], self.refresh[refresh.token] = access, refresh
        return OAuthToken(
            access_token=access.token, refresh_token=refresh.token, expires_in=3600, scope=" ".join(scopes)
        )


@asynccontextmanager
async def sdk_server(grants: Grants, *, slash: str = "") -> AsyncIterator[str]:
    """Resource and authorization server in one, as the SDK's examples have it. `slash` ends the issuer."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    routes = [
        *create_auth_routes(
            grants,
            AnyHttpUrl(url + slash),
            client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["user"]),
            revocation_options=RevocationOptions(enabled=True),
        ),
        *create_protected_resource_routes(AnyHttpUrl(f"{url}/mcp"), [AnyHttpUrl(url)], scopes_supported=["user"]),
    ]
    config = uvicorn.Config(Starlette(routes=routes), port=port, log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    await eventually_async(lambda: server.started)
    try:
        yield url
    finally:
        server.should_exit = True
        await serving


@requirement("ID-upstream-login")
@pytest.mark.parametrize("slash", ["", "/"])
async def test_a_login_at_a_server_of_the_sdk(slash: str) -> None:
    grants = Grants()
    async with sdk_server(grants, slash=slash) as url, Outgoing() as outgoing:
        oauth = OAuthClient(outgoing, f"{url}/mcp", SourceOAuth(), redirect_uri=REDIRECT)
        target = await oauth.discover()
        scopes = oauth.scopes(target)
        client = await oauth.client(target, scopes=scopes)
        request = oauth.begin(target, client, scopes=scopes)
        callback = await browse(request)
        tokens = await oauth.finish(target, client, request, callback)

        held = grants.access[tokens.access_token]
        assert (held.scopes, held.resource) == (["user"], f"{url}/mcp")
        assert client.client_secret is not None
        with pytest.raises(GrantEnded):
            await oauth.finish(target, client, request, callback)

        fresh = await oauth.refresh(target.server, client, tokens)
        with pytest.raises(GrantEnded):
            await oauth.refresh(target.server, client, tokens)

        assert await oauth.revoke(target.server, client, fresh)
        assert fresh.access_token not in grants.access
