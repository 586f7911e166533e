"""Databases to be stressed, and gateways on them: a SQLite file, or a PostgreSQL of our own."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from jackfield.gateway.gateway import Gateway
from jackfield.settings import Settings, parse_tool
from tests.postgres import PostgresServer

Tool = dict[str, Any]


@contextmanager
def a_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="jackfield-stress-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextmanager
def a_postgres() -> Iterator[str]:
    """The url of an empty database on a server that is gone afterwards."""
    server = PostgresServer()
    try:
        server.start()
        yield server.url()
    finally:
        server.remove()


def external(name: str, *, timeout_ms: int, **fields: Any) -> Tool:
    """A tool that somebody else answers, in seed 003's words."""
    plain = {"name": name, "description": "Answered from outside.", "inputSchema": {"type": "object"}}
    return plain | {"executionType": "external", "visible": False, "timeout": timeout_ms} | fields


@asynccontextmanager
async def gateways_on(store_url: str, folder: Path, *tools: Tool, count: int = 1) -> AsyncIterator[list[Gateway]]:
    """Whole gateways without doors in this process, sweepers and heartbeats running."""
    parsed = tuple(parse_tool(tool, where="stress") for tool in tools)
    async with AsyncExitStack() as stack:
        gateways = []
        for number in range(count):
            data = folder / f"data{number}"
            data.mkdir(parents=True, exist_ok=True)
            settings = Settings(path=None, folder=folder, data=data, store_url=store_url, tools=parsed)
            gateways.append(await stack.enter_async_context(Gateway(settings)))
        yield gateways
