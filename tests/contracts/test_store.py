"""What every store holds: one suite over all of them."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from msgspec import Raw
from msgspec.structs import replace

from jackfield.calls import transactions as call_tx
from jackfield.calls.rows import CallFilter, call_page
from jackfield.calls.transactions import Claim, Moved
from jackfield.gateway.retention import prune
from jackfield.identity import transactions as login_tx
from jackfield.identity.transactions import Login
from jackfield.model.call import MOVES, Call, CallStatus, Decision, Delivery, Done, Failed, done
from jackfield.model.tool import CallKind
from jackfield.store import Store, scripts
from jackfield.store import gateways as gateway_tx
from jackfield.store.scripts import Sql
from tests.requirement import requirement
from tests.store.calls import a_call, a_call_for_approval, a_pending_call, a_waiting_call, decoded

HOUR_MS = 3_600_000


async def let_die(store: Store, gateway: str) -> None:
    """Let this gateway have missed its heartbeats, and be found out."""
    late = Sql("late", "UPDATE gateways SET alive_until = 0 WHERE id = :id")
    await store.write(partial(scripts.run, late, id=gateway))
    assert await store.write(gateway_tx.bury_late) == [gateway]


async def started(store: Store, call: Call) -> Call:
    result = await store.write(partial(call_tx.start_call, call))
    assert result.fresh
    assert result.call is not None
    return result.call


async def test_a_started_call_is_found_as_it_was_made(store: Store) -> None:
    made = a_call(agent="ada", space_id="lobby", chat_id="c1", idempotent=True, timeout_ms=1500)
    kept = await started(store, made)
    assert await store.read(partial(call_tx.get_call, made.id)) == kept
    same = ("id", "run_id", "tool", "source", "tool_version", "principal", "agent", "space_id", "chat_id", "idempotent")
    assert {name: getattr(kept, name) for name in same} == {name: getattr(made, name) for name in same}
    assert decoded(kept.arguments) == {"text": "hi"}
    assert kept.deadline == kept.created_at + 1500
    assert kept.expires_at is None


async def test_a_pending_call_has_an_end_and_no_deadline(store: Store) -> None:
    kept = await started(store, a_pending_call(expires_in_ms=HOUR_MS))
    assert kept.deadline is None
    assert kept.expires_at == kept.created_at + HOUR_MS


async def test_an_unknown_call_is_nothing(store: Store) -> None:
    assert await store.read(partial(call_tx.get_call, "call_x")) is None
    assert await store.write(
        partial(call_tx.settle_executed, "call_x", done(1), attempt=1, duration_ms=1.0, large_result=store.large_result)
    ) == Moved(None, moved=False)


async def test_a_short_call_is_written_once_with_its_outcome(store: Store) -> None:
    made = a_call()
    settled = await store.write(
        call_tx.SettledCall(made, done({"a": 1}), age_ms=7, duration_ms=7.25, large_result=store.large_result)
    )
    kept = await store.read(partial(call_tx.get_call, made.id))
    assert kept == settled
    assert kept is not None
    assert (kept.status, kept.delivery, kept.attempt) == (CallStatus.COMPLETED, Delivery.INLINE, 1)
    assert decoded(kept.result) == {"a": 1}
    assert kept.duration_ms == 7.25
    assert kept.finished_at is not None
    assert kept.finished_at - kept.created_at == 7


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, "ünï\u2028", 1.5])
async def test_every_json_value_is_a_result(store: Store, value: object) -> None:
    call = await started(store, a_waiting_call())
    moved = await store.write(partial(call_tx.settle_submitted, call.id, done(value), large_result=store.large_result))
    assert moved.moved
    kept = await store.read(partial(call_tx.get_call, call.id))
    assert kept is not None
    assert kept.status is CallStatus.COMPLETED
    assert decoded(kept.result) == value
    assert isinstance(kept.outcome, Done)


async def test_a_failure_keeps_its_code_its_message_and_what_the_agent_sees(store: Store) -> None:
    call = await started(store, a_call())
    failed = Failed("http_error", "HTTP 500: no", Raw(b'{"error":"HTTP 500: no"}'))
    await store.write(
        partial(call_tx.settle_executed, call.id, failed, attempt=1, duration_ms=3.0, large_result=store.large_result)
    )
    kept = await store.read(partial(call_tx.get_call, call.id))
    assert kept is not None
    assert kept.status is CallStatus.FAILED
    assert kept.outcome == failed


async def test_of_two_settlers_one_wins_and_the_other_is_told(store: Store) -> None:
    call = await started(store, a_waiting_call())
    answers = await asyncio.gather(
        *(
            store.write(partial(call_tx.settle_submitted, call.id, done(n), large_result=store.large_result))
            for n in range(20)
        )
    )
    winners = [n for n, answer in enumerate(answers) if answer.moved]
    assert len(winners) == 1
    for answer in answers:
        assert answer.call is not None
        assert decoded(answer.call.result) == winners[0]


async def test_an_executor_of_an_older_attempt_settles_nothing(store: Store) -> None:
    call = await started(store, a_call(idempotent=True))
    await store.write(partial(call_tx.reclaim, call.id, owner="gw_b", seen=1))
    late = await store.write(
        partial(
            call_tx.settle_executed, call.id, done("late"), attempt=1, duration_ms=1.0, large_result=store.large_result
        )
    )
    assert not late.moved
    current = await store.write(
        partial(
            call_tx.settle_executed,
            call.id,
            done("current"),
            attempt=2,
            duration_ms=1.0,
            large_result=store.large_result,
        )
    )
    assert current.moved
    assert current.call is not None
    assert decoded(current.call.result) == "current"


async def test_a_result_for_a_pending_call_goes_to_the_inbox_of_its_agent_once(store: Store) -> None:
    call = await started(store, a_pending_call(agent="ada"))
    moved = await store.write(
        partial(call_tx.settle_submitted, call.id, done({"ok": True}), large_result=store.large_result)
    )
    assert moved.call is not None
    assert moved.call.delivery is Delivery.INBOX
    assert not (
        await store.write(partial(call_tx.settle_submitted, call.id, done("again"), large_result=store.large_result))
    ).moved


async def test_a_waiting_call_answered_in_time_is_inline(store: Store) -> None:
    call = await started(store, a_waiting_call(agent="ada"))
    moved = await store.write(partial(call_tx.settle_submitted, call.id, done(1), large_result=store.large_result))
    assert moved.call is not None
    assert moved.call.delivery is Delivery.INLINE


async def test_a_flip_waits_for_the_deadline_and_then_decides_for_the_inbox(store: Store) -> None:
    early = await started(store, a_waiting_call(timeout_ms=HOUR_MS))
    assert not (await store.write(partial(call_tx.flip, early.id))).moved
    late = await started(store, a_waiting_call(timeout_ms=0))
    flipped = await store.write(partial(call_tx.flip, late.id))
    assert flipped.moved
    assert flipped.call is not None
    assert (flipped.call.status, flipped.call.delivery) == (CallStatus.PENDING, Delivery.INBOX)
    assert flipped.call.expires_at is not None


async def test_approve_and_reject_exclude_each_other(store: Store) -> None:
    for _ in range(20):
        call = await started(store, a_call_for_approval())
        rejection = Failed("rejected", "no")
        approved, rejected = await asyncio.gather(
            store.write(partial(call_tx.approve, call.id, runs_here=True)),
            store.write(partial(call_tx.settle_rejected, call.id, rejection, large_result=store.large_result)),
        )
        assert approved.moved != rejected.moved


async def test_an_approved_call_is_claimed_by_one_gateway(store: Store) -> None:
    call = await started(store, a_call_for_approval(timeout_ms=5000))
    approved = await store.write(partial(call_tx.approve, call.id, runs_here=True, arguments='{"text":"edited"}'))
    assert approved.call is not None
    assert decoded(approved.call.arguments) == {"text": "edited"}
    assert [found.id for found in await store.read(call_tx.unclaimed_calls)] == [call.id]
    claims = await asyncio.gather(*(store.write(partial(call_tx.claim, call.id, owner=f"gw_{n}")) for n in range(5)))
    assert sum(claim.moved for claim in claims) == 1
    kept = await store.read(partial(call_tx.get_call, call.id))
    assert kept is not None
    assert kept.attempt == 1
    assert kept.deadline is not None
    assert await store.read(call_tx.unclaimed_calls) == []


@requirement("CON-approvals-on-record")
@pytest.mark.parametrize("runs_here", [True, False])
async def test_who_allowed_a_call_when_and_what_was_asked_is_kept(store: Store, *, runs_here: bool) -> None:
    as_asked, edited = [await started(store, a_call_for_approval()) for _ in range(2)]
    before = await store.now_ms()
    await store.write(partial(call_tx.approve, as_asked.id, runs_here=runs_here, decided_by="ada"))
    await store.write(
        partial(call_tx.approve, edited.id, runs_here=runs_here, arguments='{"text":"less"}', decided_by="bob")
    )
    for asked, decider, kept_apart in ((as_asked, "ada", None), (edited, "bob", edited.arguments)):
        kept = await store.read(partial(call_tx.get_call, asked.id))
        assert kept is not None
        assert (kept.decision, kept.decided_by) == (Decision.APPROVED, decider)
        assert kept.decided_at is not None
        assert kept.decided_at >= before
        assert kept.asked_arguments == kept_apart


@requirement("CON-approvals-on-record")
async def test_who_refused_a_call_is_kept_and_that_nobody_decided_in_time(store: Store) -> None:
    refused = await started(store, a_call_for_approval())
    await store.write(
        partial(
            call_tx.settle_rejected,
            refused.id,
            Failed("rejected", "no"),
            decided_by="ada",
            large_result=store.large_result,
        )
    )
    forgotten, approved = [await started(store, a_call_for_approval(expires_in_ms=-1)) for _ in range(2)]
    await store.write(partial(call_tx.approve, approved.id, runs_here=False, decided_by="ada"))
    for call in (forgotten, approved):
        assert (await store.write(partial(call_tx.settle_expired, call.id, Failed("expired", "too late")))).moved
    for call, decision, decider in (
        (refused, Decision.REJECTED, "ada"),
        (forgotten, Decision.EXPIRED, None),
        (approved, Decision.APPROVED, "ada"),
    ):
        kept = await store.read(partial(call_tx.get_call, call.id))
        assert kept is not None
        assert (kept.decision, kept.decided_by, kept.decided_at is None) == (decision, decider, False)


async def test_an_approved_call_of_somebody_else_waits_for_the_answer(store: Store) -> None:
    call = await started(store, a_call_for_approval())
    approved = await store.write(partial(call_tx.approve, call.id, runs_here=False))
    assert approved.call is not None
    assert approved.call.status is CallStatus.PENDING


@requirement("CON-expires-in-never")
@pytest.mark.parametrize("way", ["pending", "for approval", "approved", "flipped", "abandoned"])
async def test_a_call_that_may_wait_for_ever_has_no_expiry_whichever_way_it_came_to_wait(
    store: Store, way: str
) -> None:
    begins = {"pending": a_pending_call, "for approval": a_call_for_approval, "approved": a_call_for_approval}
    call = await started(store, begins.get(way, a_waiting_call)(expires_in_ms=0, timeout_ms=0))
    if way == "approved":
        await store.write(partial(call_tx.approve, call.id, runs_here=False, arguments=None))
    elif way == "flipped":
        await store.write(partial(call_tx.flip, call.id))
    elif way == "abandoned":
        await store.write(partial(call_tx.abandon_wait, call.id))
    kept = await store.read(partial(call_tx.get_call, call.id))
    assert kept is not None
    assert kept.status in (CallStatus.PENDING, CallStatus.PENDING_APPROVAL)
    assert kept.expires_at is None
    assert not (
        await store.write(partial(call_tx.settle_expired, call.id, Failed("expired", "Nobody answered.")))
    ).moved


async def test_expiry_comes_only_after_its_time(store: Store) -> None:
    gone = Failed("expired", "Nobody answered.")
    fresh = await started(store, a_pending_call(expires_in_ms=HOUR_MS))
    assert not (await store.write(partial(call_tx.settle_expired, fresh.id, gone))).moved
    old = await started(store, a_pending_call(expires_in_ms=-1))
    moved = await store.write(partial(call_tx.settle_expired, old.id, gone))
    assert moved.moved
    assert moved.call is not None
    assert moved.call.status is CallStatus.EXPIRED


async def test_a_call_of_a_dead_gateway_is_an_orphan_and_one_of_a_living_is_not(store: Store) -> None:
    mine = await started(store, a_call(owner="gw_a"))
    lost = await started(store, a_call(owner="gw_before"))
    assert [orphan.id for orphan in await store.read(call_tx.orphaned_calls)] == [lost.id]
    await let_die(store, "gw_a")
    assert {orphan.id for orphan in await store.read(call_tx.orphaned_calls)} == {mine.id, lost.id}


async def test_a_gateway_that_was_declared_dead_is_told_at_its_next_beat(store: Store) -> None:
    await store.write(partial(gateway_tx.enter, "gw_b", is_shared=store.is_shared))
    assert await store.write(partial(gateway_tx.beat, "gw_b"))
    await let_die(store, "gw_b")
    assert not await store.write(partial(gateway_tx.beat, "gw_b"))
    assert await store.write(gateway_tx.bury_late) == []


async def test_who_enters_takes_the_place_of_others_only_where_one_can_be(store: Store) -> None:
    await store.write(partial(gateway_tx.enter, "gw_b", is_shared=store.is_shared))
    assert await store.write(partial(gateway_tx.beat, "gw_a")) is store.is_shared
    assert await store.write(partial(gateway_tx.beat, "gw_b"))


async def test_an_inline_outcome_that_reached_nobody_goes_to_the_inbox_once(store: Store) -> None:
    call = await started(store, a_waiting_call(agent="ada", waiter="gw_a"))
    await store.write(partial(call_tx.settle_submitted, call.id, done(1), large_result=store.large_result))
    given = await store.write(partial(call_tx.give, call.id))
    assert given.moved
    assert not (await store.write(partial(call_tx.give, call.id))).moved


async def test_an_outcome_that_was_sent_is_not_given_again(store: Store) -> None:
    call = await started(store, a_waiting_call(agent="ada", waiter="gw_a"))
    await store.write(partial(call_tx.settle_submitted, call.id, done(1), large_result=store.large_result))
    assert await store.write(partial(call_tx.mark_sent, call.id))
    assert not (await store.write(partial(call_tx.give, call.id))).moved


Act = Callable[[Store, str], Awaitable[Moved]]

FINAL_MAKERS: dict[CallStatus, Act] = {
    CallStatus.COMPLETED: lambda store, id_: store.write(
        partial(call_tx.settle_submitted, id_, done(1), large_result=store.large_result)
    ),
    CallStatus.CANCELLED: lambda store, id_: store.write(
        partial(call_tx.settle_cancelled, id_, Failed("cancelled", "stop"))
    ),
}


@pytest.mark.parametrize("final", FINAL_MAKERS)
async def test_a_final_row_never_changes_again_whatever_the_statement(store: Store, final: CallStatus) -> None:
    call = await started(store, a_waiting_call(timeout_ms=0, expires_in_ms=-1))
    assert (await FINAL_MAKERS[final](store, call.id)).moved
    before = await store.read(partial(call_tx.get_call, call.id))
    no = Failed("x", "y")
    attempts = await asyncio.gather(
        store.write(partial(call_tx.settle_submitted, call.id, done(2), large_result=store.large_result)),
        store.write(
            partial(
                call_tx.settle_executed, call.id, done(2), attempt=0, duration_ms=1.0, large_result=store.large_result
            )
        ),
        store.write(partial(call_tx.settle_rejected, call.id, no, large_result=store.large_result)),
        store.write(partial(call_tx.settle_cancelled, call.id, no)),
        store.write(partial(call_tx.settle_expired, call.id, no)),
        store.write(partial(call_tx.settle_overdue, call.id, no)),
        store.write(partial(call_tx.flip, call.id)),
        store.write(partial(call_tx.approve, call.id, runs_here=True)),
        store.write(partial(call_tx.approve, call.id, runs_here=False)),
        store.write(partial(call_tx.claim, call.id, owner="gw_b")),
        store.write(partial(call_tx.reclaim, call.id, owner="gw_b", seen=0)),
        store.write(partial(call_tx.move_deadline, call.id, attempt=0, left_ms=1000)),
    )
    assert not any(attempt.moved for attempt in attempts)
    assert await store.read(partial(call_tx.get_call, call.id)) == before


async def test_only_the_executor_of_the_running_attempt_moves_its_deadline(store: Store) -> None:
    call = await started(store, a_call(timeout_ms=1000))
    moved = await store.write(partial(call_tx.move_deadline, call.id, attempt=call.attempt, left_ms=60_000))
    assert moved.moved
    assert moved.call is not None
    assert (moved.call.deadline or 0) >= moved.call.created_at + 60_000
    assert not (await store.write(partial(call_tx.move_deadline, call.id, attempt=call.attempt + 1, left_ms=1))).moved
    waiting = await started(store, a_waiting_call())
    assert not (await store.write(partial(call_tx.move_deadline, waiting.id, attempt=waiting.attempt, left_ms=1))).moved


SETTLERS: dict[str, tuple[Act, CallStatus]] = {
    "settle_submitted": (
        lambda store, id_: store.write(
            partial(call_tx.settle_submitted, id_, done(1), large_result=store.large_result)
        ),
        CallStatus.COMPLETED,
    ),
    "settle_executed": (
        lambda store, id_: store.write(
            partial(call_tx.settle_executed, id_, done(1), attempt=1, duration_ms=1.0, large_result=store.large_result)
        ),
        CallStatus.COMPLETED,
    ),
    "settle_rejected": (
        lambda store, id_: store.write(
            partial(call_tx.settle_rejected, id_, Failed("r", "no"), large_result=store.large_result)
        ),
        CallStatus.REJECTED,
    ),
    "settle_cancelled": (
        lambda store, id_: store.write(partial(call_tx.settle_cancelled, id_, Failed("c", "no"))),
        CallStatus.CANCELLED,
    ),
    "settle_expired": (
        lambda store, id_: store.write(partial(call_tx.settle_expired, id_, Failed("e", "no"))),
        CallStatus.EXPIRED,
    ),
    "flip": (lambda store, id_: store.write(partial(call_tx.flip, id_)), CallStatus.PENDING),
    "approve_to_run": (
        lambda store, id_: store.write(partial(call_tx.approve, id_, runs_here=True)),
        CallStatus.RUNNING,
    ),
    "approve_to_wait": (
        lambda store, id_: store.write(partial(call_tx.approve, id_, runs_here=False)),
        CallStatus.PENDING,
    ),
}
OPEN_CALLS: dict[CallStatus, Callable[..., Call]] = {
    CallStatus.RUNNING: a_call,
    CallStatus.WAITING: a_waiting_call,
    CallStatus.PENDING: a_pending_call,
    CallStatus.PENDING_APPROVAL: a_call_for_approval,
}


@pytest.mark.parametrize("name", SETTLERS)
@pytest.mark.parametrize("status", OPEN_CALLS)
async def test_the_statements_make_only_moves_that_the_table_allows(
    store: Store, status: CallStatus, name: str
) -> None:
    act, target = SETTLERS[name]
    call = await started(store, OPEN_CALLS[status](timeout_ms=0, expires_in_ms=-1))
    moved = await act(store, call.id)
    assert moved.call is not None
    if moved.moved:
        assert target in MOVES[status]
        assert moved.call.status is target
    else:
        assert moved.call.status is status


async def test_a_page_is_newest_first_and_the_cursor_goes_on_without_gap_or_repeat(store: Store) -> None:
    made = [(await started(store, a_call())).id for _ in range(25)]
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await store.read(partial(call_page, CallFilter(), limit=10, cursor=cursor))
        seen += [call.id for call in page.calls]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == sorted(made, reverse=True)


async def test_a_page_of_exactly_all_has_no_next(store: Store) -> None:
    for _ in range(3):
        await started(store, a_call())
    page = await store.read(partial(call_page, CallFilter(), limit=3))
    assert len(page.calls) == 3
    assert page.next_cursor is None


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (CallFilter(tool="weather"), {"b"}),
        (CallFilter(agent="ada"), {"b", "c"}),
        (CallFilter(run_id="run_1"), {"a"}),
        (CallFilter(principal="guest"), {"c"}),
        (CallFilter(status=(CallStatus.PENDING,)), {"c"}),
        (CallFilter(status=(CallStatus.PENDING, CallStatus.RUNNING), agent="ada"), {"b", "c"}),
        (CallFilter(status=(CallStatus.FAILED,)), set()),
    ],
)
async def test_a_filter_leaves_what_was_asked_for(store: Store, wanted: CallFilter, expected: set[str]) -> None:
    await started(store, a_call(id="a", run_id="run_1"))
    await started(store, a_call(id="b", tool="weather", agent="ada"))
    await started(store, a_pending_call(id="c", agent="ada", principal="guest"))
    page = await store.read(partial(call_page, wanted, limit=10))
    assert {call.id for call in page.calls} == expected


async def test_pages_read_at_the_same_time_do_not_mix(store: Store) -> None:
    for tool in ("one", "two"):
        for _ in range(5):
            await started(store, a_call(tool=tool))
    pages = await asyncio.gather(
        *(store.read(partial(call_page, CallFilter(tool=tool), limit=10)) for tool in ("one", "two") * 20)
    )
    for page, tool in zip(pages, ("one", "two") * 20, strict=True):
        assert [call.tool for call in page.calls] == [tool] * 5


async def test_an_idempotency_key_starts_one_call_however_often_it_comes(store: Store) -> None:
    claim = Claim(principal="ops", key="k1", digest="d1")
    results = await asyncio.gather(
        *(store.write(partial(call_tx.start_call, a_call(), claim=claim)) for _ in range(10))
    )
    fresh = [result for result in results if result.fresh]
    assert len(fresh) == 1
    assert fresh[0].call is not None
    assert {result.call.id for result in results if result.call} == {fresh[0].call.id}
    assert all(result.same_body for result in results)


async def test_an_idempotency_key_with_another_body_is_noticed_and_belongs_to_its_principal(store: Store) -> None:
    await store.write(partial(call_tx.start_call, a_call(), claim=Claim(principal="ops", key="k1", digest="d1")))
    other = await store.write(
        partial(call_tx.start_call, a_call(), claim=Claim(principal="ops", key="k1", digest="d2"))
    )
    assert (other.fresh, other.same_body) == (False, False)
    foreign = await store.write(
        partial(call_tx.start_call, a_call(), claim=Claim(principal="guest", key="k1", digest="d2"))
    )
    assert foreign.fresh


async def test_a_run_belongs_to_the_principal_of_its_calls(store: Store) -> None:
    call = await started(store, a_call(principal="guest"))
    assert await store.read(partial(call_tx.principal_of_run, call.run_id)) == "guest"
    assert await store.read(partial(call_tx.principal_of_run, "run_x")) is None


async def test_a_login_is_kept_until_it_is_dropped(store: Store) -> None:
    login = Login(principal="ops", key="digest of the key")
    await store.write(partial(login_tx.save_login, "digest", login))
    found = await store.read(partial(login_tx.find_login, "digest"))
    assert found is not None
    assert (found.principal, found.key) == (login.principal, login.key)
    assert 0 < found.left_ms <= login.left_ms
    await store.write(partial(login_tx.drop_login, "digest"))
    assert await store.read(partial(login_tx.find_login, "digest")) is None


async def test_pruning_takes_old_settled_calls_in_steps_and_leaves_open_ones(store: Store) -> None:
    ages = ["000000000001", "000000000002", "000000000003"]
    for age in ages:
        await store.write(
            call_tx.SettledCall(
                a_call(id=f"call_{age}aa"), done(1), age_ms=1, duration_ms=1.0, large_result=store.large_result
            )
        )
    await started(store, a_pending_call(id="call_000000000000aa"))
    fresh = await started(store, a_call())
    assert await prune(store, keep_days=30, limit=2) == 2
    assert await prune(store, keep_days=30, limit=2) == 1
    left = await store.read(partial(call_page, CallFilter(), limit=10))
    assert {call.id for call in left.calls} == {fresh.id, "call_000000000000aa"}


async def test_a_settled_call_wakes_who_listens_for_it(store: Store) -> None:
    call = await started(store, a_waiting_call())
    with store.bus.listen(call.id) as written:
        await store.write(partial(call_tx.settle_submitted, call.id, done(1), large_result=store.large_result))
        async with asyncio.timeout(5):
            await written.wait()


async def test_the_clock_goes_forward(store: Store) -> None:
    assert 0 <= await store.now_ms() - (await started(store, a_call())).created_at + 50 < 5_000


async def test_calls_are_found_by_their_ids_without_what_may_be_large(store: Store) -> None:
    open_call = await started(store, a_waiting_call(agent="ada"))
    settled = await store.write(
        call_tx.SettledCall(
            a_call(), Failed("broken", "It broke."), age_ms=3, duration_ms=2.5, large_result=store.large_result
        )
    )
    wanted = {open_call.id, settled.id, "call_unknown", "offer:x"}
    found = {call.id: call for call in await store.read(partial(call_tx.calls_among, wanted))}
    for call in (open_call, settled):
        expected = await store.read(partial(call_tx.get_call, call.id))
        assert expected is not None
        assert found.pop(call.id) == replace(expected, arguments=Raw(b"{}"), result=None)
    assert found == {}
    assert await store.read(partial(call_tx.calls_among, [])) == []


async def test_calls_are_found_by_their_kind_also_those_of_long_uris(store: Store) -> None:
    uri = "note://" + "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=1_990))
    kinds = {"echo": CallKind.TOOL, uri: CallKind.RESOURCE, "review": CallKind.PROMPT}
    for tool, kind in kinds.items():
        await started(store, a_call(tool=tool, kind=kind))
    for tool, kind in kinds.items():
        page = await store.read(partial(call_page, CallFilter(kind=kind), limit=10))
        assert [(call.tool, call.kind) for call in page.calls] == [(tool, kind)]
    page = await store.read(partial(call_page, CallFilter(tool=uri), limit=10))
    assert [call.tool for call in page.calls] == [uri]


@requirement("OP-reload-differs")
async def test_the_configs_of_gateways_that_live_and_have_said_so_are_found(store: Store) -> None:
    for name in ("gw_x", "gw_y", "gw_silent"):
        await store.write(partial(gateway_tx.enter, name, is_shared=True))
    await store.write(partial(gateway_tx.put_config, "gw_x", {"groups": "1"}))
    await store.write(partial(gateway_tx.put_config, "gw_y", {"groups": "1"}))
    await store.write(partial(gateway_tx.put_config, "gw_y", {"groups": "2", "models": "3"}))
    assert await store.read(partial(gateway_tx.other_configs, "gw_x")) == {"gw_y": {"groups": "2", "models": "3"}}
    assert await store.read(partial(gateway_tx.other_configs, "gw_silent")) == {
        "gw_x": {"groups": "1"},
        "gw_y": {"groups": "2", "models": "3"},
    }
    await store.write(partial(gateway_tx.leave, "gw_y"))
    assert await store.read(partial(gateway_tx.other_configs, "gw_x")) == {}
