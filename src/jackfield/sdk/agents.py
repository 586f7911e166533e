"""`client.agents`: who there is, what they did and have in mind, and waking one with an event of one's own.

Above: the client. Below: `connection.py`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from jackfield.sdk.agent_types import AgentInfo, CyclePage, Goal, Memory, Plan
from jackfield.sdk.connection import Connection, Message, get, part
from jackfield.sdk.types import InboxPage, Triggered

T = TypeVar("T")


class _OneAgent(Struct, frozen=True):
    agent: AgentInfo


class _Agents(Struct, frozen=True):
    agents: tuple[AgentInfo, ...]


class _Memories(Struct, frozen=True):
    memories: tuple[Memory, ...]


class _Goals(Struct, frozen=True):
    goals: tuple[Goal, ...]


class _Plans(Struct, frozen=True):
    plans: tuple[Plan, ...]


class Agents:
    """The agents of the gateway, by id."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self) -> tuple[AgentInfo, ...]:
        """Every agent that this key may see."""
        return (await self._ask(get("/api/agents"), _Agents)).agents

    async def get(self, name: str) -> AgentInfo:
        """One agent. Raises `AgentNotFound`."""
        return (await self._ask(get(_path_of(name)), _OneAgent)).agent

    async def create(self, id: str | None = None, **settings: Any) -> AgentInfo:  # noqa: A002 - the field's name
        """Make an agent: `model`, `name`, `description`, `instructions`, `tools`, `spaces`, `max_steps`, `timeout`,
        `context_tokens`, `max_exchanges`, `mcp`, as in the config. Raises `Conflict` when the id is taken.
        """
        body = settings if id is None else {"id": id, **settings}
        return (await self._ask(_send("POST", "/api/agents", body), _OneAgent)).agent

    async def update(self, name: str, **settings: Any) -> AgentInfo:
        """Change what is given, from its next cycle on. Raises `Conflict` for an agent of the config."""
        return (await self._ask(_send("PATCH", _path_of(name), settings), _OneAgent)).agent

    async def delete(self, name: str) -> None:
        """Delete an agent with all that it has in mind. Raises `Conflict` for an agent of the config."""
        await self._connection.ask(Message(method="DELETE", path=_path_of(name)))

    async def trigger(self, name: str, service: str, payload: Any = None) -> Triggered:
        """Put an event of `service` into the agent's inbox; `payload` is anything that JSON holds."""
        body = {"serviceName": service, "payload": payload}
        return await self._ask(_send("POST", f"{_path_of(name)}/trigger", body), Triggered)

    async def inbox(
        self, name: str, status: str | None = None, *, limit: int | None = None, cursor: str | None = None
    ) -> InboxPage:
        """Events in the order they came: all of them, or those that are `pending`, `processing` or `processed`."""
        params = {"status": status, "limit": limit, "cursor": cursor}
        return await self._ask(get(f"{_path_of(name)}/inbox", params), InboxPage)

    async def cycles(self, name: str, *, limit: int | None = None, cursor: str | None = None) -> CyclePage:
        """What the agent did each time it woke, newest first."""
        return await self._ask(get(f"{_path_of(name)}/cycles", {"limit": limit, "cursor": cursor}), CyclePage)

    async def memories(self, name: str) -> tuple[Memory, ...]:
        """What the agent remembers, by key."""
        return (await self._ask(get(f"{_path_of(name)}/memories"), _Memories)).memories

    async def set_memories(self, name: str, memories: Mapping[str, str]) -> tuple[Memory, ...]:
        """Make it remember these, by key, and nothing else."""
        body = {"memories": [{"key": key, "value": value} for key, value in memories.items()]}
        return (await self._ask(_send("PUT", f"{_path_of(name)}/memories", body), _Memories)).memories

    async def goals(self, name: str) -> tuple[Goal, ...]:
        """What the agent wants, the most important first."""
        return (await self._ask(get(f"{_path_of(name)}/goals"), _Goals)).goals

    async def set_goals(self, name: str, goals: Iterable[Goal]) -> tuple[Goal, ...]:
        """Give it these goals and no others; those with an id stay the same ones."""
        return (await self._ask(_send("PUT", f"{_path_of(name)}/goals", {"goals": [*goals]}), _Goals)).goals

    async def plans(self, name: str) -> tuple[Plan, ...]:
        """What the agent will be told later, the oldest plan first."""
        return (await self._ask(get(f"{_path_of(name)}/plans"), _Plans)).plans

    async def set_plans(self, name: str, plans: Iterable[Plan]) -> tuple[Plan, ...]:
        """Give it these plans and no others; those with an id stay the same ones, and due when they were."""
        return (await self._ask(_send("PUT", f"{_path_of(name)}/plans", {"plans": [*plans]}), _Plans)).plans

    async def _ask(self, message: Message, into: type[T]) -> T:
        response = await self._connection.ask(message)
        return self._connection.decode(response.content, into)


def _send(method: str, path: str, body: Mapping[str, Any]) -> Message:
    return Message(method=method, path=path, body=msgspec.json.encode(body))


def _path_of(agent: str) -> str:
    return f"/api/agents/{part(agent)}"
