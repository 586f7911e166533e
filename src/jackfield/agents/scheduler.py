"""Wakes agents when something arrives in their inbox; every cycle has one owner among all gateways.

A sleeping agent is a row and nothing else. One that is woken gets a task, which opens cycles (T8) until its inbox is
empty; whoever opens first, at any gateway, owns the cycle. Cycles of dead gateways are taken over (T7). One that keeps
failing gives its events back (T10), and people are notified. Above: the gateway. Below: the cycle runner, the store.
"""

import asyncio
import logging
import time
from functools import partial

from msgspec import Struct

from jackfield.agents import transactions as agent_tx
from jackfield.agents.cycle_runner import CycleRunner, CycleSlot, ModelGaveUp
from jackfield.agents.cycle_transactions import (
    STOP_TOPIC,
    Cycle,
    CycleNotice,
    CycleStatus,
    abandon,
    agents_to_wake,
    cycles_of_agent,
    get_cycle,
    open_cycle,
    open_cycles_of,
    orphaned_cycles,
    read_journal,
    take_over,
)
from jackfield.agents.inbox import data_of
from jackfield.agents.plans import next_run
from jackfield.agents.registry import AgentRegistry
from jackfield.agents.transactions import LoadedCycle
from jackfield.agents.types import Agent
from jackfield.errors import Refused, Unavailable
from jackfield.model.agent_state import Plan
from jackfield.model.ids import new_id
from jackfield.protocol.backoff import backoff
from jackfield.runs.transactions import Fenced
from jackfield.spaces import transactions as space_tx
from jackfield.store import Store
from jackfield.store.scripts import INBOX_TOPIC

log = logging.getLogger("jackfield.agents")

TRIES = 3
"""How often a cycle is taken over, and how often a failing model is asked, before the cycle is abandoned."""
PAUSES = (1.0, 5.0)
"""Seconds before a failed try is repeated."""
BACKOFF_MS = 60_000
LONGEST_BACKOFF_MS = 3_600_000
RARELY = 60.0
"""Seconds between two tries of a cycle that was left open here again and again."""
AT_ONCE = 200
"""Cycles that one gateway runs at the same time; the others queue. One that only waits does not count."""


class _Left(Struct, frozen=True):
    """A cycle that was left open here: how often it was resumed, and when it may be again."""

    times: int = 0
    not_before: float = 0.0


class AgentScheduler:
    """All agents of one gateway."""

    def __init__(
        self,
        runner: CycleRunner,
        *,
        agents: AgentRegistry,
        store: Store,
        gateway_id: str,
        sources_listed: asyncio.Event,
    ) -> None:
        self._runner = runner
        self._agents = agents
        self._store = store
        self._gateway_id = gateway_id
        self._sources_listed = sources_listed
        self._awake: dict[str, asyncio.Task[None]] = {}
        self._at_work: dict[str, str] = {}
        """The cycle that each of them runs."""
        self._again: set[str] = set()
        """Agents that were woken once more while they were awake."""
        self._left: dict[str, _Left] = {}
        """Cycles that were left open here: one that always is must not be tried all the time."""
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._is_open = False

    def start(self) -> None:
        """Wake agents from now on."""
        self._is_open = True
        self._store.bus.watch(INBOX_TOPIC, lambda topic: self.wake(topic[len(INBOX_TOPIC) :]))
        self._store.bus.watch(STOP_TOPIC, lambda topic: self._break_off(topic[len(STOP_TOPIC) :]))

    async def close(self) -> None:
        """Stop where they are. Their cycles stay open and are resumed by whoever comes next."""
        self._is_open = False
        tasks = [*self._awake.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    @property
    def awake(self) -> frozenset[str]:
        """The agents with a task here."""
        return frozenset(self._awake)

    def wake(self, agent: str) -> None:
        """There may be something in the agent's inbox."""
        if agent in self._awake or self._agents.get(agent) is not None:
            self._wake(agent)

    def _break_off(self, cycle_id: str) -> None:
        """A cycle was stopped. Missed, its next write finds out."""
        for agent, at_work in self._at_work.items():
            if at_work == cycle_id and (task := self._awake.get(agent)) is not None:
                log.info("agent %s: cycle %s was stopped", agent, cycle_id)
                task.cancel()

    def _wake(self, agent: str) -> None:
        if agent in self._awake:
            self._again.add(agent)
        else:
            self._begin(agent, None)

    async def sweep(self) -> None:
        """Lost wake-ups, cycles of dead gateways, cycles left open here, plans that are due.

        Only once the gateway's sources have listed their tools, so that no agent is told that its tools do not exist.
        """
        if not self._is_open or not self._sources_listed.is_set():
            return
        for agent in await self._store.read(agents_to_wake):
            self._wake(agent)
        for cycle in await self._store.read(orphaned_cycles):
            if cycle.agent not in self._awake and await self._is_known(cycle.agent):
                await self._take_over(cycle)
        left = [
            c for c in await self._store.read(partial(open_cycles_of, self._gateway_id)) if c.agent not in self._awake
        ]
        self._left = {cycle.id: self._left.get(cycle.id, _Left()) for cycle in left}
        for cycle in left:
            await self._resume(cycle)
        for plan in await self._store.read(partial(agent_tx.due_plans, limit=200)):
            await self._fire(plan)

    async def _is_known(self, agent: str) -> bool:
        """Whether there is such an agent, also if this gateway has not heard of it."""
        return self._agents.get(agent) is not None or await self._agents.look_up(agent) is not None

    async def _take_over(self, cycle: Cycle) -> None:
        taken = await self._store.write(partial(take_over, cycle, owner=self._gateway_id))
        if taken is None:
            return
        log.warning("agent %s: cycle %d goes on here; its gateway is gone", taken.agent, taken.number)
        self._begin(taken.agent, taken)

    async def _resume(self, seen: Cycle) -> None:
        """Resume a cycle of this gateway that no task runs: the store failed when it was opened or abandoned."""
        before = self._left[seen.id]
        if time.monotonic() < before.not_before:
            return
        cycle = await self._store.read(partial(get_cycle, seen.id))
        is_left = cycle is not None and cycle.status is CycleStatus.OPEN and cycle.owner == self._gateway_id
        if cycle is not None and is_left and cycle.agent not in self._awake:
            times = before.times + 1
            self._left[cycle.id] = _Left(times, time.monotonic() + RARELY if times >= TRIES else 0.0)
            log.warning("agent %s: cycle %d was left open here and is resumed", cycle.agent, cycle.number)
            self._begin(cycle.agent, cycle)

    async def _fire(self, plan: Plan) -> None:
        try:
            following = (
                None if plan.cron is None else next_run(plan.cron, plan.time_zone, after=await self._store.now_ms())
            )
        except Refused as fault:
            log.warning("plan %s of agent %s will not run again: %s", plan.id, plan.agent, fault)
            following = None
        await self._store.write(partial(agent_tx.fire_plan, plan, next_run_at=following))

    def _begin(self, agent: str, cycle: Cycle | None) -> None:
        if not self._is_open or agent in self._awake:
            return
        task = asyncio.create_task(self._run_cycles(agent, cycle), name=f"agent {agent}")
        self._awake[agent] = task
        task.add_done_callback(lambda ended: self._task_ended(agent, ended))

    def _task_ended(self, agent: str, task: "asyncio.Task[None]") -> None:
        del self._awake[agent]
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("agent %s was stopped by a fault of ours", agent, exc_info=fault)
        if agent in self._again:
            self._again.discard(agent)
            self.wake(agent)

    async def _run_cycles(self, agent: str, cycle: Cycle | None) -> None:
        """Cycle after cycle, until nothing more has arrived. A lost wake-up is found by the sweep."""
        was_resumed = cycle is not None
        async with CycleSlot(self._slots) as slot:
            while True:
                self._again.discard(agent)
                if cycle is None:
                    if not await self._is_known(agent):
                        return
                    opened = await self._store.write(
                        partial(open_cycle, new_id("cycle"), agent=agent, owner=self._gateway_id)
                    )
                    if opened is None:
                        return
                    cycle = opened.cycle
                loaded = await self._runner.load(cycle)  # now that it is open: removing an agent gives its cycle up
                known = self._agents.update(agent, loaded.agent)
                if known is None:
                    await self._abandon(cycle, "The agent was removed.")
                    return
                self._at_work[agent] = cycle.id
                try:
                    await self._run_cycle(known, cycle, loaded, slot)
                finally:
                    self._at_work.pop(agent, None)
                if agent not in self._again and not was_resumed:
                    return
                cycle, was_resumed = None, False

    async def _run_cycle(self, agent: Agent, cycle: Cycle, loaded: LoadedCycle, slot: CycleSlot) -> None:
        """One cycle to its end, whatever that is. What fails for now is tried again from the journal."""
        first: LoadedCycle | None = loaded
        if cycle.tries > TRIES:
            await self._abandon(cycle, f"Its gateway stopped {TRIES} times in the middle of it.", agent=agent)
            return
        end = asyncio.get_running_loop().time() + agent.settings.timeout
        for pause in (*PAUSES, None):
            await slot.take()
            try:
                async with slot.within(end) as limit:
                    read, first = first or await self._runner.load(cycle), None
                    done = await self._runner.run(agent, cycle, read, slot)
            except Fenced:
                log.info(
                    "agent %s: cycle %d is another's now, nothing more is written for it here",
                    cycle.agent,
                    cycle.number,
                )
                return
            except TimeoutError:
                reason = f"It took longer than {agent.settings.timeout:g} s."
                break
            except (ModelGaveUp, Refused) as fault:
                reason = str(fault)
                log.warning("agent %s: cycle %d: %s", cycle.agent, cycle.number, fault)
            except Exception:
                reason = "The gateway failed inside. Its log has the details."
                log.exception("agent %s: cycle %d failed", cycle.agent, cycle.number)
            else:
                log.info("agent %s: cycle %d done: %s", done.agent, done.number, done.summary)
                return
            if pause is not None:
                await self._drop_unfinished(cycle)
                end = limit.when() or end
                async with slot.waiting():
                    await asyncio.sleep(pause)
        await self._abandon(cycle, reason, agent=agent)

    async def _drop_unfinished(self, cycle: Cycle) -> None:
        """What the failed try had begun to show is shown as what it is, at once and not after the pause."""
        try:
            await self._store.write(partial(space_tx.drop_unshown_of, cycle))
        except Unavailable as fault:
            log.warning("agent %s: unfinished calls of cycle %d are still shown: %s", cycle.agent, cycle.number, fault)

    async def _abandon(self, cycle: Cycle, reason: str, *, agent: Agent | None = None) -> None:
        """T10, and tell people once in a row of failures."""
        while True:
            try:
                failures = await self._failures_before(cycle)
                pause_ms = round(backoff(failures, first=BACKOFF_MS, longest=LONGEST_BACKOFF_MS, spread=0))
                is_first = agent is not None and not failures
                text = f"{cycle.agent if agent is None else agent.name} could not go on: {reason} "
                text += f"It tries again in {pause_ms // 1000} s; nothing is lost."
                notices = [CycleNotice(space, text) for space in await self._spaces_asked_in(cycle)] if is_first else []
                failed = await self._store.write(
                    partial(abandon, cycle, reason=reason, backoff_ms=pause_ms, notices=notices)
                )
                break
            except Unavailable as fault:
                log.warning("agent %s: cycle %d could not be abandoned yet: %s", cycle.agent, cycle.number, fault)
                await asyncio.sleep(PAUSES[-1])
        if failed is not None and is_first:
            log.error("agent %s: cycle %d was abandoned: %s", cycle.agent, cycle.number, reason)

    async def _failures_before(self, cycle: Cycle) -> int:
        """How many cycles in a row, right before this one, were abandoned."""
        count = 0
        for past in await self._store.read(partial(cycles_of_agent, cycle.agent, before=cycle.number, limit=10)):
            if past.status is not CycleStatus.FAILED:
                break
            count += 1
        return count

    async def _spaces_asked_in(self, cycle: Cycle) -> list[str]:
        """Where the cycle's events came from, else wherever the agent is."""
        journal = await self._store.read(partial(read_journal, cycle.id))
        events = () if journal is None else journal.events
        asked = {str(data_of(event)["spaceId"]) for event in events if event.type == "space_message"}
        return sorted(
            asked or {space.id for space in await self._store.read(partial(space_tx.list_spaces, member=cycle.agent))}
        )
