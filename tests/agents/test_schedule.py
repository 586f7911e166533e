"""When plans are due: once after a while, once at a time, again and again by cron, also where clocks are changed."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jackfield.agents.plans import FARTHEST_MS, Times, next_run, times_of, zone_of
from jackfield.errors import BadRequest
from tests.requirement import requirement

NOW = 1_767_225_600_000  # 2026-01-01T00:00:00Z
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Auckland", "Africa/Cairo", "UTC"]


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@requirement("CON-agents-plans")
@pytest.mark.parametrize(
    ("words", "seconds"),
    [("1 second", 1), ("90 seconds", 90), ("2 minutes", 120), ("3 hours", 10_800), (" 1  DAY ", 86_400), ("0 days", 0)],
)
def test_run_after_counts_from_now(words: str, seconds: int) -> None:
    due = NOW + seconds * 1000
    assert times_of(now=NOW, run_after=words) == Times(scheduled_at=due, next_run_at=due)


@requirement("CON-agents-plans")
@pytest.mark.parametrize(
    ("words", "zone", "due"),
    [
        ("2026-06-01T12:00:00Z", None, "2026-06-01T12:00:00+00:00"),
        ("2026-06-01T12:00:00Z", "Europe/Berlin", "2026-06-01T12:00:00+00:00"),
        ("2026-06-01T12:00:00+05:30", None, "2026-06-01T12:00:00+05:30"),
        ("2026-06-01T12:00", "Europe/Berlin", "2026-06-01T10:00:00+00:00"),
        ("2026-06-01", None, "2026-06-01T00:00:00+00:00"),
        ("2020-01-01T00:00:00Z", None, "2020-01-01T00:00:00+00:00"),
    ],
)
def test_scheduled_at_is_a_moment_in_its_zone(words: str, zone: str | None, due: str) -> None:
    assert times_of(now=NOW, scheduled_at=words, time_zone=zone) == Times(
        time_zone=zone, scheduled_at=at(due), next_run_at=at(due)
    )


@requirement("CON-agents-plans")
@pytest.mark.parametrize(
    ("cron", "zone", "due"),
    [
        ("0 9 * * *", None, "2026-01-01T09:00:00+00:00"),
        ("0 9 * * *", "Asia/Tokyo", "2026-01-02T00:00:00+00:00"),
        ("0 9 * * *", "America/New_York", "2026-01-01T14:00:00+00:00"),
        ("*/15 * * * *", None, "2026-01-01T00:15:00+00:00"),
        ("0 0 29 2 *", None, "2028-02-29T00:00:00+00:00"),
        ("0 12 * * MON", None, "2026-01-05T12:00:00+00:00"),
    ],
)
def test_cron_is_in_utc_unless_a_zone_is_given(cron: str, zone: str | None, due: str) -> None:
    assert times_of(now=NOW, cron=cron, time_zone=zone) == Times(cron=cron, time_zone=zone, next_run_at=at(due))


@pytest.mark.parametrize(
    ("given_times", "says"),
    [
        ({}, "It has none."),
        ({"run_after": "1 day", "cron": "* * * * *"}, "It has runAfter, cron."),
        ({"run_after": "tomorrow"}, "runAfter 'tomorrow' is not understood."),
        ({"run_after": "-1 days"}, "is not understood"),
        ({"run_after": "999999999 days"}, "ten years away at most"),
        ({"scheduled_at": "2126-01-01T00:00:00Z"}, "ten years away at most"),
        ({"scheduled_at": "next week"}, "is not a valid time"),
        ({"cron": "every day"}, "is not a valid cron expression"),
        ({"cron": "61 * * * *"}, "is not a valid cron expression"),
        ({"cron": "* * * * * *"}, "Write five fields: minute hour day month weekday."),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "0 9 * * *", "time_zone": "Berlin"}, "There is no time zone 'Berlin'."),
        ({"run_after": "1 day", "time_zone": "../../etc/passwd"}, "There is no time zone"),
    ],
)
def test_what_cannot_be_kept_is_refused_in_words(given_times: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        times_of(now=NOW, **given_times)
    assert says in refusal.value.message


@settings(max_examples=30)
@given(
    zone=st.sampled_from(ZONES),
    hour=st.integers(0, 23),
    minute=st.integers(0, 59),
    year=st.integers(2024, 2034),
)
def test_a_daily_plan_runs_once_on_every_day_also_when_clocks_are_changed(
    zone: str, hour: int, minute: int, year: int
) -> None:
    cron, place = f"{minute} {hour} * * *", ZoneInfo(zone)
    moment = int(datetime(year, 1, 1, tzinfo=UTC).timestamp() * 1000) - 86_400_000
    days: list[date] = []
    for _ in range(380):
        following = next_run(cron, zone, after=moment)
        assert following is not None
        assert following > moment
        days.append(datetime.fromtimestamp(following / 1000, tz=place).date())
        moment = following
    assert days == [days[0] + timedelta(days=n) for n in range(380)], "no day is left out and none has two"


@given(
    zone=st.sampled_from(ZONES),
    after=st.integers(at("2024-01-01T00:00:00+00:00"), at("2034-01-01T00:00:00+00:00")),
    every=st.sampled_from([1, 5, 15, 30]),
)
def test_a_plan_of_every_few_minutes_is_never_late_nor_early(zone: str, after: int, every: int) -> None:
    following = next_run(f"*/{every} * * * *", zone, after=after)
    assert following is not None
    assert 0 < following - after <= every * 60_000
    assert datetime.fromtimestamp(following / 1000, tz=ZoneInfo(zone)).minute % every == 0


def test_ten_years_is_the_farthest() -> None:
    assert times_of(now=NOW, run_after="3650 days").next_run_at == NOW + 3650 * 86_400_000 <= NOW + FARTHEST_MS


def test_utc_needs_no_name() -> None:
    assert zone_of(None) is UTC
