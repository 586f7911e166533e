"""A gateway inside the test's process, asked by raw messages or by the SDK's client, streams included.

async with mcp_scene(tmp_path) as scene:
    answer = await scene.ask("tools/list")                      # 2026-07-28
    session = await scene.shake_hands()                         # the handshake era
    async with scene.client(mode="legacy") as client: …         # the SDK's own client
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import msgspec
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from jackfield.calls.rows import CallFilter, call_page
from jackfield.cli.in_process import StreamingTransport
from jackfield.gateway.gateway import Gateway
from jackfield.gateway.server import build_app
from jackfield.http.streams import Streams
from jackfield.identity.keys import ADMIN
from jackfield.mcp.api import SESSION_HEADER
from jackfield.model.call import Outcome, done
from jackfield.model.tool import Metadata, Tool, ToolKind
from jackfield.model.trace_context import incoming_trace
from jackfield.settings import load_settings
from jackfield.sources.base import About, ElicitRequest, Invocation, Listing, LogNote, Progress

KEY = "key-of-the-scene"
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}
BOTH = "application/json, text/event-stream"
HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
CONFIG = """
[auth.keys.caller]
key = "caller-key"
scopes = ["call"]
[auth.keys.reader]
key = "reader-key"
scopes = ["read"]
[auth.keys.limited]
key = "limited-key"
scopes = ["call"]
tools = ["echo"]
[auth.keys.ada]
key = "ada-key"
scopes = ["agent:ada"]

[[tools]]
name = "located"
description = "Wants its region in a header too."
executionType = "internal"
inputSchema = { type = "object", properties = { region = { type = "string", "x-mcp-header" = "Region" } } }
"""
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


LINK = {"type": "resource_link", "uri": "file:///a.txt", "name": "a", "title": "The file"}
AUDIO = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}


def last_message(answer: httpx2.Response) -> Any:
    """The JSON of an answer, also of one that took so long, on a busy machine, that it was streamed."""
    if answer.headers["content-type"] == "application/json":
        return answer.json()
    data = [line.removeprefix("data:").strip() for line in answer.text.splitlines() if line.startswith("data:")]
    return msgspec.json.decode([one for one in data if one][-1])


class SceneSource:
    """Tools that wait, tell, ask and answer as the test wants."""

    kind: ClassVar[str] = "scene"
    tool_kind: ClassVar[ToolKind] = ToolKind.INTERNAL
    max_concurrency: int | None = None

    def __init__(self, name: str = "scene") -> None:
        self.name = name
        self.extra: tuple[Tool, ...] = ()
        self.echo_says = "It can echo."
        self.started = asyncio.Event()
        self.stopped = asyncio.Event()
        self.release = asyncio.Event()

    async def open(self) -> None: ...

    async def refresh(self) -> Listing:
        tools = (
            Tool(source=self.name, name="echo", description=self.echo_says, input_schema=TEXT),
            self._tool("shout", TEXT, output={"type": "object", "properties": {"loud": {"type": "string"}}}),
            self._tool("hold", {"type": "object"}),
            self._tool("steps", {"type": "object"}),
            self._tool("ask", {"type": "object"}),
            self._tool("trace", {"type": "object"}),
            Tool(source=self.name, name="guarded", metadata=Metadata(requires_approval=True)),
        )
        return Listing(tools=(*tools, *self.extra), about=About(instructions="Echo first."))

    def _tool(self, name: str, schema: dict[str, Any], *, output: dict[str, Any] | None = None) -> Tool:
        says = f"It can {name}."
        return Tool(source=self.name, name=name, description=says, input_schema=schema, output_schema=output)

    async def execute(self, invocation: Invocation, /) -> Outcome:  # noqa: PLR0911 - one for each tool
        match invocation.tool.name:
            case "shout":
                return done({"loud": invocation.arguments["text"].upper()})
            case "hold" | "long":
                await self._hold()
                return done("released")
            case "steps":
                for step in (1, 2):
                    invocation.report(Progress(progress=step, total=2, message=f"step {step}"))
                invocation.note(LogNote(level="info", message="half way", logger="engine"))
                invocation.note(LogNote(level="error", message="it creaks"))
                return done("there")
            case "links":
                return done({"content": [LINK, AUDIO]})
            case "trace":
                trace = incoming_trace.get()
                return done(None if trace is None else trace.parent)
            case "ask":
                return done(await _asked(invocation))
            case _:
                return done(invocation.arguments.get("text"))

    async def _hold(self) -> None:
        self.started.set()
        try:
            await self.release.wait()
        finally:
            self.stopped.set()

    def can_execute(self, tool: Tool) -> bool:
        return tool.source == self.name

    async def close(self) -> None: ...


async def _asked(invocation: Invocation) -> Any:
    answers = []
    for number in range(invocation.arguments.get("times", 1)):
        question = ElicitRequest(message=f"Who are you? ({number})", schema=NAME)
        answer = await invocation.elicit(question)
        answers.append([answer.action, answer.content])
        invocation.report(Progress(progress=number + 1))
    return {"answers": answers}


class Scene:
    """The gateway and the ways to it."""

    def __init__(self, gateway: Gateway, source: SceneSource, transport: StreamingTransport) -> None:
        self.gateway = gateway
        self.source = source
        self.transport = transport
        self.http = httpx2.AsyncClient(transport=transport, base_url="http://localhost:8420")
        self.path = "/mcp"
        """Where requests go; `/mcp/NAME` for those of a group."""

    async def post(self, body: Any, *, key: str = KEY, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        """One POST with exactly these headers beside the usual ones; a body of bytes goes as it is."""
        sent = {"x-api-key": key, "accept": BOTH, "content-type": "application/json", **(headers or {})}
        content = {"content": body} if isinstance(body, bytes) else {"json": body}
        answer = await self.http.post(self.path, headers=sent, **content)
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            answer.json = partial(last_message, answer)  # type: ignore[method-assign]
        return answer

    async def ask(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        key: str = KEY,
        headers: Mapping[str, str] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> httpx2.Response:
        """One request of 2026-07-28 as it should be."""
        given = {**(params or {}), "_meta": {**META, **(meta or {})}}
        sent = {"mcp-protocol-version": VERSION, "mcp-method": method}
        if "name" in given:
            sent["mcp-name"] = str(given["name"])
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": given}
        return await self.post(body, key=key, headers={**sent, **(headers or {})})

    async def shake_hands(self, *, key: str = KEY, **params: Any) -> dict[str, str]:
        """A session of the handshake era, as the headers that name it."""
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {**HANDSHAKE, **params}}
        answer = await self.post(body, key=key)
        assert answer.status_code == 200, answer.text
        session = {SESSION_HEADER.decode(): answer.headers["mcp-session-id"]}
        told = await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, key=key, headers=session)
        assert told.status_code == 202
        return session

    async def ask_in(self, session: Mapping[str, str], method: str, **params: Any) -> Any:
        """One request within a session: its result, or its error."""
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        answer = await self.post(body, headers=session)
        assert answer.status_code == 200, answer.text
        told = last_message(answer)
        assert told["id"] == 7
        return told.get("result", told.get("error"))

    @asynccontextmanager
    async def client(self, *, mode: str, key: str = KEY, **more: Any) -> AsyncIterator[Client]:
        """The SDK's client, in process."""
        http = httpx2.AsyncClient(transport=self.transport, headers={"x-api-key": key}, timeout=30)
        transport = streamable_http_client(f"http://localhost:8420{self.path}", http_client=http)
        async with http, Client(transport, mode=mode, **more) as client:
            yield client

    async def cancel_all(self) -> None:
        """Stop every call that is not over, so that the gateway need not wait for it."""
        for call in (await self.gateway.store.read(partial(call_page, CallFilter(), limit=50))).calls:
            if not call.status.is_final:
                await self.gateway.pipeline.cancel(call.id, principal=ADMIN)

    async def list_anew(self, *extra: Tool) -> None:
        """The source lists these tools beside its own from now on."""
        self.source.extra = extra
        await self.gateway.source_registry.refresh(self.source.name)
        await self.gateway.catalog.update_aside(self.gateway.source_registry.listings())


@asynccontextmanager
async def mcp_scene(
    folder: Path, config: str = "", *, store: str = "memory:", environment: Mapping[str, str] | None = None
) -> AsyncIterator[Scene]:
    path = folder / "jackfield.toml"
    path.write_text(CONFIG + config, encoding="utf-8")
    given = {"JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_STORE": store, **(environment or {})}
    settings = load_settings(path, environment=given)
    gateway, streams, source = Gateway(settings), Streams(), SceneSource()
    async with gateway:
        await gateway.source_registry.add(source)
        await gateway.source_registry.settled(within=5)
        await gateway.catalog.update_aside(gateway.source_registry.listings())
        transport = StreamingTransport(build_app(gateway, streams=streams))
        scene = Scene(gateway, source, transport)
        try:
            async with scene.http:
                yield scene
        finally:
            streams.close()
