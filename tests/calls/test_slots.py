"""The inline slot is a pure function of the row: the same row, the same answer, at any gateway and after any crash."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jackfield.calls.messages import timed_out
from jackfield.calls.waiting import Slot, slot_of
from jackfield.model.call import FINAL, Call, CallError, CallStatus, Delivery, Done, Failed, FirstReply, Pending, done
from tests.requirement import requirement
from tests.store.calls import a_call, a_call_for_approval, a_pending_call, a_waiting_call

OPEN = [status for status in CallStatus if status not in FINAL]
OVER = [status for status in CallStatus if status in FINAL]


def settled(status: CallStatus, **fields: object) -> Call:
    error = None if status is CallStatus.COMPLETED else CallError("broken", "It broke.")
    result = done({"a": 1}).result if status is CallStatus.COMPLETED else None
    return replace(a_call(), **({"status": status, "result": result, "error": error} | fields))


@pytest.mark.parametrize("status", OPEN)
def test_an_undecided_call_has_no_slot(status: CallStatus) -> None:
    assert slot_of(replace(a_call(), status=status, delivery=None)) is None


@pytest.mark.parametrize("status", OVER)
def test_an_inline_call_that_is_over_returns_its_outcome(status: CallStatus) -> None:
    call = settled(status, delivery=Delivery.INLINE)
    assert slot_of(call) == Slot(status, call.outcome)


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}])
def test_a_falsy_result_is_a_result(value: object) -> None:
    call = replace(a_call(), status=CallStatus.COMPLETED, delivery=Delivery.INLINE, result=done(value).result)
    assert slot_of(call) == Slot(CallStatus.COMPLETED, done(value))


@requirement("SPACE-sync-flow-error-text", "SPACE-sync-timeout-error")
def test_a_call_that_timed_out_says_so_with_its_own_figure_whatever_comes_later() -> None:
    flipped = replace(
        a_waiting_call(timeout_ms=10_000),
        status=CallStatus.PENDING,
        delivery=Delivery.INBOX,
        first_reply=FirstReply.TIMEOUT,
    )
    told = Slot(CallStatus.FAILED, timed_out(flipped.id, 10_000))
    assert isinstance(told.outcome, Failed)
    assert told.outcome.message == "Tool timed out after 10000ms"
    for later in (flipped, *(settled(status, id=flipped.id) for status in FINAL)):
        row = replace(later, delivery=Delivery.INBOX, first_reply=FirstReply.TIMEOUT, timeout_ms=10_000, id=flipped.id)
        assert slot_of(row) == told


@requirement("SPACE-async-returns-at-once")
def test_an_async_call_says_pending_also_when_its_result_is_there() -> None:
    told = Slot(CallStatus.PENDING, Pending(CallStatus.PENDING))
    assert slot_of(a_pending_call()) == told
    for status in FINAL:
        late = settled(status, delivery=Delivery.INBOX, first_reply=FirstReply.PENDING)
        assert slot_of(late) == told


def test_a_call_that_waits_for_approval_says_so() -> None:
    assert slot_of(a_call_for_approval()) == Slot(CallStatus.PENDING_APPROVAL, Pending(CallStatus.PENDING_APPROVAL))


@pytest.mark.parametrize("status", OVER)
def test_an_outcome_that_was_given_to_the_inbox_is_still_what_the_slot_holds(status: CallStatus) -> None:
    """T12: whoever reads it again, by a repeat of its request, reads the same; reading is not delivery."""
    inline = settled(status, delivery=Delivery.INLINE)
    assert slot_of(replace(inline, delivery=Delivery.INBOX)) == slot_of(inline)


@given(
    status=st.sampled_from(CallStatus),
    delivery=st.sampled_from((None, *Delivery)),
    first_reply=st.sampled_from((None, *FirstReply)),
    sent_at=st.sampled_from((None, 5)),
    attempt=st.integers(0, 3),
    owner=st.sampled_from((None, "gw_a", "gw_b")),
)
def test_the_slot_depends_on_nothing_but_what_was_decided(
    *,
    status: CallStatus,
    delivery: Delivery | None,
    first_reply: FirstReply | None,
    sent_at: int | None,
    attempt: int,
    owner: str | None,
) -> None:
    """Who ran it, how often, and whether it was sent say nothing about the answer; a decided slot is never empty."""
    plain = settled(status, delivery=delivery, first_reply=first_reply)
    busy = replace(plain, sent_at=sent_at, attempt=attempt, owner=owner, waiter=owner, offers=attempt, offered_to="x")
    slot = slot_of(busy)
    assert slot == slot_of(plain)
    if delivery is Delivery.INBOX or (delivery is Delivery.INLINE and status in FINAL):
        assert slot is not None
        assert isinstance(slot.outcome, (Done, Failed, Pending))
    if delivery is None:
        assert slot is None
