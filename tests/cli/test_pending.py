from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from jackfield.cli.calls import next_step
from jackfield.cli.output import duration
from jackfield.cli.pending import event_line, next_steps, pending_lines
from jackfield.sdk import CallEvent, CallRecord, CallStatusName, LoginInfo

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)


def call(number: int, status: CallStatusName) -> CallRecord:
    return CallRecord(
        id=f"call_{number}",
        tool="transfer",
        status=status,
        principal="ada",
        agent="planner",
        arguments={"amount": 5, "note": "\x1b[2J"},
        created_at=(NOW - timedelta(minutes=3)).isoformat(),
        deadline=(NOW + timedelta(seconds=20)).isoformat(),
        expires_at=(NOW + timedelta(hours=23)).isoformat(),
    )


def test_each_call_is_a_line_with_what_it_needs_its_age_its_time_left_and_its_arguments() -> None:
    lines = pending_lines([call(1, "pending_approval"), call(2, "pending"), call(3, "waiting")], now=NOW)
    words = [[word.strip() for word in line.split("  ") if word.strip()] for line in lines]
    arguments = '{"amount":5,"note":"\\u001b[2J"}'
    assert words == [
        ["ID", "NEEDS", "TOOL", "CALLER", "AGE", "LEFT", "ARGUMENTS"],
        ["call_1", "approval", "transfer", "planner for ada", "3 min", "23 h", arguments],
        ["call_2", "result", "transfer", "planner for ada", "3 min", "23 h", arguments],
        ["call_3", "result now", "transfer", "planner for ada", "3 min", "20 s", arguments],
    ]


def test_nothing_that_waits_is_said_and_nothing_more() -> None:
    assert pending_lines([], now=NOW) == ["No pending calls."]
    assert list(next_steps([])) == []


def test_what_to_type_next_can_be_pasted() -> None:
    lines = list(next_steps([call(1, "pending"), call(2, "pending_approval"), call(3, "waiting")]))
    assert lines == [
        "",
        "1 call to approve or reject:",
        "  jackfield approve call_2",
        "  jackfield reject call_2 --reason '…'",
        "2 calls to answer:",
        "  jackfield answer call_1 JSON",
    ]


def test_a_program_that_waits_is_not_to_be_answered_itself() -> None:
    program = msgspec.structs.replace(call(1, "pending"), tool="run_program")
    assert list(next_steps([program])) == [
        "",
        "1 program waiting for calls of their own:",
        "  jackfield runs prog_call_1",
    ]
    assert next_step(program).endswith("Run 'jackfield runs prog_call_1' to see which.")


def test_a_login_is_asked_for_once_with_its_link_or_who_has_to_make_it() -> None:
    def waits(number: int, principal: str | None, url: str | None) -> CallRecord:
        login = LoginInfo(source="github", principal=principal)
        return msgspec.structs.replace(call(number, "pending_login"), login=login, login_url=url)

    calls = [
        waits(1, "ada", "https://gw.example/connect/call_1"),
        waits(2, "ada", "https://gw.example/connect/call_1"),
        waits(3, "bob", None),
        waits(4, None, None),
    ]
    assert list(next_steps(calls)) == [
        "",
        "4 calls waiting for a login:",
        "  github: open https://gw.example/connect/call_1",
        "  github: waits for bob",
        "  github: waits for an administrator",
    ]
    assert "login" in pending_lines(calls, now=NOW)[1].split()


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            CallEvent(type="call.pending", call_id="call_1", tool="transfer", status="pending_approval"),
            ["--:--:--", "approval", "transfer", "call_1", "{}"],
        ),
        (
            CallEvent(type="call.settled", call_id="call_1", tool="transfer", status="expired"),
            ["--:--:--", "expired", "transfer", "call_1", "{}"],
        ),
    ],
)
def test_an_event_is_a_line(event: CallEvent, words: list[str]) -> None:
    assert [word.strip() for word in event_line(event, "{}").split("  ") if word.strip()] == words


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (timedelta(seconds=-5), "0 s"),
        (timedelta(seconds=59), "59 s"),
        (timedelta(minutes=1), "1 min"),
        (timedelta(minutes=59, seconds=50), "59 min"),
        (timedelta(hours=5), "5 h"),
        (timedelta(days=2), "2 d"),
    ],
)
def test_a_span_is_said_in_its_largest_unit(time: timedelta, words: str) -> None:
    assert duration(time) == words
