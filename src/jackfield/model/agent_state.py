"""An agent and the state it keeps between its cycles: memories, goals, plans."""

from enum import Enum
from typing import Literal

from msgspec import Struct

PlanStatus = Literal["active", "done"]
AgentOrigin = Literal["config", "api"]


class Memory(Struct, frozen=True, kw_only=True):
    """One thing that an agent remembers, by its key."""

    agent: str
    key: str
    value: str
    updated_at: int


class Goal(Struct, frozen=True, kw_only=True):
    """Something that an agent wants. The highest priority comes first."""

    id: str
    agent: str
    description: str
    status: str
    priority: int
    created_at: int
    updated_at: int


class GoalDraft(Struct, frozen=True, kw_only=True):
    """A goal to be kept. What is None stays as it was, or is as usual in a new one."""

    id: str | None = None
    """None: a new goal."""
    description: str
    status: str | None = None
    priority: int | None = None


class Plan(Struct, frozen=True, kw_only=True):
    """Something that an agent means to do later, once or again and again. Times are milliseconds since 1970."""

    id: str
    agent: str
    name: str
    instruction: str
    cron: str | None
    time_zone: str | None
    scheduled_at: int | None
    next_run_at: int | None
    """When it is due; None: it will not be."""
    status: PlanStatus
    last_run_at: int | None
    created_at: int
    updated_at: int


class PlanDraft(Struct, frozen=True, kw_only=True):
    """A plan to be kept, whole: whoever changes one reads it first."""

    id: str | None = None
    """None: a new plan."""
    name: str
    instruction: str = ""
    cron: str | None = None
    time_zone: str | None = None
    scheduled_at: int | None = None
    next_run_at: int | None = None
    status: PlanStatus = "active"


class UnknownIds(Struct, frozen=True):
    """Ids of goals or plans that are none of the agent's; nothing was written."""

    ids: tuple[str, ...]


class KeptAgent(Struct, frozen=True, kw_only=True):
    """An agent as the store keeps it. `definition` is JSON."""

    id: str
    definition: str
    origin: AgentOrigin
    enabled: bool
    owner: str | None = None
    """Who made it, by the name on record; None: it is of the config."""
    created_at: int
    updated_at: int


class CycleStatus(Enum):
    """Where a cycle is in its life."""

    OPEN = "open"
    """Somebody lives it, or will take it over."""
    DONE = "done"
    """It is part of the agent's mind."""
    FAILED = "failed"
    """It was given up, and what it had taken was given back."""


class Cycle(Struct, frozen=True, kw_only=True):
    """One wake-up of an agent, as its row was when this gateway last moved or read it."""

    id: str
    agent: str
    number: int
    """The agent's first cycle is 1."""
    status: CycleStatus
    owner: str
    epoch: int
    tries: int
    consumed: tuple[str, ...]
    """The ids of the events it was opened for, in the order they came."""
    summary: str | None
    reason: str | None
    """Why it failed."""
    input_tokens: int
    output_tokens: int
    created_at: int
    finished_at: int | None
