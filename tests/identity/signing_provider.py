"""A small OpenID provider over real HTTP, whose every answer a test can bend: tokens, keys, metadata.

    async with signing_provider() as provider:
        provider.claims = {"sub": "ada", "groups": ["staff"]}

The real one for browsers is in `tests/provider`; this one lies on request.
"""

import asyncio
import base64
import hashlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import uvicorn
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.types import Receive, Scope, Send

from tests.waiting import eventually_async

CLIENT_ID = "gateway"
CLIENT_SECRET = "s3cret"


@dataclass
class SigningProvider:
    """What it says, all of which may be changed."""

    issuer: str = ""
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one"}))
    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "ada", "name": "Ada Lovelace", "groups": ["staff"]})
    token_claims: dict[str, Any] = field(default_factory=dict)
    """Put over the claims of the id token; None takes one out."""
    userinfo: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    """Put over the metadata."""
    sign: Callable[[dict[str, Any], RSAKey], str] | None = None
    is_down: bool = False
    is_public: bool = False
    """The client has no secret."""
    hangs: asyncio.Event | None = None
    seen: list[tuple[str, dict[str, str], dict[str, str]]] = field(default_factory=list)
    """Path, headers and form of each request."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def authorize(self, url: str, *, code: str = "code-1") -> str:
        """What the person's browser brings back after it was sent to `url`, as a query string."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT_ID)
        assert asked["code_challenge_method"] == "S256"
        self.codes[code] = asked
        return f"code={code}&state={asked['state']}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.hangs is not None:
            await self.hangs.wait()
        body = (await receive()).get("body", b"")
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        self.seen.append((scope["path"], headers, form))
        status, answer = (500, {}) if self.is_down else self._answer(scope["path"], headers, form)
        content = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": content})
        await send({"type": "http.response.body", "body": msgspec.json.encode(answer)})

    def _answer(self, path: str, headers: dict[str, str], form: dict[str, str]) -> tuple[int, Any]:
        if path == "/.well-known/openid-configuration":
            return 200, self._metadata()
        if path == "/jwks":
            return 200, {"keys": [self.key.as_dict(private=False)]}
        if path == "/token":
            return self._token(headers, form)
        if path == "/userinfo":
            return 200, {"sub": self.claims["sub"], **self.userinfo}
        return 404, {"error": "not_found"}

    def _metadata(self) -> dict[str, Any]:
        endpoints = {name: f"{self.issuer}/{name}" for name in ("authorize", "token", "userinfo", "jwks")}
        return {
            "issuer": self.issuer,
            "authorization_endpoint": endpoints["authorize"],
            "token_endpoint": endpoints["token"],
            "userinfo_endpoint": endpoints["userinfo"],
            "jwks_uri": endpoints["jwks"],
            **self.metadata,
        }

    def _token(self, headers: dict[str, str], form: dict[str, str]) -> tuple[int, Any]:
        basic = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        is_known = headers.get("authorization") == f"Basic {basic}" or form.get("client_secret") == CLIENT_SECRET
        if not (is_known or self.is_public):
            return 401, {"error": "invalid_client"}
        asked = self.codes.pop(form.get("code", ""), None)
        challenge = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if asked is None or asked["code_challenge"] != base64.urlsafe_b64encode(challenge).rstrip(b"=").decode():
            return 400, {"error": "invalid_grant"}
        assert form["redirect_uri"] == asked["redirect_uri"]
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "exp": int(time.time()) + 300,
            "iat": int(time.time()),
            "nonce": asked["nonce"],
            **self.claims,
            **self.token_claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        return 200, {"id_token": self._signed(claims), "access_token": "at", "token_type": "Bearer"}

    def _signed(self, claims: dict[str, Any]) -> str:
        if self.sign is not None:
            return self.sign(claims, self.key)
        return jwt.encode({"alg": "RS256", "kid": self.key.kid}, claims, self.key)


@asynccontextmanager
async def signing_provider() -> AsyncIterator[SigningProvider]:
    provider = SigningProvider()
    config = uvicorn.Config(provider, port=0, lifespan="off", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    await eventually_async(lambda: server.started)
    provider.issuer = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield provider
    finally:
        if provider.hangs is not None:
            provider.hangs.set()
        server.should_exit = True
        await serving
