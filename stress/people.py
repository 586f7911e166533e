"""Who asks gateways for something and approves what waits, while gateways die; and what the database says of it.

Above: the parts that kill gateways. Below: HTTP and SQL.
"""

import asyncio
import random
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from typing import Any

import asyncpg
import httpx2

from stress.load import HEADERS
from stress.mortals import Mortal, kind_of

SETTLES_WITHIN = 120.0
PAUSE = 0.05


class People:
    """They turn to whichever gateway answers."""

    def __init__(self, running: list[Mortal], chance: random.Random) -> None:
        self._chance = chance
        self._clients = [
            httpx2.AsyncClient(base_url=mortal.victim.url, headers=HEADERS, timeout=20) for mortal in running
        ]

    async def aclose(self) -> None:
        for client in self._clients:
            await client.aclose()

    @property
    def client(self) -> httpx2.AsyncClient:
        """One of them."""
        return self._chance.choice(self._clients)

    async def approve(self, *, until: asyncio.Event) -> None:
        """Everything that waits for it, after a moment."""
        while not until.is_set():
            await asyncio.sleep(self._chance.uniform(0, 4 * PAUSE))
            answer = await self.ask("GET", "/api/v1/calls?status=pending_approval")
            for call in [] if answer is None else answer.json()["calls"]:
                await self.ask("POST", f"/api/v1/calls/{call['id']}/approve", json={})

    async def ask(self, method: str, path: str, **more: Any) -> httpx2.Response | None:
        """None: that gateway is gone for the moment, or did not do it."""
        try:
            answer = await self.client.request(method, path, **more)
        except httpx2.TransportError:
            return None
        return answer if answer.is_success else None


@asynccontextmanager
async def records(store_url: str) -> AsyncIterator[Callable[[str], Awaitable[int]]]:
    """The number that a query on the database comes to."""
    if kind_of(store_url) == "postgresql":
        connection = await asyncpg.connect(store_url)

        async def shared(query: str) -> int:
            return int(await connection.fetchval(query))

        try:
            yield shared
        finally:
            await connection.close()
        return

    async def alone(query: str) -> int:
        with closing(sqlite3.connect(store_url.removeprefix("sqlite:///"), timeout=30)) as file:
            return int(file.execute(query).fetchone()[0])

    yield alone


async def comes_true(ask: Callable[[], Awaitable[bool]]) -> None:
    """Or not: then it is seen in the end."""
    until = time.monotonic() + SETTLES_WITHIN
    while not await ask():
        if time.monotonic() > until:
            return
        await asyncio.sleep(PAUSE)
