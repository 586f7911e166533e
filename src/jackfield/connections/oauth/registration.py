"""Who we are at an authorization server: registered by the operator, by a metadata document, or by RFC 7591."""

import asyncio
import time
from http import HTTPStatus
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

from jackfield.connections.oauth.errors import RegistrationFailed
from jackfield.connections.oauth.http import JsonAnswer, OAuthHttp, host_of, is_loopback
from jackfield.connections.oauth.tokens import said_error
from jackfield.connections.oauth.types import AuthMethod, AuthorizationServer, Client
from jackfield.settings.identity import SourceOAuth

CLIENT_NAME = "Jackfield"
GRANTS = ("authorization_code", "refresh_token")
MAX_KEY = 32 * 1024
_METHODS = frozenset(get_args(AuthMethod))
_PEM = "-----BEGIN"


def client_document(document_url: str, *, redirect_uri: str, home: str | None = None) -> dict[str, Any]:
    """The client id metadata document that the gateway serves at `document_url`."""
    document: dict[str, Any] = {
        "client_id": document_url,
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect_uri],
        "grant_types": list(GRANTS),
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": application_type(redirect_uri),
    }
    if home is not None:
        document["client_uri"] = home
    return document


def application_type(redirect_uri: str) -> str:
    """`native` where the browser comes back to this machine, else `web`."""
    return "native" if is_loopback(urlsplit(redirect_uri).hostname or "") else "web"


def is_document_url(client_id: str | None) -> bool:
    """Whether a client id is the address of a metadata document: an https url with a path."""
    if client_id is None or not client_id.startswith("https://"):
        return False
    parts = urlsplit(client_id)
    return bool(parts.hostname) and len(parts.path) > 1 and not parts.fragment


async def configured_client(
    server: AuthorizationServer, config: SourceOAuth, *, redirect_uri: str | None, known_issuer: str | None
) -> Client:
    """The client that the operator registered. `known_issuer` is where it was used before.

    Its credentials belong to one authorization server and are not shown to another.
    """
    assert config.client_id is not None  # the caller looked
    if known_issuer is not None and config.issuer is None and known_issuer != server.issuer:
        raise RegistrationFailed(
            f"The server now wants logins at {host_of(server.issuer)}, but `client_id` was used at "
            f"{host_of(known_issuer)}. If it is registered at the new one, set `issuer` in the source's `oauth`."
        )
    return Client(
        issuer=server.issuer,
        client_id=config.client_id,
        client_secret=config.client_secret,
        private_key=None if config.private_key is None else await private_key_text(config.private_key),
        signing_algorithm=config.signing_algorithm,
        auth_method=config.token_endpoint_auth_method or _configured_method(server, config),
        redirect_uri=redirect_uri,
        origin="config",
    )


async def private_key_text(value: str) -> str:
    """The PEM text of `private_key`, which is that or the path of a file with it."""
    if _PEM in value:
        return value
    try:
        text = await asyncio.to_thread(_read, value)
    except (OSError, ValueError):
        raise RegistrationFailed(
            "`private_key` in the source's `oauth` is neither PEM text nor a file that can be read."
        ) from None
    if _PEM not in text:
        raise RegistrationFailed("The file of `private_key` in the source's `oauth` has no PEM text in it.")
    return text


async def register(
    http: OAuthHttp, server: AuthorizationServer, *, redirect_uri: str, scopes: tuple[str, ...] = ()
) -> Client:
    """A new client at a server that takes any."""
    host = host_of(server.issuer)
    if server.registration_endpoint is None:
        raise RegistrationFailed(
            f"{host} has no registration for clients that it does not know. Register Jackfield there "
            f"(redirect URI {redirect_uri}) and set `client_id` in the source's `oauth`."
        )
    request = registration_request(server, redirect_uri=redirect_uri, scopes=scopes)
    answer = await http.post_json(server.registration_endpoint, request)
    return registered_client(answer, server, asked=request["token_endpoint_auth_method"], redirect_uri=redirect_uri)


def registration_request(
    server: AuthorizationServer, *, redirect_uri: str, scopes: tuple[str, ...] = ()
) -> dict[str, Any]:
    """What a dynamic registration asks for."""
    offered = server.grant_types_supported
    request: dict[str, Any] = {
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect_uri],
        "grant_types": [name for name in GRANTS if offered is None or name in offered or name == GRANTS[0]],
        "response_types": ["code"],
        "token_endpoint_auth_method": registration_method(server),
        "application_type": application_type(redirect_uri),
    }
    if scopes:
        request["scope"] = " ".join(scopes)
    return request


def registration_method(server: AuthorizationServer) -> AuthMethod:
    """How a client that is registered dynamically will authenticate: with a secret where that can be had.

    In the form rather than in a header: OAuth 2.1 prefers it, and revocation at servers of the Python SDK needs it.
    """
    supported = server.token_endpoint_auth_methods_supported
    if server.origin == "default":
        return "none"
    if supported is not None and "client_secret_post" in supported:
        return "client_secret_post"
    return "client_secret_basic" if supported is None or "client_secret_basic" in supported else "none"


def registered_client(
    answer: JsonAnswer, server: AuthorizationServer, *, asked: AuthMethod, redirect_uri: str
) -> Client:
    """The client that a registration gave."""
    host, body = host_of(server.issuer), answer.body or {}
    client_id, secret = body.get("client_id"), body.get("client_secret")
    if answer.status not in (HTTPStatus.OK, HTTPStatus.CREATED) or not isinstance(client_id, str) or not client_id:
        raise RegistrationFailed(
            f"{host} did not register the gateway as a client: {said_error(answer)}. Register it there by hand "
            f"(redirect URI {redirect_uri}) and set `client_id` in the source's `oauth`."
        )
    if not isinstance(secret, str) or not secret:
        secret = None
    method = body.get("token_endpoint_auth_method") or asked
    if method not in _METHODS or method == "private_key_jwt":
        raise RegistrationFailed(
            f"{host} registered the gateway for a way to authenticate that was not asked for. "
            f"Register it by hand and set `client_id` in the source's `oauth`."
        )
    ends = body.get("client_secret_expires_at")
    return Client(
        issuer=server.issuer,
        client_id=client_id,
        client_secret=secret,
        auth_method="none" if secret is None else method,
        redirect_uri=redirect_uri,
        origin="registered",
        expires_at=float(ends) if isinstance(ends, int | float) and not isinstance(ends, bool) and ends > 0 else None,
    )


def is_usable(client: Client, server: AuthorizationServer, *, redirect_uri: str) -> bool:
    """Whether a client that was registered before can be used again: the same server, redirect URI, secret not over."""
    return (
        client.origin == "registered"
        and client.issuer == server.issuer
        and client.redirect_uri == redirect_uri
        and (client.expires_at is None or client.expires_at > time.time())
    )


def _configured_method(server: AuthorizationServer, config: SourceOAuth) -> AuthMethod:
    if config.private_key is not None and config.client_secret is None and config.grant != "jwt_bearer":
        return "private_key_jwt"
    if config.client_secret is None:
        return "none"
    supported = server.token_endpoint_auth_methods_supported
    if supported is not None and "client_secret_basic" not in supported and "client_secret_post" in supported:
        return "client_secret_post"
    return "client_secret_basic"


def _read(path: str) -> str:
    with Path(path).expanduser().open(encoding="ascii") as file:
        return file.read(MAX_KEY)
