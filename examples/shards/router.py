"""A router over several clusters of Jackfield, each with a database of its own ("shards").

    SHARDS="http://127.0.0.1:8421 http://127.0.0.1:8422" uvicorn router:app --port 8420

Everything of one space or agent is in one shard: the one that the part of its id before the first "-" hashes to. So
`acme-lobby` and the agent `acme-clerk` are always together, and an agent meets only spaces of its own shard. No
transaction, no limit and no search goes over shards. Above: clients, which see one gateway. Below: HTTP, nothing else.
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

KEPT = ("spaces", "agents", "smart-spaces")
"""Collections whose members have a shard of their own, which their id says."""
FOUND = ("runs", "calls", "sessions", "responses")
"""Collections whose ids do not say a shard: it is asked for."""
WHOLE = ("export", "events")
"""Members that are no ids: they are about a whole database."""
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "content-length", "host"}
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


class Router:
    """Sends each request to the shard that has what it is about."""

    def __init__(self, shards: list[str], client: httpx2.AsyncClient) -> None:
        self._shards = shards
        self._client = client

    async def handle(self, request: Request) -> Response:
        body = await request.body()
        collection, name = about(request.url.path)
        if name is None and request.method == "GET" and collection in KEPT + FOUND:
            return await self._merged(request, collection)
        if name is None and collection in KEPT:
            name = field_of(body, "id")
            if not isinstance(name, str):
                return refused(
                    "What is made here needs an 'id', which says its shard. Give it one, such as acme-lobby."
                )
        if collection == "agents" and (strays := self._strays(name, body)):
            return refused(
                f"{name} would be in another shard than {', '.join(strays)}. Give them ids that begin alike."
            )
        if name in WHOLE:
            return refused(f"{request.url.path} is of one shard. Ask the shards themselves.")
        if collection in FOUND and name is not None:
            return await self._found(request, body)
        return await self._forward(self._home(owner(request, collection, name, body)), request, body)

    def _strays(self, agent: str, body: bytes) -> list[str]:
        """Spaces that an agent is to be in, and that are in another shard."""
        spaces = field_of(body, "spaces")
        return [one for one in spaces if self._home(one) != self._home(agent)] if isinstance(spaces, list) else []

    def _home(self, name: str) -> str:
        """By rendezvous hashing over their places: one shard more at the end takes its part from all others."""
        family = name.partition("-")[0]
        places = range(len(self._shards))
        return self._shards[max(places, key=lambda n: hashlib.sha256(f"{n} {family}".encode()).digest())]

    async def _forward(self, shard: str, request: Request, body: bytes) -> Response:
        sent = self._client.build_request(
            request.method, f"{shard}{request.url.path}?{request.url.query}", headers=lent(request), content=body
        )
        try:
            answer = await self._client.send(sent, stream=True)
        except httpx2.TransportError as fault:
            return refused(f"The shard {shard} cannot be reached: {fault}", status=503)
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
        headers["x-shard"] = str(self._shards.index(shard))
        return StreamingResponse(relayed(answer), answer.status_code, headers)

    async def _found(self, request: Request, body: bytes) -> Response:
        """The one shard that knows the id. A GET asks for it first, so that nothing is changed by the search."""
        path = "/".join(request.url.path.split("/")[: 5 if request.url.path.startswith("/api/v1/") else 4])
        asked = [self._client.get(f"{shard}{path}", headers=lent(request)) for shard in self._shards]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        known = (
            shard
            for shard, answer in zip(self._shards, answers, strict=True)
            if isinstance(answer, httpx2.Response) and answer.status_code != httpx2.codes.NOT_FOUND
        )
        return await self._forward(next(known, self._shards[0]), request, body)

    async def _merged(self, request: Request, collection: str) -> Response:
        """What all shards list. There is no order over shards, so there are no pages either."""
        if "cursor" in request.query_params:
            return refused("There are no pages over shards. Ask the shards themselves, or narrow the list by filters.")
        path = f"{request.url.path}?{request.url.query}"
        asked = [self._client.get(f"{shard}{path}", headers=lent(request)) for shard in self._shards]
        try:
            answers = await asyncio.gather(*asked)
        except httpx2.TransportError as fault:
            return refused(f"A shard cannot be reached, and without it the list is not whole: {fault}", status=503)
        for answer in answers:
            if not answer.is_success:
                return Response(answer.content, answer.status_code, media_type="application/json")
        collection = "spaces" if collection == "smart-spaces" else collection
        return JSONResponse({collection: [one for answer in answers for one in answer.json()[collection]]})


def about(path: str) -> tuple[str, str | None]:
    """The collection and the member that a path is about: `/api/spaces/acme-lobby/stream`, `/api/v1/calls/ID`."""
    parts = path.removeprefix("/api/v1/").removeprefix("/api/").strip("/").split("/")
    return parts[0], parts[1] if len(parts) > 1 else None


def owner(request: Request, collection: str, name: str | None, body: bytes) -> str:
    """The space or agent that a request is about; else its caller. The same key always comes to the same shard, so its
    idempotency keys, limits and budget are kept there.
    """
    if collection in KEPT and name is not None:
        return name
    if collection == "sessions" and isinstance(agent := field_of(body, "agent"), str):
        return agent
    return request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")


def field_of(body: bytes, name: str) -> object:
    try:
        return msgspec.json.decode(body)[name]
    except (msgspec.DecodeError, KeyError, TypeError):
        return None


def lent(request: Request) -> dict[str, str]:
    return {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}


async def relayed(answer: httpx2.Response) -> AsyncIterator[bytes]:
    try:
        async for part in answer.aiter_raw():
            yield part
    finally:
        await answer.aclose()


def refused(message: str, *, status: int = 400) -> JSONResponse:
    return JSONResponse({"error": {"code": "router", "message": message}}, status)


@asynccontextmanager
async def started(app: Starlette) -> AsyncIterator[None]:
    shards = os.environ.get("SHARDS", "").split()
    if not shards:
        raise SystemExit('SHARDS is not set. Name the gateways: SHARDS="http://127.0.0.1:8421 http://127.0.0.1:8422"')
    async with httpx2.AsyncClient(timeout=httpx2.Timeout(60, read=None)) as client:
        app.state.router = Router(shards, client)
        yield


async def handle(request: Request) -> Response:
    return await request.app.state.router.handle(request)


app = Starlette(routes=[Route("/{path:path}", handle, methods=METHODS)], lifespan=started)
