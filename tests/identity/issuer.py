"""An issuer of JWTs on a real port: its metadata, its keys, and tokens of every kind, good and bad.

async with running_issuer() as issuer:
    issuer.token(aud="…")
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.waiting import eventually_async


class TestIssuer:
    """What it says can be changed while it runs."""

    __test__ = False

    def __init__(self) -> None:
        self.url = ""
        self.key = RSAKey.generate_key(2048, {"kid": "first", "use": "sig", "alg": "RS256"})
        self.published = [self.key]
        self.claimed_issuer: str | None = None
        self.is_down = False
        self.may_answer = asyncio.Event()
        """While it is not set, the keys are not given."""
        self.may_answer.set()
        self.asked: list[str] = []
        self.app = Starlette(
            routes=[Route("/.well-known/openid-configuration", self._metadata), Route("/keys", self._keys)]
        )

    def rotate(self, kid: str) -> None:
        """From now on, sign with a new key."""
        self.key = RSAKey.generate_key(2048, {"kid": kid, "use": "sig", "alg": "RS256"})
        self.published = [self.key]

    def token(self, *, key: Any = None, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token that is good unless the claims say otherwise; None takes a claim away."""
        now = int(time.time())
        said = {"iss": self.url, "sub": "ada", "iat": now, "exp": now + 300} | claims
        said = {name: value for name, value in said.items() if value is not None}
        header = {"alg": "RS256", "kid": self.key.kid} | (header or {})
        return jwt.encode(header, said, key or self.key, algorithms=[header["alg"]])

    async def _metadata(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        if self.is_down:
            return Response(status_code=500)
        return JSONResponse({"issuer": self.claimed_issuer or self.url, "jwks_uri": f"{self.url}/keys"})

    async def _keys(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        await self.may_answer.wait()
        if self.is_down:
            return Response(status_code=500)
        return JSONResponse({"keys": [key.as_dict(private=False) for key in self.published]})


@asynccontextmanager
async def running_issuer() -> AsyncIterator[TestIssuer]:
    issuer = TestIssuer()
    server = uvicorn.Server(uvicorn.Config(issuer.app, port=0, lifespan="off", log_config=None, access_log=False))
    serving = asyncio.create_task(server.serve())
    await eventually_async(lambda: server.started)
    issuer.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield issuer
    finally:
        server.should_exit = True
        await serving
