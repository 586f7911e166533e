"""What happened to a call, in its order, as far as its row and its agent's inbox say it. Pure.

Above: the record of one call. Below: the model. Nothing is written for this: each moment is a column that another
statement sets anyway, or follows from two of them.
"""

from typing import Literal

from msgspec import Struct

from jackfield.model.call import SIGNED_LINK, Call, CallStatus, Delivery
from jackfield.model.text import Time, iso_time
from jackfield.model.tool import CallKind

Step = Literal["asked", "decided", "login", "offered", "started", "settled", "delivered", "read"]


class Arrival(Struct, frozen=True, kw_only=True):
    """The event in its agent's inbox that tells how a call ended."""

    at: int
    status: str
    cycle_id: str | None


class Moment(Struct, frozen=True, kw_only=True):
    """One thing that happened to a call."""

    step: Step
    at: Time | None
    """By the database's clock; null: it is not on record when."""
    by: str | None = None
    """Who did it: a key, a person, an agent, a tool server, a gateway."""
    note: str | None = None
    """What there is to say about it, in words."""


def timeline_of(call: Call, arrival: Arrival | None) -> tuple[Moment, ...]:
    """Every moment that is on record, the first one first; those without a time where they belong."""
    moments = [_asked(call), *_decided(call), *_waited_for_login(call), *_carried_out(call), *_settled(call)]
    return (*moments, *_delivered(call, arrival))


def _asked(call: Call) -> Moment:
    by = call.principal if call.agent is None else f"{call.agent} ({call.principal})"
    note = None if call.replay_of is None else f"Replay of {call.replay_of}"
    return Moment(step="asked", at=iso_time(call.created_at), by=by, note=note)


def _decided(call: Call) -> list[Moment]:
    if call.decision is None:
        return []
    changed = ", with other arguments" if call.asked_arguments is not None and call.decision.value == "approved" else ""
    by = "whoever held the link" if call.decided_by == SIGNED_LINK else call.decided_by
    return [Moment(step="decided", at=_time(call.decided_at), by=by, note=f"{call.decision.value}{changed}")]


def _waited_for_login(call: Call) -> list[Moment]:
    if call.login is None:
        return []
    times = "" if call.login.times < 2 else f", for the {call.login.times}th time"  # noqa: PLR2004 - more than once
    note = f"Waited for a login at {call.login.source}{times}"
    return [Moment(step="login", at=_time(call.login.since), by=call.login.principal, note=note)]


def _carried_out(call: Call) -> list[Moment]:
    """By a tool server that it was offered to, or by a gateway."""
    if call.offered_to is not None:
        again = None if call.offers <= 1 else f"Offered {call.offers} times"
        offered = Moment(step="offered", at=_time(call.offered_at), by=call.offered_to, note=again)
        begun = [] if call.begun_at is None else [Moment(step="started", at=_time(call.begun_at), by=call.offered_to)]
        return [offered, *begun]
    started = _started_at(call)
    if started is None:
        return []
    again = None if call.attempt <= 1 else f"Attempt {call.attempt}"
    return [Moment(step="started", at=iso_time(started), by=call.owner, note=again)]


def _started_at(call: Call) -> int | None:
    """When a gateway began to run it last: its deadline is counted from then, and so is how long it took."""
    if call.attempt < 1 or call.status is CallStatus.REFUSED:
        return None
    if call.finished_at is not None and call.duration_ms is not None:
        return max(call.created_at, call.finished_at - round(call.duration_ms))
    if call.status is CallStatus.RUNNING and call.deadline is not None:
        return max(call.created_at, call.decided_at or 0, call.deadline - call.timeout_ms)
    return None


def _settled(call: Call) -> list[Moment]:
    if call.finished_at is None:
        return []
    word = call.status.value if call.error is None else f"{call.status.value}: {call.error.code}"
    if call.count > 1:
        word = f"{word}, {call.count} times"
    return [Moment(step="settled", at=iso_time(call.finished_at), by=call.answered_by, note=word)]


def _delivered(call: Call, arrival: Arrival | None) -> list[Moment]:
    if arrival is not None:
        told = Moment(step="delivered", at=iso_time(arrival.at), by=call.agent, note="To the agent's inbox")
        if arrival.cycle_id is None:
            return [told]
        return [told, Moment(step="read", at=None, by=call.agent, note=f"In {arrival.cycle_id}")]
    if call.delivery is not Delivery.INLINE or call.finished_at is None or call.kind is not CallKind.TOOL:
        return []
    if call.sent_at is not None:
        return [Moment(step="delivered", at=iso_time(call.sent_at), note="To whoever asked; the last byte was sent")]
    return [Moment(step="delivered", at=None, note="To whoever asked, with the response")]


def _time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else iso_time(milliseconds)
