"""Answers to calls that somebody else executes: a result with a key, a result by signed url, and signs of life.

Above: `routes.py`. Below: `calls/answers.py`, where the first answer wins. A 200 means that the result is on disk.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from jackfield.calls.answers import outcome_of
from jackfield.errors import BadRequest, CallNotFound
from jackfield.model.call import Call, Delivery, done
from jackfield.sources.base import Progress
from jackfield.web.answers import Answer, json_reply
from jackfield.web.bodies import BodyReader, read_any
from jackfield.web.calls import one_call
from jackfield.web.visit import Name, Visit


class ResultBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The answer to one call: its result, which may be any JSON, null included, or the error that it came to."""

    call_id: Name
    result: Any = UNSET
    error: str | UnsetType = UNSET


OneOfBoth = Annotated[
    ResultBody, Meta(extra_json_schema={"oneOf": [{"required": ["result"]}, {"required": ["error"]}]})
]


class ResultAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result is kept. `delivery` says which way it takes to the agent, as decided now."""

    success: Literal[True] = True
    call_id: str
    agent_entity_id: str | None
    delivery: Delivery


class ProgressBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a call has come."""

    progress: float
    total: float | None = None
    message: Annotated[str, Meta(max_length=10_000)] | None = None


_result = BodyReader(ResultBody)
_progress = BodyReader(ProgressBody)


async def submit_result(visit: Visit) -> Answer:
    """The result of a call of this run."""
    body = await _result.read(visit)
    if (body.result is UNSET) is (body.error is UNSET):
        given = "neither" if body.error is UNSET else "both"
        raise BadRequest(f"The body has {given} of 'result' and 'error'. Send one of them; null is a result.")
    outcome = outcome_of(body.result, None if body.error is UNSET else body.error)
    call = await visit.gateway.answers.submit(
        body.call_id, outcome, principal=visit.principal, run_id=visit.part("runId")
    )
    return _accepted(call)


async def submit_by_callback(visit: Visit) -> Answer:
    """The result of the call whose signed url this is: the whole body, or null when there is none."""
    call_id = visit.gateway.callbacks.call_id_in(visit.part("token"))
    if call_id is None:
        raise CallNotFound("This url answers no call. Take the 'callback_url' of the call's record as it is.")
    return _accepted(await visit.gateway.answers.submit(call_id, done(await read_any(visit)), principal=None))


async def report_progress(visit: Visit) -> Answer:
    """A sign of life of a call that is being answered."""
    body = await _progress.read(visit)
    progress = Progress(progress=body.progress, total=body.total, message=body.message)
    call = await visit.gateway.answers.progress(visit.part("id"), progress, principal=visit.principal)
    return one_call(visit, call)


def _accepted(call: Call) -> Answer:
    assert call.delivery is not None
    return json_reply(ResultAnswer(call_id=call.id, agent_entity_id=call.agent, delivery=call.delivery))
