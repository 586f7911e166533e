"""What a key may spend: points for tools that say what they cost, within any hour.

Above: the pipeline, which asks `wait` before it decides and `spend` once it has. Below: a clock. A tool's own
`cost_estimate` says how many points a call takes; one that says nothing takes none. As with the limits of tools, the
count is this process's own.
"""

import math
import time
from collections import deque
from collections.abc import Callable

from jackfield.model.principal import Principal
from jackfield.model.tool import CostEstimate

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
