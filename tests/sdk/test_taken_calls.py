from datetime import UTC, datetime, timedelta

import pytest

from jackfield.sdk import CallRecord, offers
from jackfield.sdk.offers import CallOffer, TakenCalls

OFFERED = datetime(2026, 1, 1, 12, tzinfo=UTC)


def offer(call_id: str = "call_1", *, ts: str | None = None) -> CallOffer:
    return CallOffer(type="tool.call", tool_call_id=call_id, ts=ts)


def record(made: datetime | None) -> CallRecord:
    return CallRecord(id="call_1", tool="t", status="waiting", created_at=made.isoformat() if made else None)


async def test_a_call_is_taken_once_and_the_second_offer_is_noticed() -> None:
    taken = TakenCalls()
    call = taken.take(offer())
    assert call is not None
    assert not call.offered_again.is_set()
    assert taken.take(offer()) is None
    assert call.offered_again.is_set()
    taken.finish(call)
    assert taken.take(offer()) is None


async def test_only_the_newest_answered_calls_are_remembered_and_every_open_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offers, "REMEMBERED", 2)
    taken = TakenCalls()
    running = taken.take(offer("running"))
    for name in ("a", "b", "c"):
        call = taken.take(offer(name))
        assert call is not None
        taken.finish(call)
    assert running is not None
    assert [taken.take(offer(name)) is None for name in ("running", "c", "b", "a")] == [True, True, True, False]


@pytest.mark.parametrize(("age", "older"), [(timedelta(hours=1), True), (timedelta(hours=-1), False)])
def test_its_age_is_told_without_asking_whether_the_two_clocks_agree(age: timedelta, older: bool) -> None:  # noqa: FBT001 - a case
    taken = TakenCalls()
    taken._created -= 60
    call = record(OFFERED - timedelta(seconds=60) - age)
    assert taken.may_predate_us(call, offer(ts=OFFERED.isoformat())) is older


def test_a_call_of_unknown_age_counts_as_older() -> None:
    taken = TakenCalls()
    assert taken.may_predate_us(record(None), offer(ts=OFFERED.isoformat()))
    assert taken.may_predate_us(record(OFFERED), offer(ts="soon"))
