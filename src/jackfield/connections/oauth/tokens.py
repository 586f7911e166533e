"""The token endpoint: how a client authenticates there, what it asks for, and how the answer is read."""

import math
import re
import time
from base64 import b64encode
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import quote

from jackfield.connections.oauth.challenges import split_scopes
from jackfield.connections.oauth.errors import GrantEnded, OAuthError, OAuthUnavailable, TokenRefused
from jackfield.connections.oauth.http import JsonAnswer, host_of
from jackfield.connections.oauth.jose import signed_assertion
from jackfield.connections.oauth.types import AuthorizationServer, Client, Tokens

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - the name of a grant
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
MAX_TOKEN = 32 * 1024
LONGEST_SECONDS = 10 * 365 * 86_400
_TOKEN = re.compile(r"[\x21-\x7e]+")
_ERROR = re.compile(r"[A-Za-z0-9_.\-]{1,64}")
_ENDED = frozenset({"invalid_grant", "bad_refresh_token", "bad_verification_code"})
"""The standard's code, and GitHub's."""
INVALID_CLIENT = "invalid_client"
WRONG_CLIENT = frozenset({INVALID_CLIENT, "unauthorized_client", "incorrect_client_credentials"})


def client_authentication(server: AuthorizationServer, client: Client) -> tuple[dict[str, str], dict[str, str]]:
    """What authenticates a client at the token endpoint: parameters for the form, and headers."""
    if client.auth_method == "private_key_jwt":
        if client.private_key is None:
            raise OAuthError("`private_key_jwt` needs a `private_key` in the source's `oauth`.")
        assertion = signed_assertion(
            client.private_key,
            client_id=client.client_id,
            audience=audience(server),
            algorithm=client.signing_algorithm,
            supported=server.token_endpoint_auth_signing_alg_values_supported,
        )
        return {
            "client_id": client.client_id,
            "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": assertion,
        }, {}
    if client.auth_method == "none":
        return {"client_id": client.client_id}, {}
    if client.client_secret is None:
        raise OAuthError(f"`{client.auth_method}` needs a `client_secret` in the source's `oauth`.")
    if client.auth_method == "client_secret_post":
        return {"client_id": client.client_id, "client_secret": client.client_secret}, {}
    # Not all servers read `+` as a space here, and those of the Python SDK want the id in the form too.
    pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
    return {"client_id": client.client_id}, {
        "authorization": f"Basic {b64encode(pair.encode('ascii')).decode('ascii')}"
    }


def audience(server: AuthorizationServer) -> str:
    """Whom an assertion is for: the issuer, or the token endpoint where the config does not name one."""
    return server.issuer if server.knows_issuer else server.token_endpoint


def parse_tokens(
    answer: JsonAnswer,
    *,
    server: AuthorizationServer,
    client: Client,
    resource: str | None,
    scopes: tuple[str, ...],
    dpop_key: str | None = None,
    before: Tokens | None = None,
) -> Tokens:
    """The tokens of an answer. `scopes` are those asked for, `before` the tokens that were refreshed."""
    host, body = host_of(server.token_endpoint), success(answer, server)
    kind = _kind(body.get("token_type"), host)
    if dpop_key is not None and kind != "DPoP":
        raise OAuthError(
            f"{host} gave a token that is not bound to our key, which this source demands. "
            f"Set `dpop = false` in its `oauth` only if the server does not want DPoP."
        )
    if dpop_key is None and kind == "DPoP":
        raise OAuthError(f"{host} gave a token that is bound to a key we did not show. Set `dpop = true` in `oauth`.")
    refresh = body.get("refresh_token")
    granted = body.get("scope")
    return Tokens(
        access_token=_token(body.get("access_token"), host),
        token_type=kind,
        expires_at=_expiry(body.get("expires_in")),
        refresh_token=_token(refresh, host) if refresh else (before.refresh_token if before is not None else None),
        scopes=split_scopes(granted) if isinstance(granted, str) and granted else scopes,
        asked=scopes if before is None else before.asked,
        issuer=server.issuer,
        client_id=client.client_id,
        resource=resource,
        dpop_key=dpop_key,
    )


def parse_assertion(answer: JsonAnswer, server: AuthorizationServer) -> str:
    """The authorization grant for another server that an identity provider gave for an id token (ID-JAG)."""
    host, body = host_of(server.token_endpoint), success(answer, server)
    if body.get("issued_token_type") != ID_JAG:
        raise OAuthError(f"{host} exchanged the id token for something that is no authorization grant (ID-JAG).")
    return _token(body.get("access_token"), host)


def parse_id_token(answer: JsonAnswer, server: AuthorizationServer) -> str:
    """The id token of an answer. Its issuer gave it by TLS and gets it back, so nothing in it is looked at."""
    return _token(success(answer, server).get("id_token"), host_of(server.token_endpoint))


def parse_refresh_token(answer: JsonAnswer, server: AuthorizationServer) -> str | None:
    said = success(answer, server).get("refresh_token")
    return _token(said, host_of(server.token_endpoint)) if said else None


def success(answer: JsonAnswer, server: AuthorizationServer) -> dict[str, Any]:
    """The body of an answer of the token endpoint that is no error."""
    host, body = host_of(server.token_endpoint), answer.body
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR or answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        raise OAuthUnavailable(f"{host} answered {answer.status} when it was asked for a token. Try again later.")
    if answer.status == HTTPStatus.OK and body is not None and "error" not in body:
        return body
    error = body.get("error") if body is not None else None
    code = error if isinstance(error, str) and _ERROR.fullmatch(error) else "no reason"
    if code in _ENDED:
        raise GrantEnded(f"{host} does not take this login any more ({code}). Log in again.", error=code)
    if code in WRONG_CLIENT:
        raise TokenRefused(
            f"{host} does not take the gateway as a client ({code}). Check `client_id` and how it authenticates in the "
            f"source's `oauth`.",
            error=code,
        )
    raise TokenRefused(f"{host} gave no token: {said_error(answer)}. Check the source's `oauth`.", error=code)


def is_revoked(answer: JsonAnswer, server: AuthorizationServer) -> bool:
    """Whether a revocation was taken. False: tokens of this kind cannot be revoked there and just end."""
    host = host_of(server.token_endpoint)
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR or answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        raise OAuthUnavailable(f"{host} answered {answer.status} when it was asked to end the login. Try again later.")
    if (answer.body or {}).get("error") == "unsupported_token_type":
        return False
    if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
        raise TokenRefused(f"{host} did not end the login: {said_error(answer)}. End it there.", error="not_revoked")
    return True


def said_error(answer: JsonAnswer) -> str:
    """What a server gave as the reason: its error code, never its text, which may repeat what was sent."""
    error = (answer.body or {}).get("error")
    shown = f" ({error})" if isinstance(error, str) and _ERROR.fullmatch(error) else ""
    return f"it answered {answer.status}{shown}"


def _kind(said: object, host: str) -> Literal["Bearer", "DPoP"]:
    kinds: Mapping[str, Literal["Bearer", "DPoP"]] = {"bearer": "Bearer", "dpop": "DPoP"}
    kind = kinds.get(said.lower()) if isinstance(said, str) else None
    if kind is None:
        raise OAuthError(f"{host} gave a token of a kind that cannot be used. Only Bearer and DPoP can.")
    return kind


def _token(said: object, host: str) -> str:
    """A token that can stand in a header."""
    if not isinstance(said, str) or len(said) > MAX_TOKEN or not _TOKEN.fullmatch(said):
        raise OAuthError(f"{host} answered without a usable token. Tell whoever runs it.")
    return said


def _expiry(said: object) -> float | None:
    """When a token ends. What is no number of seconds is as if it were not said."""
    try:
        seconds = float(said) if isinstance(said, int | float | str) and not isinstance(said, bool) else math.nan
    except ValueError:
        return None
    if not math.isfinite(seconds):
        return None
    return time.time() + min(max(seconds, 0.0), LONGEST_SECONDS)
