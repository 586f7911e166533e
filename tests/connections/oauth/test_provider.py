"""The OAuth client against somebody else's authorization server: `oidc-provider`, certified, in its own process."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import msgspec
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from jackfield.connections.oauth import GrantEnded, OAuthClient, Target, TokenRefused, Tokens
from jackfield.connections.oauth.jose import dpop_thumbprint
from jackfield.connections.oauth.types import AuthorizationRequest
from jackfield.outgoing import Outgoing
from jackfield.settings.identity import SourceOAuth
from tests.connections.oauth.scene import REDIRECT
from tests.provider import RunningProvider, running_provider
from tests.requirement import requirement
from tests.sources.upstream import Upstream, json_reply

SCOPES = ("openid", "read", "offline_access")


@pytest.fixture(scope="module")
def provider() -> Iterator[RunningProvider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
async def protected(provider: RunningProvider) -> AsyncIterator[Upstream]:
    async with Upstream() as server:
        metadata = {"resource": f"{server.url}/mcp", "authorization_servers": [provider.issuer]}
        server.answers["/.well-known/oauth-protected-resource/mcp"] = json_reply(metadata)
        yield server


@pytest.fixture
async def outgoing() -> AsyncIterator[Outgoing]:
    async with Outgoing(("127.0.0.1",)) as client:
        yield client


def oauth(outgoing: Outgoing, protected: Upstream, **config: Any) -> OAuthClient:
    settings = msgspec.convert(config, SourceOAuth)
    return OAuthClient(outgoing, f"{protected.url}/mcp", settings, redirect_uri=REDIRECT)


async def log_in(client: OAuthClient, provider: RunningProvider) -> tuple[Target, Any, Tokens]:
    target = await client.discover()
    ours = await client.client(target, scopes=SCOPES)
    request = client.begin(target, ours, scopes=SCOPES)
    tokens = await client.finish(target, ours, request, await asyncio.to_thread(browse, provider, request))
    return target, ours, tokens


def browse(provider: RunningProvider, request: AuthorizationRequest) -> dict[str, str]:
    with httpx2.Client() as browser:
        answer = provider.sign_in(browser, request.url, "ada", until=REDIRECT)
    return dict(parse_qsl(urlsplit(answer.headers["location"]).query))


async def claims_of(provider: RunningProvider, tokens: Tokens) -> dict[str, Any]:
    async with httpx2.AsyncClient() as http:
        keys = (await http.get(f"{provider.issuer}/jwks")).json()
    return jwt.decode(tokens.access_token, KeySet.import_key_set(keys), algorithms=["RS256"]).claims


@requirement("ID-upstream-login")
@pytest.mark.parametrize("dpop", [False, True])
async def test_a_login_with_registration_refresh_and_revocation(
    provider: RunningProvider, protected: Upstream, outgoing: Outgoing, *, dpop: bool
) -> None:
    client = oauth(outgoing, protected, dpop=dpop)

    target, ours, tokens = await log_in(client, provider)

    assert (ours.origin, ours.auth_method) == ("registered", "client_secret_post")
    claims = await claims_of(provider, tokens)
    assert (claims["sub"], claims["aud"]) == ("ada", f"{protected.url}/mcp")
    assert tokens.token_type == ("DPoP" if dpop else "Bearer")
    if tokens.dpop_key is not None:
        assert claims["cnf"]["jkt"] == dpop_thumbprint(tokens.dpop_key)

    fresh = await client.refresh(target.server, ours, tokens)
    assert fresh.access_token != tokens.access_token
    assert (await claims_of(provider, fresh))["aud"] == f"{protected.url}/mcp"

    assert await client.revoke(target.server, ours, fresh)
    with pytest.raises(GrantEnded):
        await client.refresh(target.server, ours, fresh)


@requirement("ID-upstream-callback")
async def test_a_code_works_once(provider: RunningProvider, protected: Upstream, outgoing: Outgoing) -> None:
    client = oauth(outgoing, protected)
    target = await client.discover()
    ours = await client.client(target, scopes=SCOPES)
    request = client.begin(target, ours, scopes=SCOPES)
    callback = await asyncio.to_thread(browse, provider, request)
    await client.finish(target, ours, request, callback)

    with pytest.raises(GrantEnded):
        await client.finish(target, ours, request, callback)


@requirement("ID-upstream-client-auth")
@pytest.mark.parametrize("method", ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"])
async def test_every_way_to_authenticate_is_taken(
    provider: RunningProvider, protected: Upstream, outgoing: Outgoing, method: str
) -> None:
    key = ECKey.generate_key("P-256")
    secret = "s3:cr/et +%"
    more: dict[str, Any] = {"token_endpoint_auth_method": method}
    config: dict[str, Any] = {"client_id": f"client {method}", "token_endpoint_auth_method": method}
    if method == "private_key_jwt":
        more |= {"jwks": {"keys": [key.as_dict(private=False)]}}
        config |= {"private_key": key.as_pem(private=True).decode()}
    elif method != "none":
        more |= {"client_secret": secret}
        config |= {"client_secret": secret}
    provider.add_client(config["client_id"], redirect_uri=REDIRECT, **more)
    client = oauth(outgoing, protected, **config)

    _, _, tokens = await log_in(client, provider)

    assert (await claims_of(provider, tokens))["client_id"] == config["client_id"]


@requirement("ID-upstream-machine")
async def test_a_machine_logs_in_with_its_key(
    provider: RunningProvider, protected: Upstream, outgoing: Outgoing
) -> None:
    key = ECKey.generate_key("P-256")
    provider.add_client(
        "machine",
        redirect_uri=REDIRECT,
        grant_types=["client_credentials"],
        response_types=[],
        token_endpoint_auth_method="private_key_jwt",
        jwks={"keys": [key.as_dict(private=False)]},  # type: ignore[arg-type]
    )
    pem = key.as_pem(private=True).decode()
    client = oauth(outgoing, protected, grant="client_credentials", client_id="machine", private_key=pem)
    target = await client.discover()

    tokens = await client.machine(target, await client.client(target), scopes=("read",))

    claims = await claims_of(provider, tokens)
    assert (claims["client_id"], claims["aud"], claims["scope"]) == ("machine", f"{protected.url}/mcp", "read")
    other = oauth(
        outgoing,
        protected,
        grant="client_credentials",
        client_id="machine",
        private_key=ECKey.generate_key("P-256").as_pem(private=True).decode(),
    )
    with pytest.raises(TokenRefused, match="invalid_client"):
        await other.machine(target, await other.client(target), scopes=())
