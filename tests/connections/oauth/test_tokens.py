"""The token endpoint: how the client authenticates, refresh, revocation, machines, and answers that are not right."""

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from jackfield.connections.oauth import (
    Client,
    GrantEnded,
    OAuthClient,
    OAuthError,
    OAuthUnavailable,
    RegistrationFailed,
    Target,
    TokenRefused,
    Tokens,
)
from jackfield.connections.oauth import client as oauth_client
from jackfield.connections.oauth import http as oauth_http
from tests.connections.oauth.scene import AuthServer, Scene, basic_pair, browse, scene
from tests.requirement import requirement
from tests.sources.upstream import json_reply, never, redirect, reply

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


async def machine(s: Scene, *, scopes: tuple[str, ...] = (), **config: Any) -> Tokens:
    oauth = s.oauth(**config)
    target = await oauth.discover()
    return await oauth.machine(target, await oauth.client(target), scopes=scopes)


async def logged_in(s: Scene, **config: Any) -> tuple[OAuthClient, Target, Client, Tokens]:
    oauth = s.oauth(**{"client_id": "mine", **config})
    target, tokens = await s.log_in(oauth)
    return oauth, target, await oauth.client(target), tokens


@requirement("ID-upstream-client-auth")
@pytest.mark.parametrize(
    ("supported", "config", "expected"),
    [
        (["client_secret_basic"], {}, "basic"),
        (["client_secret_post"], {}, "post"),
        (["client_secret_post", "client_secret_basic"], {}, "basic"),
        (None, {}, "basic"),
        (["client_secret_basic"], {"token_endpoint_auth_method": "client_secret_post"}, "post"),
        (["client_secret_basic"], {"token_endpoint_auth_method": "none"}, "none"),
    ],
)
async def test_the_token_endpoint_is_met_in_its_own_way(
    supported: list[str] | None, config: dict[str, Any], expected: str
) -> None:
    async with scene() as s:
        s.auth.metadata["token_endpoint_auth_methods_supported"] = supported

        await machine(s, grant="client_credentials", client_id="mine", client_secret="s&cret", **config)

        [form] = s.auth.forms
        headers = s.auth.received[-1].headers
        if expected == "basic":
            assert basic_pair(headers) == ("mine", "s&cret")
            assert "client_secret" not in form
        else:
            assert "authorization" not in headers
            assert form["client_id"] == "mine"
            assert form.get("client_secret") == ("s&cret" if expected == "post" else None)


@requirement("ID-upstream-machine")
@pytest.mark.parametrize(
    ("key", "supported", "algorithm"),
    [
        (ECKey.generate_key("P-256"), ["ES256"], "ES256"),
        (RSAKey.generate_key(2048), None, "RS256"),
        (RSAKey.generate_key(2048), ["PS256"], "PS256"),
        (ECKey.generate_key("P-384"), None, "ES384"),
    ],
)
async def test_client_credentials_with_a_signed_assertion(
    key: Any, supported: list[str] | None, algorithm: str, tmp_path: Path
) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(key.as_pem(private=True))
    async with scene() as s:
        s.auth.metadata["token_endpoint_auth_signing_alg_values_supported"] = supported

        tokens = await machine(
            s, grant="client_credentials", client_id="mine", private_key=str(file), scopes=("a", "b")
        )

        [form] = s.auth.forms
        assert form["grant_type"] == "client_credentials"
        assert form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        assertion = jwt.decode(form["client_assertion"], key, algorithms=[algorithm])
        assert assertion.header["alg"] == algorithm
        claims = assertion.claims
        assert (claims["iss"], claims["sub"], claims["aud"]) == ("mine", "mine", s.auth.issuer)
        assert claims["exp"] - claims["iat"] <= 300
        assert (form["scope"], form["resource"]) == ("a b", s.protected.mcp)
        assert tokens.scopes == ("a", "b")


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"signing_algorithm": "HS256"}, "cannot sign with 'HS256'"),
        ({"signing_algorithm": "none"}, "cannot sign with 'none'"),
        ({"private_key": "/nowhere/key.pem"}, "neither PEM text nor a file"),
        ({"private_key": "-----BEGIN PRIVATE KEY-----\nrubbish\n-----END PRIVATE KEY-----"}, "not a private key"),
        ({"private_key": None, "token_endpoint_auth_method": "private_key_jwt"}, "needs a `private_key`"),
        ({"private_key": None, "token_endpoint_auth_method": "client_secret_basic"}, "needs a `client_secret`"),
    ],
)
async def test_a_key_that_cannot_be_used_is_said(config: dict[str, Any], says: str) -> None:
    pem = ECKey.generate_key("P-256").as_pem(private=True).decode()
    async with scene() as s:
        with pytest.raises(OAuthError, match=says) as caught:
            await machine(s, **{"grant": "client_credentials", "client_id": "m", "private_key": pem, **config})
        assert "rubbish" not in caught.value.message
        assert s.auth.forms == []


async def test_a_public_key_signs_nothing() -> None:
    pem = ECKey.generate_key("P-256").as_pem(private=False).decode()
    async with scene() as s:
        with pytest.raises(OAuthError, match="not a private key"):
            await machine(s, grant="client_credentials", client_id="m", private_key=pem)


@requirement("ID-upstream-machine")
async def test_a_jwt_bearer_grant_is_signed_with_the_configs_key() -> None:
    key = ECKey.generate_key("P-256")
    async with scene() as s:
        await machine(
            s, grant="jwt_bearer", client_id="mine", private_key=key.as_pem(private=True).decode(), scopes=("a",)
        )

        [form] = s.auth.forms
        assert form["grant_type"] == JWT_BEARER
        claims = jwt.decode(form["assertion"], key, algorithms=["ES256"]).claims
        assert (claims["iss"], claims["aud"], claims["scope"]) == ("mine", s.auth.issuer, "a")
        assert form["client_id"] == "mine"
        assert "client_assertion" not in form


@requirement("ID-upstream-machine")
async def test_a_workload_shows_the_token_that_its_file_has_at_that_moment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    async with scene() as s:
        for number in (1, 2):
            file.write_text(f"token-{number}\n")
            await machine(s, grant="workload", client_id="mine", token_file=str(file))

        assert [(form["grant_type"], form["assertion"], form["client_id"]) for form in s.auth.forms] == [
            (JWT_BEARER, "token-1", "mine"),
            (JWT_BEARER, "token-2", "mine"),
        ]
        file.write_text("")
        for missing in (str(file), str(tmp_path / "none")):
            with pytest.raises(OAuthError, match="`token_file`"):
                await machine(s, grant="workload", client_id="mine", token_file=missing)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"grant": "client_credentials"}, "needs a `client_id`"),
        ({"grant": "workload", "client_id": "c"}, "no `token_file`"),
        ({"grant": "jwt_bearer", "client_id": "c"}, "no `private_key`"),
        ({"grant": "code", "client_id": "c"}, "needs a person"),
    ],
)
async def test_what_a_machine_lacks_is_said(config: dict[str, Any], says: str) -> None:
    async with scene() as s:
        with pytest.raises(OAuthError, match=says):
            await machine(s, **config)
        assert s.auth.forms == s.auth.registrations == []


@requirement("ID-upstream-machine")
@pytest.mark.parametrize("error", ["invalid_grant", "invalid_scope", "unauthorized_client"])
async def test_a_refused_machine_asks_once(error: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("machine-token")
    async with scene() as s:
        s.auth.answers["/token"] = json_reply({"error": error, "error_description": "machine-token"}, status=400)

        with pytest.raises(TokenRefused) as caught:
            await machine(s, grant="workload", client_id="mine", token_file=str(file))

        assert caught.value.error == error
        assert "machine-token" not in caught.value.message
        assert s.auth.targets.count("/token") == 1


@requirement("ID-upstream-refresh")
@pytest.mark.parametrize("rotated", [True, False])
async def test_a_refresh_keeps_the_old_refresh_token_unless_there_is_a_new_one(*, rotated: bool) -> None:
    async with scene() as s:
        oauth, target, client, tokens = await logged_in(s, scopes=("a",))
        if not rotated:
            s.auth.token["refresh_token"] = None

        fresh = await oauth.refresh(target.server, client, tokens)

        assert fresh.access_token != tokens.access_token
        assert fresh.refresh_token == ("refresh-2" if rotated else "refresh-1")
        assert (fresh.scopes, fresh.resource) == (("a",), s.protected.mcp)
        assert s.auth.forms[-1] == {
            "grant_type": "refresh_token",
            "refresh_token": "refresh-1",
            "resource": s.protected.mcp,
            "client_id": "mine",
        }


@requirement("ID-upstream-refresh")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (json_reply({"error": "invalid_grant"}, status=400), GrantEnded),
        (json_reply({"error": "bad_refresh_token"}), GrantEnded),
        (json_reply({"error": "invalid_client"}, status=401), TokenRefused),
        (json_reply({"error": "refresh-1"}, status=400), TokenRefused),
        (json_reply({"error": ["invalid_grant"]}, status=400), TokenRefused),
        (reply(400, b"<html>"), TokenRefused),
        (reply(200, b"<html>"), TokenRefused),
        (reply(500), OAuthUnavailable),
        (reply(503, b'{"error":"invalid_grant"}'), OAuthUnavailable),
        (reply(429), OAuthUnavailable),
        (reply(200, b"x" * (oauth_http.MAX_BYTES + 1)), OAuthUnavailable),
    ],
)
async def test_a_refresh_that_fails_says_whether_to_log_in_again_or_later(
    answer: bytes, expected: type[OAuthError]
) -> None:
    async with scene() as s:
        oauth, target, client, tokens = await logged_in(s)
        s.auth.answers["/token"] = answer

        with pytest.raises(expected) as caught:
            await oauth.refresh(target.server, client, tokens)
        assert type(caught.value) is expected
        assert "127.0.0.1" in caught.value.message


async def test_without_a_refresh_token_only_a_login_helps() -> None:
    async with scene() as s:
        s.auth.token["refresh_token"] = None
        oauth, target, client, tokens = await logged_in(s)

        with pytest.raises(GrantEnded, match="Log in again"):
            await oauth.refresh(target.server, client, tokens)


async def test_a_slow_token_endpoint_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene() as s:
        oauth, target, client, tokens = await logged_in(s)
        s.auth.answers["/token"] = never
        monkeypatch.setattr(oauth_http, "SECONDS", 0.05)

        with pytest.raises(OAuthUnavailable, match="did not answer"):
            await oauth.refresh(target.server, client, tokens)


@requirement("ID-upstream-secrets")
@pytest.mark.parametrize("status", [302, 307, 308])
async def test_a_redirect_of_the_token_endpoint_gets_no_secret(status: int) -> None:
    async with scene() as s, AuthServer() as thief:
        oauth, target, client, tokens = await logged_in(s)
        s.auth.answers["/token"] = redirect(f"{thief.url}/token", status=status)

        with pytest.raises(OAuthUnavailable, match="redirected"):
            await oauth.refresh(target.server, client, tokens)
        assert thief.connections == 0


@requirement("ID-upstream-refresh")
@pytest.mark.parametrize(
    "token",
    [
        {"access_token": None},
        {"access_token": ""},
        {"access_token": 7},
        {"access_token": "a b"},
        {"access_token": "a\r\nX-Admin: 1"},
        {"access_token": "tökén"},
        {"access_token": "x" * 40_000},
        {"token_type": None},
        {"token_type": "mac"},
        {"token_type": "DPoP"},
        {"refresh_token": "a b"},
        {"refresh_token": {"x": 1}},
    ],
)
async def test_a_token_that_cannot_be_sent_is_refused(token: dict[str, Any]) -> None:
    async with scene() as s:
        s.auth.token |= token

        with pytest.raises(OAuthError) as caught:
            await logged_in(s)
        assert "X-Admin" not in caught.value.message


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (60, 60),
        ("60", 60),
        (60.5, 60.5),
        (-5, 0),
        (10**30, 10 * 365 * 86_400),
        ("soon", None),
        (True, None),
        ([], None),
    ],
)
async def test_junk_around_a_token_is_ignored(said: object, seconds: float | None) -> None:
    async with scene() as s:
        s.auth.token |= {
            "expires_in": said,
            "scope": ["a"],
            "id_token": {"x": 1},
            "token_type": "bEARER",
            "issuer": "evil",
        }

        _, _, _, tokens = await logged_in(s, scopes=("a",))

        assert (tokens.token_type, tokens.scopes, tokens.issuer) == ("Bearer", ("a",), s.auth.issuer)
        if seconds is None:
            assert tokens.expires_at is None
        else:
            assert tokens.expires_at == pytest.approx(time.time() + seconds, abs=30)


@requirement("ID-upstream-revoke")
async def test_both_tokens_are_revoked() -> None:
    async with scene() as s:
        oauth, target, client, tokens = await logged_in(s)

        assert await oauth.revoke(target.server, client, tokens)

        assert s.auth.revoked == [
            {"token": "refresh-1", "token_type_hint": "refresh_token", "client_id": "mine"},
            {"token": "access-1", "token_type_hint": "access_token", "client_id": "mine"},
        ]
        s.auth.answers["/revoke"] = json_reply({"error": "invalid_client"}, status=401)
        with pytest.raises(TokenRefused):
            await oauth.revoke(target.server, client, tokens)
        none = msgspec.structs.replace(target.server, revocation_endpoint=None)
        assert not await oauth.revoke(none, client, tokens)


@requirement("ID-upstream-secrets")
async def test_a_token_goes_to_its_server_and_nowhere_else() -> None:
    async with scene() as s:
        oauth, _, _, tokens = await logged_in(s)

        assert oauth.headers(tokens, "POST", s.protected.mcp) == {"authorization": "Bearer access-1"}
        for elsewhere in (s.auth.url, "https://evil.example/mcp", f"http://localhost:{s.protected.port}/mcp"):
            with pytest.raises(OAuthError, match="is not sent to"):
                oauth.headers(tokens, "POST", elsewhere)


async def test_a_missing_client_id_of_a_machine_is_no_reason_to_register() -> None:
    async with scene() as s:
        oauth = s.oauth(grant="client_credentials")
        with pytest.raises(RegistrationFailed):
            await oauth.client(await oauth.discover())
        assert s.auth.registrations == []


@requirement("ID-upstream-refresh")
async def test_a_secret_that_was_changed_in_the_config_refreshes_older_logins() -> None:
    async with scene() as s:
        s.auth.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
        _, target, client, tokens = await logged_in(s, client_secret="old")

        await s.oauth(client_id="mine", client_secret="new").refresh(target.server, client, tokens)

        assert basic_pair(s.auth.received[-1].headers) == ("mine", "new")
        with pytest.raises(GrantEnded, match="another `client_id`"):
            await s.oauth(client_id="other").refresh(target.server, client, tokens)
        assert len(s.auth.forms) == 2


@requirement("ID-upstream-refresh")
@pytest.mark.parametrize(("client_id", "expected"), [(None, GrantEnded), ("mine", TokenRefused)])
async def test_a_server_that_has_forgotten_a_client_that_registered_itself_gets_another_login(
    client_id: str | None, expected: type[OAuthError]
) -> None:
    async with scene() as s:
        oauth = s.oauth(client_id=client_id)
        target = await oauth.discover()
        client = await oauth.client(target)
        request = oauth.begin(target, client, scopes=())
        tokens = await oauth.finish(target, client, request, await browse(request))
        s.auth.answers["/token"] = json_reply({"error": "invalid_client"}, status=401)

        with pytest.raises(expected) as caught:
            await oauth.refresh(target.server, client, tokens)
        assert (type(caught.value), caught.value.error) == (expected, "invalid_client")  # type: ignore[attr-defined]


async def test_a_refresh_is_over_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene() as s:
        oauth, target, client, tokens = await logged_in(s)
        s.auth.answers["/token"] = never
        monkeypatch.setattr(oauth_client, "REFRESH_SECONDS", 0.05)

        with pytest.raises(OAuthUnavailable, match="took too long"):
            await oauth.refresh(target.server, client, tokens)
