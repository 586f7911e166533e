"""Tokens of an external issuer at `/mcp`."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwk

from jackfield.cli.doctor import check_issuer
from jackfield.errors import ConfigError
from jackfield.identity.people_transactions import Person
from tests.harness.in_process import make_gateway
from tests.identity.issuer import TestIssuer, running_issuer
from tests.identity.oauth.programs import BASE, OAuthGateway, oauth_gateway
from tests.requirement import requirement

ROLES = """
[auth.roles.callers]
groups = ["engineers"]
scopes = ["call"]

[auth.roles.readers]
emails = ["*@example.org"]
scopes = ["read"]

[sources.mine]
kind = "files"
path = "tools/*.py"

[groups.one]
tools = ["*"]
"""
AUDIENCE = f"{BASE}/mcp"


@asynccontextmanager
async def external(folder: Path) -> AsyncIterator[tuple[OAuthGateway, TestIssuer]]:
    async with running_issuer() as issuer:
        config = f'[auth.oauth]\nmode = "external"\nissuer = "{issuer.url}"\n{ROLES}'
        async with oauth_gateway(folder, config) as front:
            yield front, issuer


@requirement("ID-oauth-external")
async def test_the_roles_of_the_claims_say_what_a_token_may(tmp_path: Path) -> None:
    async with external(tmp_path) as (front, issuer):
        challenge = (await front.http.post("/mcp", json={})).headers["www-authenticate"]
        assert challenge == f'Bearer resource_metadata="{BASE}/.well-known/oauth-protected-resource/mcp"'
        found = (await front.http.get("/.well-known/oauth-protected-resource/mcp")).json()
        assert (found["authorization_servers"], found["resource"]) == ([issuer.url], AUDIENCE)
        assert (await front.http.get("/.well-known/oauth-authorization-server")).status_code == 404
        token = issuer.token(aud=AUDIENCE, groups=["engineers"], scope="openid call")
        called = await front.mcp(token, method="tools/call", name="hello", arguments={})
        assert called.json()["result"]["content"][0]["text"] == "hello"
        calls = (await front.http.get("/api/v1/calls", headers={"x-api-key": "key-of-the-inside"})).json()["calls"]
        assert [call["principal"] for call in calls] == ["user:ada"]
        narrow = issuer.token(aud=AUDIENCE, groups=["engineers"], scope="read")
        assert (await front.mcp(narrow)).status_code == 200
        refused = await front.mcp(narrow, method="tools/call", name="hello", arguments={})
        assert refused.status_code == 403
        assert 'error="insufficient_scope", scope="call"' in refused.headers["www-authenticate"]
        reader = issuer.token(aud=AUDIENCE, email="a@example.org", email_verified=True, scope="call")
        assert (await front.mcp(reader, method="tools/call", name="hello", arguments={})).status_code == 403


async def test_nobody_without_a_role_gets_in(tmp_path: Path) -> None:
    async with external(tmp_path) as (front, issuer):
        unknown: list[dict[str, Any]] = [
            {},
            {"email": "a@example.org"},
            {"email": "a@example.org", "email_verified": "false"},
        ]
        for claims in unknown:
            refused = await front.mcp(issuer.token(aud=AUDIENCE, **claims))
            assert refused.status_code == 403
            assert "has no role here" in refused.json()["error"]["message"]


async def test_who_is_signed_out_everywhere_needs_a_newer_token(tmp_path: Path) -> None:
    async with external(tmp_path) as (front, issuer):
        people, now = front.gateway.principals.people, int(time.time())
        token = issuer.token(aud=AUDIENCE, groups=["engineers"], iat=now - 30)
        assert (await front.mcp(token)).status_code == 200
        ada = Person(id="user:ada", issuer=issuer.url, name="Ada", email=None, roles=("callers",))
        await people.sign_in(ada, "digest")
        await people.sign_out("user:ada")
        assert (await front.mcp(token)).status_code == 401
        newer = issuer.token(aud=AUDIENCE, groups=["engineers"], iat=now + 30)
        assert (await front.mcp(newer)).status_code == 200
        await people.sign_in(ada, "another")
        assert (await front.mcp(token)).status_code == 401, "signing in again does not make old tokens good"


async def test_tokens_that_are_not_for_this_resource_are_refused(tmp_path: Path) -> None:
    async with external(tmp_path) as (front, issuer):
        good: dict[str, Any] = {"groups": ["engineers"]}
        of_group = issuer.token(aud=f"{AUDIENCE}/one", **good)
        assert (await front.mcp(of_group, "/mcp/one")).status_code == 200
        for token, path in (
            (of_group, "/mcp"),
            (issuer.token(aud=AUDIENCE, **good), "/mcp/one"),
            (issuer.token(aud="https://other.example/mcp", **good), "/mcp"),
            (issuer.token(aud=AUDIENCE, iss="https://evil.example", **good), "/mcp"),
            (issuer.token(aud=AUDIENCE, exp=1, **good), "/mcp"),
            (issuer.token(aud=AUDIENCE, key=jwk.RSAKey.generate_key(2048), **good), "/mcp"),
            (issuer.token(aud=AUDIENCE, header={"alg": "HS256"}, key=jwk.OctKey.generate_key(256), **good), "/mcp"),
        ):
            refused = await front.mcp(token, path)
            assert refused.status_code == 401
            assert 'error="invalid_token"' in refused.headers["www-authenticate"]
        token = issuer.token(aud=AUDIENCE, **good)
        elsewhere = await front.http.get("/api/v1/tools", headers={"authorization": f"Bearer {token}"})
        assert elsewhere.status_code == 401
        assert "good at /mcp only" in elsewhere.json()["error"]["message"]


@pytest.mark.parametrize(
    ("config", "says"), [("", "issuer is missing"), ('issuer = "https://a.example"\n', "no .auth")]
)
def test_external_needs_an_issuer_and_roles(tmp_path: Path, config: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make_gateway(tmp_path, f'[auth.oauth]\nmode = "external"\n{config}')


async def test_the_doctor_says_whether_the_issuers_tokens_can_be_checked(tmp_path: Path) -> None:
    async with running_issuer() as issuer:
        config = f'[auth.oauth]\nmode = "external"\nissuer = "{issuer.url}"\n{ROLES}'
        (found,) = await check_issuer(make_gateway(tmp_path, config).settings)
        assert (found.level.value, found.message) == ("ok", f"tokens of {issuer.url}")
        (found,) = await check_issuer(make_gateway(tmp_path, config.replace(issuer.url, "http://127.0.0.1:1")).settings)
        assert found.level.value == "fault"
        assert found.message.startswith("http://127.0.0.1:1 cannot be used: ")
