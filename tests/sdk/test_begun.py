from datetime import UTC, datetime, timedelta

import pytest

from jackfield.sdk import CallRecord
from jackfield.sdk import begun as begun_module
from jackfield.sdk.begun import Begun, Offer

OFFERED = datetime(2026, 1, 1, 12, tzinfo=UTC)


def offer(call_id: str = "call_1", *, ts: str | None = None) -> Offer:
    return Offer(type="tool.call", tool_call_id=call_id, ts=ts)


def record(made: datetime | None) -> CallRecord:
    return CallRecord(id="call_1", tool="t", status="waiting", created_at=made.isoformat() if made else None)


async def test_a_call_is_taken_once_and_the_second_offer_is_noticed() -> None:
    begun = Begun()
    work = begun.take(offer())
    assert work is not None
    assert not work.offered_again.is_set()
    assert begun.take(offer()) is None
    assert work.offered_again.is_set()
    begun.finish(work)
    assert begun.take(offer()) is None


async def test_only_the_newest_answered_calls_are_remembered_and_every_open_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(begun_module, "KEPT", 2)
    begun = Begun()
    running = begun.take(offer("running"))
    for name in ("a", "b", "c"):
        work = begun.take(offer(name))
        assert work is not None
        begun.finish(work)
    assert running is not None
    assert [begun.take(offer(name)) is None for name in ("running", "c", "b", "a")] == [True, True, True, False]


@pytest.mark.parametrize(("age", "younger"), [(timedelta(hours=1), True), (timedelta(hours=-1), False)])
def test_its_age_is_told_without_asking_whether_the_two_clocks_agree(age: timedelta, younger: bool) -> None:  # noqa: FBT001 - a case
    begun = Begun()
    begun._born -= 60
    call = record(OFFERED - timedelta(seconds=60) - age)
    assert begun.is_younger_than(call, offer(ts=OFFERED.isoformat())) is younger


def test_a_call_of_unknown_age_counts_as_older() -> None:
    begun = Begun()
    assert begun.is_younger_than(record(None), offer(ts=OFFERED.isoformat()))
    assert begun.is_younger_than(record(OFFERED), offer(ts="soon"))
