"""Clients with a metadata document that sign for their tokens (`private_key_jwt`)."""

import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from jackfield.gateway.server import build_app
from jackfield.identity.oauth.assertions import ASSERTION_TYPE
from jackfield.identity.oauth.front import OAuthFront
from jackfield.outgoing import Outgoing
from tests.harness.in_process import make_gateway
from tests.identity.oauth.programs import BASE, CONFIG, REDIRECT, OAuthGateway, Program
from tests.outgoing.names import Names
from tests.outgoing.test_client import CERTIFICATE, server_side
from tests.requirement import requirement
from tests.sources.upstream import Upstream, json_reply

KEY = ECKey.generate_key("P-256", {"kid": "one", "use": "sig"})


def assertion(client_id: str, *, key: ECKey = KEY, **claims: Any) -> str:
    now = int(time.time())
    said = {"iss": client_id, "sub": client_id, "aud": BASE, "exp": now + 60, "iat": now, "jti": str(time.time_ns())}
    return jwt.encode({"alg": "ES256", "kid": "one"}, said | claims, key)


@asynccontextmanager
async def signing_program(folder: Path) -> AsyncIterator[tuple[OAuthGateway, Program]]:
    trusting = ssl.create_default_context(cafile=CERTIFICATE)
    async with Upstream(tls=server_side()) as server:
        site = server.at("weather.example")
        document = f"{site}/client.json"
        said = {"client_id": document, "client_name": "Weather", "redirect_uris": [REDIRECT]}
        said |= {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": f"{site}/keys"}
        server.answers["/client.json"] = json_reply(said)
        server.answers["/keys"] = json_reply({"keys": [KEY.as_dict(private=False)]})
        names = Names({"weather.example": "127.0.0.1"})
        gateway = make_gateway(folder, CONFIG)
        async with Outgoing(("weather.example",), resolve=names, tls=trusting) as outgoing, gateway:
            gateway.oauth = OAuthFront(
                gateway.settings,
                store=gateway.store,
                principals=gateway.principals,
                groups=gateway.groups,
                outgoing=outgoing,
            )
            front = OAuthGateway(gateway, httpx2.ASGITransport(build_app(gateway), raise_app_exceptions=False))
            yield front, Program(front.http, {"client_id": document, "redirect_uris": [REDIRECT]})


@requirement("ID-oauth-documents")
async def test_a_client_that_signs_gets_tokens_and_refreshes(tmp_path: Path) -> None:
    async with signing_program(tmp_path) as (front, program):
        person = await front.person()
        answer = await person.decide(await person.open(program.url()))
        signed = {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion(program.id)}
        tokens = await program.exchange(answer["code"], **signed)
        assert tokens.status_code == 200, tokens.text
        refresh = tokens.json()["refresh_token"]
        replayed = await program.refresh(refresh, **signed)
        assert (replayed.status_code, replayed.json()["error"]) == (401, "invalid_client")
        signed["client_assertion"] = assertion(program.id, aud=[f"{BASE}/oauth/token"])
        assert (await program.refresh(refresh, **signed)).status_code == 200


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "https://other.example"},
        {"iss": "https://other.example/client.json"},
        {"sub": "https://other.example/client.json"},
        {"exp": 1},
        {"exp": int(time.time()) + 90_000},
        {"key": ECKey.generate_key("P-256", {"kid": "one"})},
        None,
    ],
)
async def test_without_a_good_assertion_there_are_no_tokens(tmp_path: Path, claims: dict[str, Any] | None) -> None:
    async with signing_program(tmp_path) as (front, program):
        person = await front.person()
        answer = await person.decide(await person.open(program.url()))
        signed: dict[str, str | None] = {}
        if claims is not None:
            signed = {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion(program.id, **claims)}
        refused = await program.exchange(answer["code"], **signed)
        assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
