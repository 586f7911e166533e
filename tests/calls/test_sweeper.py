"""What is due is done: by any gateway, once, whatever became of those who should have done it."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from jackfield.agents.cycle_transactions import push_event
from jackfield.calls import transactions as call_tx
from jackfield.calls.messages import interrupted, timed_out
from jackfield.errors import Unavailable
from jackfield.model.call import Call, CallStatus, Delivery, done
from jackfield.store import gateways as gateway_tx
from tests.calls.harness import OPS
from tests.calls.pending_harness import (
    HOUR_MS,
    PendingHarness,
    change,
    external,
    pending_harness,
    status_of,
    until,
    within,
)
from tests.requirement import requirement
from tests.store.calls import a_call, a_call_for_approval, a_pending_call, a_waiting_call, decoded
from tests.store.intercepting import intercept

GONE = "gw_gone"
"""A gateway that nobody has heard of, or that was buried."""


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[PendingHarness]:
    urls = {"memory": "memory:", "sqlite": "sqlite:///calls.db"}
    url = urls.get(request.param) or request.getfixturevalue("postgres_url")
    async with pending_harness(url, tmp_path) as opened:
        yield opened


async def made(harness: PendingHarness, call: Call, *, age_ms: int = 0) -> Call:
    """The call on record, as a gateway that is gone may have left it."""
    started = await harness.store.write(partial(call_tx.start_call, call, age_ms=age_ms))
    assert started.call is not None
    return started.call


def of_tool(harness: PendingHarness, tool: str) -> dict[str, str]:
    """The fields that tie a call to a tool as it is now."""
    entry = harness.catalog.entry(tool)
    assert entry is not None
    return {"tool": tool, "source": entry.tool.source, "tool_version": entry.version}


@requirement("CON-expires-in", "SPACE-column-expires-at")
async def test_a_pending_call_that_nobody_answers_expires_and_its_agent_is_told(harness: PendingHarness) -> None:
    call = await harness.call("ask_in_vain", agent="ada")
    assert call.status is CallStatus.PENDING
    await harness.until_clock(call.expires_at)
    await harness.sweep()
    assert status_of(await harness.record(call.id)) == (CallStatus.EXPIRED, "inbox")
    told = {"error": "Expired: nobody answered this call in time.", "toolCallId": call.id}
    assert await harness.inbox("ada") == [(f"tr:{call.id}", told)]


async def test_an_approval_that_nobody_gives_expires_and_its_agent_is_told(harness: PendingHarness) -> None:
    call = await made(harness, a_call_for_approval(agent="ada", expires_in_ms=-1))
    await harness.sweep()
    assert (await harness.record(call.id)).status is CallStatus.EXPIRED
    assert [event for event, _ in await harness.inbox("ada")] == [f"tr:{call.id}"]


async def test_what_is_not_due_is_left_alone(harness: PendingHarness) -> None:
    calls = [
        await made(harness, call)
        for call in (
            a_waiting_call(agent="ada", waiter=harness.id, timeout_ms=HOUR_MS),
            a_pending_call(agent="ada", expires_in_ms=HOUR_MS),
            a_call_for_approval(agent="ada", expires_in_ms=HOUR_MS),
            a_call(agent="ada", owner=harness.id, timeout_ms=HOUR_MS),
            a_call(agent="ada", owner=harness.id, timeout_ms=0),  # late, but its own gateway has 15 s to say so
        )
    ]
    await harness.sweep()
    assert [await harness.record(call.id) for call in calls] == calls
    assert await harness.inbox("ada") == []


async def test_a_wait_that_nobody_keeps_ends_at_its_deadline(harness: PendingHarness) -> None:
    """Its gateway died: the agent gets the answer by inbox, however late it comes."""
    call = await made(harness, a_waiting_call(agent="ada", waiter=GONE, timeout_ms=0))
    await harness.sweep()
    assert status_of(await harness.record(call.id)) == (CallStatus.PENDING, "inbox")
    await harness.answer(call, "late")
    assert await harness.inbox("ada") == [(f"tr:{call.id}", "late")]


async def test_a_running_call_that_its_gateway_never_timed_out_is_timed_out_after_fifteen_seconds(
    harness: PendingHarness,
) -> None:
    call = await made(harness, a_call(owner=harness.id, timeout_ms=100), age_ms=15_200)
    await harness.sweep()
    ended = await harness.record(call.id)
    assert ended.outcome == timed_out(call.id, 100)
    assert ended.status is CallStatus.FAILED


async def test_a_call_whose_gateway_died_is_interrupted_and_not_started_again(harness: PendingHarness) -> None:
    call = await made(harness, a_call(agent="ada", owner=GONE, waiter=GONE, **of_tool(harness, "count")))
    await harness.sweep()
    ended = await harness.record(call.id)
    assert ended.outcome == interrupted(call.id)
    assert harness.starts == []
    assert [event for event, _ in await harness.inbox("ada")] == [f"tr:{call.id}"]


async def test_an_idempotent_call_whose_gateway_died_is_run_again(harness: PendingHarness) -> None:
    call = await made(harness, a_call(owner=GONE, idempotent=True, **of_tool(harness, "count_again")))
    await harness.sweep()
    ended = await harness.ended(call.id)
    assert (ended.status, ended.attempt, ended.owner) == (CallStatus.COMPLETED, 2, harness.id)
    assert harness.starts == [call.id]


async def test_an_idempotent_call_that_killed_three_gateways_is_interrupted(harness: PendingHarness) -> None:
    call = await made(harness, a_call(owner=GONE, idempotent=True, attempt=3, **of_tool(harness, "count_again")))
    await harness.sweep()
    ended = await harness.record(call.id)
    assert (ended.outcome, ended.attempt) == (interrupted(call.id), 3)
    assert harness.starts == []


async def test_whoever_follows_the_calls_hears_of_one_that_was_interrupted(harness: PendingHarness) -> None:
    call = await made(harness, a_call(owner=GONE, **of_tool(harness, "count")))
    async with harness.pipeline.events.follow(call.id) as told:
        await harness.sweep()
        event = await within(anext(told))
    assert (event.type, event.status) == ("call.settled", CallStatus.FAILED)


async def test_an_approved_call_that_no_gateway_began_is_begun_once(harness: PendingHarness) -> None:
    call = await made(harness, a_call_for_approval(agent="ada", **of_tool(harness, "charge")))
    await harness.store.write(partial(call_tx.approve, call.id, runs_here=True, arguments='{"n":3}'))
    await asyncio.gather(harness.sweep(), harness.sweep())
    ended = await harness.ended(call.id)
    assert (decoded(ended.result), ended.attempt, ended.owner) == ({"n": 3}, 1, harness.id)
    assert harness.starts == [call.id]
    assert await harness.inbox("ada") == [(f"tr:{call.id}", {"n": 3})]


async def test_an_approved_call_whose_tool_has_changed_is_not_run(harness: PendingHarness) -> None:
    as_asked = of_tool(harness, "charge") | {"tool_version": "v0"}
    call = await made(harness, a_call_for_approval(agent="ada", **as_asked))
    await harness.store.write(partial(call_tx.approve, call.id, runs_here=True))
    await harness.sweep()
    assert status_of(await harness.record(call.id)) == (CallStatus.FAILED, "inbox")
    assert harness.starts == []
    assert [event for event, _ in await harness.inbox("ada")] == [f"tr:{call.id}"]


async def test_an_approved_call_whose_tool_is_gone_ends_when_its_time_is_over(harness: PendingHarness) -> None:
    """Nobody can run it, so it must not stay open for ever; until then the tool may come back."""
    as_asked = of_tool(harness, "charge") | {"tool": "charge_of_old"}
    call = await made(harness, a_call_for_approval(agent="ada", expires_in_ms=HOUR_MS, **as_asked))
    await harness.store.write(partial(call_tx.approve, call.id, runs_here=True))
    await harness.sweep()
    assert (await harness.record(call.id)).status is CallStatus.RUNNING
    await change(harness.store, "UPDATE calls SET expires_at = 0 WHERE id = :id", id=call.id)
    await harness.sweep()
    ended = await harness.record(call.id)
    assert ended.status is CallStatus.FAILED
    assert harness.starts == []
    assert [event for event, _ in await harness.inbox("ada")] == [f"tr:{call.id}"]


async def test_an_inline_result_whose_gateway_died_before_it_was_sent_goes_to_the_inbox(
    harness: PendingHarness,
) -> None:
    call = await made(harness, a_waiting_call(agent="ada", waiter=GONE))
    assert (await harness.answer(call, "unsent")).delivery is Delivery.INLINE
    await harness.sweep()
    await harness.sweep()
    assert (await harness.record(call.id)).delivery is Delivery.INBOX
    assert await harness.inbox("ada") == [(f"tr:{call.id}", "unsent")]


async def test_an_inline_result_that_was_sent_before_its_gateway_died_stays_where_it_is(
    harness: PendingHarness,
) -> None:
    call = await made(harness, a_waiting_call(agent="ada", waiter=GONE))
    await harness.answer(call, "sent")
    await harness.store.write(partial(call_tx.mark_sent, call.id))
    await harness.sweep()
    assert await harness.inbox("ada") == []


async def test_a_result_that_is_being_sent_stays_with_who_sends_it(harness: PendingHarness) -> None:
    call, waiting = await harness.begin("ask", agent="ada", over_http=True)
    await harness.answer(call, "on its way")
    ended = await within(waiting)
    await harness.sweep()
    assert await harness.inbox("ada") == []
    await harness.pipeline.sent(ended)
    await harness.sweep()
    assert await harness.inbox("ada") == []


@pytest.mark.parametrize("how", ["the store was away when it was woken", "its task was stopped"])
async def test_a_result_for_a_caller_that_broke_off_here_goes_to_the_inbox(
    harness: PendingHarness, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The gateway lives on, so no death would ever give this result to anybody."""
    call, waiting = await harness.begin("ask", agent="ada", over_http=True)

    async def away(_: str) -> Call:
        raise Unavailable("The database is away.")

    if how == "its task was stopped":
        waiting.cancel()
        await until(waiting.done)
    await harness.sweep()
    await harness.store.write(
        partial(call_tx.settle_submitted, call.id, done("nobody there"), large_result=harness.store.large_result)
    )
    if how != "its task was stopped":
        intercept(monkeypatch, harness.store, call_tx.get_call, away)
        with pytest.raises(Unavailable):
            await within(waiting)
        monkeypatch.undo()
    await harness.sweep()
    assert await harness.inbox("ada") == [(f"tr:{call.id}", "nobody there")]


async def test_an_answer_that_was_sent_while_the_store_was_away_is_marked_later_and_not_given_as_well(
    harness: PendingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, waiting = await harness.begin("ask", agent="ada", over_http=True)
    await harness.answer(call, "sent")
    ended = await within(waiting)

    async def away(_: str) -> bool:
        raise Unavailable("The database is away.")

    intercept(monkeypatch, harness.store, call_tx.mark_sent, away)
    with pytest.raises(Unavailable):
        await harness.pipeline.sent(ended)
    monkeypatch.undo()
    assert (await harness.record(call.id)).sent_at is None
    await harness.sweep()
    assert (await harness.record(call.id)).sent_at is not None
    await harness.pipeline.not_sent(ended)
    assert await harness.inbox("ada") == []


async def test_an_answer_that_could_not_be_given_while_the_store_was_away_is_given_later(
    harness: PendingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, waiting = await harness.begin("ask", agent="ada", over_http=True)
    await harness.answer(call, "unsent")
    ended = await within(waiting)

    async def away(_: str) -> bool:
        raise Unavailable("The database is away.")

    intercept(monkeypatch, harness.store, call_tx.give, away)
    with pytest.raises(Unavailable):
        await harness.pipeline.not_sent(ended)
    monkeypatch.undo()
    await harness.sweep()
    assert await harness.inbox("ada") == [(f"tr:{call.id}", "unsent")]


async def test_a_gateway_that_was_asleep_does_not_bury_itself(harness: PendingHarness) -> None:
    """The machine was suspended: the lease is over, and nobody else took what is being done here."""
    call = await made(harness, a_call(owner=harness.id))
    await change(harness.store, "UPDATE gateways SET alive_until = 0 WHERE id = :id", id=harness.id)
    await harness.sweep()
    assert (await harness.record(call.id)).status is CallStatus.RUNNING
    assert await harness.store.write(partial(gateway_tx.beat, harness.id))


async def test_a_gateway_that_missed_its_heartbeats_is_buried_and_its_calls_are_taken_over(
    harness: PendingHarness,
) -> None:
    call = await made(harness, a_call(owner="gw_late"))
    await change(harness.store, "INSERT INTO gateways (id, alive_until, dead) VALUES ('gw_late', 0, 0)")
    await harness.sweep()
    assert (await harness.record(call.id)).outcome == interrupted(call.id)
    assert not await harness.store.write(partial(gateway_tx.beat, "gw_late"))


async def test_one_row_that_cannot_be_settled_does_not_keep_the_others_from_it(harness: PendingHarness) -> None:
    """Its event is there already, which is a fault; the fault is logged and everything else goes on."""
    bad, good = [await harness.call("ask_in_vain", agent="ada") for _ in range(2)]
    await harness.store.write(
        partial(push_event, "ada", event_id=f"tr:{bad.id}", type="tool_result", data='{"result": "forged"}')
    )
    unsent = await made(harness, a_waiting_call(agent="bob", waiter=GONE))
    await harness.answer(unsent, "unsent")
    await harness.until_clock(good.expires_at)
    await harness.sweep()
    assert (await harness.record(good.id)).status is CallStatus.EXPIRED
    assert (await harness.record(bad.id)).status is CallStatus.PENDING
    assert await harness.inbox("bob") == [(f"tr:{unsent.id}", "unsent")]


async def test_a_thousand_calls_that_fall_due_at_once_are_done_in_one_round(harness: PendingHarness) -> None:
    due = [a_waiting_call(agent="ada", waiter=GONE, timeout_ms=0) for _ in range(1_000)]
    await asyncio.gather(*(harness.store.write(partial(call_tx.start_call, call)) for call in due))
    async with asyncio.timeout(5):
        await harness.sweep()
    assert await harness.store.read(partial(call_tx.ids_in, "due_waits")) == []


async def test_offers_of_a_dead_gateway_are_free_for_others_if_the_call_may_run_twice(harness: PendingHarness) -> None:
    await change(harness.store, "INSERT INTO gateways (id, alive_until, dead) VALUES ('gw_dead', 0, 1)")
    once, again = await harness.call("ask_later"), await harness.call("ask_later_again")
    for call in (once, again):
        await harness.store.write(partial(call_tx.offer, call.id, client="ops/lost", gateway="gw_dead"))
    await harness.sweep()
    assert (await harness.record(once.id)).offered_to == "ops/lost"
    assert (await harness.record(again.id)).offered_to is None


async def test_a_tool_that_was_declared_late_still_gets_its_calls(harness: PendingHarness) -> None:
    async with harness.servers.connect("late", ("new_tool",), principal=OPS) as server:
        await harness.list_tools(external("new_tool"))
        call, waiting = await harness.begin("new_tool")
        await harness.sweep()
        offer = await within(anext(aiter(server)))
        assert offer.call.id == call.id
        await harness.answer(call, 1)
        await within(waiting)
