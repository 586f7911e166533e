"""What clients were told: of each call every final answer that reached somebody, and how long each request took."""

import time
from collections import Counter
from typing import Any

from msgspec import Struct, field

FINAL = frozenset({"completed", "failed", "rejected", "expired", "cancelled"})
Outcome = tuple[str, Any, str | None]
"""Status, result, and the error's code."""


class Wait(Struct, frozen=True):
    """One request that was sent, and how long its client had no answer."""

    what: str
    gateway: int
    began: float
    ended: float
    end: str
    """The status, or how it broke off."""


class Wish(Struct, kw_only=True):
    """What a client wants done once, however often it has to ask."""

    key: str
    tool: str
    began: float = field(default_factory=time.monotonic)
    asked: int = 0
    calls: list[str] = field(default_factory=list)
    """The ids that answers named. The same Idempotency-Key is the same call, so there is one."""
    is_over: bool = False


class Ledger(Struct, kw_only=True):
    """Everything that was received over the wire, nothing else."""

    wishes: dict[str, Wish] = field(default_factory=dict)
    told: dict[str, list[Outcome]] = field(default_factory=dict)
    """Call → what anybody was told of its end, each time."""
    accepted: dict[str, str] = field(default_factory=dict)
    """Call that a 202 promised → its key."""
    decided: dict[str, str] = field(default_factory=dict)
    """Call → `approve` or `reject`, where that was answered with 200."""
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    """MCP task → the task as it was first seen to be over."""
    responses: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Response → what was first read of its end; empty until then."""
    mcp_answers: dict[str, str] = field(default_factory=dict)
    """Token → the text that a call over /mcp came to."""
    waits: list[Wait] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def tell(self, call: dict[str, Any], *, call_id: str) -> None:
        """Somebody read this of a call."""
        if call["status"] in FINAL:
            self.told.setdefault(call_id, []).append(outcome_of(call))

    def hung(self, what: str, seconds: float) -> None:
        self.violations.append(f"{what} had no end within {seconds:.0f} s")


def outcome_of(call: dict[str, Any]) -> Outcome:
    error = call.get("error")
    return call["status"], call.get("result"), None if error is None else error["code"]
