"""What is due is done: by any gateway, once, whatever became of those who should have done it."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from jackfield.calls.messages import interrupted, timed_out
from jackfield.errors import Unavailable
from jackfield.model.call import Call, CallStatus, Delivery, done
from jackfield.store import gateways as gateway_tx
from jackfield.store import inboxes as inbox_tx
from jackfield.store import moves as call_tx
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
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[PendingHarness]:
    urls = {"memory": "memory:", "sqlite": "sqlite:///calls.db"}
    url = urls.get(request.param) or request.getfixturevalue("postgres_url")
    async with pending_harness(url, tmp_path) as opened:
        yield opened


async def made(house: PendingHarness, call: Call, *, age_ms: int = 0) -> Call:
    """The call on record, as a gateway that is gone may have left it."""
    started = await house.store.write(partial(call_tx.start_call, call, age_ms=age_ms))
    assert started.call is not None
    return started.call


def of_tool(house: PendingHarness, tool: str) -> dict[str, str]:
    """The fields that tie a call to a tool as it is now."""
    entry = house.catalog.entry(tool)
    assert entry is not None
    return {"tool": tool, "source": entry.tool.source, "tool_version": entry.version}


@requirement("CON-expires-in", "SPACE-column-expires-at")
async def test_a_pending_call_that_nobody_answers_expires_and_its_agent_is_told(house: PendingHarness) -> None:
    call = await house.call("ask_in_vain", agent="ada")
    assert call.status is CallStatus.PENDING
    await house.until_clock(call.expires_at)
    await house.sweep()
    assert status_of(await house.record(call.id)) == (CallStatus.EXPIRED, "inbox")
    told = {"error": "Expired: nobody answered this call in time.", "toolCallId": call.id}
    assert await house.inbox("ada") == [(f"tr:{call.id}", told)]


async def test_an_approval_that_nobody_gives_expires_and_its_agent_is_told(house: PendingHarness) -> None:
    call = await made(house, a_call_for_approval(agent="ada", expires_in_ms=-1))
    await house.sweep()
    assert (await house.record(call.id)).status is CallStatus.EXPIRED
    assert [event for event, _ in await house.inbox("ada")] == [f"tr:{call.id}"]


async def test_what_is_not_due_is_left_alone(house: PendingHarness) -> None:
    calls = [
        await made(house, call)
        for call in (
            a_waiting_call(agent="ada", waiter=house.id, timeout_ms=HOUR_MS),
            a_pending_call(agent="ada", expires_in_ms=HOUR_MS),
            a_call_for_approval(agent="ada", expires_in_ms=HOUR_MS),
            a_call(agent="ada", owner=house.id, timeout_ms=HOUR_MS),
            a_call(agent="ada", owner=house.id, timeout_ms=0),  # late, but its own gateway has 15 s to say so
        )
    ]
    await house.sweep()
    assert [await house.record(call.id) for call in calls] == calls
    assert await house.inbox("ada") == []


async def test_a_wait_that_nobody_keeps_ends_at_its_deadline(house: PendingHarness) -> None:
    """Its gateway died: the agent gets the answer by inbox, however late it comes."""
    call = await made(house, a_waiting_call(agent="ada", waiter=GONE, timeout_ms=0))
    await house.sweep()
    assert status_of(await house.record(call.id)) == (CallStatus.PENDING, "inbox")
    await house.answer(call, "late")
    assert await house.inbox("ada") == [(f"tr:{call.id}", "late")]


async def test_a_running_call_that_its_gateway_never_timed_out_is_timed_out_after_fifteen_seconds(
    house: PendingHarness,
) -> None:
    call = await made(house, a_call(owner=house.id, timeout_ms=100), age_ms=15_200)
    await house.sweep()
    ended = await house.record(call.id)
    assert ended.outcome == timed_out(call.id, 100)
    assert ended.status is CallStatus.FAILED


async def test_a_call_whose_gateway_died_is_interrupted_and_not_started_again(house: PendingHarness) -> None:
    call = await made(house, a_call(agent="ada", owner=GONE, waiter=GONE, **of_tool(house, "count")))
    await house.sweep()
    ended = await house.record(call.id)
    assert ended.outcome == interrupted(call.id)
    assert house.starts == []
    assert [event for event, _ in await house.inbox("ada")] == [f"tr:{call.id}"]


async def test_an_idempotent_call_whose_gateway_died_is_run_again(house: PendingHarness) -> None:
    call = await made(house, a_call(owner=GONE, idempotent=True, **of_tool(house, "count_again")))
    await house.sweep()
    ended = await house.ended(call.id)
    assert (ended.status, ended.attempt, ended.owner) == (CallStatus.COMPLETED, 2, house.id)
    assert house.starts == [call.id]


async def test_an_idempotent_call_that_killed_three_gateways_is_interrupted(house: PendingHarness) -> None:
    call = await made(house, a_call(owner=GONE, idempotent=True, attempt=3, **of_tool(house, "count_again")))
    await house.sweep()
    ended = await house.record(call.id)
    assert (ended.outcome, ended.attempt) == (interrupted(call.id), 3)
    assert house.starts == []


async def test_whoever_follows_the_calls_hears_of_one_that_was_interrupted(house: PendingHarness) -> None:
    call = await made(house, a_call(owner=GONE, **of_tool(house, "count")))
    async with house.pipeline.events.follow(call.id) as told:
        await house.sweep()
        event = await within(anext(told))
    assert (event.type, event.status) == ("call.settled", CallStatus.FAILED)


async def test_an_approved_call_that_no_gateway_began_is_begun_once(house: PendingHarness) -> None:
    call = await made(house, a_call_for_approval(agent="ada", **of_tool(house, "charge")))
    await house.store.write(partial(call_tx.approve, call.id, runs_here=True, arguments='{"n":3}'))
    await asyncio.gather(house.sweep(), house.sweep())
    ended = await house.ended(call.id)
    assert (decoded(ended.result), ended.attempt, ended.owner) == ({"n": 3}, 1, house.id)
    assert house.starts == [call.id]
    assert await house.inbox("ada") == [(f"tr:{call.id}", {"n": 3})]


async def test_an_approved_call_whose_tool_has_changed_is_not_run(house: PendingHarness) -> None:
    as_asked = of_tool(house, "charge") | {"tool_version": "v0"}
    call = await made(house, a_call_for_approval(agent="ada", **as_asked))
    await house.store.write(partial(call_tx.approve, call.id, runs_here=True))
    await house.sweep()
    assert status_of(await house.record(call.id)) == (CallStatus.FAILED, "inbox")
    assert house.starts == []
    assert [event for event, _ in await house.inbox("ada")] == [f"tr:{call.id}"]


async def test_an_approved_call_whose_tool_is_gone_ends_when_its_time_is_over(house: PendingHarness) -> None:
    """Nobody can run it, so it must not stay open for ever; until then the tool may come back."""
    as_asked = of_tool(house, "charge") | {"tool": "charge_of_old"}
    call = await made(house, a_call_for_approval(agent="ada", expires_in_ms=HOUR_MS, **as_asked))
    await house.store.write(partial(call_tx.approve, call.id, runs_here=True))
    await house.sweep()
    assert (await house.record(call.id)).status is CallStatus.RUNNING
    await change(house.store, "UPDATE calls SET expires_at = 0 WHERE id = :id", id=call.id)
    await house.sweep()
    ended = await house.record(call.id)
    assert ended.status is CallStatus.FAILED
    assert house.starts == []
    assert [event for event, _ in await house.inbox("ada")] == [f"tr:{call.id}"]


async def test_an_inline_result_whose_gateway_died_before_it_was_sent_goes_to_the_inbox(house: PendingHarness) -> None:
    call = await made(house, a_waiting_call(agent="ada", waiter=GONE))
    assert (await house.answer(call, "unsent")).delivery is Delivery.INLINE
    await house.sweep()
    await house.sweep()
    assert (await house.record(call.id)).delivery is Delivery.INBOX
    assert await house.inbox("ada") == [(f"tr:{call.id}", "unsent")]


async def test_an_inline_result_that_was_sent_before_its_gateway_died_stays_where_it_is(house: PendingHarness) -> None:
    call = await made(house, a_waiting_call(agent="ada", waiter=GONE))
    await house.answer(call, "sent")
    await house.store.write(partial(call_tx.mark_sent, call.id))
    await house.sweep()
    assert await house.inbox("ada") == []


async def test_a_result_that_is_being_sent_stays_with_who_sends_it(house: PendingHarness) -> None:
    call, waiting = await house.begin("ask", agent="ada", through_door=True)
    await house.answer(call, "on its way")
    ended = await within(waiting)
    await house.sweep()
    assert await house.inbox("ada") == []
    await house.pipeline.sent(ended)
    await house.sweep()
    assert await house.inbox("ada") == []


@pytest.mark.parametrize("how", ["the store was away when it was woken", "its task was stopped"])
async def test_a_result_for_a_caller_that_broke_off_here_goes_to_the_inbox(
    house: PendingHarness, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The gateway lives on, so no death would ever give this result to anybody."""
    call, waiting = await house.begin("ask", agent="ada", through_door=True)

    async def away(_: str) -> Call:
        raise Unavailable("The database is away.")

    if how == "its task was stopped":
        waiting.cancel()
        await until(waiting.done)
    await house.sweep()
    await house.store.write(
        partial(call_tx.settle_submitted, call.id, done("nobody there"), large_result=house.store.large_result)
    )
    if how != "its task was stopped":
        intercept(monkeypatch, house.store, call_tx.get_call, away)
        with pytest.raises(Unavailable):
            await within(waiting)
        monkeypatch.undo()
    await house.sweep()
    assert await house.inbox("ada") == [(f"tr:{call.id}", "nobody there")]


async def test_an_answer_that_was_sent_while_the_store_was_away_is_marked_later_and_not_given_as_well(
    house: PendingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, waiting = await house.begin("ask", agent="ada", through_door=True)
    await house.answer(call, "sent")
    ended = await within(waiting)

    async def away(_: str) -> bool:
        raise Unavailable("The database is away.")

    intercept(monkeypatch, house.store, call_tx.mark_sent, away)
    with pytest.raises(Unavailable):
        await house.pipeline.sent(ended)
    monkeypatch.undo()
    assert (await house.record(call.id)).sent_at is None
    await house.sweep()
    assert (await house.record(call.id)).sent_at is not None
    await house.pipeline.not_sent(ended)
    assert await house.inbox("ada") == []


async def test_an_answer_that_could_not_be_given_while_the_store_was_away_is_given_later(
    house: PendingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, waiting = await house.begin("ask", agent="ada", through_door=True)
    await house.answer(call, "unsent")
    ended = await within(waiting)

    async def away(_: str) -> bool:
        raise Unavailable("The database is away.")

    intercept(monkeypatch, house.store, call_tx.give, away)
    with pytest.raises(Unavailable):
        await house.pipeline.not_sent(ended)
    monkeypatch.undo()
    await house.sweep()
    assert await house.inbox("ada") == [(f"tr:{call.id}", "unsent")]


async def test_a_gateway_that_was_asleep_does_not_bury_itself(house: PendingHarness) -> None:
    """The machine was suspended: the lease is over, and nobody else took what is being done here."""
    call = await made(house, a_call(owner=house.id))
    await change(house.store, "UPDATE gateways SET alive_until = 0 WHERE id = :id", id=house.id)
    await house.sweep()
    assert (await house.record(call.id)).status is CallStatus.RUNNING
    assert await house.store.write(partial(gateway_tx.beat, house.id))


async def test_a_gateway_that_missed_its_heartbeats_is_buried_and_its_calls_are_taken_over(
    house: PendingHarness,
) -> None:
    call = await made(house, a_call(owner="gw_late"))
    await change(house.store, "INSERT INTO gateways (id, alive_until, dead) VALUES ('gw_late', 0, 0)")
    await house.sweep()
    assert (await house.record(call.id)).outcome == interrupted(call.id)
    assert not await house.store.write(partial(gateway_tx.beat, "gw_late"))


async def test_one_row_that_cannot_be_settled_does_not_keep_the_others_from_it(house: PendingHarness) -> None:
    """Its event is there already, which is a fault; the fault is logged and everything else goes on."""
    bad, good = [await house.call("ask_in_vain", agent="ada") for _ in range(2)]
    await house.store.write(
        partial(inbox_tx.push_event, "ada", event_id=f"tr:{bad.id}", type="tool_result", data='{"result": "forged"}')
    )
    unsent = await made(house, a_waiting_call(agent="bob", waiter=GONE))
    await house.answer(unsent, "unsent")
    await house.until_clock(good.expires_at)
    await house.sweep()
    assert (await house.record(good.id)).status is CallStatus.EXPIRED
    assert (await house.record(bad.id)).status is CallStatus.PENDING
    assert await house.inbox("bob") == [(f"tr:{unsent.id}", "unsent")]


async def test_a_thousand_calls_that_fall_due_at_once_are_done_in_one_round(house: PendingHarness) -> None:
    due = [a_waiting_call(agent="ada", waiter=GONE, timeout_ms=0) for _ in range(1_000)]
    await asyncio.gather(*(house.store.write(partial(call_tx.start_call, call)) for call in due))
    async with asyncio.timeout(5):
        await house.sweep()
    assert await house.store.read(partial(call_tx.ids_in, "due_waits")) == []


async def test_offers_of_a_dead_gateway_are_free_for_others_if_the_call_may_run_twice(house: PendingHarness) -> None:
    await change(house.store, "INSERT INTO gateways (id, alive_until, dead) VALUES ('gw_dead', 0, 1)")
    once, again = await house.call("ask_later"), await house.call("ask_later_again")
    for call in (once, again):
        await house.store.write(partial(call_tx.offer, call.id, client="ops/lost", gateway="gw_dead"))
    await house.sweep()
    assert (await house.record(once.id)).offered_to == "ops/lost"
    assert (await house.record(again.id)).offered_to is None


async def test_a_tool_that_was_declared_late_still_gets_its_calls(house: PendingHarness) -> None:
    async with house.servers.connect("late", ("new_tool",), principal=OPS) as server:
        await house.list_tools(external("new_tool"))
        call, waiting = await house.begin("new_tool")
        await house.sweep()
        offer = await within(anext(aiter(server)))
        assert offer.call.id == call.id
        await house.answer(call, 1)
        await within(waiting)
