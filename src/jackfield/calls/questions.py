"""A question that comes up while a tool runs and its caller cannot be asked: a call of its own that somebody answers.

Above: the executor, which lends this to the sources. Below: the store. The question waits like every call that somebody
else answers: it is listed as pending, and answered with `{"action", "content"}`.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from jackfield.calls import texts
from jackfield.calls.running import ANSWER_SECONDS
from jackfield.calls.waiting import start_and_wait
from jackfield.catalog.schemas import RESULT, ArgumentChecker, fault_in
from jackfield.catalog.wording import told
from jackfield.errors import BadRequest
from jackfield.model.call import Call, CallStatus, Done
from jackfield.model.ids import new_id
from jackfield.sources.base import ElicitAnswer, ElicitRequest
from jackfield.store import Moved, Store

QUESTION = "elicitation"
"""The source, and the tool, that a question's record names. No source of the config may be called so."""


async def ask_somebody(
    question: ElicitRequest, *, asked_by: Call, store: Store, on_wait: Callable[[Call], None]
) -> ElicitAnswer:
    """Put the question on record and wait for an answer. Nobody answers in time: as if they had closed the form."""
    call = _question_call(question, asked_by)
    start = partial(store.start_call, call)
    try:
        started = await start_and_wait(store, call.id, start=start, on_start=on_wait, on_flip=_nobody_came)
    except asyncio.CancelledError:
        await asyncio.shield(store.settle_cancelled(call.id, texts.cancelled(call.id)))
        raise
    answered = started.call
    if answered is None or not isinstance(answered.outcome, Done):
        if answered is not None and not answered.status.is_final:
            await store.settle_cancelled(call.id, texts.cancelled(call.id))
        return ElicitAnswer(action="cancel")
    return msgspec.json.decode(answered.outcome.result, type=ElicitAnswer)


def is_question(call: Call) -> bool:
    return call.source == QUESTION


def check_answer(call: Call, outcome: Done) -> None:
    """Refuse an answer that the asker could not use; the question stays open."""
    content = msgspec.json.decode(call.arguments).get("schema")
    if content is not None and fault_in(content) is not None:
        content = None  # the asker's own fault; it has to look at what it gets
    checker = ArgumentChecker(answer_schema(content), whole=RESULT)
    faults = checker.check(msgspec.json.decode(outcome.result))
    if faults:
        cure = 'Send {"action": "accept", "content": {…}}, {"action": "decline"} or {"action": "cancel"}.'
        raise BadRequest(f"The answer does not fit the question: {told(faults)} {cure}", param="result")


def answer_schema(content: dict[str, Any] | None) -> dict[str, Any]:
    """What an answer looks like; only an accepted form has content, and that fits the question."""
    return {
        "type": "object",
        "properties": {"action": {"enum": ["accept", "decline", "cancel"]}, "content": {"type": ["object", "null"]}},
        "required": ["action"],
        "additionalProperties": False,
        "if": {"properties": {"action": {"const": "accept"}}},
        "then": {"properties": {"content": content}, "required": ["content"]} if content else {},
    }


def _question_call(question: ElicitRequest, asked_by: Call) -> Call:
    asked = {"message": question.message, "schema": question.schema, "url": question.url}
    asked |= {"tool": asked_by.tool, "call_id": asked_by.id}
    milliseconds = int(ANSWER_SECONDS * 1000)
    return Call(
        id=new_id("call"),
        run_id=asked_by.run_id,
        tool=QUESTION,
        source=QUESTION,
        tool_version="",
        arguments=Raw(msgspec.json.encode({key: value for key, value in asked.items() if value is not None})),
        principal=asked_by.principal,
        status=CallStatus.WAITING,
        space_id=asked_by.space_id,
        chat_id=asked_by.chat_id,
        timeout_ms=milliseconds,
        expires_in_ms=milliseconds,
    )


def _nobody_came(_: Moved) -> None:
    """The question is closed next, so nobody is told that it waits on."""
