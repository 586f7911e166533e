"""The scene of the stories about calls that somebody else answers: its tools, its keys, and a client.

    async with pending_client(api) as client:
        call = client.begin("ext_lookup", {"q": 1}, agent="ada")      # under way
        record = await client.waiting("ext_lookup")
        await client.submit(record, result=42)
        assert (await call).json()["result"] == 42

Keys: `caller` calls, `crm` and `crm2` serve `ext_*`, `answerer` answers, `ada` is the agent ada, `boss` calls and
answers, `clerk` answers `ext_job` alone, `modest` calls `nested` alone.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from jackfield.protocol.sse import EventParser, ServerEvent
from tests.harness.api import Api, key_of, open_api
from tests.waiting import TIMEOUT, eventually_async

T = TypeVar("T")
WITHIN = TIMEOUT

EXTERNAL = """
[[tools]]
name = "{name}"
description = "{name}, answered elsewhere."
executionType = "external"
visible = false
inputSchema = {{ type = "object" }}
{more}
"""

CONFIG = "".join(
    [
        EXTERNAL.format(name="ext_lookup", more="timeout = 10000"),
        EXTERNAL.format(name="ext_quick", more="timeout = 300"),
        EXTERNAL.format(name="ext_job", more="isAsync = true"),
        EXTERNAL.format(name="ext_brief", more="isAsync = true\nexpiresIn = 300"),
        EXTERNAL.format(name="ext_repeat", more="metadata = { idempotent = true }"),
        EXTERNAL.format(name="ext_guarded", more="metadata = { requires_approval = true }"),
        EXTERNAL.format(name="ext_exact", more='outputSchema = { type = "integer" }'),
        """
[[tools]]
name = "confirmAction"
description = "Ask the user to confirm an action"
executionType = "space"
visible = true
isAsync = true
inputSchema = { type = "object", properties = { question = { type = "string" } }, required = ["question"] }

[[tools]]
name = "ask_person"
description = "Ask somebody and wait."
executionType = "space"
visible = false
timeout = 10000
inputSchema = { type = "object" }

[sources.pending]
kind = "files"
path = "pending/*.py"

[sources.pending.tools.charge]
metadata = { requires_approval = true }

[sources.pending.tools.nested]
metadata = { requires_approval = true }

[sources.pending.tools.fleeting]
expires_in = 300
metadata = { requires_approval = true }

[auth.keys.crm]
key = "crm-key"
scopes = ["worker:ext_*"]

[auth.keys.crm2]
key = "crm2-key"
scopes = ["worker:ext_*"]

[auth.keys.boss]
key = "boss-key"
scopes = ["call", "answer"]

[auth.keys.outside]
key = "outside-key"
scopes = ["agent:served", "agent:pages", "agent:statuses", "agent:bob", "agent:quiet"]

[auth.keys.clerk]
key = "clerk-key"
scopes = ["answer"]
tools = ["ext_job"]

[auth.keys.modest]
key = "modest-key"
scopes = ["call"]
tools = ["nested"]
""",
    ]
)

TOOLS = '''\
"""Tools that leave a trace when they run."""

from pathlib import Path


def charge(path: str, amount: int) -> int:
    """Take money."""
    with Path(path).open("a") as file:
        file.write(f"{amount}\\n")
    return amount


def fleeting(path: str) -> str:
    """Gone soon."""
    Path(path).write_text("ran")
    return "ran"


async def nested(ctx: object) -> object:
    """Call another tool in the caller's name."""
    return await ctx.call_tool("add", a=1)
'''


@contextmanager
def pending_api(folder: Path, *, extra: str = "") -> Generator[Api]:
    with open_api(folder, extra=CONFIG + extra, files={"pending/pending.py": TOOLS}) as api:
        yield api


class PendingClient:
    """An asynchronous client of one gateway."""

    def __init__(self, api: Api, client: httpx2.AsyncClient) -> None:
        self.api = api
        self.client = client

    async def ask(self, method: str, path: str, *, key: str | None = "admin", **more: Any) -> httpx2.Response:
        headers = {} if key is None else {"x-api-key": key_of(key)}
        headers |= more.pop("headers", {})
        return await self.client.request(method, path, headers=headers, **more)

    def begin(
        self,
        tool: str,
        arguments: object = None,
        *,
        key: str = "caller",
        headers: dict[str, str] | None = None,
        **body: Any,
    ) -> "asyncio.Task[httpx2.Response]":
        """A call that is under way."""
        return asyncio.ensure_future(self.execute(tool, arguments, key=key, headers=headers, **body))

    async def execute(
        self,
        tool: str,
        arguments: object = None,
        *,
        key: str = "caller",
        headers: dict[str, str] | None = None,
        **body: Any,
    ) -> httpx2.Response:
        sent = {"arguments": {} if arguments is None else arguments, **body}
        return await self.ask("POST", f"/api/v1/tools/{tool}/execute", key=key, json=sent, headers=headers or {})

    async def submit(self, call: dict[str, Any], *, key: str | None = "crm", **body: Any) -> httpx2.Response:
        """Answer a call; `call` is its record, an answer to execute or an offer."""
        call_id = call.get("call_id") or call["toolCallId"]
        run_id = call.get("run_id") or call["runId"]
        return await self.ask("POST", f"/api/runs/{run_id}/tool-results", key=key, json={"callId": call_id, **body})

    async def record(self, call_id: str, *, key: str = "admin") -> dict[str, Any]:
        answer = await self.ask("GET", f"/api/v1/calls/{call_id}", key=key)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()["call"]
        return found

    async def inbox(self, agent: str) -> list[dict[str, Any]]:
        answer = await self.ask("GET", f"/api/agents/{agent}/inbox")
        assert answer.status_code == 200, answer.text
        events: list[dict[str, Any]] = answer.json()["events"]
        return events

    async def waiting(self, tool: str, *, status: str = "waiting") -> dict[str, Any]:
        """The record of the newest call of `tool` in that status, as soon as there is one."""

        async def newest() -> list[dict[str, Any]]:
            page = await self.ask("GET", "/api/v1/calls", params={"tool": tool, "status": status, "limit": 1})
            found: list[dict[str, Any]] = page.json()["calls"]
            return found

        found: list[dict[str, Any]] = await eventually_async(newest)
        return found[0]

    async def settled(self, call_id: str) -> dict[str, Any]:
        """The record when the call is over."""
        answer = await self.ask("GET", f"/api/v1/calls/{call_id}", params={"wait": WITHIN})
        found: dict[str, Any] = answer.json()["call"]
        return found


@asynccontextmanager
async def pending_client(api: Api) -> AsyncIterator[PendingClient]:
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(base_url=api.gateway.url, timeout=30, limits=limits) as client:
        yield PendingClient(api, client)


class Frames:
    """What comes over one stream."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.answer = answer
        self._chunks = answer.aiter_bytes()
        self._parser = EventParser()
        self._events: list[ServerEvent] = []
        self._coming: asyncio.Future[bytes] | None = None

    async def next(self, *, within: float = WITHIN) -> dict[str, Any]:
        """The next frame's data."""
        found: dict[str, Any] = json.loads((await self.next_event(within=within)).data)
        return found

    async def next_event(self, *, within: float = WITHIN) -> ServerEvent:
        end = time.monotonic() + within
        while not self._events:
            # What was being read goes on after a wait that was too short; cut off, the stream would be closed.
            self._coming = self._coming or asyncio.ensure_future(_next_chunk(self._chunks))
            done, _ = await asyncio.wait((self._coming,), timeout=end - time.monotonic())
            if not done:
                raise TimeoutError
            chunk, self._coming = self._coming.result(), None
            if not chunk:
                raise EOFError
            self._events += self._parser.feed(chunk)
        return self._events.pop(0)

    async def nothing(self, *, within: float) -> None:
        """No frame comes for that long."""
        try:
            event = await self.next_event(within=within)
        except TimeoutError:
            return
        raise AssertionError(f"a frame came: {event}")

    async def close(self) -> None:
        if self._coming is not None:
            self._coming.cancel()
            await asyncio.wait((self._coming,))


async def _next_chunk(chunks: AsyncIterator[bytes]) -> bytes:
    """The next bytes; none when the stream has ended."""
    return await anext(chunks, b"")


@asynccontextmanager
async def stream(api: Api, path: str, *, key: str, **params: Any) -> AsyncIterator[Frames]:
    """A stream of events on a connection of its own."""
    headers = {"x-api-key": key_of(key)}
    async with (
        httpx2.AsyncClient(base_url=api.gateway.url, timeout=60) as client,
        client.stream("GET", path, params=params, headers=headers) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        frames = Frames(answer)
        try:
            yield frames
        finally:
            await frames.close()


@asynccontextmanager
async def tool_server(api: Api, *, key: str = "crm", **params: Any) -> AsyncIterator[Frames]:
    """A connected tool server."""
    async with stream(api, "/api/tools/stream", key=key, **params) as frames:
        assert (await frames.next())["type"] == "connected"
        yield frames


async def hang_up_after(api: Api, request: bytes, seen: Callable[[], Awaitable[Any]]) -> Any:
    """Send a raw request, wait for `seen`, and close the connection without reading anything."""
    reader, writer = await asyncio.open_connection("127.0.0.1", api.gateway.port)
    writer.write(request)
    await writer.drain()
    try:
        return await seen()
    finally:
        writer.close()
        await writer.wait_closed()
        reader.feed_eof()


def raw_execute(api: Api, tool: str, *, key: str = "caller", accept: str = "*/*", **body: Any) -> bytes:
    """An execute request as bytes."""
    content = json.dumps({"arguments": {}, **body}).encode()
    head = (
        f"POST /api/v1/tools/{tool}/execute HTTP/1.1\r\nHost: 127.0.0.1:{api.gateway.port}\r\n"
        f"x-api-key: {key_of(key)}\r\nAccept: {accept}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content
