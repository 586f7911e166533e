import pytest

from jackfield.cli.calls import event_line
from jackfield.sdk import CallError, CallEvent, Progress


@pytest.mark.parametrize(
    ("event", "error", "words"),
    [
        (
            CallEvent(type="call.started", call_id="call_1", tool="add", status="running"),
            None,
            ["--:--:--", "running", "add", "call_1"],
        ),
        (
            CallEvent(
                type="call.settled", call_id="call_1", tool="add", status="failed", agent="ann", execution_time_ms=12.4
            ),
            CallError(code="tool_error", message="Bang.\nMore."),
            ["--:--:--", "failed", "add", "by ann", "12 ms", "call_1", "tool_error: Bang."],
        ),
        (
            CallEvent(
                type="call.progress",
                call_id="call_1",
                tool="add",
                status="running",
                progress=Progress(progress=1, total=2, message="half\x1b"),
            ),
            None,
            ["--:--:--", "running", "add", "1 of 2 half\\x1b", "call_1"],
        ),
        (
            CallEvent(type="call.pending", call_id="call_1", tool="add", status="pending_approval"),
            None,
            ["--:--:--", "pending_approval", "add", "call_1"],
        ),
        (
            CallEvent(type="call.approved", call_id="call_1", tool="add", status="running"),
            None,
            ["--:--:--", "approved", "add", "call_1"],
        ),
        (
            CallEvent(type="call.settled", call_id="call_1", tool="add", status="rejected"),
            "A person rejected this call: no.\nMore.",
            ["--:--:--", "rejected", "add", "call_1", "A person rejected this call: no."],
        ),
    ],
)
def test_an_event_is_one_line_with_what_there_is_to_say(
    event: CallEvent, error: CallError | str | None, words: list[str]
) -> None:
    line = event_line(event, error)
    assert [word.strip() for word in line.split("  ") if word.strip()] == words


def test_the_moment_is_shown_by_the_local_clock() -> None:
    line = event_line(CallEvent(type="call.started", tool="add", at="2026-01-15T10:30:07.000Z"), None)
    assert line[2:8].startswith(":") and line[:8].endswith(":07")  # noqa: PT018 - one clock, two ends
