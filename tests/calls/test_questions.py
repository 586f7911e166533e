"""A question that comes up while a tool runs, and that nobody behind the caller can be asked."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.errors import BadRequest
from jackfield.model.call import Call, CallStatus, Outcome, done
from jackfield.sources.base import ElicitRequest, Invocation
from jackfield.store import CallFilter
from tests.calls.house import OPS
from tests.calls.pending_house import PendingHouse, a_pending_house, within

NIGHTS = {"type": "object", "properties": {"nights": {"type": "integer", "minimum": 1}}, "required": ["nights"]}


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[PendingHouse]:
    async with a_pending_house("memory:", tmp_path) as made:

        async def book(invocation: Invocation) -> Outcome:
            assert invocation.elicit is not None
            answer = await invocation.elicit(ElicitRequest(message="How many nights?", schema=NIGHTS))
            return done({"action": answer.action, "content": answer.content})

        made.local.offer("book", book, timeout_ms=200)
        await made.panel.refresh()
        made.catalog.update(made.panel.listings())
        yield made


async def asked(house: PendingHouse) -> tuple[Call, "asyncio.Task[Call]"]:
    """The question on record, and the call that waits for its answer."""
    booking = asyncio.create_task(house.call("book"))
    async with asyncio.timeout(5):
        while True:
            waiting = await house.store.list_calls(CallFilter(status=(CallStatus.WAITING,)), limit=9)
            if waiting.calls:
                return waiting.calls[0], booking
            await asyncio.sleep(0.01)


async def test_the_question_is_a_call_that_somebody_answers_and_the_tool_gets_the_answer(house: PendingHouse) -> None:
    question, booking = await asked(house)
    told = msgspec.json.decode(question.arguments)
    assert (question.tool, told["message"], told["schema"], told["tool"]) == (
        "elicitation",
        "How many nights?",
        NIGHTS,
        "book",
    )
    await asyncio.sleep(0.4)  # twice the tool's own time: what people take is not counted
    await house.answer(question, {"action": "accept", "content": {"nights": 3}})
    booked = await within(booking)
    assert (booked.status, result(booked)) == (CallStatus.COMPLETED, {"action": "accept", "content": {"nights": 3}})
    assert question.run_id == booked.run_id


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_person_may_decline(house: PendingHouse, action: str) -> None:
    question, booking = await asked(house)
    await house.answer(question, {"action": action})
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
    house: PendingHouse, answer: Any
) -> None:
    question, booking = await asked(house)
    with pytest.raises(BadRequest, match="The answer does not fit the question"):
        await house.answer(question, answer)
    await house.answer(question, {"action": "accept", "content": {"nights": 1}})
    assert result(await within(booking))["content"] == {"nights": 1}


async def test_a_question_of_a_cancelled_call_is_closed(house: PendingHouse) -> None:
    question, booking = await asked(house)
    (running,) = (call for call in house.executor._running.values() if call.call.tool == "book")
    await house.pipeline.cancel(running.call.id, principal=OPS)
    assert (await within(booking)).status is CallStatus.CANCELLED
    assert (await within(house.ended(question.id))).status is CallStatus.CANCELLED


def result(call: Call) -> Any:
    assert call.result is not None
    return msgspec.json.decode(call.result)
