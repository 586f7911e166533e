"""Answers from outside: who may give one, that the first wins, and that a refused one leaves the call as it was."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.calls import transactions as call_tx
from jackfield.calls.answers import outcome_of
from jackfield.errors import (
    AlreadyResolved,
    BadRequest,
    CallNotFound,
    Conflict,
    Expired,
    Forbidden,
    InvalidArguments,
    Refused,
)
from jackfield.model.call import Call, CallStatus, Failed, done
from jackfield.model.principal import Principal
from jackfield.sources.base import Progress
from tests.calls.harness import OPS
from tests.calls.pending_harness import APPROVAL, PendingHarness, external, pending_harness, status_of, within
from tests.requirement import requirement
from tests.store.calls import a_call, a_call_for_approval, a_pending_call, decoded


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[PendingHarness]:
    urls = {"memory": "memory:", "sqlite": "sqlite:///calls.db"}
    url = urls.get(request.param) or request.getfixturevalue("postgres_url")
    async with pending_harness(url, tmp_path) as opened:
        yield opened


def key(*scopes: str, tools: tuple[str, ...] | None = None) -> Principal:
    return Principal(name="somebody", scopes=frozenset(scopes), tools=tools)


async def refused_leaving_it_as_it_was(
    harness: PendingHarness, call: Call, answer: Any, error: type[Refused]
) -> Refused:
    before = await harness.record(call.id)
    with pytest.raises(error) as caught:
        await answer
    assert await harness.record(call.id) == before
    return caught.value


@pytest.mark.parametrize(
    "principal",
    [key("answer"), key("admin"), key("worker:ask_later"), key("worker:ask_*"), key("answer", tools=("ask_later",))],
    ids=str,
)
async def test_a_result_is_taken_from_a_key_that_may_answer(harness: PendingHarness, principal: Principal) -> None:
    call = await harness.call("ask_later", agent="ada")
    answered = await harness.answers.submit(call.id, done(1), principal=principal)
    assert (answered.status, answered.answered_by) == (CallStatus.COMPLETED, "somebody")


@pytest.mark.parametrize(
    "principal",
    [
        key("call"),
        key("read"),
        key("agent:ada"),
        key("session:s"),
        key("worker:other_*"),
        key("answer", tools=("ask",)),
        key(),
    ],
    ids=str,
)
async def test_a_result_is_not_taken_from_a_key_that_may_not(harness: PendingHarness, principal: Principal) -> None:
    call = await harness.call("ask_later", agent="ada")
    await refused_leaving_it_as_it_was(
        harness, call, harness.answers.submit(call.id, done(1), principal=principal), Forbidden
    )
    progress = harness.answers.progress(call.id, Progress(progress=1), principal=principal)
    await refused_leaving_it_as_it_was(harness, call, progress, Forbidden)
    assert await harness.inbox("ada") == []


async def test_whoever_holds_the_signed_url_needs_no_key(harness: PendingHarness) -> None:
    call = await harness.call("ask_later", agent="ada")
    answered = await harness.answers.submit(call.id, done(1), principal=None)
    assert (answered.status, answered.answered_by) == (CallStatus.COMPLETED, "callback")


async def test_a_result_for_another_run_is_refused(harness: PendingHarness) -> None:
    call = await harness.call("ask_later")
    answer = harness.answers.submit(call.id, done(1), principal=OPS, run_id="run_other")
    await refused_leaving_it_as_it_was(harness, call, answer, Forbidden)


async def test_an_answer_to_a_call_that_does_not_exist_is_refused(harness: PendingHarness) -> None:
    for answer in (
        harness.answers.submit("call_x", done(1), principal=OPS),
        harness.answers.approve("call_x", principal=OPS),
        harness.answers.reject("call_x", principal=OPS),
        harness.answers.progress("call_x", Progress(progress=1), principal=OPS),
    ):
        with pytest.raises(CallNotFound):
            await answer


Give = Callable[[PendingHarness, str], Any]
GIVE: dict[str, Give] = {
    "result": lambda harness, id_: harness.answers.submit(id_, done("second"), principal=OPS),
    "approval": lambda harness, id_: harness.answers.approve(id_, principal=OPS),
    "rejection": lambda harness, id_: harness.answers.reject(id_, principal=OPS),
    "progress": lambda harness, id_: harness.answers.progress(id_, Progress(progress=1), principal=OPS),
}


@pytest.mark.parametrize("answer", GIVE)
@pytest.mark.parametrize(
    ("settle", "error"),
    [("submit", AlreadyResolved), ("reject", AlreadyResolved), ("cancel", AlreadyResolved), ("expire", Expired)],
)
async def test_an_answer_that_comes_too_late_is_told_so(
    harness: PendingHarness, settle: str, error: type[Refused], answer: str
) -> None:
    make = a_call_for_approval if settle == "reject" else a_pending_call
    call = (await harness.store.write(partial(call_tx.start_call, make(agent="ada", expires_in_ms=-1)))).call
    assert call is not None
    no = Failed(settle, "over")
    await {
        "submit": lambda: harness.store.write(
            partial(call_tx.settle_submitted, call.id, done("first"), large_result=harness.store.large_result)
        ),
        "reject": lambda: harness.store.write(
            partial(call_tx.settle_rejected, call.id, no, large_result=harness.store.large_result)
        ),
        "cancel": lambda: harness.store.write(partial(call_tx.settle_cancelled, call.id, no)),
        "expire": lambda: harness.store.write(partial(call_tx.settle_expired, call.id, no)),
    }[settle]()
    told = await refused_leaving_it_as_it_was(harness, call, GIVE[answer](harness, call.id), error)
    assert type(told) is error
    assert len(await harness.inbox("ada")) == 1


@pytest.mark.parametrize(
    ("made", "answer"),
    [
        (a_call(), "result"),
        (a_call(), "approval"),
        (a_call(), "rejection"),
        (a_call(), "progress"),
        (a_call_for_approval(), "result"),
        (a_call_for_approval(), "progress"),
        (a_pending_call(), "approval"),
        (a_pending_call(), "rejection"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.status.value,
)
async def test_an_answer_that_a_call_does_not_wait_for_is_a_conflict(
    harness: PendingHarness, made: Call, answer: str
) -> None:
    call = (
        await harness.store.write(partial(call_tx.start_call, msgspec.structs.replace(made, owner=harness.id)))
    ).call
    assert call is not None
    told = await refused_leaving_it_as_it_was(harness, call, GIVE[answer](harness, call.id), Conflict)
    assert type(told) is Conflict


async def test_of_many_results_at_once_one_is_taken_and_it_is_the_one_on_record(harness: PendingHarness) -> None:
    call = await harness.call("ask_later", agent="ada")
    answers = await asyncio.gather(*(harness.answer(call, n) for n in range(20)), return_exceptions=True)
    taken = [n for n, answer in enumerate(answers) if isinstance(answer, Call)]
    assert len(taken) == 1
    assert sum(isinstance(answer, AlreadyResolved) for answer in answers) == 19
    assert decoded((await harness.record(call.id)).result) == taken[0]
    assert await harness.inbox("ada") == [(f"tr:{call.id}", taken[0])]


async def test_an_error_is_an_answer(harness: PendingHarness) -> None:
    call = await harness.call("ask_later", agent="ada")
    answered = await harness.answers.submit(call.id, outcome_of(None, "no luck"), principal=OPS)
    assert answered.outcome == Failed("tool_error", "no luck", done({"error": "no luck"}).result)
    assert await harness.inbox("ada") == [(f"tr:{call.id}", {"error": "no luck"})]


async def test_a_result_that_breaks_the_tools_promise_is_sent_back_and_the_call_stays_open(
    harness: PendingHarness,
) -> None:
    call, waiting = await harness.begin("ask_number", agent="ada")
    told = await refused_leaving_it_as_it_was(harness, call, harness.answer(call, "seven"), BadRequest)
    assert told.param == "result"
    assert not waiting.done()
    await harness.answer(call, 7)
    assert decoded((await within(waiting)).result) == 7


async def test_an_error_need_not_fit_the_promise(harness: PendingHarness) -> None:
    call, waiting = await harness.begin("ask_number")
    await harness.answers.submit(call.id, outcome_of(None, "no number"), principal=OPS)
    assert (await within(waiting)).status is CallStatus.FAILED


async def test_a_secret_in_a_result_reaches_neither_the_record_nor_the_inbox(harness: PendingHarness) -> None:
    call = await harness.call("ask_later", agent="ada")
    await harness.answer(call, {"said": "open sesame"})
    assert b"open sesame" not in bytes((await harness.record(call.id)).result or b"")
    assert "open sesame" not in str(await harness.inbox("ada"))


async def test_secrets_are_not_told_by_progress_either(harness: PendingHarness) -> None:
    call = await harness.call("ask_later", agent="ada")
    async with harness.pipeline.events.follow(call.id) as told, asyncio.timeout(5):
        said = Progress(progress=1, message="the word is open sesame")
        await harness.answers.progress(call.id, said, principal=OPS)
        event = await anext(aiter(told))
    assert event.progress == Progress(progress=1, message="the word is [redacted]")


@requirement("DISC-meta-approval-acts")
async def test_an_approved_call_runs_once_and_its_result_is_in_the_inbox(harness: PendingHarness) -> None:
    call = await harness.call("charge", {"n": 5}, agent="ada")
    assert status_of(call) == (CallStatus.PENDING_APPROVAL, "inbox")
    assert harness.starts == []
    approved = await harness.answers.approve(call.id, principal=OPS)
    assert (approved.status, approved.attempt) == (CallStatus.RUNNING, 1)
    ended = await harness.ended(call.id)
    assert decoded(ended.result) == {"n": 5}
    assert harness.starts == [call.id]
    assert await harness.inbox("ada") == [(f"tr:{call.id}", {"n": 5})]


async def test_of_many_approvals_at_once_one_counts_and_the_tool_starts_once(harness: PendingHarness) -> None:
    call = await harness.call("charge", {"n": 5}, agent="ada")
    clicks = [harness.answers.approve(call.id, principal=OPS) for _ in range(10)]
    answers = await asyncio.gather(*clicks, harness.sweep(), return_exceptions=True)
    assert sum(isinstance(answer, Call) for answer in answers) == 1
    assert sum(isinstance(answer, Conflict) for answer in answers) == 9
    await harness.ended(call.id)
    assert harness.starts == [call.id]


async def test_an_approval_and_a_rejection_at_once_never_both_count(harness: PendingHarness) -> None:
    for turn in range(20):
        call = await harness.call("charge", {"n": turn}, agent=f"ada{turn}")
        yes, no = harness.answers.approve(call.id, principal=OPS), harness.answers.reject(call.id, principal=OPS)
        both = (yes, no) if turn % 2 else (no, yes)
        answers = await asyncio.gather(*both, return_exceptions=True)
        assert sum(isinstance(answer, Call) for answer in answers) == 1
        ended = await harness.ended(call.id)
        assert harness.starts.count(call.id) == (ended.status is CallStatus.COMPLETED)
        assert ended.status in {CallStatus.COMPLETED, CallStatus.REJECTED}
        assert len(await harness.inbox(f"ada{turn}")) == 1


async def test_a_rejection_tells_the_agent_why_and_nothing_runs(harness: PendingHarness) -> None:
    call = await harness.call("charge", {"n": 5}, agent="ada")
    rejected = await harness.answers.reject(call.id, principal=OPS, reason="too much")
    assert status_of(rejected) == (CallStatus.REJECTED, "inbox")
    await harness.sweep()
    assert harness.starts == []
    assert await harness.inbox("ada") == [(f"tr:{call.id}", {"rejected": True, "reason": "too much"})]


async def test_edited_arguments_are_what_runs(harness: PendingHarness) -> None:
    call = await harness.call("charge", {"n": 5}, agent="ada")
    approved = await harness.answers.approve(call.id, principal=OPS, arguments={"n": 3})
    assert decoded(approved.arguments) == {"n": 3}
    assert decoded((await harness.ended(call.id)).result) == {"n": 3}


@pytest.mark.parametrize("arguments", [{"n": "three"}, {"n": 3, "m": 4}])
async def test_edited_arguments_that_the_tool_does_not_take_approve_nothing(
    harness: PendingHarness, arguments: dict[str, Any]
) -> None:
    call = await harness.call("charge", {"n": 5}, agent="ada")
    edit = harness.answers.approve(call.id, principal=OPS, arguments=arguments)
    told = await refused_leaving_it_as_it_was(harness, call, edit, InvalidArguments)
    assert isinstance(told, InvalidArguments)
    assert told.details
    assert harness.starts == []


@pytest.mark.parametrize("what", ["changed", "gone"])
async def test_an_approval_of_a_tool_that_is_not_what_was_shown_is_refused(harness: PendingHarness, what: str) -> None:
    call = await harness.call("ask_boss", agent="ada")
    changed = (external("ask_boss", description="Now it wires money.", metadata=APPROVAL),)
    await harness.list_tools(*(changed if what == "changed" else ()))
    told = await refused_leaving_it_as_it_was(harness, call, harness.answers.approve(call.id, principal=OPS), Conflict)
    assert what in told.message
    assert (await harness.answers.reject(call.id, principal=OPS)).status is CallStatus.REJECTED


async def test_an_approved_call_of_an_external_tool_is_offered_and_answered(harness: PendingHarness) -> None:
    call = await harness.call("ask_boss", {"city": "Bern"}, agent="ada")
    async with harness.servers.connect("one", ("ask_boss",), principal=OPS) as server:
        harness.servers.look_again()
        approved = await harness.answers.approve(call.id, principal=OPS, arguments={"city": "Thun"})
        assert status_of(approved) == (CallStatus.PENDING, "inbox")
        offer = await within(server.offers.get())
        assert (offer.call.id, decoded(offer.call.arguments)) == (call.id, {"city": "Thun"})
    await harness.answer(call, "sunny")
    assert await harness.inbox("ada") == [(f"tr:{call.id}", "sunny")]


@requirement("CON-replicas")
async def test_two_approvals_at_two_gateways_start_the_tool_once(postgres_url: str, tmp_path: Path) -> None:
    async with (
        pending_harness(postgres_url, tmp_path, gateway_id="gw_a") as a,
        pending_harness(postgres_url, tmp_path, gateway_id="gw_b") as b,
    ):
        for turn in range(50):
            call = await a.call("charge", {"n": turn}, agent="ada")
            clicks = (a.answers.approve(call.id, principal=OPS), b.answers.approve(call.id, principal=OPS))
            answers = await asyncio.gather(*clicks, a.sweep(), b.sweep(), return_exceptions=True)
            assert sum(isinstance(answer, Call) for answer in answers) == 1
            await a.ended(call.id)
            assert (a.starts + b.starts).count(call.id) == 1
        assert len(await a.inbox("ada")) == 50
