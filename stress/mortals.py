"""Gateways that are killed and come back, and whose leases end with them.

On PostgreSQL the lease of a gateway that was killed is ended at once; else the others would wait 15 s before they take
over, and nothing would be under way when the next one dies.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import asyncpg

from stress.processes import Project, Victim


class Mortal:
    """A gateway that is killed, and whose lease ends with it."""

    def __init__(self, victim: Victim, leases: "Leases") -> None:
        self.victim = victim
        self._leases = leases
        self._id: str | None = None

    async def start(self) -> None:
        await self.victim.start()
        await self.recognise()

    async def recognise(self) -> None:
        """Learn under which id it runs."""
        self._id = await self._leases.newest()

    async def die_and_return(self) -> None:
        await self.victim.kill()
        await self._leases.end(self._id)
        await self.start()


class Leases:
    """Who is alive according to the database. In a SQLite file there is one gateway, and the next one knows that."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record] | None") -> None:
        self._connection = connection
        self._known: set[str] = set()

    async def newest(self) -> str | None:
        """The gateway that came since the last time."""
        if self._connection is None:
            return None
        alive = {str(row["id"]) for row in await self._connection.fetch("SELECT id FROM gateways WHERE dead = 0")}
        new, self._known = alive - self._known, alive
        return max(new)  # ids grow; another one may have been declared dead, and have come back under a new id

    async def end(self, gateway: str | None) -> None:
        """As if 15 s had gone by since it was last heard of."""
        if self._connection is not None:
            await self._connection.execute("UPDATE gateways SET alive_until = 0 WHERE id = $1", gateway)


@asynccontextmanager
async def mortals(store_url: str, folder: Path, *, count: int, project: Project) -> AsyncIterator[list[Mortal]]:
    """So many gateways on one database."""
    async with AsyncExitStack() as stack:
        victims = []
        for number in range(count):
            place = folder / f"gw{number}"
            victims.append(Victim(place, store_url=store_url, starts=folder / "starts", project=project))
            stack.callback(victims[-1].stop)
        await victims[0].start()  # who comes first makes the tables
        connection = None
        if kind_of(store_url) == "postgresql":
            connection = await asyncpg.connect(store_url)
            stack.push_async_callback(connection.close)
        leases = Leases(connection)
        running = [Mortal(victim, leases) for victim in victims]
        await running[0].recognise()
        for mortal in running[1:]:
            await mortal.start()
        yield running


def kind_of(store_url: str) -> str:
    return store_url.partition(":")[0]
