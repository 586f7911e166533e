"""Tokens of an issuer outside: which are taken, and how its keys are read."""

import base64
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from joserfc import jwk

from jackfield.errors import Unauthenticated, Unavailable
from jackfield.identity.jwks import KEYS_SECONDS, RETRY_SECONDS, STALE_SECONDS, Issuer, metadata_urls
from jackfield.outgoing import Outgoing
from tests.clock import Clock
from tests.identity.issuer import TestIssuer, running_issuer
from tests.requirement import requirement
from tests.waiting import eventually_async

AUDIENCE = "http://gateway.example/mcp"


@asynccontextmanager
async def an_issuer(clock: Clock | None = None) -> AsyncIterator[tuple[TestIssuer, Issuer]]:
    async with running_issuer() as running, Outgoing() as outgoing:
        yield running, Issuer(running.url, outgoing=outgoing, clock=clock or time.monotonic)


async def test_a_good_token_gives_its_claims() -> None:
    async with an_issuer() as (running, issuer):
        claims = await issuer.verify(running.token(aud=AUDIENCE, groups=["a"]), audience=AUDIENCE)
        again = await issuer.verify(running.token(aud=["x", AUDIENCE]), audience=AUDIENCE)
        assert (claims["sub"], claims["groups"], again["sub"]) == ("ada", ["a"], "ada")
        assert running.asked == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": "http://gateway.example/mcp/other"}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"exp": 1}, "expired"),
        ({"exp": None}, "expired"),
        ({"exp": "tomorrow"}, "expired"),
        ({"nbf": 9_999_999_999}, "not good yet"),
    ],
)
async def test_wrong_claims_are_refused(claims: dict[str, Any], says: str) -> None:
    async with an_issuer() as (running, issuer):
        with pytest.raises(Unauthenticated, match=says):
            await issuer.verify(running.token(**{"aud": AUDIENCE} | claims), audience=AUDIENCE)


async def test_a_token_that_nobody_signed_is_refused() -> None:
    async with an_issuer() as (running, issuer):
        _, claims, _ = running.token(aud=AUDIENCE).split(".")
        header = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
        unsigned = f"{header}.{claims}."
        with pytest.raises(Unauthenticated, match="'none', which is not taken"):
            await issuer.verify(unsigned, audience=AUDIENCE)


async def test_the_public_key_is_no_shared_secret() -> None:
    async with an_issuer() as (running, issuer):
        public = jwk.OctKey.import_key(running.key.as_pem(private=False).replace(b"-----", b""))
        forged = running.token(aud=AUDIENCE, header={"alg": "HS256"}, key=public)
        with pytest.raises(Unauthenticated, match="'HS256', which is not taken"):
            await issuer.verify(forged, audience=AUDIENCE)


async def test_a_token_of_another_key_with_a_known_id_is_refused() -> None:
    async with an_issuer() as (running, issuer):
        forged = running.token(aud=AUDIENCE, key=jwk.RSAKey.generate_key(2048))
        with pytest.raises(Unauthenticated, match="signature"):
            await issuer.verify(forged, audience=AUDIENCE)
        with pytest.raises(Unauthenticated, match="not a JWT"):
            await issuer.verify("abc.def", audience=AUDIENCE)


async def test_a_rotated_key_is_read_at_once_and_a_flood_of_unknown_keys_asks_once() -> None:
    clock = Clock()
    async with an_issuer(clock) as (running, issuer):
        await issuer.verify(running.token(aud=AUDIENCE), audience=AUDIENCE)
        clock.now += RETRY_SECONDS
        running.rotate("second")
        await issuer.verify(running.token(aud=AUDIENCE), audience=AUDIENCE)
        asked = len(running.asked)
        for number in range(20):
            with pytest.raises(Unauthenticated, match="not signed with a key"):
                await issuer.verify(running.token(aud=AUDIENCE, header={"kid": f"x{number}"}), audience=AUDIENCE)
        assert len(running.asked) == asked


async def test_known_keys_outlive_an_outage_for_a_day() -> None:
    clock = Clock()
    async with an_issuer(clock) as (running, issuer):
        token = running.token(aud=AUDIENCE)
        await issuer.verify(token, audience=AUDIENCE)
        running.is_down = True
        clock.now += STALE_SECONDS / 2
        assert (await issuer.verify(token, audience=AUDIENCE))["sub"] == "ada"
        clock.now += STALE_SECONDS
        with pytest.raises(Unavailable, match="cannot be read now"):
            await issuer.verify(token, audience=AUDIENCE)


@requirement("ID-oidc-slow-issuer")
async def test_nobody_with_a_known_key_waits_for_a_slow_issuer() -> None:
    clock = Clock()
    async with an_issuer(clock) as (running, issuer):
        token = running.token(aud=AUDIENCE)
        await issuer.verify(token, audience=AUDIENCE)
        running.may_answer.clear()
        for _ in range(3):
            clock.now += KEYS_SECONDS / 2
            assert (await issuer.verify(token, audience=AUDIENCE))["sub"] == "ada"
        await eventually_async(lambda: running.asked[-1] == "/keys" and len(running.asked) > 2)
        running.rotate("second")
        running.may_answer.set()
        await eventually_async(lambda: not issuer._reading.locked())
        with pytest.raises(Unauthenticated, match="not signed with a key"):  # by now the issuer has another
            await issuer.verify(token, audience=AUDIENCE)


async def test_metadata_of_another_issuer_is_not_used() -> None:
    async with an_issuer() as (running, issuer):
        running.claimed_issuer = "https://honest.example"
        with pytest.raises(Unavailable, match="cannot be read now"):
            await issuer.metadata()


def test_where_the_metadata_of_an_issuer_may_be() -> None:
    assert metadata_urls("https://a.example/tenant/") == (
        "https://a.example/tenant/.well-known/openid-configuration",
        "https://a.example/.well-known/oauth-authorization-server/tenant",
        "https://a.example/.well-known/openid-configuration/tenant",
    )
