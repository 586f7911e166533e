"""`client.agents`: durable agents, what they did and what they remember."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from jackfield.sdk.connection import ApiRequest, GatewayConnection, get, segment, send_json


class InboxEvent(Struct, frozen=True, kw_only=True, rename={"event_id": "eventId"}):
    """An event in an agent's inbox: `tool_result`, `space_message`, `plan` or `service`."""

    event_id: str
    type: str
    timestamp: str | None = None
    status: str | None = None
    data: dict[str, Any] = {}


class InboxPage(Struct, frozen=True, kw_only=True):
    """Events of one inbox, oldest first, and the cursor of the next page."""

    events: tuple[InboxEvent, ...] = ()
    next_cursor: str | None = None


class Triggered(Struct, frozen=True, kw_only=True, rename={"agent": "agentEntityId", "event_id": "eventId"}):
    """The event that a trigger put into an agent's inbox."""

    success: bool = True
    agent: str | None = None
    event_id: str | None = None


class CycleInfo(Struct, frozen=True, kw_only=True, rename="camel"):
    """One cycle of an agent: `open`, `done` or `failed`; `consumed` are the events it handled."""

    id: str
    number: int = 0
    status: str = ""
    summary: str | None = None
    reason: str | None = None
    """Why it failed."""
    consumed: tuple[str, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    created_at: str | None = None
    finished_at: str | None = None


class CyclePage(Struct, frozen=True, kw_only=True):
    """Cycles of one agent, newest first, and the cursor of the next page."""

    cycles: tuple[CycleInfo, ...] = ()
    next_cursor: str | None = None


class AgentInfo(Struct, frozen=True, kw_only=True, rename="camel"):
    """An agent. `origin` is `config` or `api`; `status` is `asleep` or `awake`."""

    id: str
    entity_id: str = ""
    name: str = ""
    description: str = ""
    model: str | None = None
    instructions: str = ""
    tools: tuple[str, ...] = ()
    spaces: tuple[str, ...] = ()
    max_steps: int | None = None
    timeout: float | None = None
    context_tokens: int | None = None
    max_exchanges: int | None = None
    search_tools_above: int | None = None
    mcp_servers: tuple[dict[str, Any], ...] = ()
    origin: str = ""
    owner: str | None = None
    """Who made it: with their logins it calls sources that want one. None: an administrator makes those."""
    enabled: bool = True
    status: str = ""
    last_cycle: CycleInfo | None = None
    created_at: str | None = None
    updated_at: str | None = None

    @property
    def is_awake(self) -> bool:
        return self.status == "awake"


class Memory(Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that an agent remembers."""

    key: str
    value: str
    updated_at: str | None = None


class Goal(Struct, frozen=True, kw_only=True):
    """A goal of an agent. A new one has no id."""

    description: str
    id: str | None = None
    status: str | None = None
    priority: int | None = None


class Plan(Struct, frozen=True, kw_only=True, rename="camel"):
    """An instruction for later: once (`run_after`, `scheduled_at`) or by `cron`. A new one has no id.

    The gateway sets `next_run_at`, `last_run_at`, `is_recurring` and `status`.
    """

    name: str
    instruction: str | None = None
    id: str | None = None
    run_after: str | None = None
    scheduled_at: str | None = None
    cron: str | None = None
    time_zone: str | None = None
    next_run_at: str | None = None
    last_run_at: str | None = None
    is_recurring: bool | None = None
    status: str | None = None


class Agents:
    """The gateway's agents, by id."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def list(self) -> tuple[AgentInfo, ...]:
        """Every agent that this key may see."""
        return await self._connection.fetch(get("/api/agents"), tuple[AgentInfo, ...], "agents")

    async def get(self, name: str) -> AgentInfo:
        """One agent. Raises `AgentNotFound`."""
        return await self._connection.fetch(get(_agent_path(name)), AgentInfo, "agent")

    async def create(self, id: str | None = None, **settings: Any) -> AgentInfo:  # noqa: A002 - the field's name
        """Create an agent: `model`, `name`, `description`, `instructions`, `tools`, `spaces`, `max_steps`, `timeout`,
        `context_tokens`, `max_exchanges`, `search_tools_above`, `mcp`, as in the config. Raises `Conflict` when the id
        is taken.
        """
        body = settings if id is None else {"id": id, **settings}
        return await self._connection.fetch(send_json("POST", "/api/agents", body), AgentInfo, "agent")

    async def update(self, name: str, **settings: Any) -> AgentInfo:
        """Change these settings from the next cycle on. Raises `Conflict` for an agent of the config."""
        return await self._connection.fetch(send_json("PATCH", _agent_path(name), settings), AgentInfo, "agent")

    async def delete(self, name: str) -> None:
        """Delete an agent with its memories, goals and plans. Raises `Conflict` for an agent of the config."""
        await self._connection.send(ApiRequest(method="DELETE", path=_agent_path(name)))

    async def trigger(self, name: str, service: str, payload: Any = None) -> Triggered:
        """Put an event of `service` into the agent's inbox; `payload` is any JSON value."""
        body = {"serviceName": service, "payload": payload}
        return await self._connection.fetch(send_json("POST", f"{_agent_path(name)}/trigger", body), Triggered)

    async def inbox(
        self, name: str, status: str | None = None, *, limit: int | None = None, cursor: str | None = None
    ) -> InboxPage:
        """Events of the inbox, oldest first: all, or those that are `pending`, `processing` or `processed`."""
        params = {"status": status, "limit": limit, "cursor": cursor}
        return await self._connection.fetch(get(f"{_agent_path(name)}/inbox", params), InboxPage)

    async def cycles(self, name: str, *, limit: int | None = None, cursor: str | None = None) -> CyclePage:
        """One page of the agent's cycles, newest first."""
        params = {"limit": limit, "cursor": cursor}
        return await self._connection.fetch(get(f"{_agent_path(name)}/cycles", params), CyclePage)

    async def memories(self, name: str) -> tuple[Memory, ...]:
        """What the agent remembers, by key."""
        return await self._connection.fetch(get(f"{_agent_path(name)}/memories"), tuple[Memory, ...], "memories")

    async def set_memories(self, name: str, memories: Mapping[str, str]) -> tuple[Memory, ...]:
        """Replace all memories with these, by key."""
        body = {"memories": [{"key": key, "value": value} for key, value in memories.items()]}
        request = send_json("PUT", f"{_agent_path(name)}/memories", body)
        return await self._connection.fetch(request, tuple[Memory, ...], "memories")

    async def goals(self, name: str) -> tuple[Goal, ...]:
        """The agent's goals, the most important first."""
        return await self._connection.fetch(get(f"{_agent_path(name)}/goals"), tuple[Goal, ...], "goals")

    async def set_goals(self, name: str, goals: Iterable[Goal]) -> tuple[Goal, ...]:
        """Replace all goals with these; a goal with an id keeps its identity."""
        request = send_json("PUT", f"{_agent_path(name)}/goals", {"goals": [*goals]})
        return await self._connection.fetch(request, tuple[Goal, ...], "goals")

    async def plans(self, name: str) -> tuple[Plan, ...]:
        """The agent's plans, oldest first."""
        return await self._connection.fetch(get(f"{_agent_path(name)}/plans"), tuple[Plan, ...], "plans")

    async def set_plans(self, name: str, plans: Iterable[Plan]) -> tuple[Plan, ...]:
        """Replace all plans with these; a plan with an id keeps its identity and its due time."""
        request = send_json("PUT", f"{_agent_path(name)}/plans", {"plans": [*plans]})
        return await self._connection.fetch(request, tuple[Plan, ...], "plans")


def _agent_path(agent: str) -> str:
    return f"/api/agents/{segment(agent)}"
