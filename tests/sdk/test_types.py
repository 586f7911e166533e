"""The types of records: statuses for type checkers, times as such."""

from datetime import UTC, datetime
from typing import get_args

import msgspec

from jackfield.model.call import CallStatus
from jackfield.sdk import CallRecord, CallStatusName, RunInfo, SpaceMessage
from tests.requirement import requirement


@requirement("DOC-sdk-types")
def test_type_checkers_know_every_status_and_a_program_takes_others() -> None:
    assert set(get_args(CallStatusName)) == {status.value for status in CallStatus}
    later = msgspec.json.decode(b'{"id": "c", "tool": "t", "status": "postponed"}', type=CallRecord)
    assert (later.status, later.is_settled) == ("postponed", True)


@requirement("DOC-sdk-types")
def test_times_of_records_are_times_too() -> None:
    made = "2026-01-15T10:30:00.250Z"
    call = CallRecord(id="c", tool="t", status="waiting", created_at=made, deadline="2026-01-15T10:30:30.250Z")
    assert call.created == datetime(2026, 1, 15, 10, 30, 0, 250_000, tzinfo=UTC)
    assert call.due is not None
    assert (call.due - call.created).total_seconds() == 30
    assert (call.finished, call.expires) == (None, None)
    assert RunInfo(id="r", created_at=made).created == SpaceMessage(id="m", created_at=made).created == call.created
