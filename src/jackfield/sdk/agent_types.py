"""What a gateway tells about agents and runs, as frozen objects; as in `types.py`, unknown fields are ignored.

Above: `agents.py`, `runs.py`. Below: `types.py`.
"""

from typing import Any

from msgspec import Struct

from jackfield.sdk.types import CallRecord, InboxEvent


class CycleInfo(Struct, frozen=True, kw_only=True, rename="camel"):
    """One wake-up of an agent: `open`, `done` or `failed`; `consumed` are the events it was about."""

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
    """Some cycles of one agent, newest first, and where the next ones begin."""

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
    mcp_servers: tuple[dict[str, Any], ...] = ()
    origin: str = ""
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
    """Something that an agent wants. A new one has no id."""

    description: str
    id: str | None = None
    status: str | None = None
    priority: int | None = None


class Plan(Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that an agent will be told later: once (`run_after`, `scheduled_at`) or by `cron`. A new one has no id.

    `next_run_at`, `last_run_at`, `is_recurring` and `status` are the gateway's.
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


class RunStep(Struct, frozen=True, kw_only=True):
    """One answer of a cycle's model, and the calls that it asked for."""

    n: int
    items: tuple[dict[str, Any], ...] = ()
    usage: dict[str, Any] | None = None
    calls: tuple[CallRecord, ...] = ()


class RunInfo(Struct, frozen=True, kw_only=True, rename="camel"):
    """What made calls: a `cycle`, a `response`, or the bare `calls` of a run id.

    `client.runs.get` also has what is on record of it: a cycle's `events` and `steps`, a response as it is, `calls`.
    """

    id: str
    kind: str = ""
    agent_entity_id: str | None = None
    status: str = ""
    cycle_number: int | None = None
    summary: str | None = None
    reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    created_at: str | None = None
    finished_at: str | None = None
    events: tuple[InboxEvent, ...] = ()
    steps: tuple[RunStep, ...] = ()
    response: dict[str, Any] | None = None
    calls: tuple[CallRecord, ...] = ()


class RunPage(Struct, frozen=True, kw_only=True):
    """Some runs, newest first, and where the next ones begin."""

    runs: tuple[RunInfo, ...] = ()
    next_cursor: str | None = None


class RunEvent(Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that happened to a run: `tool.started`, `tool.ready`, `tool.done`, `tool.error`, and its end."""

    type: str
    run_id: str = ""
    stream_id: str | None = None
    """The call's id."""
    agent_entity_id: str | None = None
    tool_name: str | None = None
    args: dict[str, Any] | None = None
    result: Any = None
    error: str | None = None
    status: str | None = None

    @property
    def is_end(self) -> bool:
        return self.type in ("run.completed", "run.failed")
