"""A question that comes up while a tool runs, and that nobody behind the caller can be asked."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.calls import transactions as call_tx
from jackfield.calls.questions import answer_schema
from jackfield.calls.rows import CallFilter, call_page
from jackfield.errors import AlreadyResolved, BadRequest
from jackfield.model.call import Call, CallStatus, Outcome, done
from jackfield.sources.base import ElicitRequest, Invocation
from jackfield.store import gateways as gateway_tx
from tests.calls.harness import OPS
from tests.calls.pending_harness import AGAIN, WITHIN, PendingHarness, another_gateway, pending_harness, until, within
from tests.requirement import requirement

NIGHTS = {"type": "object", "properties": {"nights": {"type": "integer", "minimum": 1}}, "required": ["nights"]}


asked_aside: list[asyncio.Future[Any]] = []


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[PendingHarness]:
    async with pending_harness("memory:", tmp_path) as made:

        async def book(invocation: Invocation) -> Outcome:
            answer = await invocation.elicit(ElicitRequest(message="How many nights?", schema=NIGHTS))
            return done({"action": answer.action, "content": answer.content})

        async def book_twice(invocation: Invocation) -> Outcome:
            asked = [ElicitRequest(message=message) for message in ("First?", "Second?")]
            answers = await asyncio.gather(*map(invocation.elicit, asked))
            return done([answer.action for answer in answers])

        async def not_wait(invocation: Invocation) -> Outcome:
            asking = asyncio.ensure_future(invocation.elicit(ElicitRequest(message="Anybody?")))
            async with made.pipeline.events.follow(None) as told:
                async for event in told:
                    if event.tool == "elicitation":
                        break
            asked_aside.append(asking)
            return done("went on")

        async def pass_on(invocation: Invocation) -> Outcome:
            return await made.pipeline.call_from("book", {}, parent=invocation)

        made.local.offer("book", book, timeout_ms=200)
        made.local.offer("book_again", book, metadata=AGAIN)
        made.local.offer("book_in_vain", book, expires_in_ms=1)
        made.local.offer("book_twice", book_twice)
        made.local.offer("not_wait", not_wait)
        made.local.offer("pass_on", pass_on, timeout_ms=200)
        await made.source_registry.refresh()
        made.catalog.update(made.source_registry.listings())
        yield made


async def asked(harness: PendingHarness, tool: str = "book", **fields: Any) -> tuple[Call, "asyncio.Task[Call]"]:
    """The question on record, and the call that waits for its answer."""
    async with harness.pipeline.events.follow(None) as told:
        booking = asyncio.create_task(harness.call(tool, **fields))
        async for event in told:
            if event.tool == "elicitation":
                return await harness.record(event.call_id), booking
    raise AssertionError


async def parked(harness: PendingHarness, tool: str = "book", **fields: Any) -> tuple[Call, Call]:
    """The question on record, and the call as whoever made it was told: it is pending."""
    question, booking = await asked(harness, tool, takes_pending=True, **fields)
    return question, await within(booking)


async def test_the_question_is_a_call_that_somebody_answers_and_the_tool_gets_the_answer(
    harness: PendingHarness,
) -> None:
    question, booking = await asked(harness)
    told = msgspec.json.decode(question.arguments)
    assert (question.tool, told["message"], told["schema"], told["tool"]) == (
        "elicitation",
        "How many nights?",
        NIGHTS,
        "book",
    )
    listed = await harness.store.read(partial(call_page, CallFilter(status=(CallStatus.PENDING,)), limit=9))
    assert [call.id for call in listed.calls] == [question.id]
    await harness.until_clock(question.created_at + 400)  # twice the tool's own time: what people take is not counted
    await harness.answer(question, {"action": "accept", "content": {"nights": 3}})
    booked = await within(booking)
    assert (booked.status, result(booked)) == (CallStatus.COMPLETED, {"action": "accept", "content": {"nights": 3}})
    assert question.run_id == booked.run_id


@requirement("SAFE-question-parks-the-call")
async def test_a_caller_that_can_be_told_so_is_told_that_its_call_is_pending(harness: PendingHarness) -> None:
    question, call = await parked(harness)
    assert (call.status, call.attempt, call.delivery) == (CallStatus.PENDING, 0, None)
    assert call.expires_at is not None
    listed = await harness.store.read(partial(call_page, CallFilter(status=(CallStatus.PENDING,)), limit=9))
    assert {call.id for call in listed.calls} == {call.id, question.id}
    await harness.until_clock(question.created_at + 400)
    await harness.answer(question, {"action": "accept", "content": {"nights": 3}})
    ended = await harness.ended(call.id)
    assert (ended.status, result(ended)["content"], ended.attempt) == (CallStatus.COMPLETED, {"nights": 3}, 2)


@requirement("SAFE-question-parks-the-call")
async def test_an_agent_goes_on_and_finds_the_outcome_in_its_inbox_once(harness: PendingHarness) -> None:
    question, call = await parked(harness, agent="ada")
    assert call.delivery is not None
    assert call.delivery.value == "inbox"
    await harness.answer(question, {"action": "decline"})
    await harness.ended(call.id)
    assert await harness.inbox("ada") == [(f"tr:{call.id}", {"action": "decline", "content": None})]


async def test_whoever_answers_the_parked_call_answers_its_question(harness: PendingHarness) -> None:
    question, call = await parked(harness)
    with pytest.raises(BadRequest, match="The answer does not fit the question"):
        await harness.answer(call, {"nights": 3})
    await harness.answer(call, {"action": "accept", "content": {"nights": 4}})
    assert result(await harness.ended(call.id))["content"] == {"nights": 4}
    assert (await harness.record(question.id)).status is CallStatus.COMPLETED


async def test_several_questions_at_once_and_the_last_answer_lets_the_call_go_on(harness: PendingHarness) -> None:
    first, call = await parked(harness, "book_twice")
    async with asyncio.timeout(WITHIN):
        while (
            len(
                open_now := (
                    await harness.store.read(partial(call_page, CallFilter(tool="elicitation"), limit=9))
                ).calls
            )
            < 2
        ):
            pass
    (second,) = (question for question in open_now if question.id != first.id)
    await harness.answer(first, {"action": "accept", "content": {}})
    assert (await harness.record(call.id)).status is CallStatus.PENDING
    await harness.answer(second, {"action": "decline"})
    assert sorted(result(await harness.ended(call.id))) == ["accept", "decline"]


async def test_a_tool_that_calls_the_tool_that_asks_is_parked_itself(harness: PendingHarness) -> None:
    question, call = await parked(harness, "pass_on")
    assert (call.tool, call.status) == ("pass_on", CallStatus.PENDING)
    await harness.until_clock(question.created_at + 400)  # the time of neither tool is counted
    await harness.answer(question, {"action": "decline"})
    assert result(await harness.ended(call.id)) == {"action": "decline", "content": None}


@requirement("SAFE-question-ends-with-its-asker")
async def test_a_question_ends_when_its_tool_ends_without_the_answer(harness: PendingHarness) -> None:
    question, call = await parked(harness, "not_wait")
    assert result(await harness.ended(call.id)) == "went on"
    closed = await harness.ended(question.id)
    assert (closed.status, closed.error and closed.error.message) == (
        CallStatus.CANCELLED,
        "The question is closed: the call that asked it is over, or does not wait for the answer any more.",
    )
    assert (await within(asked_aside.pop())).action == "cancel"


@requirement("SAFE-question-ends-with-its-asker")
async def test_a_parked_call_expires_and_so_does_its_question(harness: PendingHarness) -> None:
    question, call = await parked(harness, "book_in_vain")
    await harness.until_clock(call.expires_at)
    await harness.sweep()
    assert (await harness.ended(call.id)).status is CallStatus.EXPIRED
    assert (await harness.ended(question.id)).status is CallStatus.CANCELLED
    await until(lambda: not harness.executor._running)


@requirement("SAFE-question-ends-with-its-asker")
async def test_a_parked_call_can_be_cancelled_and_its_question_is_closed(harness: PendingHarness) -> None:
    question, call = await parked(harness)
    await harness.pipeline.cancel(call.id, principal=OPS)
    assert (await harness.ended(call.id)).status is CallStatus.CANCELLED
    assert (await harness.ended(question.id)).status is CallStatus.CANCELLED


@requirement("SAFE-question-ends-with-its-asker")
@pytest.mark.parametrize("tool", ["book", "book_again"])
@pytest.mark.parametrize("takes_pending", [True, False])
async def test_after_a_crash_the_call_is_interrupted_and_nobody_is_asked_any_more(
    harness: PendingHarness, tool: str, *, takes_pending: bool
) -> None:
    question, booking = await asked(harness, tool, takes_pending=takes_pending)
    asker = msgspec.json.decode(question.arguments)["call_id"]
    if tool == "book_again" and not takes_pending:
        return  # it runs again, as every idempotent call does that ran when its gateway died
    await harness.store.write(
        partial(gateway_tx.enter, "gw_next", is_shared=harness.store.is_shared)
    )  # the first is dead by that
    survivor = another_gateway(harness, "gw_next")
    await survivor.sweeper.recover()
    ended = await harness.record(asker)
    assert (ended.status, ended.error and ended.error.code) == (CallStatus.FAILED, "interrupted")
    assert (await harness.record(question.id)).status is CallStatus.CANCELLED
    with pytest.raises(AlreadyResolved, match="is already resolved"):
        await survivor.answer(question, {"action": "decline"})
    told = await within(booking)  # the dead one's word does not count any more
    assert told.status in (CallStatus.PENDING, CallStatus.FAILED)
    assert (await harness.record(asker)).status is CallStatus.FAILED


async def test_a_stopping_gateway_does_not_wait_for_answers(harness: PendingHarness) -> None:
    question, call = await parked(harness)
    await within(harness.pipeline.close(grace=9), seconds=5)
    ended = await harness.record(call.id)
    assert (ended.status, ended.error and ended.error.code) == (CallStatus.FAILED, "interrupted")
    assert (await harness.record(question.id)).status is CallStatus.CANCELLED


async def test_a_tool_server_is_not_offered_a_parked_call(harness: PendingHarness) -> None:
    _, call = await parked(harness)
    assert await harness.store.read(partial(call_tx.calls_to_offer, "book")) == []
    assert not (await harness.store.write(partial(call_tx.offer, call.id, client="server", gateway=harness.id))).moved


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_person_may_decline(harness: PendingHarness, action: str) -> None:
    question, booking = await asked(harness)
    await harness.answer(question, {"action": action})
    assert result(await within(booking)) == {"action": action, "content": None}


@pytest.mark.parametrize(
    "answer",
    [
        {"action": "accept"},
        {"action": "accept", "content": {"nights": 0}},
        {"action": "accept", "content": {"nights": "three"}},
        {"action": "perhaps"},
        {"content": {"nights": 1}},
        "yes",
        None,
    ],
)
async def test_an_answer_that_does_not_fit_is_sent_back_and_the_question_stays(
    harness: PendingHarness, answer: Any
) -> None:
    question, booking = await asked(harness)
    with pytest.raises(BadRequest, match="The answer does not fit the question"):
        await harness.answer(question, answer)
    await harness.answer(question, {"action": "accept", "content": {"nights": 1}})
    assert result(await within(booking))["content"] == {"nights": 1}


@requirement("MCP2-elicitation-defaults")
@pytest.mark.parametrize(
    ("schema", "required"),
    [
        ({"properties": {"a": {"default": 1}, "b": {}}, "required": ["a", "b", "c"]}, ["b", "c"]),
        ({"properties": None, "required": ["a", 5]}, ["a", 5]),
        ({"required": "a"}, "a"),
    ],
)
def test_what_has_a_default_may_be_left_out_of_an_answer(schema: dict[str, Any], required: Any) -> None:
    assert answer_schema(schema)["then"]["properties"]["content"]["required"] == required


async def test_a_question_of_a_cancelled_call_is_closed(harness: PendingHarness) -> None:
    question, booking = await asked(harness)
    (running,) = (call for call in harness.executor._running.values() if call.call.tool == "book")
    await harness.pipeline.cancel(running.call.id, principal=OPS)
    assert (await within(booking)).status is CallStatus.CANCELLED
    assert (await within(harness.ended(question.id))).status is CallStatus.CANCELLED


def result(call: Call) -> Any:
    assert call.result is not None
    return msgspec.json.decode(call.result)
