"""The authorization request and its callback: PKCE (S256), state, `resource`, `iss` (RFC 9207). Pure."""

import hashlib
import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hmac import compare_digest

from jackfield.connections.oauth.challenges import OFFLINE_ACCESS
from jackfield.connections.oauth.errors import CallbackRefused, DiscoveryFailed
from jackfield.connections.oauth.http import host_of
from jackfield.connections.oauth.jose import DPOP_ALGORITHM, dpop_thumbprint, new_dpop_key
from jackfield.connections.oauth.types import AuthorizationRequest, AuthorizationServer, Client, Target
from jackfield.outgoing.urls import parse_url, with_params

MAX_CODE = 8_192
_ERROR = re.compile(r"[A-Za-z0-9_.\-]{1,64}")


def authorization_request(
    target: Target, client: Client, *, scopes: tuple[str, ...], redirect_uri: str, state: str | None = None
) -> AuthorizationRequest:
    """A login to begin: the url for the person's browser, and what its callback is checked against."""
    server = target.server
    check_pkce(server)
    if server.authorization_endpoint is None:
        raise DiscoveryFailed(
            f"{host_of(server.issuer)} has no page to log in at. Set `authorization_url` in the source's `oauth`, "
            f"or another `grant`."
        )
    verifier = secrets.token_urlsafe(48)
    state = secrets.token_urlsafe(32) if state is None else state
    dpop_key = dpop_key_for(server) if target.dpop else None
    endpoint = parse_url(server.authorization_endpoint)
    params = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": code_challenge(verifier),
        "code_challenge_method": "S256",
        "scope": " ".join(scopes) or None,
        "resource": target.resource,
        "dpop_jkt": None if dpop_key is None else dpop_thumbprint(dpop_key),
        # OpenID providers grant offline access only with it.
        "prompt": "consent" if OFFLINE_ACCESS in scopes and "prompt" not in endpoint.params else None,
    }
    given = tuple((name, value) for name, value in params.items() if value is not None)
    return AuthorizationRequest(
        url=str(with_params(endpoint, given)),
        state=state,
        verifier=verifier,
        issuer=server.issuer,
        client_id=client.client_id,
        redirect_uri=redirect_uri,
        resource=target.resource,
        scopes=scopes,
        wants_issuer=server.authorization_response_iss_parameter_supported,
        knows_issuer=server.knows_issuer,
        dpop_key=dpop_key,
    )


def check_pkce(server: AuthorizationServer) -> None:
    """Refuse a server whose metadata does not offer S256. One without metadata is not asked."""
    if server.origin == "metadata" and "S256" not in (server.code_challenge_methods_supported or ()):
        raise DiscoveryFailed(
            f"{host_of(server.issuer)} does not say that it supports PKCE with S256, so no login is begun. If it does, "
            f"set `authorization_url` and `token_url` in the source's `oauth`."
        )


def code_challenge(verifier: str) -> str:
    return urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode("ascii")


def check_callback(request: AuthorizationRequest, params: Mapping[str, str]) -> str:
    """The code of a callback, if it is the answer to this request. Raises `CallbackRefused`.

    State and issuer come first: nothing of a callback that fails them is used or shown.
    """
    host = host_of(request.issuer)
    if not compare_digest(params.get("state", "").encode(), request.state.encode()):
        raise CallbackRefused(f"This is not the answer to the login at {host} that was begun. Start the login again.")
    issuer = params.get("iss")
    if issuer is None and request.wants_issuer:
        raise CallbackRefused(
            f"The answer does not say which server it is from, though {host} always does. The login is refused; "
            f"start it again."
        )
    if issuer is not None and request.knows_issuer and issuer != request.issuer:
        raise CallbackRefused(
            f"The answer is from another server than {host}, where the login was begun. It is refused; start it again."
        )
    if "error" in params:
        raise CallbackRefused(_declined(params["error"], host))
    code = params.get("code", "")
    if not code or len(code) > MAX_CODE:
        raise CallbackRefused(f"The answer of {host} has no code in it. Start the login again.")
    return code


def _declined(error: str, host: str) -> str:
    if error == "access_denied":
        return f"The login at {host} was declined. Start it again to allow it."
    shown = error if _ERROR.fullmatch(error) else "an error"
    return f"{host} ended the login: {shown}. Start it again, or check the source's `oauth`."


def dpop_key_for(server: AuthorizationServer) -> str:
    """A key for the tokens to come, if the server takes its kind."""
    taken = server.dpop_signing_alg_values_supported
    if taken is not None and DPOP_ALGORITHM not in taken:
        raise DiscoveryFailed(
            f"{host_of(server.issuer)} takes no DPoP proofs with {DPOP_ALGORITHM}, which are all we make."
        )
    return new_dpop_key()
