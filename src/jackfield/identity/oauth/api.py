"""The endpoints that clients of OAuth talk to: metadata, registration, tokens, revocation.

Above: the URL map. Below: clients and grants. Programs in web pages of other origins may read these, without cookies:
that is what discovery and tokens of public clients need. Errors have the form of RFC 6749, 5.2.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from jackfield.errors import RateLimited, Refused, TooLarge, Unavailable
from jackfield.http.bodies import read_bytes
from jackfield.http.request import Request
from jackfield.http.response import Header, Response, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.identity.browser import read_fields
from jackfield.identity.jwks import ALGORITHMS
from jackfield.identity.oauth.addresses import PROTECTED_RESOURCE, RESOURCE_PATH, Addresses
from jackfield.identity.oauth.clients import Clients
from jackfield.identity.oauth.grants import Grants, TokenEndpoint
from jackfield.identity.oauth.types import AUTH_METHODS, BY_KEY, GRANT_CODE, GRANT_REFRESH, SCOPES, OAuthError
from jackfield.protocol.errors import error_headers, http_status

MOST_BYTES = 32 * 1024
SERVER_METADATA = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"
_KEPT = (RateLimited, TooLarge, Unavailable)
"""Refusals whose status stays; any other is a 400, as RFC 6749 says."""
_BASIC: tuple[Header, ...] = ((b"www-authenticate", b'Basic realm="OAuth client"'),)


class ResourceApi:
    """The metadata of `/mcp` and its groups as protected resources (RFC 9728)."""

    def __init__(self, addresses: Addresses, *, issuer: str | None, name: str) -> None:
        """`issuer`: the external authorization server; None: the gateway's own."""
        self._addresses = addresses
        self._issuer = issuer
        self._name = name

    async def show_resource(self, request: Request) -> Response:
        """The metadata of `/mcp`."""
        return self._metadata(request, RESOURCE_PATH)

    async def show_group_resource(self, request: Request) -> Response:
        """The metadata of a group. Whether there is one is for those to know who may see it."""
        return self._metadata(request, f"{RESOURCE_PATH}/{request.part('group')}")

    def _metadata(self, request: Request, path: str) -> Response:
        said: dict[str, Any] = {
            "resource": self._addresses.resource(request, path),
            "authorization_servers": [self._issuer or self._addresses.base(request)],
            "bearer_methods_supported": ["header"],
            "resource_name": self._name,
        }
        if self._issuer is None:  # what scopes an external issuer has, it says itself
            said["scopes_supported"] = list(SCOPES)
        return json_response(said)


class ServerApi:
    """The built-in authorization server, but for the page that people see."""

    def __init__(self, clients: Clients, grants: Grants, *, addresses: Addresses) -> None:
        self._clients = clients
        self._grants = grants
        self._addresses = addresses

    async def show_server(self, request: Request) -> Response:
        """Its metadata (RFC 8414)."""
        base = self._addresses.base(request)
        return json_response(
            {
                "issuer": base,
                "authorization_endpoint": f"{base}/oauth/authorize",
                "token_endpoint": f"{base}/oauth/token",
                "registration_endpoint": f"{base}/oauth/register",
                "revocation_endpoint": f"{base}/oauth/revoke",
                "scopes_supported": list(SCOPES),
                "response_types_supported": ["code"],
                "response_modes_supported": ["query"],
                "grant_types_supported": [GRANT_CODE, GRANT_REFRESH],
                "token_endpoint_auth_methods_supported": [*AUTH_METHODS, BY_KEY],
                "token_endpoint_auth_signing_alg_values_supported": list(ALGORITHMS),
                "revocation_endpoint_auth_methods_supported": list(AUTH_METHODS),
                "code_challenge_methods_supported": ["S256"],
                "client_id_metadata_document_supported": True,
                "authorization_response_iss_parameter_supported": True,
            }
        )

    async def register_client(self, request: Request) -> Response:
        """Take a client that registers itself (RFC 7591)."""
        body = await read_bytes(request)
        if len(body) > MOST_BYTES:
            raise TooLarge(f"The registration is larger than {MOST_BYTES:,} bytes. Send less.")
        made = await self._clients.register(body, address=request.address, scope=" ".join(SCOPES))
        return json_response(made, status=201)

    async def give_tokens(self, request: Request) -> Response:
        """Tokens for a code or a refresh token."""
        fields = await _fields(request)
        kind = fields.get("grant_type")
        if kind not in (GRANT_CODE, GRANT_REFRESH):
            known = f"'{GRANT_CODE}' and '{GRANT_REFRESH}'"
            error = "invalid_request" if not kind else "unsupported_grant_type"
            raise OAuthError(error, f"'grant_type' is missing or unknown. There are {known}.")
        client = await self._clients.authenticated(request, fields)
        named = fields.get("resource")
        base = self._addresses.base(request)
        at = TokenEndpoint(
            audiences=(base, f"{base}/oauth/token"),
            resource=None if named is None else self._addresses.path_of(named, request),
        )
        give = self._grants.exchange if kind == GRANT_CODE else self._grants.refresh
        return json_response(await give(client, fields, at), headers=((b"pragma", b"no-cache"),))

    async def revoke_token(self, request: Request) -> Response:
        """End a token (RFC 7009)."""
        fields = await _fields(request)
        client = await self._clients.authenticated(request, fields)
        token = fields.get("token", "")
        if not token:
            raise OAuthError("invalid_request", "The request has no 'token'. Send it.")
        await self._grants.revoke(client, token)
        return json_response({})


async def _fields(request: Request) -> dict[str, str]:
    """The form in the body, each field once."""
    form = await read_fields(request)
    if any(len(values) > 1 for values in form.fields.values()):
        raise OAuthError("invalid_request", "A parameter is given twice. Give it once.")
    return {name: values[0] for name, values in form.fields.items()}


def _as_oauth(handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """The same handler, with its refusals in the form of RFC 6749."""

    async def answered(request: Request) -> Response:
        try:
            return await handler(request)
        except OAuthError as fault:
            needs_basic = fault.status == 401 and b"authorization" in request.headers  # noqa: PLR2004 - as RFC 6749 says
            return _error(fault, fault.error, fault.status, _BASIC if needs_basic else ())
        except Refused as fault:
            error = "temporarily_unavailable" if isinstance(fault, RateLimited | Unavailable) else "invalid_request"
            status = http_status(fault) if isinstance(fault, _KEPT) else 400
            return _error(fault, error, status, error_headers(fault))

    answered.__name__ = handler.__name__
    return answered


def _error(fault: Refused, error: str, status: int, headers: Iterable[Header]) -> Response:
    return json_response({"error": error, "error_description": fault.message}, status=status, headers=headers)


def resource_routes(api: ResourceApi) -> list[Route]:
    """The metadata of the resource, at the path of the resource and at the bare one."""
    return [
        _document(PROTECTED_RESOURCE, api.show_resource, "show_resource", "`/mcp` as an OAuth resource"),
        _document(f"{PROTECTED_RESOURCE}{RESOURCE_PATH}", api.show_resource, "show_mcp_resource", "The same"),
        _document(
            f"{PROTECTED_RESOURCE}{RESOURCE_PATH}/{{group}}",
            api.show_group_resource,
            "show_group_resource",
            "`/mcp/NAME` as an OAuth resource",
        ),
    ]


def server_routes(api: ServerApi) -> list[Route]:
    """The authorization server. Its metadata is also where clients of OpenID Connect look, for issuers with a path."""
    return [
        _document(SERVER_METADATA, api.show_server, "show_server", "The built-in authorization server"),
        _document(OPENID, api.show_server, "show_openid", "The same"),
        _post("/oauth/register", api.register_client, "Register an OAuth client", status=201),
        _post("/oauth/token", api.give_tokens, "Tokens for a code or a refresh token"),
        _post("/oauth/revoke", api.revoke_token, "End a token"),
    ]


def _document(path: str, handler: Callable[[Request], Awaitable[Response]], operation: str, summary: str) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=handler,
        scope=None,
        is_cross_origin=True,
        operation=operation,
        tag="OAuth",
        summary=summary,
        responses={200: ResponseSpec(description="Its metadata", type=dict[str, Any])},
    )


def _post(path: str, handler: Callable[[Request], Awaitable[Response]], summary: str, *, status: int = 200) -> Route:
    return Route(
        method="POST",
        path=path,
        handler=_as_oauth(handler),
        scope=None,
        is_page=True,
        is_cross_origin=True,
        tag="OAuth",
        summary=summary,
        responses={
            status: ResponseSpec(description="What was asked for", type=dict[str, Any]),
            400: ResponseSpec(description="`error` and `error_description`, as RFC 6749 says", type=dict[str, Any]),
            401: ResponseSpec(description="The client is unknown, or its secret wrong", type=dict[str, Any]),
        },
    )
