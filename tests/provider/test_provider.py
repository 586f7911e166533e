"""The provider that other tests rely on signs in the one who filled in its form, with keys that can change."""

import base64
import hashlib
from collections.abc import Iterator
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from tests.provider import RunningProvider, running_provider

BACK = "http://127.0.0.1:1/callback"
VERIFIER = "a-verifier-of-the-right-length-which-is-not-less-than-43"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture(scope="module")
def provider() -> Iterator[RunningProvider]:
    with running_provider() as provider:
        for algorithm in ("RS256", "ES256"):
            provider.add_client(algorithm, secret="s3cret", redirect_uri=BACK, id_token_signed_response_alg=algorithm)
        yield provider


def id_token_of(provider: RunningProvider, sub: str, client: str) -> str:
    """Sign somebody in and redeem the code."""
    asked = {
        "client_id": client,
        "response_type": "code",
        "redirect_uri": BACK,
        "scope": "openid profile email",
        "state": "a state",
        "nonce": "a nonce",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }
    with httpx2.Client() as http:
        answer = provider.sign_in(http, f"{provider.issuer}/auth?{urlencode(asked)}", sub, until=BACK)
        given = parse_qs(urlsplit(answer.headers["location"]).query)
        assert given["state"] == ["a state"]
        assert given["iss"] == [provider.issuer]
        form = {
            "grant_type": "authorization_code",
            "code": given["code"][0],
            "redirect_uri": BACK,
            "code_verifier": VERIFIER,
        }
        redeemed = http.post(f"{provider.issuer}/token", data=form, auth=(client, "s3cret"))
    assert redeemed.status_code == 200, redeemed.text
    return str(redeemed.json()["id_token"])


def keys_of(provider: RunningProvider) -> KeySet:
    return KeySet.import_key_set(httpx2.get(f"{provider.issuer}/jwks").json())


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_an_id_token_names_who_signed_in_and_their_groups(provider: RunningProvider, algorithm: str) -> None:
    token = jwt.decode(id_token_of(provider, "ada", algorithm), keys_of(provider), algorithms=[algorithm])
    assert token.claims["sub"] == "ada"
    assert token.claims["nonce"] == "a nonce"
    assert token.claims["groups"] == ["staff", "admins"]
    assert token.claims["email_verified"] is True


def test_after_a_rotation_it_signs_with_new_keys_and_publishes_no_others(provider: RunningProvider) -> None:
    before = {key["kid"] for key in keys_of(provider).as_dict()["keys"]}
    provider.rotate_keys()
    after = {key["kid"] for key in keys_of(provider).as_dict()["keys"]}
    assert len(after) == 2
    assert not before & after
    token = jwt.decode(id_token_of(provider, "bob", "RS256"), keys_of(provider))
    assert token.header["kid"] in after
