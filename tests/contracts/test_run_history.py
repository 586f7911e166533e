"""What every store holds of the history of runs: lists of all kinds, and what each step asked a model and cost."""

from functools import partial

import pytest

from jackfield.agents import cycle_transactions as cycle_tx
from jackfield.gateway.retention import prune
from jackfield.llm.types import ModelRequest, Price
from jackfield.model.ids import new_id
from jackfield.model.items import InputText, Item, Message, OutputText, Usage
from jackfield.programs import transactions as program_tx
from jackfield.responses import transactions as response_tx
from jackfield.responses.transactions import StoredResponse
from jackfield.runs import listing
from jackfield.runs import transactions as run_tx
from jackfield.runs.listing import RunFilter, one_run, place_of, run_page
from jackfield.runs.model_steps import LONGEST_ITEM, StepLogs, StepTotals, last_step, steps_of, totals_of
from jackfield.sessions import transactions as session_tx
from jackfield.store import Store
from tests.requirement import requirement
from tests.store.calls import a_call
from tests.waiting import eventually_async


async def cycle(store: Store, agent: str = "ada") -> str:
    event = partial(cycle_tx.push_event, agent, event_id=new_id("evt"), type="service", data="{}")
    await store.write(event)
    opened = await store.write(partial(cycle_tx.open_cycle, new_id("cycle"), agent=agent, owner="gw_a"))
    assert opened is not None
    return opened.cycle.id


async def response(store: Store, principal: str = "own") -> str:
    made = StoredResponse(
        id=new_id("resp"),
        principal=principal,
        status="in_progress",
        previous_id=None,
        resource="{}",
        input="[]",
        owner="gw_a",
    )
    await store.write(partial(response_tx.begin_journaled, made, request="{}"))
    return made.id


async def program(store: Store, principal: str = "own") -> str:
    run_id = program_tx.program_id(a_call().id)
    begin = partial(run_tx.begin_run, run_id, kind="program", principal=principal, request="{}", owner="gw_a")
    run = await store.write(begin)
    assert run is not None
    await store.write(partial(run_tx.park, run))
    return run_id


async def session(store: Store, owner: str = "own") -> str:
    session_id = new_id("ses")
    await store.write(partial(session_tx.begin_session, session_id, owner=owner, agent="ada", gateway="gw_a"))
    return session_id


async def ids(store: Store, **wanted: object) -> list[str]:
    page = await store.read(partial(run_page, RunFilter(**wanted), limit=50))  # type: ignore[arg-type] # in short
    return [listed.run.id for listed in page.runs]


@requirement("RUN-LISTED")
async def test_runs_of_all_kinds_are_listed_newest_first_and_filtered(store: Store) -> None:
    made = [await response(store), await program(store), await cycle(store), await session(store)]
    theirs = await response(store, "other")

    def newest(*run_ids: str) -> list[str]:
        return sorted(run_ids, key=place_of, reverse=True)  # several may be of one millisecond

    assert await ids(store) == newest(theirs, *made)
    assert await ids(store, own=("own",), agents=()) == newest(made[3], made[1], made[0])
    assert await ids(store, own=("agent:ada",), agents=("ada",)) == [made[2]]
    assert await ids(store, own=("own", "other"), agents=("ada", "bob")) == newest(theirs, *made)
    assert await ids(store, status=("queued", "parked")) == [made[1]]
    assert await ids(store, kind="response", principal="other") == [theirs]
    assert await ids(store, agent="ada") == newest(made[3], made[2])
    now = await store.now_ms()
    assert await ids(store, since=now + 60_000) == []
    assert len(await ids(store, since=now - 60_000, until=now + 60_000)) == 5
    first = await store.read(partial(run_page, RunFilter(), limit=2))
    rest = await store.read(partial(run_page, RunFilter(), limit=50, cursor=first.next_cursor))
    assert [one.run.id for one in (*first.runs, *rest.runs)] == newest(theirs, *made)
    assert rest.next_cursor is None
    for run_id, status in zip(made, ("running", "queued", "running", "running"), strict=True):
        listed = await store.read(partial(one_run, run_id))
        assert listed is not None
        assert (listed.run.id, listed.run.status) == (run_id, status)
    assert await store.read(partial(one_run, "cycle_0")) is None


@requirement("RUN-LISTED")
async def test_a_status_that_few_runs_have_is_looked_for_in_bounded_steps(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "WINDOW", 3)
    parked = [await program(store) for _ in range(2)]
    for _ in range(7):
        await response(store)
    parked.append(await program(store))
    found: list[str] = []
    looks, cursor = 0, None
    while looks == 0 or cursor is not None:
        wanted = RunFilter(status=("queued", "parked"))
        page = await store.read(partial(run_page, wanted, limit=50, cursor=cursor))
        found += [one.run.id for one in page.runs]
        looks, cursor = looks + 1, page.next_cursor
    assert found == sorted(parked, key=place_of, reverse=True)
    assert looks == 2


def said(text: str, role: str = "user") -> Item:
    part = InputText(text=text) if role == "user" else OutputText(text=text)
    return Message(role=role, content=(part,))  # type: ignore[arg-type] # one of its words


@requirement("RUN-SHOWN")
async def test_what_a_step_asked_and_cost_is_kept_once_and_pruned_with_its_run(store: Store) -> None:
    run_id = await response(store)
    price = Price(input=1.0, output=10.0)
    logs = StepLogs(store, redact=lambda raw: raw, price_of=lambda _: price)
    log = logs.of(run_id, model="mind")
    first = log.ask(1, ModelRequest(items=(said("one"),), instructions="Be brief."), retries=1)
    first.hear()
    answer = said("yes", "assistant")
    first.answered([answer], [], finish="stop", usage=Usage(input_tokens=1000, output_tokens=100, total_tokens=1100))
    request = ModelRequest(items=(said("one"), answer, said("x" * (LONGEST_ITEM + 1))), instructions="Be brief.")
    second = log.ask(2, request, retries=0)
    second.failed([], code="model_error", message="It broke.")

    async def both() -> bool:
        return await store.read(partial(last_step, run_id)) == 2

    await eventually_async(both)
    one, two = await store.read(partial(steps_of, run_id))
    assert (one.n, one.model, one.retries, one.finish) == (1, "mind", 1, "stop")
    assert one.cost == pytest.approx(0.002)
    assert one.asked_at <= (one.first_at or 0) <= one.answered_at
    assert (one.messages.kept, one.messages.instructions, len(one.messages.sent)) == (0, "Be brief.", 1)
    assert (two.messages.kept, two.messages.instructions, two.first_at) == (2, None, None)
    [cut] = two.messages.sent
    assert (cut["type"], cut["of"], cut["role"]) == ("cut", "message", "user")
    assert (two.error_code, two.error_message, two.cost) == ("model_error", "It broke.", None)
    totals = await store.read(partial(totals_of, [run_id]))
    counted = StepTotals(
        steps=2,
        model="mind",
        input_tokens=1000,
        output_tokens=100,
        cached_tokens=0,
        cost=one.cost,
        model_ms=totals[run_id].model_ms,
    )
    assert totals == {run_id: counted}
    logs.of(run_id, model="mind").ask(2, ModelRequest(items=()), retries=0).answered([], [], finish="stop", usage=None)

    async def replaced() -> bool:
        return (await store.read(partial(steps_of, run_id)))[1].error_code is None

    await eventually_async(replaced)
    run = await store.read(partial(run_tx.get_run, run_id))
    assert run is not None
    await store.write(partial(run_tx.end, run, status="done"))
    await store.write(partial(response_tx.settle_response, run_id, status="completed", resource="{}", output="[]"))
    await prune(store, keep_days=-1)
    assert await store.read(partial(steps_of, run_id)) == []


@requirement("RUN-ENDED")
async def test_a_cycle_is_stopped_once_and_its_events_are_given_again(store: Store) -> None:
    cycle_id = await cycle(store)
    before = await store.read(partial(cycle_tx.get_cycle, cycle_id))
    assert before is not None
    stopped = await store.write(partial(cycle_tx.stop, cycle_id, reason="Stopped by ada."))
    assert stopped is not None
    assert await store.write(partial(cycle_tx.stop, cycle_id, reason="Again.")) is None
    record = cycle_tx.CycleOutcome(summary="too late")
    assert await store.write(partial(cycle_tx.commit, before, context="{}", record=record)) is None
    listed = await store.read(partial(one_run, cycle_id))
    assert listed is not None
    assert (listed.run.status, listed.run.reason) == ("cancelled", "Stopped by ada.")
    assert await store.write(partial(cycle_tx.open_cycle, new_id("cycle"), agent="ada", owner="gw_a")) is None
    assert await store.write(partial(cycle_tx.try_again, cycle_id))
    assert not await store.write(partial(cycle_tx.try_again, cycle_id))
    again = await store.write(partial(cycle_tx.open_cycle, new_id("cycle"), agent="ada", owner="gw_a"))
    assert again is not None
    assert again.cycle.consumed == before.consumed


@requirement("RUN-ENDED")
async def test_an_abandoned_cycle_is_tried_again_at_once_unless_a_later_one_has_begun(store: Store) -> None:
    cycle_id = await cycle(store)
    open_cycle = await store.read(partial(cycle_tx.get_cycle, cycle_id))
    assert open_cycle is not None
    await store.write(partial(cycle_tx.abandon, open_cycle, reason="It broke.", backoff_ms=3_600_000))
    assert await store.write(partial(cycle_tx.open_cycle, new_id("cycle"), agent="ada", owner="gw_a")) is None
    assert await store.write(partial(cycle_tx.try_again, cycle_id))
    again = await store.write(partial(cycle_tx.open_cycle, new_id("cycle"), agent="ada", owner="gw_a"))
    assert again is not None
    assert set(again.cycle.consumed) == {*open_cycle.consumed, f"cf:{cycle_id}"}
    await store.write(partial(cycle_tx.abandon, again.cycle, reason="Again.", backoff_ms=3_600_000))
    assert not await store.write(partial(cycle_tx.try_again, cycle_id))
