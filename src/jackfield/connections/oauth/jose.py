"""Signed statements of ours: client assertions (RFC 7523) and proofs of possession (DPoP, RFC 9449). By joserfc."""

import hashlib
import secrets
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey, import_key
from joserfc.util import urlsafe_b64encode

from jackfield.connections.oauth.errors import OAuthError
from jackfield.outgoing.urls import parse_url

ASSERTION_SECONDS = 300
DPOP_ALGORITHM = "ES256"
_CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")

SigningKey = RSAKey | ECKey


def signed_assertion(
    private_key: str,
    *,
    client_id: str,
    audience: str,
    algorithm: str | None = None,
    supported: tuple[str, ...] | None = None,
    claims: Mapping[str, Any] | None = None,
) -> str:
    """A short-lived statement by `client_id` about itself, for one audience."""
    key = _signing_key(private_key)
    algorithm = chosen_algorithm(key, wanted=algorithm, supported=supported)
    now = int(time.time())
    stated = {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "jti": secrets.token_urlsafe(16),
        "iat": now,
        "exp": now + ASSERTION_SECONDS,
        **(claims or {}),
    }
    return jwt.encode({"alg": algorithm}, stated, key, algorithms=[algorithm])


def chosen_algorithm(key: SigningKey, *, wanted: str | None, supported: tuple[str, ...] | None) -> str:
    """The algorithm to sign with: the config's, else one that fits the key and that the server takes."""
    if isinstance(key, RSAKey):
        fitting: tuple[str, ...] = _RSA
    else:
        fitting = (_CURVES[key.curve_name],) if key.curve_name in _CURVES else ()
    if wanted is not None:
        if wanted not in fitting:
            raise OAuthError(
                f"The private key in the source's `oauth` cannot sign with {wanted[:20]!r}, only {', '.join(fitting)}."
            )
        return wanted
    taken = [name for name in fitting if supported is None or name in supported]
    if not taken:
        raise OAuthError(
            f"The server takes no signature that the private key in the source's `oauth` can make "
            f"({', '.join(fitting) or 'none'}). Use another kind of key."
        )
    return taken[0]


def new_dpop_key() -> str:
    """A new key to bind tokens to, as a private JWK in JSON."""
    return msgspec.json.encode(ECKey.generate_key("P-256").as_dict(private=True)).decode()


def dpop_thumbprint(key: str) -> str:
    """What names the key in an authorization request (`dpop_jkt`) and in tokens."""
    return _dpop_key(key)[0].thumbprint()


def dpop_proof(key: str, method: str, url: str, *, nonce: str | None = None, access_token: str | None = None) -> str:
    """The proof that one request is made by the holder of the key. Every call makes another."""
    signer, public = _dpop_key(key)
    claims: dict[str, Any] = {
        "jti": secrets.token_urlsafe(16),
        "htm": method.upper(),
        "htu": str(parse_url(url).copy_with(query=None)),
        "iat": int(time.time()),
    }
    if nonce is not None:
        claims["nonce"] = nonce
    if access_token is not None:
        claims["ath"] = urlsafe_b64encode(hashlib.sha256(access_token.encode("ascii")).digest()).decode("ascii")
    header = {"typ": "dpop+jwt", "alg": DPOP_ALGORITHM, "jwk": public}
    return jwt.encode(header, claims, signer, algorithms=[DPOP_ALGORITHM])


@lru_cache(maxsize=256)
def _dpop_key(key: str) -> tuple[ECKey, dict[str, Any]]:
    signer = ECKey.import_key(msgspec.json.decode(key, type=dict[str, Any]))
    return signer, dict(signer.as_dict(private=False))


@lru_cache(maxsize=32)
def _signing_key(pem: str) -> SigningKey:
    for kind in ("EC", "RSA"):
        try:
            key = import_key(pem, kind)
        except (JoseError, ValueError, TypeError):
            continue
        if isinstance(key, RSAKey | ECKey) and key.is_private:
            return key
    raise OAuthError("`private_key` in the source's `oauth` is not a private key in PEM form (RSA or EC).")
