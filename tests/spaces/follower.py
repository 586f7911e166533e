"""Somebody who follows a space, and what they have been told."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec

from jackfield.model.space import Sender
from jackfield.protocol.sse import EventParser
from jackfield.spaces import transactions as space_tx
from jackfield.spaces.service import SpaceService
from jackfield.store import Store
from tests.waiting import TIMEOUT

WITHIN = TIMEOUT
ANN = Sender("ann", "Ann", "person")
Event = dict[str, Any]


class Follower:
    """What came, in order. `texts` is kept by the rule for clients: `text[:offset] + delta`."""

    def __init__(self, texts: dict[str, str] | None = None) -> None:
        """`texts`: what they know from before the break."""
        self.events: list[Event] = []
        self.chunks: list[bytes] = []
        self.texts = dict(texts or {})
        self.is_over = False
        self._parser = EventParser()
        self._came = asyncio.Event()

    def take(self, chunk: bytes) -> None:
        self.chunks.append(chunk)
        for event in self._parser.feed(chunk):
            data = msgspec.json.decode(event.data)
            if "seq" in data:
                assert event.id == str(data["seq"])
            self.events.append(data)
            if "offset" in data:
                text = self.texts.get(data["streamId"], "")
                self.texts[data["streamId"]] = text[: data["offset"]] + data["delta"]
        self._came.set()

    def end(self) -> None:
        self.is_over = True
        self._came.set()

    async def until(self, holds: Callable[["Follower"], bool]) -> None:
        async with asyncio.timeout(WITHIN):
            while not holds(self):
                self._came.clear()
                await self._came.wait()

    async def event(self, kind: str, *, count: int = 1) -> Event:
        """The event of that kind with that number, once it is there."""
        await self.until(lambda self: self.kinds.count(kind) >= count)
        return [event for event in self.events if event["type"] == kind][count - 1]

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def last_id(self) -> int:
        return int(self._parser.last_id)

    @property
    def seqs(self) -> list[int]:
        return [event["seq"] for event in self.events if "seq" in event]


@asynccontextmanager
async def following(
    spaces: SpaceService, space: str = "lobby", *, after: int | None = None, texts: dict[str, str] | None = None
) -> AsyncIterator[Follower]:
    """A follower who is connected."""
    follower = Follower(texts)

    async def follow() -> None:
        async for chunk in spaces.follow(space, after=after):
            follower.take(chunk)
        follower.end()

    task = asyncio.create_task(follow())
    try:
        await follower.event("connected")
        yield follower
    finally:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.result()


async def say(store: Store, text: str, *, space: str = "lobby", stream: str | None = None) -> int:
    """A message; its number."""
    message = await store.write(partial(space_tx.post_message, space, sender=ANN, content=text, stream_id=stream))
    assert message is not None
    return message.seq


def begin(spaces: SpaceService, stream: str, *, tool: str | None = None, space: str = "lobby") -> None:
    """An agent begins to write a message, or a call of `tool`."""
    spaces.live.begin(
        space,
        stream,
        kind="message" if tool is None else "tool",
        run_id="run_1",
        agent="ada",
        agent_name="Ada",
        tool=tool,
    )
