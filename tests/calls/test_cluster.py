"""What other gateways tell of calls, for those who follow here."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from jackfield.calls import cluster as elsewhere
from jackfield.calls import events as events_module
from jackfield.calls import login_transactions as login_tx
from jackfield.calls import transactions as call_tx
from jackfield.calls.cluster import RemoteCalls
from jackfield.calls.events import (
    APPROVED,
    LOGGED_IN,
    PENDING,
    PROGRESS,
    SETTLED,
    STARTED,
    CallEvent,
    CallEvents,
    event_of,
    topic_of,
)
from jackfield.model.call import Call, CallStatus, Failed, LoginWait, done
from jackfield.sources.base import Progress
from jackfield.store.opening import MemoryStore
from jackfield.store.scripts import Script
from tests.requirement import requirement
from tests.store.calls import a_call, a_call_for_approval, a_waiting_call
from tests.waiting import TIMEOUT

T = TypeVar("T")
WITHIN = TIMEOUT


class CountingStore(MemoryStore):
    """Counts its reads."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    async def read(self, script: Callable[[], Script[T]]) -> T:
        self.reads += 1
        return await super().read(script)


class Here:
    """A gateway's followers, and the word from another gateway."""

    def __init__(self, store: CountingStore, events: CallEvents) -> None:
        self.store = store
        self.events = events
        self.stopped: list[str] = []
        self.elsewhere = RemoteCalls(
            store=store, events=events, on_settled=lambda call_id, _: self.stopped.append(call_id)
        )

    def hear(self, *told: tuple[str, Call]) -> None:
        self.store.bus.hear([topic_of(kind, call) for kind, call in told])


@pytest.fixture
async def here() -> AsyncIterator[Here]:
    store = CountingStore()
    events = CallEvents(tell_others=store.tell_others)
    await store.open()
    gateway = Here(store, events)
    following = asyncio.create_task(gateway.elsewhere.follow())
    yield gateway
    following.cancel()
    await asyncio.wait([following])
    await store.close()


class Followed:
    def __init__(self, events: AsyncIterator[CallEvent]) -> None:
        self._events = events

    async def next(self) -> CallEvent:
        async with asyncio.timeout(WITHIN):
            return await anext(self._events)

    async def told(self, count: int) -> list[tuple[str, str, str]]:
        found = [await self.next() for _ in range(count)]
        return [(event.type, event.call_id, event.status.value) for event in found]

    async def ended(self) -> bool:
        async with asyncio.timeout(WITHIN):
            return await anext(self._events, None) is None


@asynccontextmanager
async def following(here: Here, call_id: str | None = None, **how: Any) -> AsyncIterator[Followed]:
    async with here.events.follow(call_id, **how) as events:
        yield Followed(events)


@requirement("CON-replicas")
async def test_an_event_from_elsewhere_is_as_if_it_had_happened_here(here: Here) -> None:
    call = a_call(agent="ada")
    await here.store.write(partial(call_tx.start_call, call))
    outcome = Failed("broken", "It broke.")
    settled = (
        await here.store.write(
            partial(
                call_tx.settle_executed,
                call.id,
                outcome,
                attempt=1,
                duration_ms=2.5,
                large_result=here.store.large_result,
            )
        )
    ).call
    assert settled is not None
    async with following(here) as followed:
        here.hear((SETTLED, settled))
        foreign = await followed.next()
    assert foreign == event_of(SETTLED, settled, at=foreign.at)
    assert (foreign.error, foreign.duration_ms, foreign.status) == ("It broke.", 2.5, CallStatus.FAILED)


@requirement("CON-replicas")
async def test_events_come_in_order_and_speak_of_the_status_of_then(here: Here) -> None:
    call = a_call_for_approval()
    await here.store.write(partial(call_tx.start_call, call))
    approved = (await here.store.write(partial(call_tx.approve, call.id, runs_here=True))).call
    begun = (await here.store.write(partial(call_tx.claim, call.id, owner="gw_b"))).call
    assert approved is not None
    assert begun is not None
    settled = (
        await here.store.write(
            partial(
                call_tx.settle_executed,
                call.id,
                done(1),
                attempt=1,
                duration_ms=1.0,
                large_result=here.store.large_result,
            )
        )
    ).call
    assert settled is not None
    async with following(here) as followed:
        here.hear((PENDING, call), (APPROVED, approved), (STARTED, begun), (SETTLED, settled))
        assert await followed.told(4) == [
            (PENDING, call.id, "pending_approval"),
            (APPROVED, call.id, "running"),
            (STARTED, call.id, "running"),
            (SETTLED, call.id, "completed"),
        ]


@requirement("CON-replicas", "ID-pending-login")
async def test_a_call_that_comes_to_wait_for_a_login_after_it_began_is_shown_so_while_it_does(here: Here) -> None:
    call = msgspec.structs.replace(a_call_for_approval(), status=CallStatus.RUNNING, attempt=1, owner="gw_b")
    login = LoginWait(source="far", principal="ops")
    await here.store.write(partial(login_tx.start_waiting, call, login, age_ms=0, digest=None))
    parked = await here.store.read(partial(call_tx.get_call, call.id))
    assert parked is not None
    async with following(here) as followed:
        here.hear((PENDING, parked), (STARTED, call))  # in whatever order they are heard
        assert await followed.told(2) == [(STARTED, call.id, "running"), (PENDING, call.id, "pending_login")]
        let_go = (await here.store.write(partial(login_tx.login_done, call.id))).call
        assert let_go is not None
        here.hear((PENDING, parked), (LOGGED_IN, let_go), (STARTED, call))  # the first of them late
        assert await followed.told(2) == [(LOGGED_IN, call.id, "running"), (STARTED, call.id, "running")]


@requirement("CON-replicas")
async def test_a_late_word_of_what_was_before_is_dropped(here: Here) -> None:
    """One gateway made the call, this one settled it; the follower must not think that it waits again."""
    made, other = a_waiting_call(), a_waiting_call()
    for one in (made, other):
        await here.store.write(partial(call_tx.start_call, one))
    settled = (
        await here.store.write(
            partial(call_tx.settle_submitted, made.id, done(1), large_result=here.store.large_result)
        )
    ).call
    assert settled is not None
    async with following(here) as followed:
        here.events.tell(SETTLED, settled, at=1)
        here.hear((PENDING, made), (PENDING, other))
        assert await followed.told(2) == [(SETTLED, made.id, "completed"), (PENDING, other.id, "waiting")]


async def test_a_call_is_settled_once_though_two_gateways_say_so(here: Here) -> None:
    """One cancelled it, the other ran it and finds it over."""
    call, other = a_call(), a_waiting_call()
    for one in (call, other):
        await here.store.write(partial(call_tx.start_call, one))
    settled = (await here.store.write(partial(call_tx.settle_cancelled, call.id, Failed("cancelled", "Stopped.")))).call
    assert settled is not None
    async with following(here) as followed:
        here.hear((SETTLED, settled))
        assert await followed.told(1) == [(SETTLED, call.id, "cancelled")]
        here.events.tell(SETTLED, settled, at=1)
        here.hear((SETTLED, settled), (PENDING, other))
        assert await followed.told(1) == [(PENDING, other.id, "waiting")]


@requirement("CON-replicas")
async def test_work_on_a_call_that_was_settled_elsewhere_is_stopped_though_nobody_follows(here: Here) -> None:
    running, waiting = a_call(), a_waiting_call()
    here.hear((STARTED, running), (PENDING, waiting), (SETTLED, running))
    assert here.stopped == [], "somebody told that it is over, but it is not"
    here.hear((SETTLED, replace(running, status=CallStatus.CANCELLED)))
    assert here.stopped == [running.id]
    assert here.store.reads == 0


async def test_words_of_two_gateways_that_come_together_are_put_in_order(here: Here) -> None:
    made = a_waiting_call()
    await here.store.write(partial(call_tx.start_call, made))
    settled = (
        await here.store.write(
            partial(call_tx.settle_submitted, made.id, done(1), large_result=here.store.large_result)
        )
    ).call
    assert settled is not None
    async with following(here) as followed:
        here.hear((SETTLED, settled))
        here.hear((PENDING, made))
        assert await followed.told(2) == [(PENDING, made.id, "waiting"), (SETTLED, made.id, "completed")]


async def test_how_far_calls_are_is_remembered_of_the_newest_and_while_somebody_follows(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "REMEMBERED", 2)
    calls = [a_waiting_call() for _ in range(3)]
    for call in calls:
        await here.store.write(partial(call_tx.start_call, call))
    async with following(here) as followed:
        for call in calls:
            here.events.tell(SETTLED, call, at=1)
        await followed.told(3)
        here.hear(*((PENDING, call) for call in calls))
        assert await followed.told(1) == [(PENDING, calls[0].id, "waiting")]
    async with following(here) as followed:
        here.hear((PENDING, calls[2]))
        assert await followed.told(1) == [(PENDING, calls[2].id, "waiting")]


async def test_an_earlier_event_does_not_tell_what_came_of_the_call(here: Here) -> None:
    call = a_call()
    failed = await here.store.write(
        call_tx.SettledCall(
            call, Failed("broken", "It broke."), age_ms=3, duration_ms=2.5, large_result=here.store.large_result
        )
    )
    async with following(here) as followed:
        here.hear((STARTED, call), (SETTLED, failed))
        started, settled = await followed.next(), await followed.next()
    assert (started.status, started.error, started.duration_ms) == (CallStatus.RUNNING, None, None)
    assert (settled.status, settled.error, settled.duration_ms) == (CallStatus.FAILED, "It broke.", 2.5)


@requirement("CON-replicas")
async def test_while_nobody_follows_nothing_is_read(here: Here) -> None:
    call, another = a_waiting_call(), a_waiting_call()
    for one in (call, another):
        await here.store.write(partial(call_tx.start_call, one))
    here.hear((PENDING, call))
    async with following(here, another.id) as followed:
        here.hear((PENDING, call))
        assert here.store.reads == 0
        here.hear((PENDING, call), (PENDING, another))
        assert await followed.told(1) == [(PENDING, another.id, "waiting")]
    assert here.store.reads == 1


async def test_many_events_are_one_read(here: Here) -> None:
    calls = [a_waiting_call() for _ in range(300)]
    await asyncio.gather(*(here.store.write(partial(call_tx.start_call, call)) for call in calls))
    async with following(here) as followed:
        here.hear(*((PENDING, call) for call in calls))
        assert await followed.told(300) == [(PENDING, call.id, "waiting") for call in calls]
    assert here.store.reads == 1


async def test_an_event_that_is_ahead_of_its_row_waits_for_it(here: Here) -> None:
    call, other = a_call(), a_waiting_call()
    await here.store.write(partial(call_tx.start_call, other))
    async with following(here) as followed:
        here.hear((STARTED, call), (PENDING, other))
        assert await followed.told(1) == [(PENDING, other.id, "waiting")]
        settled = await here.store.write(
            call_tx.SettledCall(call, done(1), age_ms=3, duration_ms=2.5, large_result=here.store.large_result)
        )
        here.hear((SETTLED, settled))
        assert await followed.told(2) == [(STARTED, call.id, "running"), (SETTLED, call.id, "completed")]


async def test_an_event_whose_row_never_comes_is_given_up(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "PATIENCE_SECONDS", 0.0)
    call, other = a_call(), a_waiting_call()
    await here.store.write(partial(call_tx.start_call, other))
    async with following(here) as followed:
        here.hear((STARTED, call), (PENDING, other))
        await followed.told(1)
        await here.store.write(partial(call_tx.start_call, call))
        here.hear((PENDING, other))
        assert await followed.told(1) == [(PENDING, other.id, "waiting")]


async def test_what_is_no_event_is_passed_over(here: Here) -> None:
    call = a_waiting_call()
    await here.store.write(partial(call_tx.start_call, call))
    async with following(here) as followed:
        here.store.bus.hear(
            [call.id, "offer:echo", "inbox:a b c", f"call.dreamt waiting {call.id}", f"call.pending dozing {call.id}"]
        )
        here.hear((PROGRESS, call))
        here.hear((PENDING, call))
        assert await followed.told(1) == [(PENDING, call.id, "waiting")]
    assert here.store.reads == 1


async def test_who_must_not_miss_anything_begins_anew_when_something_may_be_missing(here: Here) -> None:
    call = a_waiting_call()
    await here.store.write(partial(call_tx.start_call, call))
    async with following(here, unbroken=True) as strict, following(here) as easy:
        here.store.bus.wake_all()
        here.hear((PENDING, call))
        assert await easy.told(1) == [(PENDING, call.id, "waiting")]
        assert await strict.ended()


async def test_a_read_that_fails_is_something_missed(here: Here, caplog: pytest.LogCaptureFixture) -> None:
    call = a_waiting_call()
    async with following(here, unbroken=True) as strict:
        await here.store.close()
        here.hear((PENDING, call))
        assert await strict.ended()
    assert "could not be read" in caplog.text


def test_others_are_told_what_their_rows_say_and_no_more() -> None:
    told: list[str] = []
    events = CallEvents(tell_others=told.append)
    call = a_waiting_call()
    for kind in (STARTED, PENDING, APPROVED, SETTLED):
        events.tell(kind, call, at=1)
    events.tell(PROGRESS, call, at=1, progress=Progress(progress=0.5))
    events.echo(SETTLED, call, at=1)
    kinds = ("started", "pending", "approved", "settled")
    assert told == [f"call.{kind} waiting {call.id}" for kind in kinds]
