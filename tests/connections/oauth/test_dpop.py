"""Tokens that are bound to a key (RFC 9449)."""

import hashlib
from base64 import urlsafe_b64encode

import pytest

from jackfield.connections.oauth import Challenge, Client, DiscoveryFailed, OAuthError, Tokens
from jackfield.connections.oauth.jose import dpop_proof, dpop_thumbprint, new_dpop_key
from tests.connections.oauth.scene import Scene, proof_claims, scene
from tests.requirement import requirement
from tests.sources.upstream import reply


async def bound(s: Scene) -> tuple[Tokens, dict[str, str]]:
    oauth = s.oauth(dpop=True)
    _, tokens = await s.log_in(oauth)
    return tokens, oauth.headers(tokens, "post", f"{s.protected.mcp}?x=1")


@requirement("ID-upstream-dpop")
async def test_a_bound_token_is_asked_for_and_shown_with_proofs_of_the_same_key() -> None:
    async with scene() as s:
        tokens, headers = await bound(s)

        asked = proof_claims(s.auth.received[-1].headers["dpop"])
        shown = proof_claims(headers["dpop"])
        assert tokens.dpop_key is not None
        assert asked["jkt"] == shown["jkt"] == s.auth.authorizations[0]["dpop_jkt"] == dpop_thumbprint(tokens.dpop_key)
        assert headers["authorization"] == "DPoP access-1"
        assert (shown["htm"], shown["htu"]) == ("POST", s.protected.mcp)
        digest = urlsafe_b64encode(hashlib.sha256(b"access-1").digest()).rstrip(b"=").decode()
        assert shown["ath"] == digest
        assert "ath" not in asked
        assert asked["jti"] != shown["jti"]


def test_no_two_proofs_are_the_same() -> None:
    key = new_dpop_key()
    made = {proof_claims(dpop_proof(key, "GET", "https://a.example/x#f"))["jti"] for _ in range(20)}

    assert len(made) == 20
    assert key != new_dpop_key()
    assert proof_claims(dpop_proof(key, "GET", "https://A.example:443/x?q#f"))["htu"] == "https://a.example/x"


@requirement("ID-upstream-dpop")
async def test_a_nonce_of_the_token_endpoint_is_used_in_a_second_request() -> None:
    async with scene() as s:
        s.auth.nonce = "first"
        oauth = s.oauth(dpop=True)
        target, tokens = await s.log_in(oauth)
        assert len(s.auth.forms) == 2

        s.auth.nonce = "second"
        client = Client(issuer=tokens.issuer, client_id=tokens.client_id, origin="registered")
        fresh = await oauth.refresh(target.server, client, tokens)

        assert fresh.dpop_key == tokens.dpop_key
        assert len(s.auth.forms) == 4
        nonces = [proof_claims(r.headers["dpop"]).get("nonce") for r in s.auth.received if r.target == "/token"]
        assert nonces == [None, "first", "first", "second"]


async def test_a_server_that_wants_another_nonce_each_time_is_asked_twice() -> None:
    async with scene() as s:
        count = iter(range(100))
        s.auth.answers["/token"] = lambda _: reply(
            400, b'{"error":"use_dpop_nonce"}', dpop_nonce=f"nonce-{next(count)}"
        )

        with pytest.raises(OAuthError, match="use_dpop_nonce"):
            await s.log_in(s.oauth(dpop=True))
        assert s.auth.targets.count("/token") == 2


@requirement("ID-upstream-dpop")
async def test_a_nonce_of_the_server_is_in_the_next_proof() -> None:
    async with scene() as s:
        oauth = s.oauth(dpop=True)
        _, tokens = await s.log_in(oauth)

        refusal = oauth.refusal(401, {"www-authenticate": 'DPoP error="use_dpop_nonce"', "dpop-nonce": "n-1"})

        assert refusal.kind == "nonce"
        assert proof_claims(oauth.headers(tokens, "POST", s.protected.mcp)["dpop"])["nonce"] == "n-1"
        oauth.refusal(401, {"dpop-nonce": "x" * 10_000})
        assert proof_claims(oauth.headers(tokens, "POST", s.protected.mcp)["dpop"])["nonce"] == "n-1"


@requirement("ID-upstream-dpop")
async def test_the_server_says_that_it_wants_bound_tokens() -> None:
    async with scene() as s:
        oauth = s.oauth()
        assert not (await oauth.discover()).dpop
        assert (await oauth.discover(Challenge(scheme="dpop"))).dpop
        s.protected.metadata["dpop_bound_access_tokens_required"] = True
        assert (await oauth.discover()).dpop


@requirement("ID-upstream-dpop")
async def test_a_token_that_is_not_bound_is_refused_where_it_has_to_be() -> None:
    async with scene() as s:
        s.auth.token["token_type"] = "Bearer"

        with pytest.raises(OAuthError, match="not bound to our key"):
            await bound(s)


async def test_a_server_that_takes_other_signatures_only_is_refused() -> None:
    async with scene() as s:
        s.auth.metadata["dpop_signing_alg_values_supported"] = ["RS256"]

        with pytest.raises(DiscoveryFailed, match="no DPoP proofs with ES256"):
            await bound(s)


async def test_machines_get_bound_tokens_too() -> None:
    async with scene() as s:
        oauth = s.oauth(grant="client_credentials", client_id="c", client_secret="s", dpop=True)
        target = await oauth.discover()

        tokens = await oauth.machine(target, await oauth.client(target), scopes=())

        assert tokens.token_type == "DPoP"
        assert oauth.headers(tokens, "GET", s.protected.mcp)["authorization"] == "DPoP access-1"
