"""`jackfield notifications`: what it prints."""

from jackfield.cli.notifications import list_lines, target_lines
from jackfield.sdk.notifications import NotificationInfo, NotifyTargetInfo


def test_notifications_are_listed_with_why_they_failed() -> None:
    found = (
        NotificationInfo(
            id="msg_1",
            target="ops",
            type="call.failed",
            status="failed",
            attempts=3,
            created_at="T",
            error="No.\x1b[2J",
        ),
    )
    header, line = list_lines(found, failed=True)
    assert header.split() == ["ID", "TARGET", "EVENT", "STATUS", "ATTEMPTS", "CREATED", "ERROR"]
    assert line.split()[:6] == ["msg_1", "ops", "call.failed", "failed", "3", "T"]
    assert "\x1b[2J" not in line
    assert list_lines((), failed=True) == ["No notification has failed."]


def test_targets_are_listed_with_what_waits() -> None:
    _, line = target_lines((NotifyTargetInfo(name="ops", kind="slack", on=("call.failed",), waiting=2, failed=1),))
    assert line.split() == ["ops", "slack", "2", "1", "call.failed"]
    assert "[notify.NAME]" in target_lines(())[0]
