"""The HTTP service that gateways turn into a tool: `python -m bench.comparison.service`. Prints its port.

`POST /echo` gives its JSON body back; `GET /openapi.json` describes it. As Starlette's documentation would write it.
"""

import asyncio
from typing import Any

import msgspec
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bench.proxies.serving import serve

BODY = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["text", "count"],
}


def document(url: str) -> dict[str, Any]:
    """The OpenAPI document of a service at this address."""
    json_body = {"application/json": {"schema": BODY}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Echo", "version": "1"},
        "servers": [{"url": url}],
        "paths": {
            "/echo": {
                "post": {
                    "operationId": "give_back",
                    "summary": "Give the body back.",
                    "requestBody": {"required": True, "content": json_body},
                    "responses": {"200": {"description": "The body", "content": json_body}},
                }
            }
        },
    }


async def echo(request: Request) -> Response:
    return Response(msgspec.json.encode(msgspec.json.decode(await request.body())), media_type="application/json")


async def describe(request: Request) -> Response:
    return Response(msgspec.json.encode(document(str(request.base_url).rstrip("/"))), media_type="application/json")


if __name__ == "__main__":
    app = Starlette(routes=[Route("/echo", echo, methods=["POST"]), Route("/openapi.json", describe)])
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(app))
