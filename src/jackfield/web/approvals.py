"""A person allows a call, perhaps with other arguments, or refuses it.

Above: `routes.py`. Below: `calls/answers.py`. Both answer at once with the record; what an allowed call comes to goes
to the agent's inbox.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

from jackfield.web.answers import Answer
from jackfield.web.bodies import BodyReader
from jackfield.web.calls import one_call
from jackfield.web.visit import Visit


class ApproveBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Other arguments than those that were asked for, if there are any. They are checked like those."""

    arguments: dict[str, Any] | None = None


class RejectBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why not. The agent is told."""

    reason: Annotated[str, Meta(max_length=10_000)] | None = None


_approval = BodyReader(ApproveBody, required=False)
_rejection = BodyReader(RejectBody, required=False)


async def approve_call(visit: Visit) -> Answer:
    """Yes, to exactly this call."""
    body = await _approval.read(visit)
    answers = visit.gateway.answers
    return one_call(visit, await answers.approve(visit.part("id"), principal=visit.principal, arguments=body.arguments))


async def reject_call(visit: Visit) -> Answer:
    """No."""
    body = await _rejection.read(visit)
    answers = visit.gateway.answers
    return one_call(visit, await answers.reject(visit.part("id"), principal=visit.principal, reason=body.reason))
