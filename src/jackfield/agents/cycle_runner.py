"""One cycle of an agent, from its journal to its commit: read the inbox, run the model, remember.

It always begins at the journal, so a cycle that was taken over, or whose model failed, is resumed where it was. Above:
the scheduler. Below: the loop with its tool executor, the journal, the store.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Self

import msgspec
from msgspec import Struct

from jackfield.agents.builtin_handlers import StepContext
from jackfield.agents.builtin_tools import agent_tools
from jackfield.agents.context import (
    MOST_MEMBERS,
    MOST_SPACES,
    AgentState,
    PastCycle,
    decode_context,
    encode_context,
    summary_of,
    system_prompt,
    with_cycle,
)
from jackfield.agents.cycle_transactions import CycleOutcome, Journal, Step, commit
from jackfield.agents.inbox import hops_of, inbox_message
from jackfield.agents.journal import CycleJournal, replayed
from jackfield.agents.live_publisher import LivePublisher
from jackfield.agents.transactions import LoadedCycle, load_cycle
from jackfield.agents.types import Agent
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.waiting import slot_of
from jackfield.catalog.catalog import Catalog, Entry
from jackfield.llm.models import Models, default_model
from jackfield.llm.types import ModelRequest
from jackfield.model.agent_state import Cycle
from jackfield.model.items import Item, Message, text_of
from jackfield.runs.events import Ended
from jackfield.runs.loop import Loop
from jackfield.runs.model_steps import StepLogs
from jackfield.runs.outputs import with_whole_result
from jackfield.runs.plan import RunLimits, RunPlan
from jackfield.runs.reading import reading_tools
from jackfield.runs.tool_executor import ToolExecutor
from jackfield.runs.tool_search import ToolSearch, with_search
from jackfield.runs.transactions import Fenced
from jackfield.spaces.live import Live
from jackfield.store import Store

log = logging.getLogger("jackfield.agents")

OwnTools = Callable[[Agent], AbstractAsyncContextManager[tuple[tuple[str, Entry], ...]]]
"""The tools of an agent's own MCP servers, each with its server's name, while the block runs."""


class ModelGaveUp(Exception):
    """The model failed; the cycle's events and steps are as they were."""


class CycleSlot:
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


class _RunResult(Struct, frozen=True, kw_only=True):
    """How the run of a cycle ended."""

    items: tuple[Item, ...]
    """All that belongs to this cycle, from the inbox on."""
    called: tuple[str, ...]
    ended: Ended


class CycleRunner:
    """Runs cycles that are open and owned by this gateway."""

    def __init__(
        self,
        *,
        store: Store,
        models: Models,
        catalog: Catalog,
        pipeline: Pipeline,
        live: Live,
        own_tools: OwnTools,
        tool_search: ToolSearch,
        step_logs: StepLogs,
    ) -> None:
        self._store = store
        self._models = models
        self._catalog = catalog
        self._pipeline = pipeline
        self._live = live
        self._own_tools = own_tools
        self._tool_search = tool_search
        self._step_logs = step_logs

    async def load(self, cycle: Cycle) -> LoadedCycle:
        """All that the cycle needs to know before its model is asked."""
        return await self._store.read(
            partial(load_cycle, cycle, most_spaces=MOST_SPACES, most_members=MOST_MEMBERS + 1)
        )

    async def run(self, agent: Agent, cycle: Cycle, loaded: LoadedCycle, slot: CycleSlot) -> Cycle:
        """Run the cycle to its commit (T9). Raises `Fenced`, `ModelGaveUp`, or what the store raises; it then stays
        open.
        """
        journal = await self._decided(loaded.journal, slot)
        context = decode_context(loaded.context)
        hops = hops_of(journal.events, before=context.hops)
        state = AgentState(
            spaces=[(space, loaded.members.get(space.id, ())) for space in loaded.spaces],
            goals=loaded.goals,
            memories=loaded.memories,
            plans=loaded.plans,
        )
        step_context = StepContext(
            cycle=cycle, agent_name=agent.name, hops=hops, max_exchanges=agent.settings.max_exchanges
        )
        result = await self._run_model(agent, journal, state, step_context, slot, before=context.items)
        last = result.items[-1] if result.items else None
        said = text_of(last) if isinstance(last, Message) and last.role == "assistant" else ""
        ended = result.ended
        stopped = f"Stopped before the end ({ended.reason})." if ended.status == "incomplete" else None
        summary = summary_of(result.items, said=said, called=result.called, ended=stopped)
        past = PastCycle(number=cycle.number, summary=summary, items=result.items)
        after = with_cycle(context, past, room=agent.settings.context_tokens, hops=hops)
        usage = ended.usage
        record = CycleOutcome(
            summary=summary,
            input_tokens=0 if usage is None else usage.input_tokens,
            output_tokens=0 if usage is None else usage.output_tokens,
        )
        committed = await self._store.write(partial(commit, cycle, context=encode_context(after), record=record))
        if committed is None:
            raise Fenced
        return committed

    async def _decided(self, journal: Journal | None, slot: CycleSlot) -> Journal:
        """The journal once every call in it has a slot: what its last owner began is waited for, never begun again."""
        if journal is None:
            raise Fenced
        steps = []
        for step in journal.steps:
            decided = step.calls
            if not all(map(slot_of, decided)):
                async with slot.waiting():
                    decided = tuple([await self._pipeline.wait_on(call) for call in step.calls])
            calls = [await with_whole_result(self._store, call) for call in decided]
            steps.append(Step(step.n, step.message, tuple(calls)))
        return msgspec.structs.replace(journal, steps=tuple(steps))

    async def _run_model(
        self,
        agent: Agent,
        journal: Journal,
        state: AgentState,
        context: StepContext,
        slot: CycleSlot,
        *,
        before: tuple[Item, ...],
    ) -> _RunResult:
        """Ask the model from the end of the journal until it has no more to do. `before` are its earlier cycles."""
        cycle = context.cycle
        replay = replayed(journal.steps)
        opening = (inbox_message(journal.events, now=cycle.created_at), *replay.items)
        if replay.is_over:
            return _RunResult(items=opening, called=replay.called, ended=Ended(status="completed", usage=replay.usage))
        principal = agent.principal
        async with self._own_tools(agent) as own:
            seen = self._catalog.view(principal).entries
            plan = RunPlan(
                run_id=cycle.id,
                model=await self._models.get(agent.settings.model or default_model(self._models)),
                template=ModelRequest(items=(), instructions=system_prompt(agent.id, agent.settings, state)),
                items=(*before, *opening),
                tools=with_search(
                    agent_tools(
                        self._pipeline.offered(seen, principal=principal),
                        own,
                        readers=reading_tools(self._catalog, principal),
                    ),
                    above=agent.settings.search_above(self._tool_search.above),
                ),
                limits=RunLimits(max_steps=agent.settings.max_steps - len(journal.steps)),
                principal=principal,
                agent=agent.id,
            )
            publisher = LivePublisher(
                cycle=cycle,
                agent=agent,
                tools=plan.tools,
                spaces=frozenset(space.id for space, _ in state.spaces),
                live=self._live,
                store=self._store,
                space_id=replay.space_id,
            )
            steps = CycleJournal(
                context,
                store=self._store,
                publisher=publisher,
                waiting=slot.waiting,
                next_step=len(journal.steps) + 1,
            )
            executor = ToolExecutor(
                plan, pipeline=self._pipeline, store=self._store, emit=publisher.publish, journal=steps
            )
            log_of_steps = self._step_logs.of(cycle.id, model=plan.model.name, before=len(journal.steps), known=before)
            loop = Loop(plan, executor=executor, emit=publisher.publish, log=log_of_steps)
            try:
                with self._tool_search.over(plan):
                    ended = await loop.run()
                assert isinstance(ended, Ended)
            finally:
                publisher.break_off()
        if ended.status == "failed":
            raise ModelGaveUp("" if ended.error is None else ended.error.message)
        if replay.usage is not None:
            usage = replay.usage if ended.usage is None else replay.usage.plus(ended.usage)
            ended = msgspec.structs.replace(ended, usage=usage)
        return _RunResult(items=loop.items[len(before) :], called=(*replay.called, *steps.called), ended=ended)
