"""Agents' cycles to put into a store, and what is seen of them there."""

from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from jackfield.agents import transactions as agent_tx
from jackfield.agents.cycle_transactions import (
    Builtin,
    Cycle,
    CycleOutcome,
    InboxEvent,
    OpenedCycle,
    StepCall,
    inbox_page,
    open_cycle,
    push_event,
    take_over,
    take_step,
)
from jackfield.model.call import Done, Failed, done
from jackfield.model.ids import new_id
from jackfield.store import Store, scripts
from jackfield.store.scripts import Script, Sql
from tests.store.calls import a_call, a_call_for_approval, a_pending_call, a_waiting_call

RECORD = CycleOutcome(summary="Said hello.", input_tokens=120, output_tokens=30)


async def tell(store: Store, agent: str, *event_ids: str) -> None:
    """Put events into an inbox."""
    for event_id in event_ids:
        assert await store.write(
            partial(push_event, agent, event_id=event_id, type="space_message", data='{"text":"hi"}')
        )


async def woken(
    store: Store, agent: str = "ada", *, owner: str = "gw_a", events: tuple[str, ...] = ("e1",)
) -> OpenedCycle:
    """An agent that has just woken for these events."""
    await tell(store, agent, *events)
    opened = await store.write(partial(open_cycle, new_id("cycle"), agent=agent, owner=owner))
    assert opened is not None
    return opened


def one_call_of_each_form() -> dict[str, StepCall]:
    """T1's branches, by what the protocol calls them."""
    return {
        "run here": StepCall(a_call(tool="run_here")),
        "wait": StepCall(a_waiting_call(tool="wait")),
        "isAsync": StepCall(a_pending_call(tool="is_async")),
        "approval": StepCall(a_call_for_approval(tool="approval")),
        "built-in": StepCall(a_call(tool="send_message"), over(done({"ok": True}))),
    }


def over(outcome: Done | Failed) -> Builtin:
    """A built-in that does nothing but come to this."""

    def deed() -> Script[Done | Failed]:
        yield from ()
        return outcome

    return deed


async def known(store: Store, *agents: str) -> None:
    """There are these agents, switched on."""
    for agent in agents:
        await store.write(partial(agent_tx.put_agent, agent, definition="{}", origin="api"))


async def stepped(store: Store, cycle: Cycle, *calls: StepCall, n: int = 1) -> list[str]:
    """The ids of a step's calls."""
    written = await store.write(
        partial(take_step, cycle, n=n, message=f'{{"step":{n}}}', calls=calls, large_result=store.large_result)
    )
    assert written is not None
    return [call.id for call in written]


async def taken_over(store: Store, cycle: Cycle, *, owner: str = "gw_b") -> Cycle:
    """The cycle as a second gateway has it after the first was found dead. The first does not know."""
    await run(store, "UPDATE gateways SET dead = 1 WHERE id = :id", id=cycle.owner)
    taken = await store.write(partial(take_over, cycle, owner=owner))
    assert taken is not None
    return taken


async def inbox_of(store: Store, agent: str = "ada") -> dict[str, str]:
    """Each event's status."""
    return {event.event_id: event.status for event in await events_of(store, agent)}


async def events_of(store: Store, agent: str = "ada") -> list[InboxEvent]:
    events, _ = await store.read(partial(inbox_page, agent, limit=1_000))
    return events


async def all_that_is_kept(store: Store) -> dict[str, list[dict[str, Any]]]:
    """Every row that a cycle's move may touch."""
    order = {"runs": "id", "steps": "cycle_id, n", "calls": "id", "inbox": "seq", "consciousness": "agent"}
    order |= {"spaces": "id", "space_messages": "id", "space_events": "space_id, seq", "presence": "space_id, run_id"}
    return {table: await run(store, f"SELECT * FROM {table} ORDER BY {keys}") for table, keys in order.items()}


async def run(store: Store, sql: str, **values: Any) -> list[dict[str, Any]]:
    statement = Sql("of the test", sql)
    return [dict(row) for row in await store.write(partial(scripts.run, statement, **values))]


def data_of(event: InboxEvent) -> Any:
    return msgspec.json.decode(event.data)


def as_if_of(cycle: Cycle, *, epoch: int) -> Cycle:
    """The cycle in the hands of somebody who means another epoch."""
    return replace(cycle, epoch=epoch)
