"""What every store holds of agents' cycles: T1, T7 to T10 of the pending protocol."""

import asyncio
from functools import partial
from typing import Any

import pytest
from msgspec import Raw

from jackfield.agents import transactions as agent_tx
from jackfield.agents.cycle_transactions import (
    Builtin,
    CycleOutcome,
    CycleStatus,
    StepCall,
    StoredContext,
    abandon,
    agents_to_wake,
    commit,
    cycles_of_agent,
    get_context,
    get_cycle,
    open_cycle,
    orphaned_cycles,
    read_journal,
    take_over,
    take_step,
)
from jackfield.calls import transactions as call_tx
from jackfield.calls.waiting import slot_of
from jackfield.gateway.retention import prune
from jackfield.model.call import CallStatus, Delivery, Done, Failed, FirstReply, Pending, done
from jackfield.model.ids import new_id
from jackfield.store import Store
from jackfield.store import gateways as gateway_tx
from jackfield.store.scripts import Script, Sql
from tests.requirement import requirement
from tests.store.calls import a_call, a_waiting_call, decoded
from tests.store.cycles import (
    RECORD,
    all_that_is_kept,
    as_if_of,
    data_of,
    events_of,
    inbox_of,
    known,
    one_call_of_each_form,
    over,
    run,
    stepped,
    taken_over,
    tell,
    woken,
)

HOUR_MS = 3_600_000


async def test_a_cycle_opens_for_all_events_that_are_due_in_the_order_they_came(store: Store) -> None:
    await tell(store, "bob", "other")
    await tell(store, "ada", "e2", "e1")
    await tell(store, "ada", "later")
    await run(store, "UPDATE inbox SET not_before = :at WHERE event_id = 'later'", at=await store.now_ms() + HOUR_MS)
    opened = await store.write(partial(open_cycle, "cycle_1", agent="ada", owner="gw_a"))
    assert opened is not None
    assert [event.event_id for event in opened.events] == ["e2", "e1"]
    cycle = opened.cycle
    assert (cycle.status, cycle.owner, cycle.epoch, cycle.tries, cycle.number) == (CycleStatus.OPEN, "gw_a", 1, 1, 1)
    assert cycle.consumed == ("e2", "e1")
    assert await inbox_of(store) == {"e2": "processing", "e1": "processing", "later": "pending"}
    assert await inbox_of(store, "bob") == {"other": "pending"}
    assert await store.read(partial(get_cycle, "cycle_1")) == cycle


async def test_without_an_event_that_is_due_no_cycle_opens(store: Store) -> None:
    await tell(store, "ada", "later")
    await run(store, "UPDATE inbox SET not_before = :at", at=await store.now_ms() + HOUR_MS)
    before = await all_that_is_kept(store)
    for agent in ("ada", "bob"):
        assert await store.write(partial(open_cycle, new_id("cycle"), agent=agent, owner="gw_a")) is None
    assert await all_that_is_kept(store) == before


async def test_an_agent_has_one_open_cycle_however_many_want_to_open_one(store: Store) -> None:
    await tell(store, "ada", "e1")
    tries = [store.write(partial(open_cycle, new_id("cycle"), agent="ada", owner=f"gw_{n}")) for n in range(10)]
    opened = [one for one in await asyncio.gather(*tries) if one is not None]
    assert len(opened) == 1
    await tell(store, "ada", "e2")
    assert await store.write(partial(open_cycle, new_id("cycle"), agent="ada", owner="gw_b")) is None
    assert await inbox_of(store) == {"e1": "processing", "e2": "pending"}
    assert (await woken(store, "bob")).cycle.number == 1


async def test_a_step_puts_every_form_of_call_on_record_before_anything_runs(store: Store) -> None:
    cycle = (await woken(store)).cycle
    calls = one_call_of_each_form()
    written = await store.write(
        partial(
            take_step,
            cycle,
            n=1,
            message='{"said":"x"}',
            calls=[*calls.values()],
            large_result=store.large_result,
        )
    )
    assert written is not None
    expected = {
        "run here": (CallStatus.RUNNING, None, None, 1),
        "wait": (CallStatus.WAITING, None, None, 0),
        "isAsync": (CallStatus.PENDING, Delivery.INBOX, FirstReply.PENDING, 0),
        "approval": (CallStatus.PENDING_APPROVAL, Delivery.INBOX, FirstReply.PENDING, 0),
        "built-in": (CallStatus.COMPLETED, Delivery.INLINE, None, 1),
    }
    for idx, (form, call) in enumerate(zip(calls, written, strict=True)):
        assert (call.status, call.delivery, call.first_reply, call.attempt) == expected[form]
        assert (call.agent, call.cycle_id, call.step, call.idx) == ("ada", cycle.id, 1, idx)
        assert (call.deadline is not None) == (form in {"run here", "wait"})
        assert (call.expires_at is not None) == (form in {"isAsync", "approval"})
        assert await store.read(partial(call_tx.get_call, call.id)) == call
    assert decoded(written[4].result) == {"ok": True}


def telling_bob(event_id: str) -> Builtin:
    """A built-in that puts an event into another agent's inbox and says which."""

    def deed() -> Script[Done | Failed]:
        event = {"event_id": event_id, "agent": "bob", "type": "service", "data": "{}", "not_before": 0}
        yield "insert_inbox_event", event
        return done(event_id)

    return deed


async def test_what_a_built_in_does_is_written_with_its_call_or_not_at_all(store: Store) -> None:
    cycle = (await woken(store)).cycle

    async def steps(*which: Any, **what: Any) -> Any:
        return await store.write(partial(take_step, *which, **what, large_result=store.large_result))

    first = await steps(cycle, n=1, message="{}", calls=[StepCall(a_call(), telling_bob("m1"))])
    assert first is not None
    assert first[0].outcome == done("m1")
    before = await all_that_is_kept(store)
    twice = [StepCall(a_call(), telling_bob(event_id)) for event_id in ("m2", "m1")]
    with pytest.raises(Exception, match=r"(?i)unique"):
        await steps(cycle, n=2, message="{}", calls=twice)
    assert await all_that_is_kept(store) == before
    paused = as_if_of(cycle, epoch=0)
    assert await steps(paused, n=2, message="{}", calls=[StepCall(a_call(), telling_bob("m3"))]) is None
    assert await inbox_of(store, "bob") == {"m1": "pending"}


async def test_built_ins_act_in_the_order_of_their_calls_and_see_what_came_before(store: Store) -> None:
    cycle = (await woken(store)).cycle
    told: list[list[str]] = []

    def looking() -> Script[Done | Failed]:
        rows = yield Sql("look", "SELECT event_id FROM inbox WHERE agent = 'bob'"), {}
        told.append(sorted(row["event_id"] for row in rows))
        return done(len(rows))

    calls = [looking, telling_bob("m1"), looking, telling_bob("m2"), looking]
    written = await store.write(
        partial(
            take_step,
            cycle,
            n=1,
            message="{}",
            calls=[StepCall(a_call(), one) for one in calls],
            large_result=store.large_result,
        )
    )
    assert written is not None
    assert [decoded(call.result) for call in written] == [0, "m1", 1, "m2", 2]
    assert told == [[], ["m1"], ["m1", "m2"]]


async def test_a_built_in_that_failed_or_has_much_to_tell_is_kept_as_any_call(store: Store) -> None:
    store.large_result = 1_000
    cycle = (await woken(store)).cycle
    failed, large = Failed("forbidden", "You are no member."), done("x" * 5_000)
    ids = await stepped(store, cycle, StepCall(a_call(), over(failed)), StepCall(a_call(), over(large)))
    refused, big = [await store.read(partial(call_tx.get_call, call_id)) for call_id in ids]
    assert refused is not None
    assert (refused.status, refused.outcome) == (CallStatus.FAILED, failed)
    assert big is not None
    assert len(bytes(big.result or Raw())) < 2_000
    kept = await run(store, "SELECT size FROM large_results WHERE call_id = :id", id=big.id)
    assert kept == [{"size": 5_002}]


async def test_a_step_is_written_once(store: Store) -> None:
    cycle = (await woken(store)).cycle
    await stepped(store, cycle, StepCall(a_call()))
    before = await all_that_is_kept(store)
    with pytest.raises(Exception, match=r"(?i)unique"):
        await stepped(store, cycle, StepCall(a_call()))
    assert await all_that_is_kept(store) == before


async def test_only_a_cycle_whose_owner_is_dead_is_taken_over_and_by_one(store: Store) -> None:
    cycle = (await woken(store)).cycle
    assert await store.read(orphaned_cycles) == []
    assert await store.write(partial(take_over, cycle, owner="gw_b")) is None
    await run(store, "UPDATE gateways SET dead = 1")
    assert await store.read(orphaned_cycles) == [cycle]
    takers = [store.write(partial(take_over, cycle, owner=f"gw_{n}")) for n in range(5)]
    [taken] = [one for one in await asyncio.gather(*takers) if one is not None]
    assert (taken.epoch, taken.tries, taken.id) == (2, 2, cycle.id)
    assert await store.read(partial(get_cycle, cycle.id)) == taken


async def test_a_paused_owner_writes_nothing_after_its_cycle_was_taken_over(store: Store) -> None:
    paused = (await woken(store)).cycle
    await stepped(store, paused, *one_call_of_each_form().values())
    await store.write(partial(gateway_tx.enter, "gw_b", is_shared=store.is_shared))
    taken = await taken_over(store, paused)
    before = await all_that_is_kept(store)
    assert (
        await store.write(
            partial(
                take_step,
                paused,
                n=2,
                message="{}",
                calls=[StepCall(a_call())],
                large_result=store.large_result,
            )
        )
        is None
    )
    assert await store.write(partial(commit, paused, context="late", record=RECORD)) is None
    assert await store.write(partial(abandon, paused, reason="late", backoff_ms=0)) is None
    assert await store.write(partial(take_over, paused, owner="gw_c")) is None
    assert await all_that_is_kept(store) == before
    done_now = await store.write(partial(commit, taken, context="mine", record=RECORD))
    assert done_now is not None
    assert await store.write(partial(commit, paused, context="late", record=RECORD)) is None
    assert await store.read(partial(get_context, "ada")) == StoredContext(1, "mine")
    assert await inbox_of(store) == {"e1": "processed"}


@pytest.mark.parametrize("ending", ["commit", "abandon"])
async def test_a_cycle_that_is_over_does_not_move_again(store: Store, ending: str) -> None:
    cycle = (await woken(store)).cycle
    await stepped(store, cycle, *one_call_of_each_form().values())
    if ending == "commit":
        assert await store.write(partial(commit, cycle, context="c", record=RECORD)) is not None
    else:
        assert await store.write(partial(abandon, cycle, reason="r", backoff_ms=HOUR_MS)) is not None
    await run(store, "UPDATE gateways SET dead = 1")
    before = await all_that_is_kept(store)
    assert await store.read(orphaned_cycles) == []
    assert await store.write(partial(take_step, cycle, n=2, message="{}", large_result=store.large_result)) is None
    assert await store.write(partial(take_over, cycle, owner="gw_b")) is None
    assert await store.write(partial(commit, cycle, context="again", record=RECORD)) is None
    assert await store.write(partial(abandon, cycle, reason="again", backoff_ms=0)) is None
    assert await all_that_is_kept(store) == before


async def test_a_commit_stores_state_record_and_what_was_processed_for_the_next_cycle(store: Store) -> None:
    opened = await woken(store, events=("e1", "e2"))
    assert await store.read(partial(get_context, "ada")) is None
    await tell(store, "ada", "meanwhile")
    committed = await store.write(partial(commit, opened.cycle, context='{"mind":1}', record=RECORD))
    assert committed is not None
    assert (committed.status, committed.summary) == (CycleStatus.DONE, "Said hello.")
    assert (committed.input_tokens, committed.output_tokens) == (120, 30)
    assert committed.finished_at is not None
    assert await inbox_of(store) == {"e1": "processed", "e2": "processed", "meanwhile": "pending"}
    following = await store.write(partial(open_cycle, "cycle_2", agent="ada", owner="gw_a"))
    assert following is not None
    assert (following.cycle.number, following.cycle.consumed) == (2, ("meanwhile",))
    assert await store.read(partial(get_context, "ada")) == StoredContext(1, '{"mind":1}')
    await store.write(partial(commit, following.cycle, context='{"mind":2}', record=CycleOutcome()))
    assert await store.read(partial(get_context, "ada")) == StoredContext(2, '{"mind":2}')
    assert [cycle.number for cycle in await store.read(partial(cycles_of_agent, "ada"))] == [2, 1]
    assert await store.read(partial(cycles_of_agent, "ada", before=2)) == [committed]


@pytest.mark.parametrize("broken", ["put_consciousness", "process_events"])
async def test_a_commit_that_cannot_be_whole_leaves_nothing(store: Store, broken: str) -> None:
    cycle = (await woken(store)).cycle
    tables = {"put_consciousness": "consciousness", "process_events": "inbox"}
    before = await all_that_is_kept(store)
    await run(store, f"ALTER TABLE {tables[broken]} RENAME TO away")
    with pytest.raises(Exception, match=r".+"):
        await store.write(partial(commit, cycle, context="c", record=RECORD))
    await run(store, f"ALTER TABLE away RENAME TO {tables[broken]}")
    assert await all_that_is_kept(store) == before
    assert await store.write(partial(commit, cycle, context="c", record=RECORD)) is not None


async def test_an_abandoned_cycle_gives_every_call_a_way_to_the_agent(store: Store) -> None:
    cycle = (await woken(store)).cycle
    open_ids = await stepped(store, cycle, *one_call_of_each_form().values())
    forms = one_call_of_each_form()
    settled_ids = await stepped(store, cycle, *list(forms.values())[:3], n=2)
    await store.write(
        partial(
            call_tx.settle_executed,
            settled_ids[0],
            done("ran"),
            attempt=1,
            duration_ms=1.0,
            large_result=store.large_result,
        )
    )
    for call_id in settled_ids[1:]:
        await store.write(partial(call_tx.settle_submitted, call_id, done("answered"), large_result=store.large_result))
    failed = await store.write(partial(abandon, cycle, reason="The model is away.", backoff_ms=0))
    assert failed is not None
    assert (failed.status, failed.reason) == (CycleStatus.FAILED, "The model is away.")
    calls = [await store.read(partial(call_tx.get_call, call_id)) for call_id in open_ids + settled_ids]
    assert [(call.status.value, call.delivery and call.delivery.value) for call in calls if call] == [
        ("running", "inbox"),
        ("pending", "inbox"),
        ("pending", "inbox"),
        ("pending_approval", "inbox"),
        ("completed", "inline"),
        ("completed", "inbox"),
        ("completed", "inbox"),
        ("completed", "inbox"),
    ]
    flipped = calls[1]
    assert flipped is not None
    assert flipped.first_reply is FirstReply.TIMEOUT
    assert flipped.expires_at is not None
    told = {f"tr:{call_id}": "pending" for call_id in settled_ids}
    assert await inbox_of(store) == {"e1": "pending", f"cf:{cycle.id}": "pending"} | told
    await store.write(
        partial(
            call_tx.settle_executed,
            open_ids[0],
            done("late"),
            attempt=1,
            duration_ms=1.0,
            large_result=store.large_result,
        )
    )
    for call_id in open_ids[1:3]:
        assert (
            await store.write(partial(call_tx.settle_submitted, call_id, done("late"), large_result=store.large_result))
        ).moved
    await store.write(
        partial(call_tx.settle_rejected, open_ids[3], Failed("rejected", "No."), large_result=store.large_result)
    )
    told |= {f"tr:{call_id}": "pending" for call_id in open_ids[:4]}
    assert await inbox_of(store) == {"e1": "pending", f"cf:{cycle.id}": "pending"} | told


async def test_a_failed_cycle_says_what_it_had_called_and_comes_back_after_a_while(store: Store) -> None:
    await known(store, "ada")
    cycle = (await woken(store)).cycle
    ids = await stepped(store, cycle, StepCall(a_waiting_call(tool="ask")), *[one_call_of_each_form()["built-in"]])
    await stepped(store, cycle, StepCall(a_call(tool="search")), n=2)
    failed = await store.write(partial(abandon, cycle, reason="gave up", backoff_ms=HOUR_MS))
    assert failed is not None
    assert failed.finished_at is not None
    [told] = [event for event in await events_of(store) if event.event_id.startswith("cf:")]
    assert (told.event_id, told.type, told.agent) == (f"cf:{cycle.id}", "cycle_failed", "ada")
    data = data_of(told)
    assert (data["cycleId"], data["reason"]) == (cycle.id, "gave up")
    assert [(call["toolName"], call["status"]) for call in data["calls"]] == [
        ("ask", "pending"),
        ("send_message", "completed"),
        ("search", "running"),
    ]
    assert data["calls"][0]["toolCallId"] == ids[0]
    assert data["calls"][0]["arguments"] == {"text": "hi"}
    due = await run(store, "SELECT DISTINCT not_before, cycle_id FROM inbox")
    assert due == [{"not_before": failed.finished_at + HOUR_MS, "cycle_id": None}]
    assert await store.read(agents_to_wake) == []
    assert await store.write(partial(open_cycle, new_id("cycle"), agent="ada", owner="gw_a")) is None


async def test_after_three_crashes_the_next_cycle_has_events_failure_and_each_result_once(store: Store) -> None:
    await known(store, "ada")
    cycle = (await woken(store, events=("e1", "e2"))).cycle
    inline, late, builtin = await stepped(
        store, cycle, StepCall(a_waiting_call()), StepCall(a_waiting_call()), StepCall(a_call(), over(done(1)))
    )
    assert (
        await store.write(
            partial(call_tx.settle_submitted, inline, done("consumed inline"), large_result=store.large_result)
        )
    ).moved
    for owner in ("gw_b", "gw_c"):
        await store.write(partial(gateway_tx.enter, owner, is_shared=store.is_shared))
        cycle = await taken_over(store, cycle, owner=owner)
    assert cycle.tries == 3
    assert await store.write(partial(abandon, cycle, reason="three tries", backoff_ms=0)) is not None
    assert (
        await store.write(partial(call_tx.settle_submitted, late, done("late"), large_result=store.large_result))
    ).moved
    following = await store.write(partial(open_cycle, new_id("cycle"), agent="ada", owner="gw_c"))
    assert following is not None
    told = [event.event_id for event in following.events]
    assert sorted(told) == sorted(["e1", "e2", f"cf:{cycle.id}", f"tr:{inline}", f"tr:{late}"])
    assert told[:2] == ["e1", "e2"]
    assert f"tr:{builtin}" not in told
    assert await store.write(partial(commit, following.cycle, context="c", record=RECORD)) is not None
    assert set((await inbox_of(store)).values()) == {"processed"}
    assert await store.read(agents_to_wake) == []


async def test_a_result_that_was_consumed_inline_is_in_the_committed_state_once(store: Store) -> None:
    """The owner dies after the result; the next goes on from the journal and finds the same answer, and no event."""
    cycle = (await woken(store)).cycle
    [call_id] = await stepped(store, cycle, StepCall(a_waiting_call()))
    assert (
        await store.write(
            partial(call_tx.settle_submitted, call_id, done("the answer"), large_result=store.large_result)
        )
    ).moved
    await store.write(partial(gateway_tx.enter, "gw_b", is_shared=store.is_shared))
    taken = await taken_over(store, cycle)
    journal = await store.read(partial(read_journal, cycle.id))
    assert journal is not None
    [call] = journal.steps[-1].calls
    slot = slot_of(call)
    assert slot is not None
    assert slot.outcome == done("the answer")
    assert await store.write(partial(commit, taken, context="c", record=RECORD)) is not None
    assert await inbox_of(store) == {"e1": "processed"}
    assert not (await store.write(partial(call_tx.give, call_id))).moved


async def test_a_journal_has_events_steps_calls_and_slots_in_order_and_reads_the_same_again(store: Store) -> None:
    opened = await woken(store, events=("e1", "e2"))
    cycle = opened.cycle
    forms = one_call_of_each_form()
    await stepped(store, cycle, *forms.values())
    await stepped(store, cycle, n=2)
    [last] = await stepped(store, cycle, StepCall(a_waiting_call(timeout_ms=0)), n=3)
    assert (await store.write(partial(call_tx.flip, last))).moved
    journal = await store.read(partial(read_journal, cycle.id))
    assert journal is not None
    assert journal.cycle == cycle
    assert journal.events == opened.events
    assert [(step.n, step.message, len(step.calls)) for step in journal.steps] == [
        (1, '{"step":1}', 5),
        (2, '{"step":2}', 0),
        (3, '{"step":3}', 1),
    ]
    assert [call.id for call in journal.steps[0].calls] == [one.call.id for one in forms.values()]
    slots = [slot_of(call) for step in journal.steps for call in step.calls]
    assert slots[:2] == [None, None]
    told = [slot.outcome for slot in slots if slot is not None]
    assert told[:3] == [Pending(CallStatus.PENDING), Pending(CallStatus.PENDING_APPROVAL), done({"ok": True})]
    assert isinstance(told[3], Failed)
    assert told[3].code == "timeout"
    assert await store.read(partial(read_journal, cycle.id)) == journal
    assert await store.read(partial(read_journal, "cycle_x")) is None


async def test_who_may_be_woken_is_known_and_on_has_due_events_and_no_open_cycle_the_longest_wait_first(
    store: Store,
) -> None:
    await known(store, "ada", "bob", "cleo", "dora")
    assert await store.read(agents_to_wake) == []
    await tell(store, "stranger", "s1")
    await tell(store, "dora", "d1")
    await store.write(partial(agent_tx.put_agent, "dora", definition="{}", origin="api", enabled=False))
    for agent in ("cleo", "ada", "bob"):
        await tell(store, agent, f"{agent}_1", f"{agent}_2")
    assert await store.read(agents_to_wake) == ["cleo", "ada", "bob"]
    assert await store.read(partial(agents_to_wake, limit=1)) == ["cleo"]
    opened = await store.write(partial(open_cycle, new_id("cycle"), agent="ada", owner="gw_a"))
    assert opened is not None
    await tell(store, "ada", "ada_3")
    assert await store.read(agents_to_wake) == ["cleo", "bob"]
    await store.write(partial(commit, opened.cycle, context="c", record=RECORD))
    assert await store.read(agents_to_wake) == ["cleo", "bob", "ada"]
    await known(store, "dora")
    assert await store.read(agents_to_wake) == ["dora", "cleo", "bob", "ada"]


async def test_pruning_leaves_what_is_open_and_each_agents_last_cycle(store: Store) -> None:
    long_ago = "call_000000000001aa"
    for n in range(3):
        cycle = (await woken(store, events=(f"e{n}",))).cycle
        await stepped(store, cycle)
        await store.write(partial(commit, cycle, context="c", record=RECORD))
    living = (await woken(store, "bob")).cycle
    [kept] = await stepped(store, living, StepCall(a_call(id=long_ago), over(done(1))))
    await run(store, "UPDATE runs SET finished_at = 1 WHERE finished_at IS NOT NULL")
    assert await prune(store, keep_days=1) == 0
    assert [cycle.number for cycle in await store.read(partial(cycles_of_agent, "ada"))] == [3]
    assert len(await run(store, "SELECT n FROM steps")) == 2
    journal = await store.read(partial(read_journal, living.id))
    assert journal is not None
    assert [call.id for call in journal.steps[0].calls] == [kept]
    assert (await woken(store, events=("e3",))).cycle.number == 4
    await store.write(partial(commit, living, context="c", record=RECORD))
    assert await prune(store, keep_days=1) == 1
    assert await store.read(partial(call_tx.get_call, kept)) is None


@requirement("SAFE-inboxes-pruned")
async def test_old_events_of_outside_programs_are_pruned_and_those_of_our_agents_only_when_processed(
    store: Store,
) -> None:
    await known(store, "ada")
    done_with = (await woken(store, "ada", events=("read",))).cycle
    await store.write(partial(commit, done_with, context="c", record=RECORD))
    await tell(store, "ada", "unread")
    await tell(store, "program", "old_1", "old_2")
    await run(store, "UPDATE inbox SET created_at = 1")
    await tell(store, "program", "new")
    assert await prune(store, keep_days=1, limit=2) == 2, "and it is said that there may be more"
    while await prune(store, keep_days=1, limit=2):
        pass
    assert await inbox_of(store, "program") == {"new": "pending"}
    assert await inbox_of(store, "ada") == {"unread": "pending"}
