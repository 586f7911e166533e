"""Enterprise-managed authorization: the identity provider vouches for its people at the server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest

from jackfield.connections.oauth import CallbackRefused, Client, GrantEnded, OAuthClient, OAuthError
from tests.connections.oauth.scene import OPENID_PATH, REDIRECT, AuthServer, Scene, basic_pair, browse, scene
from tests.requirement import requirement
from tests.sources.upstream import Received, json_reply

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"


class Provider(AuthServer):
    """An identity provider: people sign in, and id tokens are exchanged."""

    def __init__(self) -> None:
        super().__init__(metadata_path=OPENID_PATH)
        self.metadata |= {"scopes_supported": ["openid", "offline_access"], "code_challenge_methods_supported": None}
        plain = self._token
        self.exchanged: dict[str, Any] = {"access_token": "id-jag", "token_type": "N_A", "issued_token_type": ID_JAG}

        def token(request: Received) -> bytes:
            form = dict(parse_qsl(request.body.decode()))
            if form["grant_type"] != EXCHANGE:
                self.token["id_token"] = f"id-token-{len(self.forms) + 1}"
                return plain(request)
            self.forms.append(form)
            return json_reply(self.exchanged)

        self.answers["/token"] = token

    @property
    def identity(self) -> Client:
        return Client(issuer=self.issuer, client_id="at-provider", origin="config")


@asynccontextmanager
async def enterprise(**config: Any) -> AsyncIterator[tuple[Scene, Provider, OAuthClient]]:
    async with scene() as s, Provider() as provider:
        s.auth.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
        s.auth.token["refresh_token"] = None
        usual: dict[str, Any] = {
            "grant": "enterprise",
            "client_id": "mine",
            "client_secret": "secret",
            "identity_provider": provider.issuer,
            "identity": provider.identity,
        }
        yield s, provider, s.oauth(**{**usual, **config})


@requirement("ID-upstream-enterprise")
async def test_a_person_signs_in_at_the_provider_and_gets_a_token_of_the_server() -> None:
    async with enterprise() as (s, provider, oauth):
        target, tokens = await s.log_in(oauth, scopes=("files",))

        [asked] = provider.authorizations
        assert (asked["client_id"], asked["scope"]) == ("at-provider", "openid offline_access")
        assert asked["redirect_uri"] == REDIRECT
        assert "resource" not in asked
        assert provider.forms[1] == {
            "grant_type": EXCHANGE,
            "requested_token_type": ID_JAG,
            "audience": s.auth.issuer,
            "resource": s.protected.mcp,
            "subject_token": "id-token-1",
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "scope": "files",
            "client_id": "at-provider",
        }
        [form] = s.auth.forms
        assert (form["grant_type"], form["assertion"], form["scope"]) == (JWT_BEARER, "id-jag", "files")
        assert basic_pair(s.auth.received[-1].headers) == ("mine", "secret")
        assert (tokens.access_token, tokens.issuer) == ("access-1", s.auth.issuer)
        assert s.auth.authorizations == []
        assert (tokens.refresh_token, tokens.is_refreshed_by_provider) == ("refresh-1", True)
        assert target.identity_provider is not None


@requirement("ID-upstream-enterprise")
async def test_a_refresh_asks_the_provider_again() -> None:
    async with enterprise() as (s, provider, oauth):
        target, tokens = await s.log_in(oauth, scopes=("files",))
        client = await oauth.client(target)
        provider.token["refresh_token"] = None

        fresh = await oauth.refresh(target.server, client, tokens)

        assert (fresh.access_token, fresh.refresh_token) == ("access-2", "refresh-1")
        assert [form["grant_type"] for form in provider.forms[2:]] == ["refresh_token", EXCHANGE]
        assert "refresh_token" not in [form["grant_type"] for form in s.auth.forms]
        assert fresh.asked == ("files",)
        await oauth.revoke(target.server, client, fresh)
        assert [form["token"] for form in s.auth.revoked] == ["access-2"]

        provider.answers["/token"] = json_reply({"error": "invalid_grant"}, status=400)
        with pytest.raises(GrantEnded):
            await oauth.refresh(target.server, client, fresh)


async def test_a_servers_own_refresh_token_goes_before_the_providers() -> None:
    async with enterprise() as (s, _, oauth):
        s.auth.token["refresh_token"] = "of-the-server"

        _, tokens = await s.log_in(oauth)

        assert (tokens.refresh_token, tokens.is_refreshed_by_provider) == ("of-the-server", False)


@requirement("ID-upstream-enterprise")
async def test_an_id_token_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "id-token"
    file.write_text("id-token")
    async with enterprise(token_file=str(file), identity=None) as (s, provider, oauth):
        target = await oauth.discover()

        tokens = await oauth.machine(target, await oauth.client(target), scopes=())

        [exchange] = provider.forms
        assert exchange["subject_token"] == "id-token"
        assert "client_id" not in exchange
        assert (s.auth.forms[0]["assertion"], tokens.access_token) == ("id-jag", "access-1")
        assert tokens.refresh_token is None


@requirement("ID-upstream-enterprise")
async def test_an_id_token_is_exchanged_for_a_grant_and_nothing_else() -> None:
    async with enterprise() as (s, provider, oauth):
        provider.exchanged["issued_token_type"] = "urn:ietf:params:oauth:token-type:access_token"

        with pytest.raises(OAuthError, match="no authorization grant"):
            await s.log_in(oauth)
        assert s.auth.forms == []


@requirement("ID-upstream-enterprise")
@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"identity_provider": None}, "no `identity_provider`"),
        ({"identity": None}, r"Add \[auth\.oidc\]"),
        ({"identity": Client(issuer="https://other.example", client_id="c", origin="config")}, "have to be the same"),
    ],
)
async def test_what_is_missing_is_said_and_nobody_signs_in(config: dict[str, Any], says: str) -> None:
    async with enterprise(**config) as (s, provider, oauth):
        with pytest.raises(OAuthError, match=says):
            await s.log_in(oauth)
        assert provider.authorizations == provider.forms == s.auth.forms == []


@requirement("ID-upstream-callback")
async def test_a_sign_in_of_another_provider_is_refused() -> None:
    async with enterprise() as (_, provider, oauth):
        target = await oauth.discover()
        client = await oauth.client(target)
        request = oauth.begin(target, client, scopes=())
        callback = await browse(request)

        for change in ({"issuer": "https://evil.example"}, {"client_id": "other"}):
            with pytest.raises(CallbackRefused):
                await oauth.finish(target, client, msgspec.structs.replace(request, **change), callback)
        with pytest.raises(CallbackRefused):
            await oauth.finish(target, client, request, {**callback, "iss": "https://evil.example"})
        assert provider.forms == []
