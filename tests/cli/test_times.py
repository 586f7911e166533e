"""Times and durations on the command line."""

from datetime import UTC, datetime, timedelta

import pytest

from jackfield.cli.options import UsageError
from jackfield.cli.times import moment_in, seconds_in
from tests.requirement import requirement


@pytest.mark.parametrize(
    ("text", "seconds"), [("45", 45), ("90s", 90), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000)]
)
def test_durations(text: str, seconds: int) -> None:
    assert seconds_in(text, "--expires") == seconds


@pytest.mark.parametrize("text", ["", "soon", "1y", "-1", "1.5h"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="not a duration"):
        seconds_in(text, "--expires")


@requirement("OPS-CLI-calls")
@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("90s", timedelta(seconds=90)),
        ("2h", timedelta(hours=2)),
        (" 7d ", timedelta(days=7)),
        ("2w", timedelta(weeks=2)),
    ],
)
def test_a_time_may_be_so_long_ago(text: str, ago: timedelta) -> None:
    before = datetime.now(UTC).replace(microsecond=0) - ago
    assert before <= datetime.fromisoformat(moment_in(text)) <= datetime.now(UTC) - ago


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("2026-01-15", "2026-01-15T00:00:00"),
        ("2026-01-15 10:30", "2026-01-15T10:30:00"),
        ("2026-01-15t10:30:00z", "2026-01-15T10:30:00+00:00"),
        ("2026-01-15T10:30:00+02:00", "2026-01-15T10:30:00+02:00"),
    ],
)
def test_a_time_is_sent_in_iso_8601(text: str, sent: str) -> None:
    assert moment_in(text) == sent


@pytest.mark.parametrize("text", ["yesterday", "45", "1y", "", "999999999d", "2026-13-01"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a time\..* how long ago"):
        moment_in(text)
