"""Services for tests: a manifest on loopback, every byte of it the test's, and the source that reads it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from jackfield.model.call import Outcome
from jackfield.model.tool import Tool
from jackfield.outgoing import Outgoing
from jackfield.sources.manifest.options import parse_options
from jackfield.sources.manifest.source import ManifestSource
from jackfield.sources.source_registry import SourceRegistry
from tests.sources.invocations import invocation_of
from tests.sources.network import surroundings_in
from tests.sources.upstream import Upstream, reply
from tests.waiting import TIMEOUT

BOUND = TIMEOUT
TOOLS = "/api/v1/tools"

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def tool(name: str = "echo", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"The tool {name}.", "parameters": TEXT, "metadata": {}, **more}


def manifest(*tools: dict[str, Any], version: Any = "1.0", at: str = "2026-01-15T10:30:00Z", **more: Any) -> bytes:
    """A manifest of these tools."""
    scenario = {"name": "manager", "version": "1.0.0", "description": "", "base_url": "http://192.0.2.1:1"}
    body = {"protocol_version": version, "scenario": scenario, "tools": list(tools), "categories": []}
    return msgspec.json.encode({**body, "generated_at": at, **more})


def published(body: bytes, **headers: str) -> bytes:
    return reply(200, body, content_type="application/json", **headers)


class Scene:
    """One service and its source, as the keeper would hold it."""

    def __init__(
        self, upstream: Upstream, outgoing: Outgoing, folder: Path, options: dict[str, Any], cluster_id: str
    ) -> None:
        self.upstream = upstream
        self.asked = 0
        """How often the source asked to be read anew."""
        self.woken = asyncio.Event()
        self.source_registry: SourceRegistry | None = None
        self.source_context = surroundings_in(
            folder, outgoing=outgoing, changed=self._changed, cluster_id=lambda: cluster_id
        )
        self.source = ManifestSource(
            "far", parse_options({"url": upstream.url, **options}, where="sources.far"), self.source_context
        )

    def _changed(self, name: str) -> None:
        self.asked += 1
        self.woken.set()
        if self.source_registry is not None:
            self.source_registry.request_refresh(name)

    async def names(self) -> list[str]:
        """The tools as they are read now."""
        return [tool.name for tool in (await self.source.refresh()).tools]

    async def tool(self, name: str) -> Tool:
        return next(tool for tool in (await self.source.refresh()).tools if tool.name == name)

    async def call(self, name: str, *, timeout_ms: int = 5_000, **arguments: Any) -> Outcome:
        found = await self.tool(name)
        return await self.source.execute(invocation_of(found, timeout_ms=timeout_ms, **arguments))

    @property
    def reads(self) -> int:
        """How often the manifest was asked for."""
        return self.upstream.targets.count(TOOLS)


@asynccontextmanager
async def scene(folder: Path, *, cluster_id: str = "house_here", **options: Any) -> AsyncIterator[Scene]:
    async with Upstream() as upstream, Outgoing() as outgoing:
        opened = Scene(upstream, outgoing, folder, options, cluster_id)
        try:
            await opened.source.open()
            yield opened
        finally:
            await opened.source.close()


@asynccontextmanager
async def kept(folder: Path, upstream: Upstream, **options: Any) -> AsyncIterator[tuple[Scene, SourceRegistry]]:
    """The source in a panel, which brings it up and keeps what it listed."""
    async with Outgoing() as outgoing:
        opened = Scene(upstream, outgoing, folder, options, "house_here")
        source_registry = opened.source_registry = SourceRegistry(on_listing=opened.woken.set)
        await source_registry.add(opened.source)
        try:
            await source_registry.settled(within=BOUND)
            yield opened, source_registry
        finally:
            await source_registry.close()
