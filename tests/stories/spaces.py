"""A gateway with a space, and somebody who follows it over HTTP.

async with open_lobby(tmp_path) as api, followed(api) as stream:
    api.say("hello", key="caller")
    assert (await stream.event("space.message"))["message"]["content"] == "hello"
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2

from jackfield.protocol.sse import ServerEvent
from tests.harness.api import Api, key_of, open_api
from tests.stories.pending import Frames

CONFIRM_AND_CHART = """
[[tools]]
name = "confirmAction"
description = "Ask the user to confirm an action"
executionType = "space"
isAsync = true
inputSchema = { type = "object", properties = { question = { type = "string" } }, required = ["question"] }

[[tools]]
name = "displayChart"
description = "Show a chart"
executionType = "internal"
visible = true
inputSchema = { type = "object" }
"""
"""The two tools that the seed shows in spaces."""
TOOLS = (
    CONFIRM_AND_CHART
    + """
[sources.local.tools.boom]
visible = true

[[tools]]
name = "pickColour"
description = "Let the user pick a colour"
executionType = "space"
timeout = 20000
inputSchema = { type = "object" }

[[tools]]
name = "ponder"
description = "Think, unseen"
executionType = "internal"
inputSchema = { type = "object" }
"""
)


class Lobby:
    """The API of a gateway, with shortcuts for a space that an agent is a member of."""

    def __init__(self, api: Api, *, space: str = "lobby", agent: str = "ada") -> None:
        self.api = api
        self.ask = api.ask
        self.space = space
        self.agent = agent
        self.made("POST", "/api/spaces", status=201, json={"id": space})
        self.join(agent, kind="agent")

    def made(self, method: str, path: str, *, status: int = 200, **more: Any) -> Any:
        """The answer's body; its status is what it should be."""
        answer = self.ask(method, path, **more)
        assert answer.status_code == status, answer.text
        return answer.json()

    def say(self, content: str, *, space: str | None = None, key: str = "admin", **more: Any) -> dict[str, Any]:
        body = {"content": content, **more}
        message: dict[str, Any] = self.made(
            "POST", f"/api/spaces/{space or self.space}/messages", status=201, key=key, json=body
        )["message"]
        return message

    def join(self, entity: str, *, space: str | None = None, kind: str | None = None) -> dict[str, Any]:
        body = {"entityId": entity} | ({} if kind is None else {"kind": kind})
        member: dict[str, Any] = self.made("POST", f"/api/spaces/{space or self.space}/members", status=201, json=body)[
            "member"
        ]
        return member

    def messages(self, space: str | None = None, **params: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.made("GET", f"/api/spaces/{space or self.space}/messages", params=params)[
            "messages"
        ]
        return found

    def calls(self, space: str | None = None) -> list[dict[str, Any]]:
        """What the space shows of visible calls."""
        return [each["metadata"] for each in self.messages(space) if each["metadata"].get("type") == "tool_call"]

    def execute(self, tool: str, arguments: Any = None, *, status: int = 200, **body: Any) -> Any:
        answer = self.api.execute(tool, arguments, body={"agent": self.agent, "space_id": self.space, **body})
        assert answer.status_code == status, answer.text
        return answer.json()


class Followed:
    """One stream: what came, in order."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.frames = Frames(answer)
        self.raw: list[ServerEvent] = []
        self.events: list[dict[str, Any]] = []

    async def next(self) -> dict[str, Any]:
        event = await self.frames.next_event()
        self.raw.append(event)
        self.events.append(json.loads(event.data))
        return self.events[-1]

    async def event(self, kind: str) -> dict[str, Any]:
        """The next event of that kind."""
        while (event := await self.next())["type"] != kind:
            pass
        return event

    async def until(self, seq: int) -> None:
        """Until the event with that number has come."""
        while (await self.next()).get("seq") != seq:
            pass

    @property
    def seqs(self) -> list[int]:
        return [event["seq"] for event in self.events if "seq" in event]

    @property
    def last_id(self) -> str:
        return self.raw[-1].id


@contextmanager
def open_lobby(folder: Path) -> Iterator[Lobby]:
    """A gateway with the space `lobby`, in which `ada`, an agent, is a member."""
    with open_api(folder, extra=TOOLS) as api:
        yield Lobby(api)


@asynccontextmanager
async def followed(
    lobby: Lobby, *, space: str | None = None, key: str = "admin", last_id: str | None = None, **params: Any
) -> AsyncIterator[Followed]:
    """A stream that is connected."""
    headers = {"x-api-key": key_of(key)} | ({} if last_id is None else {"Last-Event-ID": last_id})
    async with (
        httpx2.AsyncClient(base_url=lobby.api.gateway.url, timeout=60) as client,
        client.stream("GET", f"/api/spaces/{space or lobby.space}/stream", params=params, headers=headers) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        stream = Followed(answer)
        assert (await stream.next())["type"] == "connected"
        try:
            yield stream
        finally:
            await stream.frames.close()
