"""How many cycles think and act at the same time: a place for each, given back while a cycle only waits.

A cycle that waits for somebody else's answer costs a sleeping task, so it holds no place; it takes one again before it
goes on. Above: `cycles.py`, whose household has the places. Below: a semaphore.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self


class Turn:
    """One agent's place among those that are at work. As a block it holds the place, but for the waits within."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._is_held = False
        self._limit: asyncio.Timeout | None = None

    async def __aenter__(self) -> Self:
        await self.take()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()

    async def take(self) -> None:
        """Have a place, at once or when one is free. Waiting for it is not the cycle's own time."""
        if self._is_held:
            return
        loop, limit = asyncio.get_running_loop(), self._limit
        end = None if limit is None else limit.when()
        if limit is None or end is None:
            await self._places.acquire()
        else:
            asked = loop.time()
            limit.reschedule(None)
            await self._places.acquire()
            limit.reschedule(end + loop.time() - asked)
        self._is_held = True

    def _give_back(self) -> None:
        if self._is_held:
            self._is_held = False
            self._places.release()

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        """The place is somebody else's while the block lasts. What breaks the block off leaves it so."""
        self._give_back()
        yield
        await self.take()

    @asynccontextmanager
    async def within(self, end: float) -> AsyncIterator[asyncio.Timeout]:
        """Raises `TimeoutError` when the block has not ended by `end`, and as much later as it waited for a place."""
        async with asyncio.timeout_at(end) as limit:
            self._limit = limit
            try:
                yield limit
            finally:
                self._limit = None
