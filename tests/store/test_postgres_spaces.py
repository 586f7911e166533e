"""Two gateways on one PostgreSQL that write into the same spaces at once."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest

from jackfield.agents import transactions as agent_tx
from jackfield.agents.cycle_transactions import StepCall, abandon, commit, open_cycle
from jackfield.calls import transactions as call_tx
from jackfield.model.agent_state import PlanDraft
from jackfield.model.call import done
from jackfield.model.ids import new_id
from jackfield.model.space import SpaceEvent, call_message_id
from jackfield.spaces import transactions as space_tx
from jackfield.store.postgres import PostgresStore
from tests.store.calls import a_waiting_call
from tests.store.cycles import RECORD, events_of, inbox_of, known, stepped
from tests.store.shared_postgres import until_waiting
from tests.store.spaces import HUSAM, a_space, kinds, metadata_of, said, told

if TYPE_CHECKING:
    from tests.store.shared_postgres import Connection

pytestmark = pytest.mark.timeout(60)
ROUNDS = 20
POSTS = 150


async def test_two_gateways_that_post_at_once_number_without_gap_or_repeat_and_a_reader_misses_nothing(
    store: PostgresStore, other: PostgresStore
) -> None:
    """Numbers become visible in their order: who reads on from the last one it saw never passes one by."""
    await a_space(store)
    posting = asyncio.gather(*(said(one, f"{n}") for n in range(POSTS) for one in (store, other)))
    seen: list[SpaceEvent] = []
    async with asyncio.timeout(30):
        while len(seen) < 2 + 2 * POSTS:
            position = seen[-1].seq if seen else 0
            seen += await other.read(partial(space_tx.events_after, "lobby", position, 7))
    assert [event.seq for event in seen] == [*range(1, 2 * POSTS + 3)]
    posted = await posting
    assert sorted(one.seq for one in posted) == [*range(3, 2 * POSTS + 3)]
    by_seq = {one.seq: one.id for one in posted}
    for event in seen[2:]:
        assert msgspec.json.decode(event.data)["message"]["id"] == by_seq[event.seq]
    assert len(await events_of(store)) == 2 * POSTS


async def test_a_post_waits_for_the_one_before_it_in_its_space_and_for_no_other(
    store: PostgresStore, other: PostgresStore, outside: "Connection"
) -> None:
    for space_id in ("lobby", "hall"):
        await a_space(store, space_id)
    async with outside.transaction():
        await outside.execute("UPDATE spaces SET last_seq = last_seq + 1 WHERE id = 'lobby'")
        held = asyncio.create_task(said(store, "held"))
        await until_waiting(outside)
        free = await said(other, "free", space_id="hall")
        assert not held.done()
        await outside.execute(
            "INSERT INTO space_events (space_id, seq, type, data, created_at) VALUES ('lobby', 3, 'x', '{}', 0)"
        )
    assert (await held).seq == 4
    assert free.seq == 3


async def test_one_message_sent_through_two_gateways_is_one(store: PostgresStore, other: PostgresStore) -> None:
    await a_space(store)
    for n in range(ROUNDS):
        first, second = await asyncio.gather(*(said(one, "hi", message_id=f"m{n}") for one in (store, other)))
        assert first == second
    assert await kinds(store) == ["space.message"] * ROUNDS
    assert len(await events_of(store)) == ROUNDS


async def test_an_answer_while_a_cycle_is_given_up_is_shown_and_reaches_the_inbox_once(
    store: PostgresStore, other: PostgresStore
) -> None:
    for n in range(ROUNDS):
        space_id = await a_space(store, f"space_{n}", agents=(f"agent_{n}",))
        await said(store, "hi", space_id=space_id)
        opened = await store.write(partial(open_cycle, new_id("cycle"), agent=f"agent_{n}", owner="gw_a"))
        assert opened is not None
        shown = {"space_id": space_id, "shown": "whole", "run_id": opened.cycle.id}
        [call_id] = await stepped(store, opened.cycle, StepCall(a_waiting_call(**shown)))
        failed, settled = await asyncio.gather(
            store.write(partial(abandon, opened.cycle, reason="removed", backoff_ms=0)),
            other.write(partial(call_tx.settle_submitted, call_id, done({"n": n}), large_result=other.large_result)),
        )
        assert failed is not None
        assert settled.moved
        message = await store.read(partial(space_tx.get_message, call_message_id(call_id)))
        assert message is not None
        assert (metadata_of(message)["status"], metadata_of(message)["result"]) == ("complete", {"n": n})
        ends = [kind for kind, _ in await told(store, space_id)]
        assert (ends.count("tool.done"), ends.count("agent.inactive")) == (1, 1)
        assert f"tr:{call_id}" in await inbox_of(store, f"agent_{n}")


async def test_of_two_gateways_that_fire_a_plan_one_does(store: PostgresStore, other: PostgresStore) -> None:
    await known(store, "ada")
    plans = await store.write(
        partial(agent_tx.set_plans, "ada", [PlanDraft(name=f"p{n}", next_run_at=n + 1) for n in range(ROUNDS)])
    )
    assert isinstance(plans, list)
    fired = await asyncio.gather(
        *(one.write(partial(agent_tx.fire_plan, plan, next_run_at=None)) for plan in plans for one in (store, other))
    )
    assert sum(fired) == ROUNDS
    told_of = [event.event_id.partition(":")[0] for event in await events_of(store)]
    assert sorted(told_of) == sorted(plan.id for plan in plans)


async def test_a_message_at_one_gateway_wakes_followers_and_agents_at_the_other(
    store: PostgresStore, other: PostgresStore
) -> None:
    await a_space(store)
    with other.bus.listen("space:lobby") as followed, other.bus.listen("inbox:ada") as told_of:
        await said(store, "hi")
        async with asyncio.timeout(10):
            await followed.wait()
            await told_of.wait()


async def test_an_agent_that_wakes_twice_at_once_is_active_once(store: PostgresStore, other: PostgresStore) -> None:
    await a_space(store)
    for n in range(ROUNDS):
        await store.write(partial(space_tx.post_message, "lobby", sender=HUSAM, content="hi", message_id=f"m{n}"))
        tries = (one.write(partial(open_cycle, new_id("cycle"), agent="ada", owner="gw_a")) for one in (store, other))
        [opened] = [one for one in await asyncio.gather(*tries) if one is not None]
        assert len(await store.read(partial(space_tx.presence_in, "lobby"))) == 1
        await other.write(partial(commit, opened.cycle, context="c", record=RECORD))
        assert await store.read(partial(space_tx.presence_in, "lobby")) == []
    seen = await kinds(store)
    assert (seen.count("agent.active"), seen.count("agent.inactive")) == (ROUNDS, ROUNDS)
