"""A call whose source wants a login waits for it and runs once, in its caller's name; whoever asks again joins it."""

import asyncio
from functools import partial
from pathlib import Path

import msgspec
import pytest

from jackfield.calls import events, login_transactions, login_waits
from jackfield.calls import transactions as call_tx
from jackfield.calls.permissions import may_log_in
from jackfield.calls.requests import CallRequest
from jackfield.errors import Conflict, LoginNeeded
from jackfield.model.call import CallStatus, Decision, Delivery, Done, LoginWait, Outcome, Pending
from jackfield.model.principal import Principal
from jackfield.model.tool import CallKind
from jackfield.sources.base import Invocation
from tests.calls.harness import GUEST, OPS
from tests.calls.login_harness import SOURCE, LoginServer, login_harness
from tests.requirement import requirement
from tests.waiting import eventually_async

S = CallStatus


class Waits(msgspec.Struct, frozen=True):
    login: LoginWait | None


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweeper finds a missed login at once."""
    monkeypatch.setattr(login_waits, "SETTLED_MS", 0)


@requirement("ID-pending-login")
async def test_a_call_without_a_login_waits_and_runs_once_when_it_is_there(tmp_path: Path) -> None:
    async with login_harness("memory:", tmp_path) as (harness, server):
        call = await harness.call("book", {"n": 1}, principal=GUEST)
        assert (call.status, call.attempt, call.owner, call.delivery) == (S.PENDING_LOGIN, 0, None, None)
        assert call.login is not None
        assert (call.login.source, call.login.principal, call.login.times) == (SOURCE, "guest", 1)
        assert await harness.record(call.id) == call
        await harness.sweep()
        assert (await harness.record(call.id)).status is S.PENDING_LOGIN, "there is no login yet"
        server.log_in("guest")
        await harness.answers.login_done(SOURCE, "guest")
        ended = await harness.ended(call.id)
        assert (ended.status, server.acted, server.acted_for) == (S.COMPLETED, [call.id], ["guest"])
        await harness.answers.login_done(SOURCE, "guest")
        assert server.acted == [call.id]


@requirement("ID-pending-login")
async def test_a_login_lets_go_its_own_principals_calls_only(tmp_path: Path) -> None:
    async with login_harness("memory:", tmp_path) as (harness, server):
        ours, theirs = await harness.call("book", {"n": 1}), await harness.call("book", {"n": 1}, principal=GUEST)
        assert ours.id != theirs.id, "nobody joins another principal's call"
        server.log_in("ops")
        server.log_in("guest")
        await harness.answers.login_done("elsewhere", "ops")
        await harness.answers.login_done(SOURCE, "ops")
        assert (await harness.ended(ours.id)).status is S.COMPLETED
        assert (await harness.record(theirs.id)).status is S.PENDING_LOGIN
        assert server.acted_for == ["ops"]


async def test_the_one_login_for_all_lets_everybodys_calls_go(tmp_path: Path) -> None:
    server = LoginServer(is_per_user=False)
    async with login_harness("memory:", tmp_path, server=server) as (harness, _):
        calls = [await harness.call("book", principal=who) for who in (OPS, GUEST)]
        assert [call.login.principal for call in calls if call.login] == [None, None]
        assert [may_log_in(who, calls[1]) for who in (OPS, GUEST)] == [True, False], "an administrator makes it"
        server.log_in(None)
        await harness.answers.login_done(SOURCE, None)
        for call in calls:
            assert (await harness.ended(call.id)).status is S.COMPLETED
        assert sorted(server.acted) == sorted(call.id for call in calls)


def test_only_the_person_concerned_may_log_in() -> None:
    other_admin = Principal(name="boss", scopes=frozenset({"admin"}))
    session = Principal(name="session:1", scopes=frozenset({"session:1"}), owner="guest")
    for whose, allowed in (
        ("guest", [False, True, True]),
        (None, [True, False, False]),
        ("agent:a", [True, False, False]),
    ):
        call = Waits(login=LoginWait(source=SOURCE, principal=whose))
        assert [may_log_in(who, call) for who in (other_admin, GUEST, session)] == allowed
    assert not may_log_in(other_admin, Waits(login=None))


@requirement("ID-login-join")
async def test_the_same_request_again_joins_the_call_while_it_waits(tmp_path: Path) -> None:
    async with login_harness("memory:", tmp_path) as (harness, server):
        first = await harness.call("book", {"n": 1, "m": 2})
        again = await harness.call("book", {"m": 2, "n": 1})
        assert (again.id, again.status, server.asked) == (first.id, S.PENDING_LOGIN, 1)
        other = await harness.call("book", {"n": 2})
        by_agent = await harness.call("book", {"n": 1, "m": 2}, agent="ada")
        keyed = await harness.call("book", {"n": 1, "m": 2}, idempotency_key="k", digest="d")
        assert len({first.id, other.id, by_agent.id, keyed.id}) == 4
        assert (await harness.call("book", {"n": 1, "m": 2}, agent="ada")).id == by_agent.id
        assert (await harness.call("book", {"n": 1, "m": 2}, idempotency_key="k", digest="d")).id == keyed.id
        server.log_in("ops")
        await harness.answers.login_done(SOURCE, "ops")
        for call in (first, other, by_agent, keyed):
            await harness.ended(call.id)
        assert sorted(server.acted) == sorted([first.id, other.id, by_agent.id, keyed.id])


@requirement("ID-login-join")
async def test_the_same_request_after_the_login_gets_the_outcome_once_and_does_not_run_it_again(tmp_path: Path) -> None:
    async with login_harness("memory:", tmp_path) as (harness, server):
        first = await harness.call("book", {"n": 1})
        server.log_in("ops")
        await harness.answers.login_done(SOURCE, "ops")
        await harness.ended(first.id)
        again = await harness.call("book", {"n": 1})
        assert (again.id, again.status, server.acted) == (first.id, S.COMPLETED, [first.id])
        third = await harness.call("book", {"n": 1})
        assert third.id != first.id, "what was told once is not told for a new call"
        assert server.acted == [first.id, third.id]


async def test_who_has_read_the_outcome_and_asks_again_means_a_new_call(tmp_path: Path) -> None:
    async with login_harness("memory:", tmp_path) as (harness, server):
        first = await harness.call("book", {"n": 1})
        server.log_in("ops")
        await harness.answers.login_done(SOURCE, "ops")
        await harness.pipeline.collected(await harness.ended(first.id))
        assert (await harness.call("book", {"n": 1})).id != first.id
        rejected = await harness.call("book", {"n": 2}, principal=GUEST)
        await harness.answers.reject(rejected.id, principal=OPS)
        assert (await harness.call("book", {"n": 2}, principal=GUEST)).id != rejected.id


@requirement("ID-login-join")
@pytest.mark.parametrize("kind", ["memory", "postgres"])
async def test_two_hundred_equal_requests_at_once_are_one_call(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    url = "memory:" if kind == "memory" else request.getfixturevalue("postgres_url")
    async with login_harness(url, tmp_path) as (harness, server):
        calls = await asyncio.gather(*(harness.call("book", {"n": 1}) for _ in range(200)))
        assert len({call.id for call in calls}) == 1
        server.log_in("ops")
        await harness.answers.login_done(SOURCE, "ops")
        await harness.ended(calls[0].id)
        assert server.acted == [calls[0].id]


@requirement("ID-login-wait-runs-once")
async def test_two_hundred_calls_of_two_gateways_wait_for_one_login_and_each_runs_once(
    tmp_path: Path, postgres_url: str
) -> None:
    server = LoginServer()
    async with (
        login_harness(postgres_url, tmp_path / "a", gateway_id="gw_a", server=server) as (one, _),
        login_harness(postgres_url, tmp_path / "b", gateway_id="gw_b", server=server) as (other, _),
    ):
        both = (one, other)
        calls = await asyncio.gather(*(both[n % 2].call("book", {"n": n}) for n in range(200)))
        assert {call.status for call in calls} == {S.PENDING_LOGIN}
        server.log_in("ops")
        await asyncio.gather(
            one.answers.login_done(SOURCE, "ops"),
            other.answers.login_done(SOURCE, "ops"),
            *(gateway.sweep() for gateway in both),
        )
        for call in calls:
            assert (await one.ended(call.id)).status is S.COMPLETED
        assert sorted(server.acted) == sorted(call.id for call in calls)


@requirement("ID-login-sweep")
async def test_a_login_of_which_nobody_said_so_is_found_by_any_gateways_sweeper(tmp_path: Path) -> None:
    """As after a kill between the commit of the credentials and T4'."""
    async with login_harness("memory:", tmp_path) as (harness, server):
        call = await harness.call("book", {"n": 1})
        server.log_in("ops")
        await harness.sweep()
        assert (await harness.ended(call.id)).status is S.COMPLETED
        assert server.acted == [call.id]


@requirement("ID-login-sweep")
async def test_a_call_that_was_let_go_and_not_begun_is_begun_by_the_sweeper(tmp_path: Path) -> None:
    """As after a kill between T4' and T5."""
    async with login_harness("memory:", tmp_path) as (harness, server):
        call = await harness.call("book", {"n": 1})
        server.log_in("ops")
        await harness.store.write(partial(login_transactions.login_done, call.id))
        assert server.acted == []
        await harness.sweep()
        assert (await harness.ended(call.id)).attempt == 2
        assert server.acted == [call.id]


@requirement("ID-step-up")
async def test_a_login_that_allows_too_little_is_asked_for_again_three_times_at_most(tmp_path: Path) -> None:
    async with login_harness("memory:", tmp_path) as (harness, server):
        server.wants = ("read",)
        call = await harness.call("book", {"n": 1})
        server.wants = ("read", "write")
        server.log_in("ops", "read")
        await harness.answers.login_done(SOURCE, "ops")

        async def waits(times: int) -> bool:
            login = (now := await harness.record(call.id)).login
            return now.status is S.PENDING_LOGIN and login is not None and login.times == times

        await eventually_async(partial(waits, 2))
        login = (await harness.record(call.id)).login
        assert login is not None
        assert login == LoginWait(source=SOURCE, principal="ops", scopes=("read", "write"), times=2, since=login.since)
        await harness.sweep()
        assert await waits(2), "the login that is there does not allow it, so nobody tries"
        await harness.answers.login_done(SOURCE, "ops")
        await eventually_async(partial(waits, 3))
        await harness.answers.login_done(SOURCE, "ops")
        ended = await harness.ended(call.id)
        assert (ended.status, server.acted) == (S.FAILED, [])
        assert ended.error is not None
        assert ended.error.code == "login_needed"
        assert "again after 3 logins" in ended.error.message


@requirement("ID-step-up")
async def test_a_second_login_with_more_rights_lets_the_call_run(tmp_path: Path) -> None:
    async with login_harness("memory:", tmp_path) as (harness, server):
        server.wants = ("write",)
        server.log_in("ops", "read")
        call = await harness.call("book", {"n": 1})
        assert call.login is not None
        assert call.login.scopes == ("write",)
        server.log_in("ops", "read", "write")
        await harness.sweep()
        assert (await harness.ended(call.id)).status is S.COMPLETED


@requirement("ID-pending-login")
async def test_it_can_be_rejected_cancelled_and_expires_and_never_runs_then(tmp_path: Path) -> None:
    async with login_harness("memory:", tmp_path) as (harness, server):
        rejected = await harness.call("book", {"n": 1}, agent="ada")
        cancelled = await harness.call("book", {"n": 2})
        late = await harness.call("book_soon")
        await harness.answers.reject(rejected.id, principal=OPS, reason="not now")
        await harness.pipeline.cancel(cancelled.id, principal=OPS)
        await harness.until_clock(late.expires_at)
        await harness.sweep()
        server.log_in("ops")
        await harness.answers.login_done(SOURCE, "ops")
        ends = [(await harness.record(call.id)).status for call in (rejected, cancelled, late)]
        assert (ends, server.acted) == ([S.REJECTED, S.CANCELLED, S.EXPIRED], [])
        assert (await harness.record(rejected.id)).decision is Decision.REJECTED
        assert await harness.inbox("ada") == [(f"tr:{rejected.id}", {"rejected": True, "reason": "not now"})]


async def test_nobody_approves_or_answers_a_call_that_waits_for_a_login(tmp_path: Path) -> None:
    async with login_harness("memory:", tmp_path) as (harness, _):
        call = await harness.call("book")
        with pytest.raises(Conflict, match="is pending_login and does not wait for this"):
            await harness.answers.approve(call.id, principal=OPS)
        with pytest.raises(Conflict, match="is pending_login"):
            await harness.answer(call, {"booked": 1})


async def test_a_revoked_principals_waiting_calls_are_cancelled(tmp_path: Path) -> None:
    async with login_harness("memory:", tmp_path) as (harness, _):
        theirs, ours = await harness.call("book", principal=GUEST), await harness.call("book")
        await harness.pipeline.cancel_waiting("guest")
        assert (await harness.record(theirs.id)).status is S.CANCELLED
        assert (await harness.record(ours.id)).status is S.PENDING_LOGIN


@requirement("ID-roles-waiting-calls")
@pytest.mark.parametrize(
    ("scopes", "tools", "runs"), [({"call"}, None, True), ({"read"}, None, False), ({"call"}, ("other",), False)]
)
async def test_a_person_who_has_lost_the_right_meanwhile_does_not_get_the_call_run(
    tmp_path: Path, scopes: set[str], tools: tuple[str, ...] | None, *, runs: bool
) -> None:
    async with login_harness("memory:", tmp_path) as (harness, server):
        person = Principal(name="user:eve", scopes=frozenset({"call"}))
        call = await harness.call("book", {"n": 1}, principal=person)
        now = Principal(name="user:eve", scopes=frozenset(scopes), tools=tools)
        harness.answers._find_principal = {"user:eve": now}.get
        server.log_in("user:eve")
        await harness.answers.login_done(SOURCE, "user:eve")
        ended = await harness.ended(call.id)
        assert (ended.status, server.acted) == ((S.COMPLETED, [call.id]) if runs else (S.FAILED, []))


async def test_what_an_agent_has_waiting_for_its_owners_login_ends_with_the_owner(tmp_path: Path) -> None:
    async with login_harness("memory:", tmp_path) as (harness, server):
        server.owner_of = {"guest": "boss"}.get  # type: ignore[assignment]
        call = await harness.call("book", principal=GUEST)
        assert call.login is not None
        assert (call.principal, call.login.principal) == ("guest", "boss")
        await harness.pipeline.cancel_waiting("boss")
        assert (await harness.record(call.id)).status is S.CANCELLED


@requirement("ID-login-reads")
async def test_a_read_in_a_cycle_fails_for_its_model_to_see_and_one_outside_is_refused(tmp_path: Path) -> None:
    async with login_harness("memory:", tmp_path) as (harness, _):
        book = harness.catalog.entry("book", source=SOURCE)
        assert book is not None
        entry = msgspec.structs.replace(book, tool=msgspec.structs.replace(book.tool, operation=CallKind.RESOURCE))
        request = CallRequest(tool="book", arguments={}, principal=OPS, entry=entry)
        with pytest.raises(LoginNeeded):
            await harness.pipeline.call(request)
        prepared = await harness.pipeline.prepare(request)
        written = msgspec.structs.replace(prepared.call, cycle_id="cycle_1", step=1, idx=0)
        await harness.store.write(partial(call_tx.start_call, written))
        failed = await harness.pipeline.go_on(prepared, written=written)
        assert failed.status is S.FAILED
        assert failed.error is not None
        assert failed.error.code == "login_needed"


@requirement("ID-pending-login")
async def test_approval_comes_first_then_the_login(tmp_path: Path) -> None:
    async with login_harness("memory:", tmp_path) as (harness, server):
        call = await harness.call("book_with_approval", {"n": 1}, agent="ada")
        assert call.status is S.PENDING_APPROVAL
        await harness.answers.approve(call.id, principal=OPS)

        async def waits() -> bool:
            return (await harness.record(call.id)).status is S.PENDING_LOGIN

        await eventually_async(waits)
        server.log_in("ops")
        await harness.answers.login_done(SOURCE, "ops")
        ended = await harness.ended(call.id)
        assert (ended.status, ended.decision, ended.delivery) == (S.COMPLETED, Decision.APPROVED, Delivery.INBOX)
        assert await harness.inbox("ada") == [(f"tr:{call.id}", {"booked": 1})]


async def test_an_agents_call_is_told_by_the_inbox_once(tmp_path: Path) -> None:
    async with login_harness("memory:", tmp_path) as (harness, server):
        call = await harness.call("book", {"n": 1}, agent="ada", over_http=True)
        assert (call.status, call.delivery) == (S.PENDING_LOGIN, Delivery.INBOX)
        server.log_in("ops")
        await harness.answers.login_done(SOURCE, "ops")
        await harness.ended(call.id)
        await harness.sweep()
        assert await harness.inbox("ada") == [(f"tr:{call.id}", {"booked": 1})]
        assert (await harness.call("book", {"n": 1}, agent="ada")).id != call.id, "that outcome was for the inbox"


async def test_a_tool_that_calls_such_a_tool_is_told_that_it_waits(tmp_path: Path) -> None:
    async with login_harness("memory:", tmp_path) as (harness, server):
        told: list[Outcome] = []

        async def outer(invocation: Invocation) -> Outcome:
            told.append(await harness.pipeline.call_from("book", {"n": 1}, parent=invocation))
            return Done(msgspec.Raw(b'"done"'))

        harness.local.offer("outer", outer)
        await harness.source_registry.refresh(SOURCE)
        await harness.catalog.update_aside(harness.source_registry.listings())
        assert (await harness.call("outer")).status is S.COMPLETED
        assert told == [Pending(S.PENDING_LOGIN)]
        server.log_in("ops")
        await harness.answers.login_done(SOURCE, "ops")

        async def acted() -> bool:
            return len(server.acted) == 1

        await eventually_async(acted)


async def test_who_follows_is_told_that_it_waits_and_that_it_goes_on(tmp_path: Path) -> None:
    async with login_harness("memory:", tmp_path) as (harness, server):
        async with harness.pipeline.events.follow(None) as told:
            call = await harness.call("book", {"n": 1})
            server.log_in("ops")
            await harness.answers.login_done(SOURCE, "ops")
            await harness.ended(call.id)
            seen = [await anext(told) for _ in range(5)]
        kinds = [(event.type, event.status) for event in seen]
        assert kinds == [
            (events.STARTED, S.RUNNING),
            (events.PENDING, S.PENDING_LOGIN),
            (events.LOGGED_IN, S.RUNNING),
            (events.STARTED, S.RUNNING),
            (events.SETTLED, S.COMPLETED),
        ]
        assert [event.login is not None for event in seen] == [False, True, False, False, False]
