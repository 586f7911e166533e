"""Limits that several gateways keep together, without a write for every call.

A gateway takes from a limit in one of three ways. *Lease*: it has taken points from the database ahead of time, as many
as it recently used, and uses those; what it does not use within a twelfth of the window it gives back. *Credit*: the
limit is far away, so it counts the call and reports it later, up to a small part of the limit. *Ask*: otherwise the
call waits for the database, which decides for all gateways, one after the other. A limit that is used up is not asked
for again at once. So a gateway that dies takes at most its lease with it, or leaves its credit unreported, and limits
too small to be divided are asked for at every call, which is then rare.
Above: `limits.py`, whose interface this is. Below: `limit_transactions.py`.
"""

import asyncio
import math
import time
from collections.abc import Callable
from functools import partial

from jackfield.catalog.limit_transactions import Account, slot_ms, spend, within
from jackfield.catalog.limits import Limit, Limits
from jackfield.store import Store

LEASED = 0.10
"""The part of a limit that all gateways together may have leased."""
ON_CREDIT = 0.08
"""The part of a limit that all gateways together may have left unreported."""
FAR = 0.5
"""The part of a limit below which calls are counted on credit."""
LEASE = 1 / 12
"""How long a lease lasts, and credit stays unreported, in windows."""
FULL = 1 / 30
"""How long a limit that is used up is not asked for again, in windows."""
GATEWAYS = 4
"""How many are assumed to share a limit before the database has said so."""


class ClusterLimits(Limits):
    """The limits of gateways that share a database."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._shares: dict[str, _Share] = {}
        self._asking: set[asyncio.Task[None]] = set()

    async def take(self, limit: Limit, points: int = 1) -> float:
        if not points:
            return 0.0
        if points > limit.most:
            return math.inf
        share = self._shares.get(limit.id)
        if share is None:
            share = self._shares[limit.id] = _Share(limit, self._clock())
        share.limit = limit
        while (seconds := share.take(points, self._clock())) is None:
            share.waiting.append(points)
            try:
                await asyncio.shield(self._ask(share))
            finally:
                share.waiting.remove(points)
        return seconds

    def give_back(self, limit: Limit, points: int = 1) -> None:
        self._shares[limit.id].lease += points

    async def flush(self) -> None:
        now = self._clock()
        for limit_id, share in list(self._shares.items()):
            share.expire(now)
            if share.is_due(now):
                await self._ask(share)
            elif share.is_idle(now):
                del self._shares[limit_id]

    async def close(self) -> None:
        for share in self._shares.values():
            share.expire(math.inf)
            if share.unreported:
                await self._ask(share)

    def _ask(self, share: "_Share") -> "asyncio.Task[None]":
        """One question at a time for each limit; it goes on when the call that asked is cancelled."""
        if share.asking is None or share.asking.done():
            share.asking = asyncio.create_task(self._report_and_take(share), name="limits")
            self._asking.add(share.asking)
            share.asking.add_done_callback(self._answered)
        return share.asking

    def _answered(self, task: "asyncio.Task[None]") -> None:
        self._asking.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits for it is told; it may be nobody any more

    async def _report_and_take(self, share: "_Share") -> None:
        limit, waiting = share.limit, share.waiting
        spent, share.unreported = share.unreported, 0
        needs, wants = min(waiting, default=0), sum(waiting)
        if waiting:
            wants = max(wants, share.expected(self._clock()))
        script = partial(
            spend, limit.id, window_ms=limit.window_ms, most=limit.most, spent=spent, needs=needs, wants=wants
        )
        try:
            account = await self._store.write(script)
        except BaseException:
            share.unreported += spent
            raise
        share.answered(account, wants=wants, now=self._clock())


class _Share:
    """What one gateway has of a limit, and knows of it."""

    def __init__(self, limit: Limit, now: float) -> None:
        self.limit = limit
        self.lease = 0
        """Points that were taken from the database and are not used yet."""
        self.unreported = 0
        """Points that were used on credit; less than 0: a lease that is given back."""
        self.waiting: list[int] = []
        """Points of the calls that wait for the database."""
        self.asking: asyncio.Task[None] | None = None
        self._lease_until = now
        self._unreported_since = now
        self._used = 0
        self._asked_at = now
        self._taken_at = now
        self._full_until = -math.inf
        self._account = Account(now=0, slots={}, granted=0, gateways=GATEWAYS)
        self._answered_at = now

    def take(self, points: int, now: float) -> float | None:
        """0.0: taken. None: the database has to be asked. Else the seconds to wait."""
        self._taken_at = now
        self.expire(now)
        if self.lease >= points:
            self.lease -= points
        elif now < self._full_until:
            return self._seconds_until_free(points, now)
        elif self._may_use_credit(points, now):
            if self.unreported <= 0:
                self._unreported_since = now
            self.unreported += points
        else:
            return None
        self._used += points
        return 0.0

    def expire(self, now: float) -> None:
        if self.lease and now >= self._lease_until:
            self.unreported -= self.lease
            self.lease = 0
            self._unreported_since = -math.inf

    def is_due(self, now: float) -> bool:
        """Whether something has to be reported now."""
        return bool(self.unreported) and now - self._unreported_since >= self.limit.seconds * LEASE

    def is_idle(self, now: float) -> bool:
        """Whether nothing here is worth remembering."""
        return not (self.lease or self.unreported or self.waiting) and now - self._taken_at > 2 * self.limit.seconds

    def expected(self, now: float) -> int:
        """The points that the calls of the next while will need, if they come as they came, within a gateway's part."""
        passed = max(now - self._asked_at, 1e-3)
        ahead = math.ceil(self._used / passed * self.limit.seconds * LEASE)
        return min(ahead, self._part(LEASED))

    def answered(self, account: Account, *, wants: int, now: float) -> None:
        self._account, self._answered_at = account, now
        self._used, self._asked_at = 0, now
        self.lease += account.granted
        self._lease_until = now + self.limit.seconds * LEASE
        self._full_until = now + self.limit.seconds * FULL if account.granted < wants else -math.inf

    def _may_use_credit(self, points: int, now: float) -> bool:
        owed = max(self.unreported, 0) + points
        if owed > self._part(ON_CREDIT):
            return False
        known = sum(self._slots(now).values())
        return known + owed <= self.limit.most * FAR

    def _part(self, part: float) -> int:
        return math.floor(self.limit.most * part / self._account.gateways)

    def _seconds_until_free(self, points: int, now: float) -> float:
        slots = self._slots(now)
        over = sum(slots.values()) + points - self.limit.most - self.lease
        length = slot_ms(self.limit.window_ms)
        for slot, taken in slots.items():
            over -= taken
            if over <= 0:
                free_at = (slot + 1) * length + self.limit.window_ms
                return max((free_at - self._database_time(now)) / 1000, 0.001)
        return self._full_until - now

    def _slots(self, now: float) -> dict[int, int]:
        return within(self._account.slots, window_ms=self.limit.window_ms, now=self._database_time(now))

    def _database_time(self, now: float) -> int:
        return self._account.now + math.floor((now - self._answered_at) * 1000)
