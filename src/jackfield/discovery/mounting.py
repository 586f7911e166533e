"""The endpoints of a `Provider` in a Starlette or FastAPI app."""

from collections.abc import Iterable
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jackfield.discovery.provider import CALLS_PATH, MAX_BODY, PATH, Provider, ToolProvider
from jackfield.model.tool import Category
from jackfield.protocol.functions import Servables

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def mount(
    app: Starlette,
    tools: Servables = (),
    *,
    name: str,
    version: str = "1.0.0",
    description: str = "",
    base_url: str | None = None,
    categories: Iterable[Category] = (),
    key: str | None = None,
    providers: Iterable[ToolProvider] = (),
) -> Provider:
    """Add the endpoints of these tools to `app`, before its other routes. See `Provider` for the options.

    Raises `TypeError` for a function that cannot be a tool.
    """
    provider = Provider(
        tools, name=name, version=version, description=description, base_url=base_url, categories=categories, key=key
    )
    for part in providers:
        provider.register(part)

    async def answer(request: Request, *below: str) -> Response:
        path = "/".join((PATH, *(quote(part, safe="") for part in below)))
        reply = await provider.respond(request.method, path, headers=request.headers, body=await _body(request))
        return Response(reply.body, reply.status, reply.headers)

    async def answer_one(request: Request) -> Response:
        return await answer(request, request.path_params["name"])

    async def answer_execute(request: Request) -> Response:
        return await answer(request, request.path_params["name"], "execute")

    async def answer_cancel(request: Request) -> Response:
        path = f"{CALLS_PATH}/{quote(request.path_params['id'], safe='')}/cancel"
        reply = await provider.respond(request.method, path, headers=request.headers)
        return Response(reply.body, reply.status, reply.headers)

    endpoints = {
        PATH: answer,
        f"{PATH}/{{name}}": answer_one,
        f"{PATH}/{{name}}/execute": answer_execute,
        f"{CALLS_PATH}/{{id}}/cancel": answer_cancel,
    }
    app.router.routes[:0] = [
        Route(path, endpoint, methods=METHODS, include_in_schema=False) for path, endpoint in endpoints.items()
    ]
    return provider


async def _body(request: Request) -> bytes:
    """The body, up to more than `Provider` accepts."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > MAX_BODY:
            break
    return b"".join(parts)
