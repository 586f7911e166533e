"""The scene of the relay's stories: a gateway, callers of three kinds, and whoever plays the agent in a session."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPDeprecationWarning

from jackfield.protocol.sse import EventParser
from tests.harness.process import RunningGateway, clean_environment
from tests.stories.mcp_clients import http_client, text_of
from tests.waiting import TIMEOUT

WITHIN = TIMEOUT
ANT, BEE, OPS = "ants-key-0001", "bees-key-0001", "operators-key-0001"
INSIDE = Path(__file__).with_name("agent_program.py")
CONFIG = f"""
[auth.keys.ant]
key = "{ANT}"
scopes = ["call"]

[auth.keys.bee]
key = "{BEE}"
scopes = ["call", "answer"]

[models.demo]
provider = "scripted"
script = "script.toml"

[agents.helper]
model = "demo"
instructions = "Help."

[sessions.inside]
command = ["{sys.executable}", "inside.py"]

[sessions.echo]
command = ["{sys.executable}", "-u", "echo.py"]
max_sessions = 3
env = {{ COLOUR = "blue" }}
sandbox = {{ kind = "none" }}

[sessions.brief]
command = ["{sys.executable}", "-c", "import sys; print('bye'); sys.exit(3)"]
sandbox = {{ kind = "none" }}
"""
SCRIPT = """
[[turns]]
when = { user = "send" }
calls = [{ tool = "ant_send_response", arguments = { message = "hello" } }]

[[turns]]
when = { result = "ant_send_response" }
say = "I was told: {result}"

[otherwise]
say = "Good day to you."
"""
ECHO = """
import json, os, subprocess, sys
child = subprocess.Popen(["sleep", "600"])
shown = {name: os.environ.get(name) for name in ("JACKFIELD_SOCKET", "JACKFIELD_TOKEN", "COLOUR", "HIDDEN_FROM_ALL")}
print(json.dumps({**shown, "pid": os.getpid(), "child": child.pid}))
print("a word for the log", file=sys.stderr)
for line in sys.stdin:
    print("heard " + line.rstrip("\\n"))
"""
ENVIRONMENT = {"JACKFIELD_ADMIN_KEY": OPS, "HIDDEN_FROM_ALL": "hidden"}
FILES = {"script.toml": SCRIPT, "echo.py": ECHO, "inside.py": INSIDE.read_text(encoding="utf-8")}

SCHEMA = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
TOOLS: list[dict[str, Any]] = [
    {"name": "send_response", "description": "Send message", "inputSchema": SCHEMA},
    {"name": "slow_tool", "description": "Takes its time"},
]


class Caller(Protocol):
    """Somebody who opens a session and lends it tools."""

    session_id: str
    events: "asyncio.Queue[dict[str, Any]]"

    async def open(self, agent: str, tools: list[dict[str, Any]] = TOOLS, *, message: str | None = None) -> None: ...

    async def say(self, message: str, tools: list[dict[str, Any]] | None = None) -> None: ...

    async def answer(self, request_id: str, **answer: Any) -> str:
        """`ok`, or why not."""


async def next_event(caller: Caller, *types: str) -> dict[str, Any]:
    """The next event of one of these types; what comes before it is skipped."""
    async with asyncio.timeout(WITHIN):
        while True:
            event = await caller.events.get()
            if event["type"] in types:
                return event


class HttpCaller:
    """Over the HTTP twin, with the stream open."""

    def __init__(self, gateway: RunningGateway, key: str = ANT) -> None:
        self.session_id = ""
        self.record: dict[str, Any] = {}
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.http = httpx2.AsyncClient(
            base_url=gateway.url, headers={"Authorization": f"Bearer {key}"}, timeout=httpx2.Timeout(WITHIN)
        )
        self._following: asyncio.Task[None] | None = None

    async def open(self, agent: str, tools: list[dict[str, Any]] = TOOLS, *, message: str | None = None) -> None:
        context = {"caller_id": "ant", "caller_tools": tools}
        answer = await self.http.post("/api/sessions", json={"agent": agent, "message": message, "context": context})
        assert answer.status_code == 201, answer.text
        self.session_id = answer.json()["session_id"]
        self.record = answer.json()["session"]
        await self.follow()

    async def follow(self, **headers: str) -> None:
        opened = asyncio.Event()
        self._following = asyncio.create_task(self._follow(opened, headers))
        async with asyncio.timeout(WITHIN):
            await opened.wait()

    async def _follow(self, opened: asyncio.Event, headers: Mapping[str, str]) -> None:
        parser = EventParser()
        path = f"/api/sessions/{self.session_id}/events"
        accepted = {"Accept": "text/event-stream", **headers}
        async with self.http.stream("GET", path, headers=accepted, timeout=None) as response:
            assert response.status_code == 200, await response.aread()
            async for piece in response.aiter_bytes():
                opened.set()
                for event in parser.feed(piece):
                    told = json.loads(event.data)
                    assert event.type == told["type"]
                    assert event.id == str(told["index"])
                    await self.events.put(told)

    async def hang_up(self) -> None:
        assert self._following is not None
        self._following.cancel()
        await asyncio.wait((self._following,))

    async def say(self, message: str, tools: list[dict[str, Any]] | None = None) -> None:
        body: dict[str, Any] = {"message": message}
        if tools is not None:
            body["context"] = {"caller_id": "ant", "caller_tools": tools}
        answer = await self.http.post(f"/api/sessions/{self.session_id}/messages", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["spawned"] is False

    async def answer(self, request_id: str, **answer: Any) -> str:
        sent = await self.http.post(
            f"/api/sessions/{self.session_id}/tool-responses", json={"request_id": request_id, **answer}
        )
        return "ok" if sent.status_code == 200 else f"{sent.status_code} {sent.json()['error']['code']}"

    async def close(self) -> None:
        if self._following is not None:
            await self.hang_up()
        if self.session_id:
            await self.http.delete(f"/api/sessions/{self.session_id}")
        await self.http.aclose()


class McpCaller:
    """Over `/mcp` with the SDK's client: told on its stream (legacy), or asking (2026-07-28)."""

    def __init__(self, client: Client, *, asks: bool) -> None:
        self.session_id = ""
        self.client = client
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._asks = asks
        self._asking: asyncio.Task[None] | None = None

    async def hear(self, params: Any) -> None:
        assert params.level == "info"
        is_request = params.data["type"] == "caller_tool_request"
        assert params.logger == ("jackfield.caller_tool" if is_request else "jackfield.session")
        await self.events.put(params.data)

    async def call(self, name: str, **arguments: Any) -> Any:
        result = await self.client.session.call_tool(name, arguments)
        if result.is_error:
            raise AssertionError(text_of(result))
        return result.structured_content

    async def open(self, agent: str, tools: list[dict[str, Any]] = TOOLS, *, message: str | None = None) -> None:
        context = {"caller_id": "ant", "caller_tools": tools}
        opened = await self.call("session_message", agent=agent, message=message or "", context=context)
        assert opened == {"session_id": opened["session_id"], "spawned": True, "last_event_index": -1}
        self.session_id = opened["session_id"]
        if self._asks:
            self._asking = asyncio.create_task(self._ask())

    async def _ask(self) -> None:
        since = -1
        while True:
            page = await self.call("session_events", session_id=self.session_id, since_index=since, wait=5)
            for event in page["events"]:
                since = event["index"]
                await self.events.put(event)

    async def say(self, message: str, tools: list[dict[str, Any]] | None = None) -> None:
        more = {} if tools is None else {"caller_id": "ant", "caller_tools": tools}
        told = await self.call("session_message", session_id=self.session_id, message=message, **more)
        assert told["spawned"] is False

    async def answer(self, request_id: str, **answer: Any) -> str:
        arguments = {"session_id": self.session_id, "request_id": request_id, **answer}
        result = await self.client.session.call_tool("caller_tool_response", arguments)
        return text_of(result) if result.is_error else "ok"

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait((self._asking,))
        await self.client.session.call_tool("session_end", {"session_id": self.session_id})


@asynccontextmanager
async def caller_of(kind: str, gateway: RunningGateway, *, ends: bool = True) -> AsyncIterator[Caller]:
    """`http`, `legacy` or `2026-07-28`; its session is ended with it, or left."""
    if kind == "http":
        http = HttpCaller(gateway)
        try:
            yield http
        finally:
            await http.close()
        return
    callers: list[McpCaller] = []

    async def hear(params: Any) -> None:
        await callers[0].hear(params)

    async with http_client(gateway.url, ANT, mode=kind, logging_callback=hear) as client:
        if kind == "legacy":
            with pytest.warns(MCPDeprecationWarning):
                await client.session.set_logging_level("info")
        callers.append(McpCaller(client, asks=kind != "legacy"))
        try:
            yield callers[0]
        finally:
            if ends:
                await callers[0].close()


class Commanded:
    """The program `inside.py` in a session, told what to do by its caller's messages."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._last = 0

    async def ready(self) -> None:
        while "ready" not in json.loads((await next_event(self._caller, "message"))["text"]):
            pass

    async def begin(self, do: str, **more: Any) -> int:
        """Give a command without waiting for what comes of it."""
        self._last += 1
        await self._caller.say(json.dumps({"n": self._last, "do": do, **more}))
        return self._last

    async def told(self, n: int) -> dict[str, Any]:
        while True:
            told: dict[str, Any] = json.loads((await next_event(self._caller, "message"))["text"])
            if told.get("n") == n:
                return told

    async def do(self, do: str, **more: Any) -> dict[str, Any]:
        return await self.told(await self.begin(do, **more))


class Inside:
    """Somebody on the session's socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, message: Any) -> None:
        self.writer.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")

    def ask(self, request_id: int | str, tool: str, arguments: Any = None) -> None:
        params = {"tool": tool, "arguments": {} if arguments is None else arguments}
        self.send({"jsonrpc": "2.0", "id": request_id, "method": "caller_tool", "params": params})

    async def hear(self) -> dict[str, Any]:
        async with asyncio.timeout(WITHIN):
            line = await self.reader.readline()
        told: dict[str, Any] = json.loads(line)
        return told


@asynccontextmanager
async def on_socket(path: str) -> AsyncIterator[Inside]:
    reader, writer = await asyncio.open_unix_connection(path, limit=2**26)
    try:
        yield Inside(reader, writer)
    finally:
        writer.close()


def bridge(*args: str, mode: str = "auto", **more: Any) -> AbstractAsyncContextManager[Client]:
    """The SDK's client on `jackfield bridge`."""
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "jackfield.cli", "bridge", *args], env=clean_environment()
    )
    return Client(server, mode=mode, **more)
