"""A service beside the gateway, for stories about discovery: its manifest, its tools, and all that it was asked.

async with neighbourhood(tmp_path) as at:
    at.service.offer("echo", lambda arguments: arguments["text"])
    async with at.gateway() as (gateway, client): ...
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import uvicorn

from jackfield.gateway.gateway import Gateway
from jackfield.gateway.server import build_app
from jackfield.http.streams import Streams
from tests.harness.in_process import KEY, in_process_gateway, make_gateway
from tests.sources.manifest.scene import TOOLS, manifest, published, tool
from tests.sources.upstream import Received, Upstream, json_reply, reply
from tests.waiting import TIMEOUT

WITHIN = TIMEOUT
Act = Callable[[dict[str, Any]], Any]


class Service:
    """A service that publishes a manifest and executes its tools."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._tools: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        """Every execution that was asked for: the tool, and its arguments."""
        self.more: dict[str, Any] = {}
        """What else its manifest says."""
        self._publish()

    @property
    def url(self) -> str:
        return self._upstream.url

    @property
    def received(self) -> list[Received]:
        return self._upstream.received

    @property
    def reads(self) -> int:
        return self._upstream.targets.count(TOOLS)

    def offer(self, name: str, act: Act | None = None, **more: Any) -> None:
        """Offer a tool from now on."""
        self._tools[name] = tool(name, **more)
        self._upstream.answers[f"{TOOLS}/{name}/execute"] = lambda request: self._execute(name, act, request)
        self._publish()

    def withdraw(self, name: str) -> None:
        del self._tools[name]
        self._publish()

    def say(self, body: bytes, status: int = 200) -> None:
        """Answer with this instead of a manifest."""
        self._upstream.answers[TOOLS] = reply(status, body)

    def recover(self) -> None:
        self._publish()

    def _publish(self) -> None:
        self._upstream.answers[TOOLS] = lambda _: published(manifest(*self._tools.values(), **self.more))

    async def _execute(self, name: str, act: Act | None, request: Received) -> bytes:
        body: dict[str, Any] = msgspec.json.decode(request.body)
        self.calls.append((name, body["arguments"]))
        try:
            result = None if act is None else act(body["arguments"])
            if isinstance(result, Awaitable):
                result = await result
        except ValueError as fault:
            return json_reply({"success": False, "status": "failed", "result": None, "error": str(fault)})
        return json_reply({"success": True, "status": "completed", "result": result, "error": None})


class Neighbourhood:
    """A service, and a folder in which gateways are opened that know it as `far`."""

    def __init__(self, folder: Path, upstream: Upstream) -> None:
        self.folder = folder
        self.service = Service(upstream)

    @asynccontextmanager
    async def gateway(self, more: str = "", *, options: str = "") -> AsyncIterator[tuple[Gateway, httpx2.AsyncClient]]:
        config = f'[sources.far]\nkind = "manifest"\nurl = "{self.service.url}"\n{options}\n{more}'
        async with in_process_gateway(self.folder, config) as opened:
            yield opened


@asynccontextmanager
async def neighbourhood(folder: Path) -> AsyncIterator[Neighbourhood]:
    async with Upstream() as upstream:
        yield Neighbourhood(folder, upstream)


async def execute(client: httpx2.AsyncClient, name: str, **arguments: Any) -> httpx2.Response:
    return await client.post(f"{TOOLS}/{name}/execute", json={"arguments": arguments})


async def names(client: httpx2.AsyncClient) -> list[str]:
    """The tools of the gateway's manifest."""
    return [one["name"] for one in (await client.get(TOOLS)).json()["tools"]]


async def scenario(client: httpx2.AsyncClient, name: str = "far") -> dict[str, Any]:
    """How the gateway says a source is."""
    states = (await client.get(f"{TOOLS}/scenarios")).json()
    found: dict[str, Any] = next(state for state in states if state["scenario"] == name)
    return found


async def record(client: httpx2.AsyncClient, call_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get(f"/api/v1/calls/{call_id}")).json()["call"]
    return found


async def settled(client: httpx2.AsyncClient, call_id: str) -> dict[str, Any]:
    """The record of a call when it is over."""
    async with asyncio.timeout(WITHIN):
        while True:
            answer = await client.get(f"/api/v1/calls/{call_id}", params={"wait": 5})
            found: dict[str, Any] = answer.json()["call"]
            if found["status"] not in ("pending", "waiting", "running", "pending_approval"):
                return found


class _Quiet(uvicorn.Server):
    """uvicorn that leaves the signals to pytest."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class Served:
    """A gateway of this process that others reach over HTTP."""

    def __init__(self, gateway: Gateway, url: str, client: httpx2.AsyncClient) -> None:
        self.gateway = gateway
        self.url = url
        self.client = client


@asynccontextmanager
async def served(folder: Path, config: str = "", *, listener: socket.socket | None = None) -> AsyncIterator[Served]:
    """Open a gateway in `folder` and serve it on a port of its own, or on `listener`."""
    folder.mkdir(exist_ok=True)  # noqa: ASYNC240 - once, before anything runs
    bound = listener or listening()
    streams = Streams()
    async with make_gateway(folder, config) as gateway:
        app = build_app(gateway, streams=streams)
        server = _Quiet(uvicorn.Config(app, lifespan="off", log_config=None, access_log=False))
        serving = asyncio.create_task(server.serve(sockets=[bound]))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        try:
            async with httpx2.AsyncClient(base_url=url, headers={"x-api-key": KEY}, timeout=WITHIN) as client:
                yield Served(gateway, url, client)
        finally:
            streams.close()
            server.should_exit = server.force_exit = True
            await serving


def listening() -> socket.socket:
    """A socket that takes connections from now on."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    bound.listen(100)
    return bound


def knows(name: str, url: str, key: str = KEY, *, more: str = "") -> str:
    """The config of a source: another gateway, and the key for it."""
    return f'[sources.{name}]\nkind = "manifest"\nurl = "{url}"\nheaders = {{ Authorization = "Bearer {key}" }}\n{more}'


def tool_file(folder: Path, name: str) -> str:
    """Write a tool that says its own name, and give the config that finds it."""
    (folder / "tools").mkdir(parents=True, exist_ok=True)
    (folder / "tools" / f"{name}.py").write_text(f'def {name}() -> str:\n    """Say who."""\n    return "{name}"\n')
    return '[sources.local]\nkind = "files"\npath = "tools/*.py"\n'
