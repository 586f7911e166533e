"""A real gateway inside the test's own process, where a test can take a source away or break a service.

async with in_process_gateway(tmp_path) as (gateway, client):
    await client.get("/api/v1/tools")
async with serve_on_port(gateway) as url:                 # on a real port, for what streams
    Client(url, KEY)
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import httpx2
import uvicorn

from jackfield.gateway.gateway import Gateway
from jackfield.gateway.server import build_app
from jackfield.http.streams import Streams
from jackfield.model.call import Outcome, done
from jackfield.model.tool import Tool, ToolKind
from jackfield.settings import load_settings
from jackfield.sources.base import Invocation, Listing
from tests.waiting import eventually_async

KEY = "key-of-the-inside"
ENDS_WITHIN = 5


class SwitchableSource:
    """A source with one tool that can be taken down and brought up again."""

    kind: ClassVar[str] = "switchable"
    tool_kind: ClassVar[ToolKind] = ToolKind.INTERNAL
    max_concurrency: int | None = None

    def __init__(self, name: str, fault: str) -> None:
        self.name = name
        self.is_down = False
        self._fault = fault

    async def open(self) -> None:
        if self.is_down:
            raise OSError(self._fault)

    async def refresh(self) -> Listing:
        if self.is_down:
            raise OSError(self._fault)
        return Listing(tools=(Tool(source=self.name, name="switched", description="Says on."),))

    async def execute(self, _invocation: Invocation, /) -> Outcome:
        return done("on")

    def can_execute(self, tool: Tool) -> bool:
        return tool.source == self.name

    async def close(self) -> None:
        pass


def make_gateway(folder: Path, config: str = "") -> Gateway:
    path = folder / "jackfield.toml"
    path.write_text(config)
    return Gateway(load_settings(path, environment={"JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_STORE": "memory:"}))


def client_of(gateway: Gateway) -> httpx2.AsyncClient:
    """A client with the administrator's key, straight to the app."""
    transport = httpx2.ASGITransport(build_app(gateway), raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost:8420", headers={"x-api-key": KEY})


@asynccontextmanager
async def in_process_gateway(folder: Path, config: str = "") -> AsyncIterator[tuple[Gateway, httpx2.AsyncClient]]:
    async with make_gateway(folder, config) as gateway, client_of(gateway) as client:
        yield gateway, client


@asynccontextmanager
async def serve_on_port(gateway: Gateway) -> AsyncIterator[str]:
    """The doors of a gateway on a free port; their url."""
    streams = Streams()
    app = build_app(gateway, streams=streams)
    config = uvicorn.Config(
        app, port=0, lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=ENDS_WITHIN
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    await eventually_async(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        streams.close()
        server.should_exit = True
        await serving
