"""Waiting inline for somebody else's answer: woken at once, never polling, and the row alone says how it ended."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jackfield.calls import transactions as call_tx
from jackfield.calls.messages import timed_out
from jackfield.calls.transactions import Moved, Started
from jackfield.calls.waiting import slot_of, start_and_wait, wait_for_slot
from jackfield.model.call import Call, CallStatus, Delivery, FirstReply, done
from jackfield.sources.base import Progress
from tests.calls.harness import OPS
from tests.calls.pending_harness import HOUR_MS, PendingHarness, change, pending_harness, status_of, until, within
from tests.requirement import requirement
from tests.store.calls import a_pending_call, a_waiting_call, decoded
from tests.store.intercepting import intercept
from tests.waiting import TIMEOUT, Stopwatch

SOON = 20.0
"""Less than the 30 s that these calls may wait."""


def ignore(_: object) -> None:
    """For what nobody wants to be told here."""


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[PendingHarness]:
    urls = {"memory": "memory:", "sqlite": "sqlite:///calls.db"}
    url = urls.get(request.param) or request.getfixturevalue("postgres_url")
    async with pending_harness(url, tmp_path) as opened:
        yield opened


@requirement("SPACE-status-sync-created", "SPACE-status-sync-resolved")
async def test_an_answer_ends_the_wait_and_is_inline(harness: PendingHarness) -> None:
    call, waiting = await harness.begin("ask", agent="ada")
    assert status_of(call) == (CallStatus.WAITING, None)
    await harness.answer(call, {"temperature": 21})
    ended = await within(waiting, SOON)
    assert status_of(ended) == (CallStatus.COMPLETED, "inline")
    assert decoded(ended.result) == {"temperature": 21}
    assert await harness.inbox("ada") == []


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}])
async def test_a_falsy_result_ends_the_wait_as_the_result_it_is(harness: PendingHarness, value: Any) -> None:
    call, waiting = await harness.begin("ask", agent="ada")
    await harness.answer(call, value)
    ended = await within(waiting, SOON)
    slot = slot_of(ended)
    assert slot is not None
    assert slot.outcome == done(value)
    assert decoded(ended.result) == value


async def test_a_result_that_is_there_before_the_wait_begins_is_answered_at_once(harness: PendingHarness) -> None:
    """Committed and published after T1 and before the waiter looks: the subscription was there first."""
    call = a_waiting_call(agent="ada")

    async def start_and_be_answered() -> Started:
        started = await harness.store.write(partial(call_tx.start_call, call))
        await harness.store.write(
            partial(call_tx.settle_submitted, call.id, done("quick"), large_result=harness.store.large_result)
        )
        return started

    start = partial(asyncio.ensure_future, start_and_be_answered())
    ended = await within(start_and_wait(harness.store, call.id, start=start, on_start=ignore, on_flip=ignore), SOON)
    assert ended.call is not None
    assert decoded(ended.call.result) == "quick"


@pytest.mark.parametrize("answered", ["before the row is read", "after the row was read"])
async def test_a_result_between_subscribing_and_sleeping_is_answered_at_once(
    harness: PendingHarness, monkeypatch: pytest.MonkeyPatch, answered: str
) -> None:
    call = (await harness.store.write(partial(call_tx.start_call, a_waiting_call(agent="ada")))).call
    assert call is not None
    read, reads = harness.store.read, 0

    async def read_with_an_answer_beside_it(call_id: str) -> Call | None:
        nonlocal reads
        reads += 1
        before = await read(partial(call_tx.get_call, call_id))
        if reads == 1:
            await harness.store.write(
                partial(call_tx.settle_submitted, call_id, done("beside"), large_result=harness.store.large_result)
            )
        return before if answered == "after the row was read" else await read(partial(call_tx.get_call, call_id))

    intercept(monkeypatch, harness.store, call_tx.get_call, read_with_an_answer_beside_it)
    ended = await within(wait_for_slot(harness.store, call.id, on_flip=ignore), SOON)
    assert decoded(ended.result) == "beside"
    assert reads <= 2


@requirement("CON-one-deadline", "SPACE-sync-flow-flip", "SPACE-status-sync-expired", "SPACE-never-forever")
async def test_a_wait_that_nobody_answers_ends_at_the_deadline_with_the_error_and_goes_on_as_pending(
    harness: PendingHarness,
) -> None:
    began = time.monotonic()
    ended = await within(harness.call("ask_briefly", agent="ada"))
    waited = time.monotonic() - began
    slot = slot_of(ended)
    assert slot is not None
    assert slot.outcome == timed_out(ended.id, 150)
    assert status_of(await harness.record(ended.id)) == (CallStatus.PENDING, "inbox")
    assert ended.deadline == ended.created_at + 150
    assert 0.145 <= waited < TIMEOUT


@pytest.mark.parametrize("end", ["deadline", "client gone"])
async def test_whoever_follows_the_calls_hears_once_that_one_waits_on_without_its_caller(
    harness: PendingHarness, end: str
) -> None:
    hung_up = asyncio.Event()
    gone: dict[str, Any] = {"over_http": True, "client_gone": hung_up.wait} if end == "client gone" else {}
    async with harness.pipeline.events.follow(None) as told:
        call, waiting = await harness.begin("ask" if gone else "ask_briefly", agent="ada", **gone)
        hung_up.set()
        await within(waiting)
        await harness.sweep()
        await harness.answer(call, "late")
        heard = [await within(anext(told)) for _ in range(3)]
    assert [(event.type, event.status.value) for event in heard] == [
        ("call.pending", "waiting"),
        ("call.pending", "pending"),
        ("call.settled", "completed"),
    ]


@requirement("SPACE-status-late-resolved", "SPACE-sync-flow-late-inbox")
async def test_a_result_after_the_deadline_goes_to_the_inbox_and_leaves_the_slot_as_it_was(
    harness: PendingHarness,
) -> None:
    ended = await within(harness.call("ask_briefly", agent="ada"))
    told = slot_of(ended)
    late = await harness.answer(ended, "late")
    assert status_of(late) == (CallStatus.COMPLETED, "inbox")
    assert slot_of(late) == told
    assert await harness.inbox("ada") == [(f"tr:{ended.id}", "late")]


@pytest.mark.parametrize("first", ["result", "deadline"])
async def test_a_result_in_the_moment_of_the_deadline_is_inline_or_in_the_inbox_and_never_both(
    harness: PendingHarness, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """The waiter's timer goes off while the result is on its way; whichever the store takes first decides."""
    write, flipping = harness.store.write, asyncio.Event()
    answered: list[Call] = []

    async def settled(call_id: str) -> Call:
        script = partial(call_tx.settle_submitted, call_id, done("just"), large_result=harness.store.large_result)
        call = (await write(script)).call
        assert call is not None
        return call

    async def flip_beside_a_result(call_id: str) -> Moved:
        flipping.set()
        if first == "result":
            answered.append(await settled(call_id))
            return await write(partial(call_tx.flip, call_id))
        flipped = await write(partial(call_tx.flip, call_id))
        while not flipped.moved:  # the waiter's timer may go off a moment before the database's clock
            await asyncio.sleep(0.005)
            flipped = await write(partial(call_tx.flip, call_id))
        answered.append(await settled(call_id))
        return flipped

    intercept(monkeypatch, harness.store, call_tx.flip, flip_beside_a_result)
    ended = await within(harness.call("ask_briefly", agent="ada"))
    slot = slot_of(ended)
    assert slot is not None
    assert flipping.is_set()
    if first == "result":
        assert slot.outcome == done("just")
        assert await harness.inbox("ada") == []
    else:
        assert slot.outcome == timed_out(ended.id, 150)
        assert await harness.inbox("ada") == [(f"tr:{ended.id}", "just")]
    assert [call.delivery for call in answered] == [Delivery.INLINE if first == "result" else Delivery.INBOX]


class Questions:
    """Counts what a store is asked, reads and writes alike."""

    def __init__(self, harness: PendingHarness, patch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        self._read, self._write = harness.store.read, harness.store.write
        patch.setattr(harness.store, "read", self.read)
        patch.setattr(harness.store, "write", self.write)

    async def read(self, script: Any) -> Any:
        self.asked += 1
        return await self._read(script)

    def write(self, script: Any, **more: Any) -> Any:
        self.asked += 1
        return self._write(script, **more)

    async def of_a_round(self, harness: PendingHarness) -> int:
        """What the sweeper and the heartbeat ask in one round."""
        before = self.asked
        await harness.sweep()
        await harness.sweeper.wake_lost()
        return self.asked - before


async def test_no_query_runs_for_a_waiting_call(harness: PendingHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = Questions(harness, monkeypatch)
    waits = [await harness.begin("ask", agent="ada")]
    for_one = await questions.of_a_round(harness)
    waits += [await harness.begin("ask") for _ in range(200)]
    asked = questions.asked
    assert await questions.of_a_round(harness) == for_one
    assert questions.asked == asked + for_one
    await asyncio.gather(*(harness.answer(call, 1) for call, _ in waits))
    ended = await within(asyncio.gather(*(waiting for _, waiting in waits)))
    assert {call.status for call in ended} == {CallStatus.COMPLETED}


@pytest.fixture
def deaf(harness: PendingHarness, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """No wake-up arrives until this is undone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(harness.store.bus, "publish", lambda _: None)
        yield patch


@pytest.mark.parametrize("agent", ["ada", None])
async def test_without_any_wake_up_an_answered_call_still_ends_inline_at_its_deadline(
    harness: PendingHarness, deaf: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch, agent: str | None
) -> None:
    """Answered before the waiter begins to wait, so that the deadline cannot come first on a slow machine."""

    async def start_and_be_answered(call: Call, **more: Any) -> Started:
        started = await harness.store.write(partial(call_tx.start_call, call, **more))
        await harness.answer(call, "unheard")
        return started

    intercept(monkeypatch, harness.store, call_tx.start_call, start_and_be_answered)
    ended = await within(harness.call("ask_briefly", agent=agent), TIMEOUT)
    assert status_of(ended) == (CallStatus.COMPLETED, "inline")
    assert decoded(ended.result) == "unheard"
    assert await harness.inbox("ada") == []


@pytest.mark.parametrize("agent", ["ada", None])
async def test_a_waiter_whose_wake_up_was_lost_is_woken_by_the_heartbeat(
    harness: PendingHarness, deaf: pytest.MonkeyPatch, agent: str | None
) -> None:
    call, waiting = await harness.begin("ask", agent=agent, over_http=True)
    other, still_waiting = await harness.begin("ask", agent=agent, over_http=True)
    await harness.answer(call, "unheard")
    deaf.undo()
    await harness.sweeper.wake_lost()
    assert decoded((await within(waiting, SOON)).result) == "unheard"
    assert not still_waiting.done()
    await harness.answer(other, "heard")
    await within(still_waiting, SOON)


async def test_a_lost_wake_up_is_found_however_many_calls_went_to_the_inbox_before(
    harness: PendingHarness, deaf: pytest.MonkeyPatch
) -> None:
    """Answers that nobody came for must not hide one that somebody waits for."""
    call, waiting = await harness.begin("ask", agent="ada", over_http=True)
    await asyncio.gather(*(harness.store.write(partial(call_tx.start_call, _given_up(harness.id))) for _ in range(600)))
    await harness.answer(call, "unheard")
    deaf.undo()
    await harness.sweeper.wake_lost()
    assert decoded((await within(waiting, SOON)).result) == "unheard"


def _given_up(waiter: str) -> Call:
    return a_pending_call(agent="ada", waiter=waiter, first_reply=FirstReply.TIMEOUT)


async def test_without_any_wake_up_the_sweeper_decides_for_a_caller_that_is_gone(
    harness: PendingHarness, deaf: pytest.MonkeyPatch
) -> None:
    call, waiting = await harness.begin("ask_briefly", agent="ada")
    waiting.cancel()
    await until(waiting.done)
    await harness.until_clock(call.deadline)
    await harness.sweep()
    assert status_of(await harness.record(call.id)) == (CallStatus.PENDING, "inbox")


async def test_progress_lengthens_the_wait_up_to_its_limit_and_no_further(harness: PendingHarness) -> None:
    call, waiting = await harness.begin("ask", agent="ada")
    limit = await _grow_older(harness, call, 10 * call.timeout_ms - 500)
    await harness.answers.progress(call.id, Progress(progress=1), principal=OPS)
    assert (await harness.record(call.id)).deadline == limit
    await harness.until_clock(limit)
    await harness.sweep()
    ended = await within(waiting)
    assert slot_of(ended) == slot_of(await harness.record(call.id))
    assert status_of(ended) == (CallStatus.PENDING, "inbox")


async def test_an_answer_after_progress_is_inline_though_the_first_deadline_has_passed(harness: PendingHarness) -> None:
    call, waiting = await harness.begin("ask", agent="ada")
    await _grow_older(harness, call, call.timeout_ms)
    await harness.answers.progress(call.id, Progress(progress=1), principal=OPS)
    await harness.sweep()
    await harness.answer(call, "slow but alive")
    ended = await within(waiting, SOON)
    assert decoded(ended.result) == "slow but alive"
    assert ended.delivery is Delivery.INLINE


async def _grow_older(harness: PendingHarness, call: Call, milliseconds: int) -> int:
    """As if the call had been made so much earlier. Says how far progress can put off its deadline."""
    sql = "UPDATE calls SET created_at = created_at - :ms, deadline = deadline - :ms WHERE id = :id"
    await change(harness.store, sql, ms=milliseconds, id=call.id)
    return call.created_at - milliseconds + 10 * call.timeout_ms


@pytest.mark.parametrize("agent", ["ada", None])
@requirement("CON-late-result-home")
async def test_a_client_that_hangs_up_while_it_waits_leaves_the_answer_to_the_inbox(
    harness: PendingHarness, agent: str | None
) -> None:
    hung_up = asyncio.Event()
    call, waiting = await harness.begin("ask", agent=agent, over_http=True, client_gone=hung_up.wait)
    hung_up.set()
    ended = await within(waiting, SOON)
    assert status_of(ended) == (CallStatus.PENDING, "inbox")
    answered = await harness.answer(call, "for nobody here")
    assert status_of(answered) == (CallStatus.COMPLETED, "inbox")
    assert await harness.inbox("ada") == ([(f"tr:{call.id}", "for nobody here")] if agent else [])


async def test_a_result_that_comes_as_the_client_hangs_up_is_delivered_once(
    harness: PendingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is taken first; then nobody is there for the reply, and it goes to the inbox."""
    hung_up = asyncio.Event()
    write = harness.store.write

    async def abandon_after_a_result(call_id: str) -> Moved:
        await harness.store.write(
            partial(call_tx.settle_submitted, call_id, done("just"), large_result=harness.store.large_result)
        )
        return await write(partial(call_tx.abandon_wait, call_id))

    intercept(monkeypatch, harness.store, call_tx.abandon_wait, abandon_after_a_result)
    _, waiting = await harness.begin("ask", agent="ada", over_http=True, client_gone=hung_up.wait)
    hung_up.set()
    ended = await within(waiting, SOON)
    assert status_of(ended) == (CallStatus.COMPLETED, "inline")
    assert await harness.inbox("ada") == []
    await harness.pipeline.not_sent(ended)
    await harness.pipeline.not_sent(ended)
    assert await harness.inbox("ada") == [(f"tr:{ended.id}", "just")]


async def test_what_was_sent_does_not_go_to_the_inbox_as_well(harness: PendingHarness) -> None:
    call, waiting = await harness.begin("ask", agent="ada", over_http=True)
    await harness.answer(call, "sent")
    ended = await within(waiting, SOON)
    await harness.pipeline.sent(ended)
    await harness.pipeline.not_sent(ended)
    await harness.sweep()
    assert await harness.inbox("ada") == []


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_gateway_whose_clock_is_an_hour_off_waits_as_long_and_delivers_the_same(
    harness: PendingHarness, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + hours * HOUR_MS * 1_000_000)
    call, waiting = await harness.begin("ask", agent="ada")
    await harness.sweep()
    await harness.answer(call, "in time")
    assert status_of(await within(waiting, SOON)) == (CallStatus.COMPLETED, "inline")
    began = time.monotonic()
    ended = await within(harness.call("ask_briefly", agent="ada"))
    assert status_of(ended) == (CallStatus.PENDING, "inbox")
    assert 0.145 <= time.monotonic() - began < TIMEOUT


async def test_who_takes_up_a_wait_keeps_its_deadline(harness: PendingHarness, deaf: pytest.MonkeyPatch) -> None:
    """A repeat with the same Idempotency-Key waits for the rest of the time, not for all of it again."""
    made = await harness.store.write(partial(call_tx.start_call, a_waiting_call(timeout_ms=1_000), age_ms=800))
    assert made.call is not None
    watch = Stopwatch()
    ended = await within(wait_for_slot(harness.store, made.call.id, on_flip=ignore))
    assert ended.first_reply is FirstReply.TIMEOUT
    assert watch.seconds() < 0.9


async def test_a_repeat_of_the_request_waits_for_the_same_call(harness: PendingHarness) -> None:
    same: dict[str, Any] = {"agent": "ada", "idempotency_key": "k", "digest": "d"}
    call, waiting = await harness.begin("ask", **same)
    repeat = asyncio.create_task(harness.call("ask", **same))
    await until(lambda: len(harness.store.bus._waiting[call.id]) == 2)
    await harness.answer(call, "for both")
    first, second = await within(asyncio.gather(waiting, repeat), SOON)
    assert first.id == second.id == call.id
    assert decoded(second.result) == "for both"


@requirement("CON-replicas")
@pytest.mark.parametrize("agent", ["ada", None])
async def test_a_result_posted_at_another_gateway_is_found_though_its_wake_up_was_lost(
    postgres_url: str, tmp_path: Path, agent: str | None
) -> None:
    async with (
        pending_harness(postgres_url, tmp_path, gateway_id="gw_a") as a,
        pending_harness(postgres_url, tmp_path, gateway_id="gw_b") as b,
    ):
        call, waiting = await a.begin("ask", agent=agent, over_http=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(a.store.bus, "publish", lambda _: None)
            await b.answer(call, "from afar")
            await asyncio.wait((waiting,), timeout=0.3)
            assert not waiting.done()
        await a.sweeper.wake_lost()
        assert decoded((await within(waiting, SOON)).result) == "from afar"
