"""Two gateways on one PostgreSQL that want the same agent, the same cycle or the same call at once."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from jackfield.agents.cycle_transactions import StepCall, abandon, commit, get_context, get_cycle, open_cycle, take_over
from jackfield.calls import transactions as call_tx
from jackfield.calls.transactions import Moved
from jackfield.model.call import Call, CallStatus, Delivery, done
from jackfield.model.ids import new_id
from jackfield.store.postgres import PostgresStore
from tests.store.calls import a_call, a_waiting_call
from tests.store.cycles import RECORD, inbox_of, run, stepped, tell, woken
from tests.store.shared_postgres import until_waiting

if TYPE_CHECKING:
    from tests.store.shared_postgres import Connection

pytestmark = pytest.mark.timeout(60)
ROUNDS = 20


async def test_of_two_gateways_that_wake_an_agent_one_does(store: PostgresStore, other: PostgresStore) -> None:
    agents = [f"agent_{n:02}" for n in range(ROUNDS)]
    for agent in agents:
        await tell(store, agent, f"{agent}_1", f"{agent}_2")
    tries = [
        gateway.write(partial(open_cycle, new_id("cycle"), agent=agent, owner=owner))
        for agent in agents
        for gateway, owner in ((store, "gw_a"), (other, "gw_b"))
    ]
    opened = [one for one in await asyncio.gather(*tries) if one is not None]
    assert sorted(one.cycle.agent for one in opened) == agents
    for one in opened:
        assert one.cycle.consumed == (f"{one.cycle.agent}_1", f"{one.cycle.agent}_2")
    assert len(await run(store, "SELECT id FROM runs")) == ROUNDS


async def test_of_two_gateways_that_take_a_cycle_over_one_does(store: PostgresStore, other: PostgresStore) -> None:
    for n in range(ROUNDS):
        cycle = (await woken(store, f"agent_{n:02}", owner="gw_gone", events=(f"e{n}",))).cycle
        both = await asyncio.gather(
            store.write(partial(take_over, cycle, owner="gw_a")),
            other.write(partial(take_over, cycle, owner="gw_b")),
        )
        [taken] = [one for one in both if one is not None]
        assert await other.read(partial(get_cycle, cycle.id)) == taken
        assert (taken.epoch, taken.tries) == (2, 2)


async def test_a_commit_and_a_take_over_at_once_are_one_or_the_other(
    store: PostgresStore, other: PostgresStore
) -> None:
    """The owner was paused, is taken for dead, and commits at the very moment when another takes its cycle."""
    for n in range(ROUNDS):
        agent = f"agent_{n:02}"
        cycle = (await woken(store, agent, owner="gw_paused", events=(f"e{n}",))).cycle
        committed, taken = await asyncio.gather(
            store.write(partial(commit, cycle, context="mine", record=RECORD)),
            other.write(partial(take_over, cycle, owner="gw_b")),
        )
        assert (committed is None) != (taken is None)
        assert (await store.read(partial(get_context, agent)) is None) == (committed is None)
        expected = "processing" if committed is None else "processed"
        assert await inbox_of(store, agent) == {f"e{n}": expected}


async def test_a_gateway_that_looked_before_anothers_whole_cycle_opens_none(
    store: PostgresStore, outside: "Connection"
) -> None:
    await tell(store, "ada", "e1")
    async with outside.transaction():
        await outside.execute(
            "INSERT INTO runs (id, kind, agent, status, owner, epoch, tries, number, created_at) "
            "VALUES ('cycle_0', 'cycle', 'ada', 'open', 'gw_b', 1, 1, 7, 0)"
        )
        late = store.write(partial(open_cycle, "cycle_1", agent="ada", owner="gw_a"))
        await until_waiting(outside)
        await outside.execute("UPDATE inbox SET status = 'processed', cycle_id = 'cycle_0'")
        await outside.execute("UPDATE runs SET status = 'done'")
    assert await late is None
    assert [row["id"] for row in await outside.fetch("SELECT id FROM runs")] == ["cycle_0"]
    assert await inbox_of(store) == {"e1": "processed"}


async def test_a_step_under_way_is_in_the_failure_that_comes_after_it(
    store: PostgresStore, other: PostgresStore, outside: "Connection"
) -> None:
    cycle = (await woken(store)).cycle
    async with outside.transaction():
        await outside.execute("LOCK TABLE steps IN ACCESS EXCLUSIVE MODE")
        step = asyncio.create_task(stepped(store, cycle, StepCall(a_waiting_call())))
        await until_waiting(outside)
        giving_up = other.write(partial(abandon, cycle, reason="removed", backoff_ms=0))
        await until_waiting(outside, count=2)
    [call_id] = await step
    assert await giving_up is not None
    call = await store.read(partial(call_tx.get_call, call_id))
    assert call is not None
    assert (call.status, call.delivery) == (CallStatus.PENDING, Delivery.INBOX)


Settle = Callable[[PostgresStore, str], Coroutine[Any, Any, Moved]]


@pytest.mark.parametrize(
    ("make", "settle"),
    [
        (
            a_call,
            lambda store, id_: store.write(
                partial(
                    call_tx.settle_executed, id_, done(1), attempt=1, duration_ms=1.0, large_result=store.large_result
                )
            ),
        ),
        (
            a_waiting_call,
            lambda store, id_: store.write(
                partial(call_tx.settle_submitted, id_, done(1), large_result=store.large_result)
            ),
        ),
    ],
    ids=["running", "waiting"],
)
async def test_an_answer_that_comes_while_a_cycle_is_given_up_waits_and_reaches_the_inbox(
    store: PostgresStore, other: PostgresStore, outside: "Connection", make: Callable[[], Call], settle: Settle
) -> None:
    cycle = (await woken(store)).cycle
    [call_id] = await stepped(store, cycle, StepCall(make()))
    async with outside.transaction():
        await outside.execute("SELECT 1 FROM inbox FOR UPDATE")
        giving_up = store.write(partial(abandon, cycle, reason="removed", backoff_ms=0))
        await until_waiting(outside)
        settling = asyncio.ensure_future(settle(other, call_id))
        await until_waiting(outside, count=2)
    assert await giving_up is not None
    moved = await settling
    assert moved.moved
    assert moved.call is not None
    assert moved.call.delivery is Delivery.INBOX
    assert sorted(await inbox_of(store)) == sorted(["e1", f"cf:{cycle.id}", f"tr:{call_id}"])


async def test_an_answer_under_way_when_a_cycle_is_given_up_reaches_the_inbox(
    store: PostgresStore, outside: "Connection"
) -> None:
    cycle = (await woken(store)).cycle
    [call_id] = await stepped(store, cycle, StepCall(a_waiting_call()))
    async with outside.transaction():
        await outside.execute(
            "UPDATE calls SET status = 'completed', delivery = 'inline', result = '1' WHERE id = $1", call_id
        )
        giving_up = store.write(partial(abandon, cycle, reason="removed", backoff_ms=0))
        await until_waiting(outside)
    assert await giving_up is not None
    assert sorted(await inbox_of(store)) == sorted(["e1", f"cf:{cycle.id}", f"tr:{call_id}"])
