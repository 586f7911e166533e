"""One cycle of an agent, from its open journal to its commit: read the inbox, think, act, remember.

It always begins at the journal, so a cycle that was taken over, or whose model failed, goes on where it was. Above:
`cycles.py`, which decides who lives when. Below: the loop, the steps, the store.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

import msgspec
from msgspec import Struct

from jackfield.agents import transactions as agent_tx
from jackfield.agents.builtin_tools import toolbox
from jackfield.agents.context import (
    MEMBERS_TOLD,
    SPACES_TOLD,
    Consciousness,
    PastCycle,
    Surroundings,
    read_mind,
    summary_of,
    system_prompt,
    with_cycle,
    written,
)
from jackfield.agents.cycle_transactions import (
    Cycle,
    CycleRecord,
    Journal,
    Step,
    commit,
    get_consciousness,
    read_journal,
)
from jackfield.agents.inbox import hops_of, inbox_message
from jackfield.agents.journal import Replay, replayed
from jackfield.agents.live_publisher import LivePublisher
from jackfield.agents.steps import Fenced, StepTaker
from jackfield.agents.turns import Turn
from jackfield.agents.types import Agent
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.waiting import slot_of
from jackfield.catalog.catalog import Catalog, Entry
from jackfield.llm.base import Model, ModelRequest
from jackfield.llm.models import Models, default_model
from jackfield.model.items import Item, Message, text_of
from jackfield.runs.events import Ended
from jackfield.runs.loop import Loop
from jackfield.runs.outputs import made_whole
from jackfield.runs.plan import Limits, RunPlan
from jackfield.runs.tools import ToolTable
from jackfield.spaces import transactions as space_tx
from jackfield.spaces.live import Live
from jackfield.store import Store

log = logging.getLogger("jackfield.agents")


class Rooms(Struct, frozen=True, kw_only=True):
    """What cycles work with."""

    store: Store
    models: Models
    catalog: Catalog
    pipeline: Pipeline
    live: Live
    own_tools: Callable[[Agent], AbstractAsyncContextManager[tuple[tuple[str, Entry], ...]]]
    """An agent's own servers' tools, while the block runs."""


class ModelGaveUp(Exception):
    """The model failed; the cycle's events and steps are as they were."""


class Thought(Struct, frozen=True, kw_only=True):
    """How the loop of a cycle ended."""

    items: tuple[Item, ...]
    """All that belongs to this cycle, from the inbox on."""
    called: tuple[str, ...]
    ended: Ended


async def live_through(rooms: Rooms, persona: Agent, cycle: Cycle, turn: Turn) -> Cycle:
    """Live the cycle to its commit. Raises `Fenced`, `ModelGaveUp`, or what the store raises; it then stays open."""
    journal = await _decided_journal(rooms, cycle, turn)
    mind = read_mind(await _kept_mind(rooms.store, cycle))
    hops = hops_of(journal.events, before=mind.hops)
    thought = await _think(rooms, persona, journal, mind, turn, hops=hops)
    said = _last_words(thought.items)
    summary = summary_of(thought.items, said=said, called=thought.called, ended=_how(thought.ended))
    past = PastCycle(number=cycle.number, summary=summary, items=thought.items)
    after = with_cycle(mind, past, room=persona.settings.context_tokens, hops=hops)
    usage = thought.ended.usage
    record = CycleRecord(
        summary=summary,
        input_tokens=0 if usage is None else usage.input_tokens,
        output_tokens=0 if usage is None else usage.output_tokens,
    )
    committed = await rooms.store.write(partial(commit, cycle, consciousness=written(after), record=record))
    if committed is None:
        raise Fenced
    return committed


async def _think(
    rooms: Rooms, persona: Agent, journal: Journal, mind: Consciousness, turn: Turn, *, hops: int
) -> Thought:
    """Ask the model from the end of the journal until it has no more to do."""
    cycle = journal.cycle
    replay = replayed(journal.steps)
    opening = (inbox_message(journal.events, now=cycle.created_at), *replay.items)
    if replay.is_over:
        return Thought(items=opening, called=replay.called, ended=Ended(status="completed", usage=replay.usage))
    world = await surroundings(rooms.store, persona.id)
    async with rooms.own_tools(persona) as own:
        seen = rooms.catalog.view(persona.principal).entries
        tools = toolbox(rooms.pipeline.offered(seen, principal=persona.principal), own)
        telling = LivePublisher(
            cycle=cycle,
            persona=persona,
            tools=tools,
            spaces=frozenset(space.id for space, _ in world.spaces),
            live=rooms.live,
            store=rooms.store,
        )
        telling.space_id = replay.space_id
        taker = StepTaker(
            cycle=cycle,
            persona=persona,
            store=rooms.store,
            pipeline=rooms.pipeline,
            telling=telling,
            turn=turn,
            next_step=len(journal.steps) + 1,
            hops=hops,
        )
        left = persona.settings.max_steps - len(journal.steps)
        plan = await _plan(rooms, persona, cycle, tools, world, items=(*mind.items, *opening), max_steps=left)
        loop = Loop(plan, actor=taker, emit=telling.hear)
        try:
            ended = await loop.run()
        finally:
            telling.break_off()
    if ended.status == "failed":
        raise ModelGaveUp("" if ended.error is None else ended.error.message)
    return Thought(
        items=loop.items[len(mind.items) :],
        called=(*replay.called, *taker.called),
        ended=_with_usage(ended, replay),
    )


async def _plan(
    rooms: Rooms,
    persona: Agent,
    cycle: Cycle,
    tools: ToolTable,
    world: Surroundings,
    *,
    items: tuple[Item, ...],
    max_steps: int,
) -> RunPlan:
    return RunPlan(
        run_id=cycle.id,
        model=await _model(rooms.models, persona),
        template=ModelRequest(items=(), instructions=system_prompt(persona.id, persona.settings, world)),
        items=items,
        tools=tools,
        limits=Limits(max_steps=max_steps),
        principal=persona.principal,
        agent=persona.id,
    )


async def _model(models: Models, persona: Agent) -> Model:
    return await models.get(persona.settings.model or default_model(models))


async def surroundings(store: Store, agent: str) -> Surroundings:
    """What the agent knows of its world."""
    spaces = await store.read(partial(space_tx.list_spaces, member=agent))
    told = [space.id for space in spaces[:SPACES_TOLD]]
    around = await store.read(partial(space_tx.members_around, told, besides=agent, most=MEMBERS_TOLD + 1))
    return Surroundings(
        spaces=[(space, around.get(space.id, ())) for space in spaces],
        goals=await store.read(partial(agent_tx.goals, agent)),
        memories=await store.read(partial(agent_tx.memories, agent)),
        plans=await store.read(partial(agent_tx.plans, agent)),
    )


async def _decided_journal(rooms: Rooms, cycle: Cycle, turn: Turn) -> Journal:
    """The journal, once every call in it has a slot: what its last owner began is waited for, never begun again."""
    journal = await rooms.store.read(partial(read_journal, cycle.id))
    if journal is None:
        raise Fenced
    steps = []
    for step in journal.steps:
        decided = step.calls
        if not all(map(slot_of, decided)):
            async with turn.waiting():
                decided = tuple([await rooms.pipeline.wait_on(call) for call in step.calls])
        calls = [await made_whole(rooms.store, call) for call in decided]
        steps.append(Step(step.n, step.message, tuple(calls)))
    return msgspec.structs.replace(journal, cycle=cycle, steps=tuple(steps))


async def _kept_mind(store: Store, cycle: Cycle) -> str | None:
    kept = await store.read(partial(get_consciousness, cycle.agent))
    return None if kept is None else kept.data


def _with_usage(ended: Ended, replay: Replay) -> Ended:
    if replay.usage is None:
        return ended
    usage = replay.usage if ended.usage is None else replay.usage.plus(ended.usage)
    return msgspec.structs.replace(ended, usage=usage)


def _last_words(items: tuple[Item, ...]) -> str:
    """What the agent said last, if it ended by saying something."""
    last = items[-1] if items else None
    return text_of(last) if isinstance(last, Message) and last.role == "assistant" else ""


def _how(ended: Ended) -> str | None:
    """What is worth remembering about how the cycle ended."""
    if ended.status != "incomplete":
        return None
    return f"Stopped before the end ({ended.reason})."
