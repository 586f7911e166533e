"""A small authorization server and a server that it protects, over real HTTP, whose every answer a test can change."""

import secrets
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

import httpx2
import msgspec
from joserfc import jwt
from joserfc.jwk import ECKey
from joserfc.jws import extract_compact

from jackfield.connections.oauth import AuthorizationRequest, Challenge, Client, OAuthClient, Target, Tokens
from jackfield.connections.oauth.authorization import code_challenge
from jackfield.outgoing import Outgoing
from jackfield.outgoing.guard import Resolve, resolve_by_system
from jackfield.settings.identity import SourceOAuth
from tests.sources.upstream import Received, Upstream, json_reply, redirect, reply

REDIRECT = "https://gateway.example/connect/callback"
DOCUMENT = "https://gateway.example/connect/client.json"
SERVER_PATH = "/.well-known/oauth-authorization-server"
OPENID_PATH = "/.well-known/openid-configuration"
RESOURCE_PATH = "/.well-known/oauth-protected-resource"


class AuthServer(Upstream):
    """OAuth 2.1 as far as a client sees it: metadata, registration, authorization, tokens, revocation."""

    def __init__(self, prefix: str = "", metadata_path: str = SERVER_PATH) -> None:
        super().__init__()
        self.prefix = prefix
        self.metadata: dict[str, Any] = {}
        """Over the usual metadata; None leaves a field out."""
        self.registration: dict[str, Any] = {}
        """Over the usual answer to a registration."""
        self.callback: dict[str, str | None] = {}
        """Over the usual parameters of a callback."""
        self.token: dict[str, Any] = {}
        """Over the usual token response."""
        self.nonce: str | None = None
        """Demanded in DPoP proofs."""
        self.registrations: list[Any] = []
        self.authorizations: list[dict[str, str]] = []
        self.forms: list[dict[str, str]] = []
        self.revoked: list[dict[str, str]] = []
        self._codes: dict[str, dict[str, str]] = {}
        self.answers[metadata_path] = lambda _: json_reply(self.said_metadata)
        self.answers[f"{prefix}/register"] = self._register
        self.answers[f"{prefix}/authorize"] = self._authorize
        self.answers[f"{prefix}/token"] = self._token
        self.answers[f"{prefix}/revoke"] = self._revoke

    @property
    def issuer(self) -> str:
        return f"{self.url}{self.prefix}"

    @property
    def said_metadata(self) -> dict[str, Any]:
        usual = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "revocation_endpoint": f"{self.issuer}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "token_endpoint_auth_methods_supported": ["none"],
        }
        return {name: value for name, value in {**usual, **self.metadata}.items() if value is not None}

    def _register(self, request: Received) -> bytes:
        self.registrations.append(request.json)
        usual = {"client_id": f"client-{len(self.registrations)}"}
        return json_reply({**usual, **self.registration}, status=201)

    def _authorize(self, request: Received) -> bytes:
        asked = dict(parse_qsl(request.target.partition("?")[2]))
        self.authorizations.append(asked)
        code = secrets.token_urlsafe(8)
        self._codes[code] = asked
        usual = {"code": code, "state": asked["state"], "iss": self.issuer}
        given = {name: value for name, value in {**usual, **self.callback}.items() if value is not None}
        return redirect(f"{asked['redirect_uri']}?{urlencode(given)}")

    def _token(self, request: Received) -> bytes:
        form = dict(parse_qsl(request.body.decode()))
        self.forms.append(form)
        kind = "Bearer"
        if proof := request.headers.get("dpop"):
            claims = proof_claims(proof)
            assert (claims["htm"], claims["htu"]) == ("POST", f"{self.issuer}/token")
            if self.nonce is not None and claims.get("nonce") != self.nonce:
                body = msgspec.json.encode({"error": "use_dpop_nonce"})
                return reply(400, body, dpop_nonce=self.nonce)
            kind = "DPoP"
        if form["grant_type"] == "authorization_code":
            asked = self._codes.pop(form["code"], None)
            if asked is None or code_challenge(form["code_verifier"]) != asked["code_challenge"]:
                return json_reply({"error": "invalid_grant"}, status=400)
        usual = {
            "access_token": f"access-{len(self.forms)}",
            "token_type": kind,
            "expires_in": 3600,
            "refresh_token": f"refresh-{len(self.forms)}",
        }
        return json_reply({name: value for name, value in {**usual, **self.token}.items() if value is not None})

    def _revoke(self, request: Received) -> bytes:
        self.revoked.append(dict(parse_qsl(request.body.decode())))
        return reply(200)


class Protected(Upstream):
    """A server that wants tokens: it has resource metadata, and nothing else that matters here."""

    def __init__(self, path: str = f"{RESOURCE_PATH}/mcp") -> None:
        super().__init__()
        self.servers: list[AuthServer] = []
        self.metadata: dict[str, Any] = {}
        self.answers[path] = lambda _: json_reply(self.said_metadata)

    @property
    def mcp(self) -> str:
        return f"{self.url}/mcp"

    @property
    def said_metadata(self) -> dict[str, Any]:
        issuers = [server.issuer for server in self.servers]
        usual = {"resource": self.mcp, "authorization_servers": issuers}
        return {name: value for name, value in {**usual, **self.metadata}.items() if value is not None}


class Scene:
    """One protected server, its authorization server, and the gateway's client for it."""

    def __init__(self, protected: Protected, auth: AuthServer, outgoing: Outgoing) -> None:
        self.protected = protected
        self.auth = auth
        self.outgoing = outgoing

    def oauth(
        self,
        *,
        document_url: str | None = None,
        is_mcp: bool = True,
        identity: Client | None = None,
        **config: Any,
    ) -> OAuthClient:
        settings = msgspec.convert(config, SourceOAuth)
        return OAuthClient(
            self.outgoing,
            self.protected.mcp,
            settings,
            redirect_uri=REDIRECT,
            document_url=document_url,
            is_mcp=is_mcp,
            identity=identity,
        )

    async def log_in(
        self, oauth: OAuthClient, *, challenge: Challenge | None = None, scopes: tuple[str, ...] | None = None
    ) -> tuple[Target, Tokens]:
        """The whole way of a person's login."""
        target = await oauth.discover(challenge)
        wanted = oauth.scopes(target, challenge) if scopes is None else scopes
        client = await oauth.client(target, scopes=wanted)
        request = oauth.begin(target, client, scopes=wanted)
        return target, await oauth.finish(target, client, request, await browse(request))


@asynccontextmanager
async def scene(
    *,
    protected: Protected | None = None,
    auth: AuthServer | None = None,
    allow: tuple[str, ...] = ("127.0.0.1",),
    resolve: Resolve = resolve_by_system,
) -> AsyncIterator[Scene]:
    """Both servers are on this machine, which `allow` opens for what foreign metadata names."""
    async with (
        protected or Protected() as server,
        auth or AuthServer() as authorization,
        Outgoing(allow, resolve=resolve) as outgoing,
    ):
        server.servers.append(authorization)
        yield Scene(server, authorization, outgoing)


async def browse(request: AuthorizationRequest) -> dict[str, str]:
    """What a browser brings back: the parameters of the callback."""
    async with httpx2.AsyncClient() as browser:
        response = await browser.get(request.url)
    assert response.status_code == 302, response.text
    location = response.headers["location"]
    assert location.startswith(request.redirect_uri)
    return dict(parse_qsl(urlsplit(location).query))


def basic_pair(headers: Mapping[str, str]) -> tuple[str, str]:
    """Client id and secret of a Basic header."""
    kind, _, encoded = headers["authorization"].partition(" ")
    assert kind == "Basic"
    name, _, secret = b64decode(encoded).decode().partition(":")
    return unquote_plus(name), unquote_plus(secret)


def proof_claims(proof: str) -> dict[str, Any]:
    """The claims of a DPoP proof that is signed by the key in its header."""
    header = extract_compact(proof.encode()).headers()
    assert header["typ"] == "dpop+jwt"
    assert "d" not in header["jwk"]
    key = ECKey.import_key(header["jwk"])
    return {**jwt.decode(proof, key, algorithms=["ES256"]).claims, "jkt": key.thumbprint()}
