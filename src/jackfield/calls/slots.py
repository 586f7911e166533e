"""What a tool call returns: its inline slot, a pure function of the row (`pending-protocol.md`, idea 2).

Whoever reads the slot of one row reads the same answer, at any gateway and after any crash. Above: the doors and,
later, the agents' loop. Below: the model.
"""

from msgspec import Struct

from jackfield.calls import texts
from jackfield.model.call import Call, CallStatus, Delivery, Done, Failed, FirstReply, Pending


class Slot(Struct, frozen=True):
    """The answer to whoever made the call; `status` is the word the API uses for it."""

    status: CallStatus
    outcome: Done | Failed | Pending


def slot_of(call: Call) -> Slot | None:
    """What the call returns, or None while that is undecided."""
    if call.delivery is Delivery.INBOX:
        return _first_reply(call)
    if call.delivery is Delivery.INLINE and call.status.is_final:
        outcome = call.outcome
        return Slot(call.status, outcome)
    return None


def _first_reply(call: Call) -> Slot:
    """The outcome goes to the inbox; the slot says only that, or that nobody answered in time."""
    if call.first_reply is FirstReply.TIMEOUT:
        return Slot(CallStatus.FAILED, texts.timed_out(call.id, call.timeout_ms))
    if call.first_reply is None:
        # Settled inline for a caller that had gone, then given to the inbox: reading is not delivery.
        return Slot(call.status, call.outcome)
    waits_for_approval = call.status is CallStatus.PENDING_APPROVAL
    return Slot(
        CallStatus.PENDING_APPROVAL if waits_for_approval else CallStatus.PENDING,
        Pending(CallStatus.PENDING_APPROVAL if waits_for_approval else CallStatus.PENDING),
    )
