"""The outbox on every store: written with the transition, in order, held by one gateway, told once."""

from functools import partial
from typing import Any

import msgspec
import pytest

from jackfield.calls import login_transactions as login_tx
from jackfield.calls import transactions as call_tx
from jackfield.model.call import CallStatus, Failed, LoginWait, done
from jackfield.model.event import Event
from jackfield.notify import transactions as outbox_tx
from jackfield.notify.recorder import recorder_of
from jackfield.notify.transactions import OUTBOX_TOPIC
from jackfield.notify.types import Notification, NotificationStatus, Target
from jackfield.settings.notify import NotifySettings
from jackfield.store import Store
from jackfield.store import gateways as gateway_tx
from jackfield.store.scripts import Script, run
from tests.requirement import requirement
from tests.store.calls import a_call, a_call_for_approval, a_pending_call, a_waiting_call

ALL = ("call.pending_approval", "call.pending", "call.pending_login", "call.failed", "source.down", "source.up")


def tell(store: Store, *names: str, **options: Any) -> None:
    """From now on the store records for targets of these names."""
    table = {"kind": "webhook", "url": "http://127.0.0.1:1/", "on": ALL} | options
    settings = msgspec.convert(table, NotifySettings)
    store.recorder = recorder_of(Target(name, settings) for name in names or ("ops",))


async def waiting(store: Store, target: str = "ops") -> list[Notification]:
    return (await store.read(partial(outbox_tx.next_notifications, target, limit=100)))[0]


async def types(store: Store, target: str = "ops") -> list[str]:
    return [one.type for one in await waiting(store, target)]


@requirement("OPS-outbox-transaction")
async def test_what_becomes_of_a_call_is_in_the_outbox_when_it_is_on_record(store: Store) -> None:
    tell(store)
    asking, pending, waits, runs = a_call_for_approval(), a_pending_call(), a_waiting_call(), a_call()
    for call in (asking, pending, waits, runs):
        await store.write(partial(call_tx.start_call, call))
    assert await types(store) == ["call.pending_approval", "call.pending"]

    await store.write(partial(call_tx.approve, asking.id, runs_here=False))
    await store.write(partial(call_tx.abandon_wait, waits.id))
    await store.write(
        partial(
            call_tx.settle_executed, runs.id, Failed("broken", "It broke."), attempt=1, duration_ms=1, large_result=0
        )
    )
    login = LoginWait(source="gh", principal="somebody")
    later = a_call()
    await store.write(partial(login_tx.start_waiting, later, login, age_ms=0, digest=None))
    told = await waiting(store)
    assert [one.type for one in told[2:]] == ["call.pending", "call.pending", "call.failed", "call.pending_login"]
    data = [msgspec.json.decode(one.data) for one in told]
    assert [one["call_id"] for one in data] == [asking.id, pending.id, asking.id, waits.id, runs.id, later.id]
    assert data[4]["error"] == {"code": "broken", "message": "It broke."}
    assert data[5]["login_source"] == "gh"


async def test_a_short_call_that_fails_is_told_and_one_that_does_not_is_not(store: Store) -> None:
    tell(store)
    for outcome in (done(1), Failed("broken", "It broke."), done(2)):
        script = call_tx.SettledCall(a_call(), outcome, age_ms=1, duration_ms=1.0, large_result=0)
        await store.write(script)
    assert await types(store) == ["call.failed"]


async def test_without_targets_nothing_is_written_and_with_a_filter_what_fits(store: Store) -> None:
    await store.write(partial(call_tx.start_call, a_pending_call()))
    assert not await waiting(store)
    tell(store, on=("call.pending",), where={"tool": ["pay_*", "ask"], "source": "bank"})
    for tool, source in (("pay_now", "bank"), ("pay_now", "shop"), ("add", "bank"), ("ask", "bank")):
        await store.write(partial(call_tx.start_call, a_pending_call(tool=tool, source=source)))
    await store.write(partial(call_tx.start_call, a_call_for_approval(tool="ask", source="bank")))
    told = [msgspec.json.decode(one.data) for one in await waiting(store)]
    assert [(one["tool"], one["source"]) for one in told] == [("pay_now", "bank"), ("ask", "bank")]


async def test_a_transition_that_is_rolled_back_tells_nobody(store: Store) -> None:
    tell(store)

    def broken() -> Script[None]:
        yield from call_tx.start_call(a_pending_call())
        raise ValueError("after it was told")

    with pytest.raises(ValueError, match="after"):
        await store.write(broken)
    assert not await waiting(store)
    await store.write(partial(call_tx.start_call, call := a_pending_call()))
    moved = await store.write(partial(call_tx.flip, call.id))
    assert not moved.moved
    assert await types(store) == ["call.pending"]


async def test_whoever_delivers_is_woken_and_sees_each_target_in_order(store: Store) -> None:
    tell(store, "a", "b")
    with store.bus.listen(OUTBOX_TOPIC + "a") as woken:
        calls = [a_pending_call() for _ in range(20)]
        for call in calls:
            await store.write(partial(call_tx.start_call, call))
        assert woken.is_set()
    for target in ("a", "b"):
        told = [msgspec.json.decode(one.data)["call_id"] for one in await waiting(store, target)]
        assert told == [call.id for call in calls]


@requirement("OPS-outbox-lease")
async def test_one_gateway_delivers_to_a_target_until_it_is_dead(store: Store) -> None:
    await store.write(partial(run, "insert_gateway", id="gw_b"))

    async def claim(gateway: str) -> bool:
        return await store.write(partial(outbox_tx.claim_target, "ops", owner=gateway))

    assert await claim("gw_a")
    assert await claim("gw_a")
    assert not await claim("gw_b")
    tell(store)
    await store.write(partial(call_tx.start_call, a_pending_call()))
    [told] = await waiting(store)
    assert not await store.write(partial(outbox_tx.note_delivered, told.id, owner="gw_b"))

    await store.write(partial(gateway_tx.leave, "gw_a"))
    assert await claim("gw_b")
    assert not await store.write(partial(outbox_tx.note_delivered, told.id, owner="gw_a"))
    assert await store.write(partial(outbox_tx.note_delivered, told.id, owner="gw_b"))
    await store.write(partial(outbox_tx.release_target, "ops", owner="gw_b"))
    await store.write(partial(run, "insert_gateway", id="gw_c"))
    assert await claim("gw_c")


async def test_what_is_not_taken_waits_is_given_up_and_can_be_retried(store: Store) -> None:
    tell(store)
    for _ in range(3):
        await store.write(partial(call_tx.start_call, a_pending_call()))
    await store.write(partial(outbox_tx.claim_target, "ops", owner="gw_a"))
    later, refused, old = await waiting(store)

    async def fail(one: Notification, *, is_refused: bool = False, give_up_ms: int = 86_400_000) -> Notification:
        script = partial(
            outbox_tx.note_undelivered,
            one.id,
            owner="gw_a",
            error="No.",
            is_refused=is_refused,
            pause_ms=60_000,
            give_up_ms=give_up_ms,
        )
        kept = await store.write(script)
        assert kept is not None
        return kept

    kept = await fail(later)
    assert (kept.status, kept.attempts, kept.error) == (NotificationStatus.PENDING, 1, "No.")
    assert kept.next_at >= later.next_at + 60_000
    assert (await fail(refused, is_refused=True)).status is NotificationStatus.FAILED
    assert (await fail(old, give_up_ms=0)).status is NotificationStatus.FAILED
    assert [one.id for one in await waiting(store)] == [later.id]

    found, following = await store.read(
        partial(outbox_tx.notification_page, status=NotificationStatus.FAILED, target="ops", limit=1, before=None)
    )
    assert [one.id for one in found] == [old.id]
    found, following = await store.read(
        partial(outbox_tx.notification_page, status=NotificationStatus.FAILED, target=None, limit=1, before=following)
    )
    assert ([one.id for one in found], following) == ([refused.id], None)

    retried, is_retried = await store.write(partial(outbox_tx.retry, refused.id))
    assert is_retried
    assert retried is not None
    assert (retried.status, retried.attempts, retried.finished_at) == (NotificationStatus.PENDING, 0, None)
    assert await store.write(partial(outbox_tx.retry, "msg_none")) == (None, False)
    assert (await store.write(partial(outbox_tx.retry, refused.id)))[1] is False
    depths = await store.read(outbox_tx.outbox_depths)
    assert (depths["ops"].waiting, depths["ops"].failed) == (2, 1)


async def test_old_notifications_are_pruned_but_not_one_that_was_retried(store: Store) -> None:
    tell(store)
    for _ in range(2):
        await store.write(partial(call_tx.start_call, a_pending_call()))
    kept = (await waiting(store))[0]
    after = await store.now_ms() + 1_000
    values = {"before_id": f"msg_{after:012x}", "before": kept.since, "limit": 10}
    assert not await store.write(partial(run, "prune_outbox", **values))
    gone = await store.write(partial(run, "prune_outbox", **values | {"before": after}))
    assert len(gone) == 2


@requirement("OPS-notify-sources")
async def test_that_a_source_is_down_is_told_once_and_up_when_all_find_it_so(store: Store) -> None:
    tell(store)
    await store.write(partial(run, "insert_gateway", id="gw_b"))
    down, up = Event(type="source.down", source="s"), Event(type="source.up", source="s")

    async def say(event: Event, gateway: str) -> None:
        script = outbox_tx.source_down if event is down else outbox_tx.source_up
        await store.write(partial(script, event, gateway=gateway))

    for event, gateway in ((up, "gw_a"), (down, "gw_a"), (down, "gw_b"), (up, "gw_a")):
        await say(event, gateway)
    assert await types(store) == ["source.down"]
    await say(up, "gw_b")
    await say(up, "gw_b")
    assert await types(store) == ["source.down", "source.up"]
    await say(down, "gw_b")
    await store.write(partial(gateway_tx.leave, "gw_b"))
    await say(down, "gw_a")
    await say(up, "gw_a")
    assert await types(store) == ["source.down", "source.up", "source.down", "source.up"]


async def test_what_several_gateways_see_is_told_once(store: Store) -> None:
    tell(store, on=("tool.quarantined",))
    assert store.recorder is not None
    for key in ("x 1", "x 1", "x 2"):
        await store.write(partial(store.recorder.script, Event(type="tool.quarantined", source="x", key=key)))
    assert await types(store) == ["tool.quarantined"] * 2


@pytest.mark.parametrize("store", ["memory", "sqlite"], indirect=True)  # on PostgreSQL the others may be alive
async def test_calls_whose_waiters_died_are_told(store: Store) -> None:
    tell(store)
    await store.write(partial(call_tx.start_call, a_waiting_call()))
    await store.write(partial(gateway_tx.enter, "gw_next", is_shared=store.is_shared, announce=call_tx.announce_row))
    assert await types(store) == ["call.pending"]
    assert CallStatus.PENDING.value in bytes((await waiting(store))[0].data).decode()
