"""Answers to calls that somebody else executes: a result with a key, a result by signed url, and signs of life.

Above: `routes.py`. Below: `calls/answers.py`, where the first answer wins. A 200 means that the result is on disk.
"""

from functools import partial
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from jackfield.calls import transactions as call_tx
from jackfield.calls.answers import outcome_of
from jackfield.calls.api import answer_schema, one_call
from jackfield.calls.callbacks import Purpose
from jackfield.errors import BadRequest, CallNotFound
from jackfield.http.bodies import BodyReader, read_any
from jackfield.http.request import Name, Request
from jackfield.http.response import Response, json_response
from jackfield.model.call import Call, CallStatus, Delivery, done
from jackfield.model.times import Time, iso_time
from jackfield.sources.base import Progress


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
    attempt: (
        Annotated[
            float,
            Meta(ge=1, le=2**31, multiple_of=1, description="The `attempt` of the offer that a tool server works for"),
        ]
        | None
    ) = None


class DecisionBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person says about a call by its signed url."""

    approve: bool
    arguments: dict[str, Any] | None = None
    reason: Annotated[str, Meta(max_length=10_000)] | None = None


class Asked(Struct, frozen=True, kw_only=True):
    """What a signed url is about. What was asked is told only while it can be answered."""

    purpose: Purpose
    tool: str
    agent: str | None
    principal: str
    """In whose name the call is made: the key's."""
    arguments: Annotated[Raw, Meta(extra_json_schema={"type": "object"})] | None
    status: CallStatus
    expires_at: Time | None
    answer_schema: dict[str, Any] | None


class Decided(Struct, frozen=True, kw_only=True):
    """The call as the decision left it."""

    success: Literal[True] = True
    status: CallStatus


_OPEN: dict[Purpose, frozenset[CallStatus]] = {
    "approval": frozenset({CallStatus.PENDING_APPROVAL}),
    "callback": frozenset({CallStatus.WAITING, CallStatus.PENDING}),
}
"""While a signed url of this purpose is good for anything."""
_decision = BodyReader(DecisionBody)
_result = BodyReader(ResultBody)
_progress = BodyReader(ProgressBody)


async def submit_result(visit: Request) -> Response:
    """The result of a call of this run."""
    body = await _result.read(visit)
    if (body.result is UNSET) is (body.error is UNSET):
        given = "neither" if body.error is UNSET else "both"
        raise BadRequest(f"The body has {given} of 'result' and 'error'. Send one of them; null is a result.")
    outcome = outcome_of(body.result, None if body.error is UNSET else body.error)
    call = await visit.gateway.answers.submit(
        body.call_id, outcome, principal=visit.principal, run_id=visit.part("runId")
    )
    return _accepted(call, body.call_id)


async def submit_by_callback(visit: Request) -> Response:
    """The result of the call whose signed url this is: the whole body, or null when there is none.

    The url of an approval takes `{"approve": true}` or `{"approve": false}` instead.
    """
    call_id, purpose = _signed(visit)
    if purpose == "approval":
        return await _decide(visit, call_id)
    call = await visit.gateway.answers.submit(call_id, done(await read_any(visit)), principal=None)
    return _accepted(call, call_id)


async def show_by_callback(visit: Request) -> Response:
    """What whoever holds a signed url is asked: exactly what would run, and how far it is."""
    call_id, purpose = _signed(visit)
    call = await visit.gateway.store.read(partial(call_tx.get_call, call_id))
    if call is None:
        raise CallNotFound("The record of this call is gone.")
    is_open = call.status in _OPEN[purpose]
    return json_response(
        Asked(
            purpose=purpose,
            tool=call.tool,
            agent=call.agent,
            principal=call.principal,
            arguments=call.arguments if is_open else None,
            status=call.status,
            expires_at=None if call.expires_at is None else iso_time(call.expires_at),
            answer_schema=answer_schema(visit, call) if is_open else None,
        )
    )


async def _decide(visit: Request, call_id: str) -> Response:
    body = await _decision.read(visit)
    answers = visit.gateway.answers
    if body.approve:
        call = await answers.approve(call_id, principal=None, arguments=body.arguments)
    else:
        call = await answers.reject(call_id, principal=None, reason=body.reason)
    return json_response(Decided(status=call.status))


def _signed(visit: Request) -> tuple[str, Purpose]:
    signed = visit.gateway.callbacks.read(visit.part("token"))
    if signed is None:
        raise CallNotFound("This url answers no call. Take the 'callback_url' of the call's record as it is.")
    return signed


async def report_progress(visit: Request) -> Response:
    """A sign of life of a call that is being answered."""
    body = await _progress.read(visit)
    progress = Progress(progress=body.progress, total=body.total, message=body.message)
    call = await visit.gateway.answers.progress(
        visit.part("id"), progress, principal=visit.principal, attempt=int(body.attempt or 0)
    )
    return one_call(visit, call)


def _accepted(call: Call, call_id: str) -> Response:
    assert call.delivery is not None
    return json_response(ResultAnswer(call_id=call_id, agent_entity_id=call.agent, delivery=call.delivery))


class ApproveBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Other arguments than those that were asked for, if there are any. They are checked like those."""

    arguments: dict[str, Any] | None = None


class RejectBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why not. The agent is told."""

    reason: Annotated[str, Meta(max_length=10_000)] | None = None


_approval = BodyReader(ApproveBody, required=False)
_rejection = BodyReader(RejectBody, required=False)


async def approve_call(visit: Request) -> Response:
    """Yes, to exactly this call."""
    body = await _approval.read(visit)
    answers = visit.gateway.answers
    return one_call(visit, await answers.approve(visit.part("id"), principal=visit.principal, arguments=body.arguments))


async def reject_call(visit: Request) -> Response:
    """No."""
    body = await _rejection.read(visit)
    answers = visit.gateway.answers
    return one_call(visit, await answers.reject(visit.part("id"), principal=visit.principal, reason=body.reason))
