"""Agents that live in a gateway inside the test's own process, and the people who talk to them through its doors.

async with agents_gateway(tmp_path, SCRIPT, CONFIG) as place:
    await place.say("lobby", "Book a hotel in Tokyo")
    await place.cycle("concierge", 1)                      # its first cycle, when that is over
    place.asked("INBOX")                                   # what its model was asked
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import msgspec

from jackfield.agents.cycle_transactions import (
    InboxEvent,
    agents_to_wake,
    cycles_of_agent,
    inbox_page,
    push_event,
    read_journal,
)
from jackfield.gateway.gateway import Gateway
from jackfield.llm.scripted import ScriptedModel
from jackfield.llm.types import ModelRequest
from jackfield.model.agent_state import Cycle, CycleStatus
from jackfield.model.call import Call
from jackfield.model.items import FunctionCall, FunctionCallOutput, Message, text_of
from jackfield.settings import load_settings
from jackfield.spaces import transactions as space_tx
from tests.harness.in_process import KEY, client_of
from tests.waiting import TIMEOUT, eventually_async

T = TypeVar("T")

WITHIN = TIMEOUT
MODEL = '[models.mind]\nprovider = "scripted"\nscript = "mind.toml"\n'


class AgentsGateway:
    """One gateway with agents in it."""

    def __init__(self, gateway: Gateway, client: httpx2.AsyncClient, model: ScriptedModel) -> None:
        self.gateway = gateway
        self.store = gateway.store
        self.client = client
        self.model = model

    async def say(self, space: str, content: str, *, by: str = "Husam") -> dict[str, Any]:
        """A person says something in a space."""
        body = {"entityId": by, "content": content}
        answer = await self.client.post(f"/api/spaces/{space}/messages", json=body)
        assert answer.status_code == 201, answer.text
        message: dict[str, Any] = answer.json()["message"]
        return message

    async def trigger(self, agent: str, payload: object = "Go.", *, event_id: str = "evt_1") -> None:
        """A service tells the agent something."""
        data = {"serviceName": "clock", "payload": payload}
        await self.store.write(
            partial(push_event, agent, event_id=event_id, type="service", data=msgspec.json.encode(data).decode())
        )

    async def answer(self, call: Call, result: object) -> str:
        """Submit the result of a pending call as its program would; how it was delivered."""
        body = {"callId": call.id, "result": result}
        answer = await self.client.post(f"/api/runs/{call.run_id}/tool-results", json=body)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["delivery"])

    async def cycle(self, agent: str, number: int = 1, *, status: CycleStatus = CycleStatus.DONE) -> Cycle:
        """The agent's cycle of that number, when it is over."""

        async def found() -> Cycle | None:
            cycles = await self.store.read(partial(cycles_of_agent, agent, before=number + 1, limit=1))
            is_over = cycles and cycles[0].number == number and cycles[0].status is not CycleStatus.OPEN
            return cycles[0] if is_over else None

        cycle = await eventually_async(found)
        assert cycle.status is status, cycle
        return cycle

    async def begun(self, agent: str) -> Cycle:
        """The agent's open cycle."""

        async def found() -> Cycle | None:
            cycles = await self.store.read(partial(cycles_of_agent, agent, limit=1))
            return cycles[0] if cycles and cycles[0].status is CycleStatus.OPEN else None

        return await eventually_async(found)

    async def settled(self) -> None:
        """Until nobody is awake and nobody has anything to wake up for."""

        async def all_asleep() -> bool:
            waiting = await self.store.read(agents_to_wake)
            return not (self.gateway.scheduler.awake or waiting)

        await eventually_async(all_asleep)

    async def inbox(self, agent: str) -> list[InboxEvent]:
        events, _ = await self.store.read(partial(inbox_page, agent))
        return events

    async def calls(self, cycle: Cycle) -> list[Call]:
        """What the cycle called, in its order."""
        journal = await self.store.read(partial(read_journal, cycle.id))
        assert journal is not None
        return [call for step in journal.steps for call in step.calls]

    async def call_of(self, tool: str, *, agent: str) -> Call:
        """The newest call of a tool, as soon as it is on record."""

        async def found() -> Call | None:
            for cycle in await self.store.read(partial(cycles_of_agent, agent, limit=5)):
                for call in reversed(await self.calls(cycle)):
                    if call.tool == tool:
                        return call
            return None

        return await eventually_async(found)

    async def messages(self, space: str) -> list[dict[str, Any]]:
        """What is seen in a space."""
        answer = await self.client.get(f"/api/spaces/{space}/messages", params={"limit": 200})
        messages: list[dict[str, Any]] = answer.json()["messages"]
        return messages

    async def events(self, space: str) -> list[tuple[str, dict[str, Any]]]:
        """The durable events of a space, in their order."""
        events = await self.store.read(partial(space_tx.events_after, space, 0, 1000))
        return [(event.type, msgspec.json.decode(event.data)) for event in events]

    @property
    def requests(self) -> list[ModelRequest]:
        """What the model was asked, the newest last."""
        return [*self.model.requests]


@asynccontextmanager
async def agents_gateway(
    folder: Path, script: str, config: str, *, files: dict[str, str] | None = None, store: str = "memory:"
) -> AsyncIterator[AgentsGateway]:
    """A gateway whose model `mind` plays `script`."""
    for name, text in ({"mind.toml": script, "jackfield.toml": MODEL + config} | (files or {})).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    environment = {"JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_STORE": store}
    settings = load_settings(folder / "jackfield.toml", environment=environment)
    async with Gateway(settings) as gateway, client_of(gateway) as client:
        model = await gateway.models.get("mind")
        assert isinstance(model, ScriptedModel)
        yield AgentsGateway(gateway, client, model)


def inbox_of(request: ModelRequest) -> str:
    """The INBOX message of the cycle that the model was asked in."""
    texts = [text_of(item) for item in request.items if isinstance(item, Message) and item.role == "user"]
    return [text for text in texts if text.startswith("INBOX (")][-1]


def outputs_of(request: ModelRequest) -> list[tuple[str, str]]:
    """Every tool with what the model was told of it."""
    names = {item.call_id: item.name for item in request.items if isinstance(item, FunctionCall)}
    return [(names[item.call_id], str(item.output)) for item in request.items if isinstance(item, FunctionCallOutput)]


def told(request: ModelRequest, tool: str) -> Any:
    """The newest answer of a tool that the model has read, as JSON."""
    return msgspec.json.decode([text for name, text in outputs_of(request) if name == tool][-1])
