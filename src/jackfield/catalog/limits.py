"""How often a tool may be called and how much a key may spend: points within a sliding window.

Above: the pipeline, which takes from every limit that a call is under, once it would be allowed. Below: for one gateway
with a database of its own, the exact log kept here; for gateways that share one, `cluster_limits.py`.
"""

import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from jackfield.catalog.limit_transactions import all_spending, slot_ms, spend, within
from jackfield.errors import Unavailable
from jackfield.model.principal import Principal
from jackfield.model.tool import CostEstimate
from jackfield.store import Store

MINUTE = 60.0
HOUR = 3600.0
FLUSH_SECONDS = 1.0
POINTS = {CostEstimate.LOW: 1, CostEstimate.MEDIUM: 5, CostEstimate.VARIABLE: 5, CostEstimate.HIGH: 25}
_KEY = "key "
_NS = 1_000_000_000
_NS_OF_MS = 1_000_000


def points_of(cost: CostEstimate | None) -> int:
    return 0 if cost is None else POINTS[cost]


class Limit(Struct, frozen=True):
    """So many points within a window, for everybody who takes from the same id."""

    id: str
    most: int
    seconds: float

    @property
    def window_ms(self) -> int:
        return round(self.seconds * 1000)


def per_minute(name: str, most: int | None) -> Limit | None:
    """A limit of calls per minute, or of reads."""
    return None if most is None else Limit(name, most, MINUTE)


def budget_of(principal: Principal) -> Limit | None:
    """What a key may spend within an hour."""
    return None if principal.budget is None else Limit(f"{_KEY}{principal.name}", principal.budget, HOUR)


class Limits(ABC):
    """What is left of every limit."""

    @abstractmethod
    async def take(self, limit: Limit, points: int = 1) -> float:
        """Take so many points; 0.0: they are taken. Otherwise nothing is, and this is how many seconds to wait,
        infinite where no window has so many. Raises `Unavailable` where the database has to be asked and cannot be.
        """

    @abstractmethod
    def give_back(self, limit: Limit, points: int = 1) -> None:
        """Take back what was just taken: the call is not made."""

    async def open(self) -> None:  # noqa: B027 - a gateway that shares its database reads as it goes
        """Read what was taken before this gateway started."""

    @abstractmethod
    async def flush(self) -> None:
        """Report what was taken since the last time; called every second."""

    async def close(self) -> None:
        """Report all of it."""
        await self.flush()


class _Log:
    """What was taken of one limit, each with its moment, as long as it is within the window."""

    __slots__ = ("entries", "total", "unwritten", "window")

    def __init__(self, window: int) -> None:
        self.window = window
        """Nanoseconds."""
        self.entries: deque[tuple[int, int]] = deque()
        self.total = 0
        self.unwritten = 0
        """Points that the database does not know of yet."""

    def add(self, moment: int, points: int) -> None:
        self.entries.append((moment, points))
        self.total += points

    def forget_before(self, now: int) -> None:
        while self.entries and now - self.entries[0][0] >= self.window:
            self.total -= self.entries.popleft()[1]

    def free_at(self, over: int) -> int:
        """When so many points will have left the window."""
        for moment, points in self.entries:
            over -= points
            if over <= 0:
                return moment + self.window
        return self.entries[-1][0] + self.window


class LocalLimits(Limits):
    """The limits of one gateway that has its database for itself: an exact log in memory, written down every second.

    A crash forgets what was taken within the last second, a restart nothing. What is read after one counts from the
    end of its slot.
    """

    def __init__(self, store: Store, *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """`clock` counts nanoseconds: whole numbers, so that the window's edge is exact."""
        self._store = store
        self._clock = clock
        self._logs: dict[str, _Log] = {}

    async def take(self, limit: Limit, points: int = 1) -> float:
        if not points:
            return 0.0
        if points > limit.most:
            return math.inf
        now = self._clock()
        log = self._logs.get(limit.id)
        if log is None:
            log = self._logs[limit.id] = _Log(round(limit.seconds * _NS))
        log.forget_before(now)
        over = log.total + points - limit.most
        if over > 0:
            return (log.free_at(over) - now) / _NS
        log.add(now, points)
        log.unwritten += points
        return 0.0

    def give_back(self, limit: Limit, points: int = 1) -> None:
        log = self._logs[limit.id]
        for index in reversed(range(len(log.entries))):
            if log.entries[index][1] == points:
                del log.entries[index]
                log.total -= points
                log.unwritten -= points
                return

    async def open(self) -> None:
        here = self._clock()
        for limit_id, (slots, now) in (await self._store.read(all_spending)).items():
            window_ms = round((HOUR if limit_id.startswith(_KEY) else MINUTE) * 1000)
            log = _Log(window_ms * _NS_OF_MS)
            for slot, points in within(slots, window_ms=window_ms, now=now).items():
                age_ms = max(now - (slot + 1) * slot_ms(window_ms), 0)
                log.add(here - age_ms * _NS_OF_MS, points)
            if log.entries:
                self._logs[limit_id] = log

    async def flush(self) -> None:
        now = self._clock()
        for limit_id, log in list(self._logs.items()):
            points, log.unwritten = log.unwritten, 0
            if points:
                script = partial(spend, limit_id, window_ms=log.window // _NS_OF_MS, spent=points)
                try:
                    await self._store.write(script)
                except Unavailable:
                    log.unwritten += points
                    raise
            log.forget_before(now)
            if not log.entries and not log.unwritten:
                del self._logs[limit_id]
