"""What every store tells of runs: cycles and responses together, the newest first, for who may see them."""

import asyncio
from functools import partial

import msgspec

from jackfield.agents import transactions as agent_tx
from jackfield.agents.cycle_transactions import Cycle, CycleOutcome, abandon, commit, open_cycle, push_event, take_step
from jackfield.agents.transactions import last_cycles, run_page
from jackfield.model.ids import new_id
from jackfield.responses import transactions as response_tx
from jackfield.responses.transactions import StoredResponse
from jackfield.store import Store
from jackfield.store.scripts import RUN_TOPIC


async def a_cycle(store: Store, agent: str) -> Cycle:
    await store.write(partial(push_event, agent, event_id=new_id("e"), type="service", data="{}"))
    opened = await store.write(partial(open_cycle, new_id("cycle"), agent=agent, owner="gw_a"))
    assert opened is not None
    committed = await store.write(partial(commit, opened.cycle, context="{}", record=CycleOutcome(summary="Done.")))
    assert committed is not None
    return committed


async def a_response(store: Store, principal: str) -> str:
    response = StoredResponse(
        id=new_id("resp"),
        principal=principal,
        status="completed",
        previous_id=None,
        resource="{}",
        input="[]",
        owner="gw_a",
    )
    await store.write(partial(response_tx.add_response, response))
    return response.id


async def four_runs(store: Store) -> list[str]:
    """A cycle of ada, a response of eve, a cycle of bob, a response of fay, in this order of time."""
    ids = []
    for make in (a_cycle(store, "ada"), a_response(store, "eve"), a_cycle(store, "bob"), a_response(store, "fay")):
        made = await make
        ids.append(made if isinstance(made, str) else made.id)
        await asyncio.sleep(0.002)  # ids tell milliseconds
    return ids


async def test_runs_come_newest_first_page_by_page(store: Store) -> None:
    ids = await four_runs(store)
    first = await store.read(partial(run_page, limit=3))
    rest = await store.read(partial(run_page, limit=3, cursor=first.next_cursor))
    assert [run.id for run in first.runs] == [ids[3], ids[2], ids[1]]
    assert ([run.id for run in rest.runs], rest.next_cursor) == ([ids[0]], None)
    assert (await store.read(partial(run_page, limit=4))).next_cursor is None


async def test_runs_are_those_of_the_agents_and_the_principal_that_are_asked_for(store: Store) -> None:
    ada, eve, bob, fay = await four_runs(store)

    async def found(**wanted: object) -> list[str]:
        page = await store.read(partial(run_page, limit=10, **wanted))  # type: ignore[arg-type]  # each test's own filter
        return [run.id for run in page.runs]

    assert await found(agents=["ada"], principal="fay") == [fay, ada]
    assert await found(agents=[], principal="eve") == [eve]
    assert await found(agents=["bob", "ada"], with_responses=False) == [bob, ada]
    assert await found(agents=["nobody"], principal="nobody") == []


async def test_the_last_cycle_of_every_agent_is_told_at_once(store: Store) -> None:
    for agent in ("ada", "bob", "eve"):
        await store.write(partial(agent_tx.put_agent, agent, definition="{}", origin="api"))
    await a_cycle(store, "ada")
    last = {"ada": await a_cycle(store, "ada"), "bob": await a_cycle(store, "bob")}
    assert await store.read(last_cycles) == last
    assert last["ada"].number == 2


async def test_who_waits_for_a_run_is_woken_by_its_steps_and_by_its_end(store: Store) -> None:
    for end in ("commit", "abandon"):
        await store.write(partial(push_event, "ada", event_id=new_id("e"), type="service", data="{}"))
        opened = await store.write(partial(open_cycle, new_id("cycle"), agent="ada", owner="gw_a"))
        assert opened is not None
        cycle = opened.cycle
        with store.bus.listen(RUN_TOPIC + cycle.id) as woken:
            await store.write(
                partial(
                    take_step,
                    cycle,
                    n=1,
                    message=msgspec.json.encode({"items": []}).decode(),
                    large_result=store.large_result,
                )
            )
            async with asyncio.timeout(5):
                await woken.wait()
            woken.clear()
            if end == "commit":
                await store.write(partial(commit, cycle, context="{}", record=CycleOutcome()))
            else:
                await store.write(partial(abandon, cycle, reason="no", backoff_ms=0))
            async with asyncio.timeout(5):
                await woken.wait()
