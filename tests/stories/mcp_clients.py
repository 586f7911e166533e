"""The SDK's own MCP client against a real gateway, over HTTP or through `jackfield mcp`."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.harness.process import clean_environment

ERAS = ["legacy", "2026-07-28"]
LATER = 'def newcomer() -> str:\n    """Came later."""\n    return "here I am"\n'


@asynccontextmanager
async def http_client(url: str, key: str, *, mode: str, **more: Any) -> AsyncIterator[Client]:
    """A client of `/mcp`."""
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=30)
    async with http, Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode, **more) as client:
        yield client


def stdio_client(folder: Path, *args: str, mode: str, env: Mapping[str, str] | None = None, **more: Any) -> Client:
    """A client of `jackfield mcp`, started in `folder`."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "jackfield.cli", "mcp", *args],
        cwd=folder,
        env=clean_environment(env),
    )
    return Client(server, mode=mode, **more)


def text_of(result: Any) -> str:
    """The text of a result that is one text."""
    (block,) = result.content
    return str(block.text)


async def change_until(heard: asyncio.Event, file: Path) -> None:
    """Change a tool file until the client has heard of it: when its stream stands, only the client knows."""
    number = 0
    while not heard.is_set():
        number += 1
        _write(file, LATER.replace("Came later", f"Came later, try {number}"))
        hearing = asyncio.ensure_future(heard.wait())
        await asyncio.wait((hearing,), timeout=2)
        hearing.cancel()


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
