"""Agents' cycles as they are kept: opened, lived step by step, taken over, and over, once each.

Above: agents. Below: `cycle_moves.py`. Nothing here decides who should live a cycle or for how long; it says who may.
"""

from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from jackfield.model.call import Call
from jackfield.store import cycle_moves, moves
from jackfield.store.access import Read, Write
from jackfield.store.cycle_moves import Cycle, CycleRecord, Journal, Notice, Opened, StepCall
from jackfield.store.moves import INBOX_TOPIC

NEWEST = 2**62
"""A number that no cycle reaches."""


class Consciousness(Struct, frozen=True):
    """What an agent has in mind, as its last cycle left it."""

    version: int
    """How many cycles have written it."""
    data: str


class Cycles:
    """The part of a store that agents live by. None says that somebody else was first, and that nothing was written."""

    def __init__(self, write: Write, read: Read, *, large_result: int) -> None:
        self._write = write
        self._read = read
        self._large_result = large_result

    async def open(self, cycle_id: str, *, agent: str, owner: str) -> Opened | None:
        """T8: the agent wakes, for all of its events that are due. None also when none is."""
        return await self._write(partial(cycle_moves.open_cycle, cycle_id, agent=agent, owner=owner))

    async def take_step(
        self, cycle: Cycle, *, n: int, message: str, calls: Sequence[StepCall] = ()
    ) -> tuple[Call, ...] | None:
        """T1: what the model said is on record with its calls, in their order, before any of them runs.

        Built-in calls come with a script that does what they do, in the same transaction and in the calls' order.
        """
        script = partial(cycle_moves.take_step, cycle, n=n, message=message, large_result=self._large_result)
        return await self._write(partial(script, calls=calls))

    async def take_over(self, cycle: Cycle, *, owner: str) -> Cycle | None:
        """T7: another gateway goes on with a cycle whose owner is dead."""
        return await self._write(partial(cycle_moves.take_over, cycle, owner=owner))

    async def commit(self, cycle: Cycle, *, consciousness: str, record: CycleRecord) -> Cycle | None:
        """T9: the cycle becomes part of the agent's mind. Whoever commits has read every call's slot before."""
        return await self._write(partial(cycle_moves.commit, cycle, consciousness=consciousness, record=record))

    async def abandon(
        self, cycle: Cycle, *, reason: str, backoff_ms: int, notices: Sequence[Notice] = ()
    ) -> Cycle | None:
        """T10: given up. After `backoff_ms` the agent finds its events again, and what it had called.

        `notices` are posted in the same transaction, so that people hear of it exactly if it happened.
        """
        script = partial(cycle_moves.abandon, cycle, reason=reason, backoff_ms=backoff_ms, notices=notices)
        return await self._write(script, wakes=INBOX_TOPIC + cycle.agent)

    async def journal(self, cycle_id: str) -> Journal | None:
        """What the cycle has read, said and done. None: no such cycle."""
        return await self._read(partial(cycle_moves.read_journal, cycle_id))

    async def get(self, cycle_id: str) -> Cycle | None:
        found = await self._read(partial(cycle_moves.cycles_in, "get_cycle", cycle_id=cycle_id))
        return found[0] if found else None

    async def of_agent(self, agent: str, *, limit: int = 100, before: int = NEWEST) -> list[Cycle]:
        """The agent's cycles with numbers under `before`, newest first."""
        values = {"agent": agent, "before": before, "limit": limit}
        return await self._read(partial(cycle_moves.cycles_in, "cycles_of_agent", **values))

    async def orphaned(self, *, limit: int = 500) -> list[Cycle]:
        """Open cycles whose owner is dead."""
        return await self._read(partial(cycle_moves.cycles_in, "orphaned_cycles", limit=limit))

    async def owned_by(self, gateway: str, *, limit: int = 500) -> list[Cycle]:
        """Open cycles of one gateway."""
        return await self._read(partial(cycle_moves.cycles_in, "open_cycles_of", owner=gateway, limit=limit))

    async def agents_to_wake(self, *, limit: int = 500) -> list[str]:
        """Agents with events that are due and no open cycle, who has waited longest first."""
        rows = await self._read(partial(moves.run, "agents_to_wake", limit=limit))
        return [str(row["agent"]) for row in rows]

    async def prune(self, *, before: int, limit: int) -> None:
        """Forget a few of the cycles that were over by then, with their steps, but for each agent's last."""
        await self._write(partial(cycle_moves.prune, before=before, limit=limit))

    async def consciousness(self, agent: str) -> Consciousness | None:
        """What the agent has in mind. None: it has never finished a cycle."""
        row = await self._read(partial(moves.one, "get_consciousness", agent=agent))
        return None if row is None else Consciousness(row["version"], row["data"])
