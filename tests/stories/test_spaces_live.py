"""What agents are writing into a space, seen while they write it, through the doors of a gateway in this process."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import partial
from pathlib import Path

import pytest
from msgspec import Struct

from jackfield.agents.cycle_transactions import Cycle, abandon, open_cycle
from jackfield.gateway.gateway import Gateway
from jackfield.model.ids import new_id
from jackfield.sdk import Client, SpaceEvent
from jackfield.spaces import transactions as space_tx
from tests.harness.in_process import KEY, make_gateway, serve_on_port
from tests.requirement import requirement
from tests.waiting import TIMEOUT

WITHIN = TIMEOUT


class Scene(Struct):
    """A gateway, somebody who follows the space `lobby`, and the cycle of an agent that has woken there."""

    gateway: Gateway
    client: Client
    events: AsyncGenerator[SpaceEvent, None]
    cycle: Cycle

    async def next(self, kind: str) -> SpaceEvent:
        """The next event of that kind."""
        async with asyncio.timeout(WITHIN):
            while (event := await anext(self.events)).type != kind:
                pass
        return event

    def begin(self, stream: str, *, tool: str | None = None) -> None:
        kind = "message" if tool is None else "tool"
        names = {"run_id": self.cycle.id, "agent": "ada", "agent_name": "Ada", "tool": tool}
        self.gateway.spaces.live.begin("lobby", stream, kind=kind, **names)  # type: ignore[arg-type]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with make_gateway(tmp_path) as gateway, serve_on_port(gateway) as url, Client(url, KEY) as client:
        await client.spaces.create(id="lobby")
        await client.spaces.join("lobby", "ada", kind="agent", name="Ada")
        async with aclosing(client.spaces.follow("lobby")) as events:
            assert (await anext(events)).type == "connected"
            await client.spaces.send("lobby", "Hello, Ada")
            opened = await gateway.store.write(partial(open_cycle, new_id("run"), agent="ada", owner=gateway.id))
            assert opened is not None
            yield Scene(gateway, client, events, opened.cycle)


@requirement("CON-spaces-events")
async def test_an_agent_comes_writes_a_message_and_goes(scene: Scene) -> None:
    assert (await scene.next("space.message")).seq is not None
    active = await scene.next("agent.active")
    assert (active.agent_entity_id, active.agent_name, active.run_id) == ("ada", "Ada", scene.cycle.id)
    async with aclosing(scene.client.spaces.follow("lobby")) as late:
        connected = await anext(late)
        assert [(each.agent_entity_id, each.run_id) for each in connected.active_agents] == [("ada", scene.cycle.id)]
    scene.begin("s1")
    scene.gateway.spaces.live.append("s1", "Good ")
    first = await scene.next("space.message.streaming")
    assert first.phase == "start"
    assert (await scene.next("space.message.streaming")).text == "Good "
    scene.gateway.spaces.live.append("s1", "morning.")
    scene.gateway.spaces.live.end("s1")
    second = await scene.next("space.message.streaming")
    assert (second.phase, second.delta, second.text) == ("delta", "morning.", "Good morning.")
    assert (await scene.next("space.message.streaming")).phase == "done"
    await scene.gateway.store.write(partial(abandon, scene.cycle, reason="that is all", backoff_ms=60_000))
    assert (await scene.next("agent.inactive")).run_id == scene.cycle.id


@requirement("SPACE-visible-streamed", "SPACE-event-streaming", "SPACE-event-order", "SPACE-event-started")
async def test_a_visible_call_is_seen_from_its_first_word_on(scene: Scene) -> None:
    store, live = scene.gateway.store, scene.gateway.spaces.live
    assert await store.write(
        partial(
            space_tx.begin_showing,
            scene.cycle,
            call_id="call_1",
            space_id="lobby",
            tool="confirmAction",
            agent_name="Ada",
        )
    )
    scene.begin("call_1", tool="confirmAction")
    started = await scene.next("tool.started")
    assert (started.stream_id, started.tool_name, started.run_id) == ("call_1", "confirmAction", scene.cycle.id)
    [_, message] = (await scene.client.spaces.messages("lobby")).messages
    assert message.call is not None
    assert (message.call["status"], message.call["args"]) == ("running", {})
    live.append("call_1", '{"question": "Bo')
    piece = await scene.next("tool.streaming")
    assert (piece.offset, piece.partial_args) == (0, {"question": "Bo"})
    async with aclosing(scene.client.spaces.follow("lobby")) as late:
        assert (await anext(late)).streams == ("call_1",)
        snapshot = await anext(late)
        assert (snapshot.type, snapshot.offset, snapshot.partial_args) == ("tool.streaming", 0, {"question": "Bo"})
        live.append("call_1", 'ok it?"}')
        live.end("call_1")
        rest = await anext(late)
        assert (rest.delta, rest.text, rest.partial_args) == (
            'ok it?"}',
            '{"question": "Book it?"}',
            {"question": "Book it?"},
        )
    assert (await scene.next("tool.streaming")).partial_args == {"question": "Book it?"}
    await store.write(partial(abandon, scene.cycle, reason="the model failed", backoff_ms=60_000))
    assert (await scene.next("tool.error")).stream_id == "call_1"
    [_, message] = (await scene.client.spaces.messages("lobby")).messages
    assert message.call is not None
    assert message.call["status"] == "error"
