"""A small Starlette service with a manifest of its own and none of our code: `python plain_service.py PORT`."""

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

TOOLS = [
    {
        "name": "shout",
        "description": "Say it loudly.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        "metadata": {"enabled_by_default": True, "requires_approval": False, "idempotent": True},
    }
]


async def manifest(_: Request) -> JSONResponse:
    body = {
        "protocol_version": "1.0",
        "scenario": {"name": "plain", "version": "1.0.0", "description": "A plain service"},
        "tools": TOOLS,
        "categories": [],
        "generated_at": "2026-01-15T10:30:00Z",
    }
    return JSONResponse(body, headers={"cache-control": "public, max-age=60"})


async def shout(request: Request) -> JSONResponse:
    arguments = (await request.json())["arguments"]
    return JSONResponse({"success": True, "status": "completed", "result": arguments["text"].upper(), "error": None})


app = Starlette(
    routes=[Route("/api/v1/tools", manifest), Route("/api/v1/tools/shout/execute", shout, methods=["POST"])]
)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
