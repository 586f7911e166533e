"""Starts a server, alone or behind a gateway, and looks at it. Above: `__main__.py`. Below: the cases, the views.

The folder that a server works in is made anew at the same place each time.
"""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from mcp.client import Transport
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from msgspec import Struct

from bench.processes import KEY, Server, running_gateway
from conformance.client import wait_for_source
from conformance.servers.cases import LEGACY, SSE, STDIO, ServerCase
from conformance.servers.view import MODERN, Json, viewing
from conformance.suite import SuiteError

STARTED_WITHIN = 60.0
STOPPED_WITHIN = 10.0
ROOT = Path(__file__).parents[2]


class Way(Struct, frozen=True, kw_only=True):
    """How a client comes to a server through the gateway."""

    revision: str
    over: str = "/mcp"
    """Or `jackfield mcp`, which is a server on stdio to it."""

    @property
    def title(self) -> str:
        return f"{self.over} at {self.revision}"


WAYS = (Way(revision=LEGACY), Way(revision=MODERN), Way(revision=LEGACY, over="jackfield mcp"))


def see_directly(case: ServerCase, home: Path) -> Json:
    """What a client of the server's own sees."""
    with _serving(case, home) as source, (home / "direct.log").open("w", encoding="utf-8") as log:
        if case.transport == STDIO:
            command, *arguments = source["command"]
            server = StdioServerParameters(command=command, args=arguments, env=dict(case.env), cwd=ROOT)
            transport: Transport = stdio_client(server, errlog=log)
        else:
            transport = (sse_client if case.transport == SSE else streamable_http_client)(source["url"])
        return asyncio.run(_view(transport, case, home, case.revision))


def see_through(case: ServerCase, home: Path, way: Way) -> Json:
    """What a client of the gateway sees."""
    project = home / "project"
    shutil.rmtree(project, ignore_errors=True)
    project.mkdir()
    with _serving(case, home) as source:
        (project / "jackfield.json").write_bytes(msgspec.json.encode({"sources": {"far": source}}))
        with running_gateway(project, tools=0) as gateway:
            if not wait_for_source(gateway, within=STARTED_WITHIN):
                log = (project / "gateway.log").read_text(encoding="utf-8")
                raise SuiteError(f"The gateway did not get {case.name} to start. It said: {log[-2000:]}")
            return asyncio.run(_look(gateway, case, home, way))


async def _look(gateway: Server, case: ServerCase, home: Path, way: Way) -> Json:
    async with _transport(f"http://127.0.0.1:{gateway.port}", way, home) as transport:
        return await _view(transport, case, home, way.revision)


@asynccontextmanager
async def _transport(url: str, way: Way, home: Path) -> AsyncIterator[Transport]:
    if way.over == "/mcp":
        async with httpx2.AsyncClient(headers={"x-api-key": KEY}, timeout=60.0) as http:
            yield streamable_http_client(f"{url}/mcp", http_client=http)
        return
    arguments = ["-m", "jackfield.cli", "mcp", "--url", url, "--key", KEY]
    with (home / "stdio.log").open("w", encoding="utf-8") as log:
        yield stdio_client(StdioServerParameters(command=sys.executable, args=arguments, cwd=home), errlog=log)


async def _view(transport: Transport, case: ServerCase, home: Path, revision: str) -> Json:
    async with viewing(transport, case.answers, revision=revision) as viewer:
        return await viewer.view(case.script(home / "work"))


@contextmanager
def _serving(case: ServerCase, home: Path) -> Generator[dict[str, Any]]:
    """The server as a source of the config. One that is no process of whoever uses it is started here."""
    folder = home / "work"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    case.prepare(folder)
    if case.transport == STDIO:
        yield {"kind": "mcp", "command": case.command(folder), "env": dict(case.env), "cwd": str(ROOT)}
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, **case.env, "PORT": str(port)}
    with (home / "server.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            case.command(folder), env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        _wait_for(port, process, case)
        path = "/sse" if case.transport == SSE else "/mcp"
        yield {"kind": "mcp", "url": f"http://127.0.0.1:{port}{path}", "transport": case.transport}
    finally:
        process.terminate()
        try:
            process.wait(STOPPED_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOPPED_WITHIN)


def _wait_for(port: int, process: "subprocess.Popen[bytes]", case: ServerCase) -> None:
    end = time.monotonic() + STARTED_WITHIN
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SuiteError(f"{case.name} did not start on port {port}.")
