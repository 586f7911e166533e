"""An MCP server that wants a login, with its authorization server, both the Python SDK's. It writes down who called.

    python -m stress.login_server PORT

Everything is behind a token, the list of tools too. Its login page takes any name. Tests steer it by these requests:

    GET  /test/seen       what happened so far, as `Seen`
    GET  /test/secrets    every token, code, verifier and client secret that passed
    POST /test/expire     no access token is good any more; refresh tokens are
    POST /test/hold       ?grant=refresh_token|authorization_code: the next answers of the token endpoint wait, after
                          the tokens were made and the old ones ended; with no grant they go out again
"""

import asyncio
import logging
import secrets
import sys
import time
from html import escape
from urllib.parse import parse_qs, urlencode

import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from msgspec import Struct, field, json
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LIFETIME = 3600
SCOPE = "notes"


class Seen(Struct, kw_only=True):
    """What happened at the server."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    """Whose token each call came with, and what it noted."""
    registered: int = 0
    logins: int = 0
    refreshes: int = 0
    refused: int = 0
    """Refresh tokens and codes that were not good, or not any more."""
    held: int = 0
    """Answers of the token endpoint that wait now."""


class Accounts(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """The SDK's interface to whoever issues tokens."""

    def __init__(self, issuer: str) -> None:
        self.seen = Seen()
        self.secrets: set[str] = set()
        self._issuer = issuer
        self._clients: dict[str, OAuthClientInformationFull] = {}
        self._asked: dict[str, tuple[str, AuthorizationParams]] = {}
        self._codes: dict[str, AuthorizationCode] = {}
        self._refresh: dict[str, RefreshToken] = {}
        self._access: dict[str, AccessToken] = {}
        self._held: str | None = None
        self._released = asyncio.Event()

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self._clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.seen.registered += 1
        self.secrets |= {client_info.client_secret} if client_info.client_secret else set()
        self._clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        number = secrets.token_urlsafe(16)
        self._asked[number] = (str(client.client_id), params)
        return f"{self._issuer}/login?{urlencode({'request': number})}"

    def logged_in(self, number: str, name: str) -> str:
        """Where the browser goes with its code."""
        client_id, params = self._asked.pop(number)
        code = AuthorizationCode(
            code=secrets.token_urlsafe(32),
            scopes=params.scopes or [SCOPE],
            expires_at=time.time() + 300,
            client_id=client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject=name,
        )
        self._codes[code.code] = code
        self.secrets.add(code.code)
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        code = self._codes.get(authorization_code)
        return code if code is not None and code.client_id == client.client_id else None

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        if self._codes.pop(authorization_code.code, None) is None:
            self.seen.refused += 1
            raise TokenError("invalid_grant", "This code was used already.")
        self.seen.logins += 1
        return await self._issue(client, authorization_code, "authorization_code")

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        token = self._refresh.get(refresh_token)
        if token is None or token.client_id != client.client_id:
            self.seen.refused += 1
            return None
        return token

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        if self._refresh.pop(refresh_token.token, None) is None:
            self.seen.refused += 1
            raise TokenError("invalid_grant", "This refresh token was used already.")
        self.seen.refreshes += 1
        return await self._issue(client, refresh_token.model_copy(update={"scopes": scopes}), "refresh_token")

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self._access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self._access.pop(token.token, None)
        self._refresh.pop(token.token, None)

    def expire(self) -> None:
        self._access.clear()

    def hold(self, grant: str | None) -> None:
        self._held = grant
        if grant is None:
            self._released.set()
        else:
            self._released.clear()

    async def _issue(
        self, client: OAuthClientInformationFull, granted: AuthorizationCode | RefreshToken, grant: str
    ) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self.secrets |= {access, refresh}
        assert client.client_id is not None
        self._access[access] = AccessToken(
            token=access,
            client_id=client.client_id,
            scopes=granted.scopes,
            expires_at=int(time.time()) + LIFETIME,
            resource=granted.resource,
            subject=granted.subject,
        )
        self._refresh[refresh] = RefreshToken(
            token=refresh,
            client_id=client.client_id,
            scopes=granted.scopes,
            resource=granted.resource,
            subject=granted.subject,
        )
        if self._held == grant:
            self.seen.held += 1
            await self._released.wait()
            self.seen.held -= 1
        return OAuthToken(
            access_token=access,
            token_type="Bearer",
            expires_in=LIFETIME,
            scope=" ".join(granted.scopes),
            refresh_token=refresh,
        )


class Listening:
    """Notes the verifiers that come to the token endpoint, which the SDK tells nobody."""

    def __init__(self, app: ASGIApp, heard: set[str]) -> None:
        self._app = app
        self._heard = heard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def heard() -> Message:
            message = await receive()
            if scope.get("path") == "/token":
                self._heard.update(parse_qs(message.get("body", b"").decode()).get("code_verifier", []))
            return message

        await self._app(scope, heard, send)


def build(port: int) -> ASGIApp:
    """The server, its pages and its authorization server."""
    issuer = f"http://127.0.0.1:{port}"
    accounts = Accounts(issuer)
    auth = {
        "issuer_url": issuer,
        "resource_server_url": f"{issuer}/mcp",
        "required_scopes": [SCOPE],
        "validate_token_resource": True,
        "client_registration_options": {"enabled": True, "valid_scopes": [SCOPE], "default_scopes": [SCOPE]},
        "revocation_options": {"enabled": True},
    }
    server = MCPServer("notes", auth_server_provider=accounts, auth=AuthSettings.model_validate(auth))

    @server.tool(structured_output=False)
    def note(text: str) -> str:
        """Write something down."""
        token = get_access_token()
        whose = "nobody" if token is None else str(token.subject)
        accounts.seen.calls.append((whose, text))
        return f"{whose}: {text}"

    app = server.streamable_http_app(json_response=True)
    app.router.routes.extend(_pages(accounts))
    return Listening(app, accounts.secrets)


def _pages(accounts: Accounts) -> list[Route]:
    async def show_login(request: Request) -> Response:
        number = escape(request.query_params["request"])
        return HTMLResponse(
            f'<form method="post" action="/login"><input type="hidden" name="request" value="{number}">'
            '<input type="text" name="login"><button type="submit">Log in</button></form>'
        )

    async def log_in(request: Request) -> Response:
        form = await request.form()
        return RedirectResponse(accounts.logged_in(str(form["request"]), str(form["login"])), status_code=303)

    async def show_seen(_: Request) -> Response:
        return Response(json.encode(accounts.seen), media_type="application/json")

    async def show_secrets(_: Request) -> Response:
        return Response(json.encode(sorted(accounts.secrets)), media_type="application/json")

    async def expire(_: Request) -> Response:
        accounts.expire()
        return Response()

    async def hold(request: Request) -> Response:
        accounts.hold(request.query_params.get("grant"))
        return Response()

    return [
        Route("/login", show_login, methods=["GET"]),
        Route("/login", log_in, methods=["POST"]),
        Route("/test/seen", show_seen),
        Route("/test/secrets", show_secrets),
        Route("/test/expire", expire, methods=["POST"]),
        Route("/test/hold", hold, methods=["POST"]),
    ]


def main() -> None:
    logging.disable(logging.INFO)
    port = int(sys.argv[1])
    uvicorn.run(build(port), host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()
