"""One wake-up of an agent."""

from enum import Enum

from msgspec import Struct


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
