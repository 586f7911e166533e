"""Deadlocks in PostgreSQL: our own stores make none, and one that somebody else brings about is not felt."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import asyncpg
import pytest

from jackfield.agents import transactions as agent_tx
from jackfield.agents.cycle_transactions import (
    Builtin,
    Cycle,
    CycleNotice,
    CycleStatus,
    StepCall,
    abandon,
    commit,
    get_cycle,
    open_cycle,
    take_step,
)
from jackfield.calls import transactions as call_tx
from jackfield.model.call import Call, Done, Failed, done
from jackfield.model.ids import new_id
from jackfield.runs import transactions as run_tx
from jackfield.spaces import transactions as space_tx
from jackfield.store.postgres import PostgresStore
from jackfield.store.scripts import Script, Sql
from tests.postgres import PostgresServer
from tests.requirement import requirement
from tests.store.calls import a_call, a_pending_call, a_waiting_call
from tests.store.cycles import RECORD, inbox_of, stepped, woken
from tests.store.shared_postgres import deadlocks, until_waiting
from tests.store.spaces import a_space, kinds, said
from tests.waiting import TIMEOUT

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, empty_database: str) -> str:
    """A database of its own: the server counts deadlocks by database, and tells them late."""
    return postgres_server.url(empty_database)


async def test_two_gateways_settle_the_same_calls_and_each_has_one_winner(
    store: PostgresStore, other: PostgresStore, outside: "Connection"
) -> None:
    calls = [a_pending_call(agent="ada") for _ in range(150)]
    await asyncio.gather(*(store.write(partial(call_tx.start_call, call)) for call in calls))
    here = [
        store.write(partial(call_tx.settle_submitted, call.id, done("here"), large_result=store.large_result))
        for call in calls
    ]
    there = [
        other.write(partial(call_tx.settle_submitted, call.id, done("there"), large_result=other.large_result))
        for call in reversed(calls)
    ]
    cancels = [
        other.write(partial(call_tx.settle_cancelled, call.id, Failed("cancelled", "stop"))) for call in calls[::3]
    ]
    moved = await asyncio.gather(*here, *there, *cancels)
    winners = [move.call.id for move in moved if move.moved and move.call is not None]
    assert sorted(winners) == sorted(call.id for call in calls)
    assert await outside.fetchval("SELECT count(*) FROM inbox") == 150
    assert await outside.fetchval("SELECT count(DISTINCT event_id) FROM inbox") == 150
    assert await deadlocks(outside, of=[store, other]) == 0


async def test_batches_that_want_the_same_rows_in_opposite_order_do_not_deadlock(
    store: PostgresStore, other: PostgresStore, outside: "Connection"
) -> None:
    """Different statements, so that no two neighbours travel together, each batch begun while the other holds rows."""
    for _ in range(10):
        calls = [a_call(idempotent=True) for _ in range(24)]
        await asyncio.gather(*(store.write(partial(call_tx.start_call, call)) for call in calls))
        await asyncio.gather(*(_churn(store, calls)), *(_churn(other, calls[::-1])))
    assert await deadlocks(outside, of=[store, other]) == 0


def _churn(store: PostgresStore, calls: list[Call]) -> list["asyncio.Future[object]"]:
    acts: list[asyncio.Future[object]] = []
    for number, call in enumerate(calls):
        move = (
            store.write(partial(call_tx.reclaim, call.id, owner="gw_x", seen=1))
            if number % 2
            else store.write(partial(call_tx.mark_sent, call.id))
        )
        acts.append(asyncio.ensure_future(move))
        acts.append(
            asyncio.ensure_future(
                store.write(
                    partial(
                        call_tx.settle_executed,
                        call.id,
                        done(1),
                        attempt=1,
                        duration_ms=1.0,
                        large_result=store.large_result,
                    )
                )
            )
        )
    return acts


async def test_a_deadlock_with_somebody_else_is_not_felt(store: PostgresStore, outside: "Connection") -> None:
    first, second = a_waiting_call(id="call_1"), a_waiting_call(id="call_2")
    await asyncio.gather(
        store.write(partial(call_tx.start_call, first)), store.write(partial(call_tx.start_call, second))
    )
    await outside.execute("SET deadlock_timeout = '1min'")
    async with asyncio.timeout(TIMEOUT), outside.transaction():
        await outside.execute("SELECT 1 FROM calls WHERE id = 'call_2' FOR UPDATE")
        both = asyncio.gather(
            *(
                store.write(partial(call_tx.settle_submitted, call.id, done(1), large_result=store.large_result))
                for call in (second, first)
            )
        )
        await until_waiting(outside)
        await outside.execute("SELECT 1 FROM calls WHERE id = 'call_1' FOR UPDATE")
    assert [move.moved for move in await both] == [True, True]
    # The second try may have its row again before the other one wakes up: then there is a second deadlock.
    assert await deadlocks(outside, of=[store]) >= 1


async def test_a_deadlock_of_a_script_that_locks_several_rows_is_not_felt(
    store: PostgresStore, outside: "Connection"
) -> None:
    def both() -> Script[int]:
        first = yield Sql("first", "UPDATE calls SET waiter = 'x' WHERE id = 'call_1' RETURNING id"), {}
        second = yield Sql("second", "UPDATE calls SET waiter = 'x' WHERE id = 'call_2' RETURNING id"), {}
        return len(first) + len(second)

    await asyncio.gather(
        *(store.write(partial(call_tx.start_call, a_waiting_call(id=f"call_{number}"))) for number in (1, 2))
    )
    await outside.execute("SET deadlock_timeout = '1min'")
    async with asyncio.timeout(TIMEOUT), outside.transaction():
        await outside.execute("SELECT 1 FROM calls WHERE id = 'call_2' FOR UPDATE")
        changed = store.write(both)
        await until_waiting(outside)
        await outside.execute("SELECT 1 FROM calls WHERE id = 'call_1' FOR UPDATE")
    assert await changed == 2
    # The second try may have its row again before the other one wakes up: then there is a second deadlock.
    assert await deadlocks(outside, of=[store]) >= 1


async def test_cycles_and_answers_in_one_rush_lose_nothing_and_never_wait_in_a_circle(
    store: PostgresStore, other: PostgresStore, outside: "Connection"
) -> None:
    cycles, calls = [], {}
    for n in range(12):
        cycle = (await woken(store, f"agent_{n:02}", events=(f"e{n}",))).cycle
        cycles.append(cycle)
        calls[cycle.id] = await stepped(store, cycle, *(StepCall(a_waiting_call()) for _ in range(5)))
    rush = [
        gateway.write(partial(call_tx.settle_submitted, call_id, done(1), large_result=gateway.large_result))
        for number in range(5)
        for call_id in [calls[cycle.id][number] for cycle in cycles]
        for gateway in (store, other)
    ]
    endings = [
        gateway.write(partial(abandon, cycle, reason="rush", backoff_ms=0))
        for cycle in cycles
        for gateway in (store, other)
    ]
    more = [
        store.write(
            partial(
                take_step,
                cycle,
                n=2,
                message="{}",
                calls=[StepCall(a_call())],
                large_result=store.large_result,
            )
        )
        for cycle in cycles
    ]
    settled, ended, _ = await asyncio.gather(asyncio.gather(*rush), asyncio.gather(*endings), asyncio.gather(*more))
    assert sum(one.moved for one in settled) == 60
    assert sorted(one.id for one in ended if one is not None) == sorted(cycle.id for cycle in cycles)
    for n, cycle in enumerate(cycles):
        told = await inbox_of(store, cycle.agent)
        assert sorted(told) == sorted([f"e{n}", f"cf:{cycle.id}", *(f"tr:{call_id}" for call_id in calls[cycle.id])])
        kept = await store.read(partial(get_cycle, cycle.id))
        assert kept is not None
        assert kept.status is CycleStatus.FAILED
    assert await deadlocks(outside, of=[store, other]) == 0


async def test_visible_calls_that_end_in_many_spaces_at_once_never_wait_in_a_circle(
    store: PostgresStore, other: PostgresStore, outside: "Connection"
) -> None:
    """Calls in one order, their spaces in another: each batch comes to its spaces after its calls, by their ids."""
    spaces = [await a_space(store, f"space_{n:02}") for n in range(12)]
    for turn in range(5):
        order = spaces[turn:] + spaces[:turn]
        here = [a_waiting_call(space_id=space_id, shown="whole") for space_id in order * 2]
        there = [a_waiting_call(space_id=space_id, shown="whole") for space_id in reversed(order * 2)]
        await asyncio.gather(
            *(store.write(partial(call_tx.start_call, call)) for call in here),
            *(other.write(partial(call_tx.start_call, call)) for call in there),
        )
        settled = await asyncio.gather(
            *(
                store.write(partial(call_tx.settle_submitted, call.id, done(1), large_result=store.large_result))
                for call in here
            ),
            *(
                other.write(partial(call_tx.settle_submitted, call.id, done(1), large_result=other.large_result))
                for call in there
            ),
            *(said(store, "hi", space_id=space_id) for space_id in reversed(order)),
            *(said(other, "hi", space_id=space_id) for space_id in order),
        )
        assert len(settled) == 72
    for space_id in spaces:
        seen = await kinds(store, space_id)
        assert (seen.count("tool.done"), seen.count("space.message")) == (20, 30)
    assert await deadlocks(outside, of=[store, other]) == 0


async def test_a_whole_life_in_spaces_in_one_rush_never_waits_in_a_circle(
    store: PostgresStore, other: PostgresStore, outside: "Connection"
) -> None:
    """Agents wake in the spaces they share, show calls, give up; people post and join; agents are removed."""
    agents = tuple(f"agent_{n}" for n in range(6))
    spaces = [await a_space(store, f"space_{n}", agents=agents) for n in range(4)]
    await asyncio.gather(*(said(store, "hi", space_id=space_id) for space_id in spaces))

    async def live(gateway: PostgresStore, agent: str) -> None:
        opened = await gateway.write(partial(open_cycle, new_id("cycle"), agent=agent, owner="gw_a"))
        assert opened is not None
        shown = [a_waiting_call(space_id=spaces[n % 4], shown="whole") for n in range(2)]
        await gateway.write(
            partial(
                space_tx.begin_showing,
                opened.cycle,
                call_id=shown[0].id,
                space_id=spaces[0],
                tool="echo",
                agent_name=agent,
            )
        )
        ids = await stepped(gateway, opened.cycle, *map(StepCall, shown))
        await asyncio.gather(
            *(
                other.write(partial(call_tx.settle_submitted, call_id, done(1), large_result=other.large_result))
                for call_id in ids
            ),
            store.write(partial(abandon, opened.cycle, reason="rush", backoff_ms=0)),
        )
        await other.write(partial(agent_tx.remove_agent, agent))

    await asyncio.gather(
        *(live(gateway, agent) for gateway, agent in zip([store, other] * 3, agents, strict=True)),
        *(said(one, "hi", space_id=space_id) for space_id in spaces * 5 for one in (other, store)),
        *(
            one.write(partial(space_tx.put_member, space_id, entity_id=f"p{n}", kind="person", name="P"))
            for n in range(5)
            for space_id in reversed(spaces)
            for one in (store, other)
        ),
    )
    for space_id in spaces:
        seen = await kinds(store, space_id)
        assert (seen.count("agent.active"), seen.count("agent.inactive"), seen.count("member.left")) == (6, 6, 6)
        assert seen.count("tool.started") == seen.count("tool.done")
    assert await deadlocks(outside, of=[store, other]) == 0


@requirement("SAFE-spaces-locked-in-order")
@pytest.mark.parametrize("ending", ["commit", "abandon", "step"])
async def test_two_cycles_that_come_to_two_spaces_in_opposite_order_never_wait_in_a_circle(
    store: PostgresStore, other: PostgresStore, outside: "Connection", ending: str
) -> None:
    """One shows a call in the space that the other is at work in, and the other way round; then both go on at once."""
    spaces = [await a_space(store, space_id, agents=("ada", "bob")) for space_id in ("a", "b")]
    for turn in range(30):
        cycles = []
        for agent, (works_in, shows_in) in (("ada", spaces), ("bob", spaces[::-1])):
            cycle = (await woken(store, agent, events=(f"e{turn}",))).cycle
            entered = StepCall(a_call(space_id=None), _arriving(cycle, works_in))
            await stepped(store, cycle, entered)
            call_id = new_id("call")
            await store.write(
                partial(space_tx.begin_showing, cycle, call_id=call_id, space_id=shows_in, tool="t", agent_name=agent)
            )
            cycles.append(cycle)

        async def end(gateway: PostgresStore, cycle: Cycle, places: list[str]) -> object:
            if ending == "commit":
                return await gateway.write(partial(commit, cycle, context="{}", record=RECORD))
            if ending == "abandon":
                notices = [CycleNotice(space_id, "No.") for space_id in places]
                return await gateway.write(partial(abandon, cycle, reason="rush", backoff_ms=0, notices=notices))
            shown = [StepCall(a_waiting_call(space_id=space_id, shown="whole")) for space_id in places]
            return await gateway.write(
                partial(take_step, cycle, n=2, message="{}", calls=shown, large_result=gateway.large_result)
            )

        done_with = await asyncio.gather(end(store, cycles[0], spaces), end(other, cycles[1], spaces[::-1]))
        assert None not in done_with
        if ending == "step":
            await asyncio.gather(*(store.write(partial(commit, one, context="{}", record=RECORD)) for one in cycles))
    assert await deadlocks(outside, of=[store, other]) == 0


def _arriving(cycle: Cycle, space_id: str) -> Builtin:
    def arrive() -> Script[Done | Failed]:
        yield from space_tx.arrive(space_id, agent=cycle.agent, run_id=cycle.id)
        return done(True)  # noqa: FBT003 - a result

    return arrive


@requirement("RUN-journal")
async def test_answers_to_many_runs_in_opposite_order_never_wait_in_a_circle(
    store: PostgresStore, other: PostgresStore, outside: "Connection"
) -> None:
    runs = []
    calls: list[Call] = []
    for _ in range(20):
        made = partial(run_tx.begin_run, new_id("resp"), kind="response", principal="ada", request="{}", owner="gw_a")
        begun = await store.write(made)
        assert begun is not None
        runs.append(begun)
        step = [a_pending_call() for _ in range(6)]
        await store.write(partial(run_tx.take_step, begun, n=1, message="{}", calls=step))
        calls += step
    shuffled = [call for turn in range(6) for call in reversed(calls[turn::6])]
    await asyncio.gather(
        *(
            gateway.write(partial(call_tx.settle_submitted, call.id, done(1), large_result=0))
            for gateway, answers in ((store, calls), (other, shuffled))
            for call in answers
        ),
        *(gateway.write(partial(run_tx.park, one)) for one in runs for gateway in (store, other)),
    )
    for one in runs:
        left = await store.read(partial(run_tx.get_run, one.id))
        assert left is not None
        assert (left.status, left.awaited) == ("ready", 0)
    assert await deadlocks(outside, of=[store, other]) == 0
