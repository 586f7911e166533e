"""How often a tool may be called: an exact sliding window of one minute.

Above: the pipeline, which asks `wait` before it decides and `admit` once it has. Below: a clock. A tool's calls of the
last minute are remembered one by one, never more than its limit; tools that have been quiet for a minute are
forgotten. The count is this process's own: several gateways on one store each allow the limit.
"""

import math
import time
from collections import deque
from collections.abc import Callable

from jackfield.model.principal import Principal
from jackfield.model.tool import CostEstimate

WINDOW_NS = 60_000_000_000
_NS = 1_000_000_000


class RateLimiter:
    """Calls per minute, per tool."""

    def __init__(self, *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """`clock` counts nanoseconds: whole numbers, so that the window's edge is exact."""
        self._clock = clock
        self._calls: dict[str, deque[int]] = {}
        self._swept = clock()

    def wait(self, tool_id: str, limit: int | None) -> float:
        """Seconds until a call would be admitted; 0 means now. Counts nothing. A limit of 0 or less never admits."""
        if limit is None:
            return 0.0
        return self._wait(self._recent(tool_id), limit)

    def admit(self, tool_id: str, limit: int | None) -> float:
        """As `wait`, and a call that need not wait is counted."""
        if limit is None:
            return 0.0
        recent = self._recent(tool_id)
        seconds = self._wait(recent, limit)
        if seconds == 0.0:
            recent.append(self._clock())
            self._calls[tool_id] = recent
        return seconds

    def _wait(self, recent: deque[int], limit: int) -> float:
        if limit <= 0:
            return WINDOW_NS / _NS
        if len(recent) < limit:
            return 0.0
        # With a limit that was lowered, more than one call has to leave the window first.
        leaving = recent[len(recent) - limit]
        return (leaving + WINDOW_NS - self._clock()) / _NS

    def _recent(self, tool_id: str) -> deque[int]:
        """The tool's calls within the window; those that have left it are dropped."""
        now = self._clock()
        if now - self._swept >= WINDOW_NS:
            self._sweep(now)
        calls = self._calls.get(tool_id)
        if calls is None:
            return deque()
        while calls and now - calls[0] >= WINDOW_NS:
            calls.popleft()
        return calls

    def _sweep(self, now: int) -> None:
        self._swept = now
        self._calls = {tool: calls for tool, calls in self._calls.items() if calls and now - calls[-1] < WINDOW_NS}


WINDOW_SECONDS = 3600.0
POINTS = {CostEstimate.LOW: 1, CostEstimate.MEDIUM: 5, CostEstimate.VARIABLE: 5, CostEstimate.HIGH: 25}


def points_of(cost: CostEstimate | None) -> int:
    return 0 if cost is None else POINTS[cost]


class Budgets:
    """What each key has spent within the last hour."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._spent: dict[str, deque[tuple[float, int]]] = {}

    def wait(self, principal: Principal, points: int) -> float:
        """Seconds until the key can afford so many points; 0 means now, infinite never. Spends nothing."""
        if principal.budget is None or not points:
            return 0.0
        if points > principal.budget:
            return math.inf
        spent = self._recent(principal)
        over = sum(cost for _, cost in spent) + points - principal.budget
        for moment, cost in spent:
            if over <= 0:
                break
            over -= cost
            if over <= 0:
                return max(moment + WINDOW_SECONDS - self._clock(), 0.001)
        return 0.0

    def spend(self, principal: Principal, points: int) -> None:
        if principal.budget is not None and points:
            self._recent(principal).append((self._clock(), points))

    def _recent(self, principal: Principal) -> deque[tuple[float, int]]:
        spent = self._spent.setdefault(principal.name, deque())
        since = self._clock() - WINDOW_SECONDS
        while spent and spent[0][0] <= since:
            spent.popleft()
        return spent
