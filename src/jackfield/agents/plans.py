"""When a plan is due: `runAfter`, `scheduledAt` or `cron` with a time zone. Pure; the caller brings the time.

Above: the built-in tools and the API, which create plans, and the sweep that fires them. Below: cronsim for cron lines.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from msgspec import Struct

from jackfield.errors import BadRequest

_AFTER = re.compile(r"\s*(\d{1,9})\s*(second|minute|hour|day)s?\s*", re.IGNORECASE)
_SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
FIELDS = ("minute", "hour", "day", "month", "weekday")
FARTHEST_MS = 10 * 366 * 86_400_000
"""No plan is farther away than ten years."""


class Times(Struct, frozen=True, kw_only=True):
    """When a plan runs, as it is kept. Milliseconds since 1970."""

    cron: str | None = None
    time_zone: str | None = None
    scheduled_at: int | None = None
    next_run_at: int | None = None


def times_of(
    *,
    now: int,
    run_after: str | None = None,
    scheduled_at: str | None = None,
    cron: str | None = None,
    time_zone: str | None = None,
) -> Times:
    """What one of the three ways to say it comes to. More or fewer than one raise `BadRequest`."""
    given = [word for word, value in (("runAfter", run_after), ("scheduledAt", scheduled_at), ("cron", cron)) if value]
    if len(given) != 1:
        said = f"It has {', '.join(given)}." if given else "It has none."
        raise BadRequest(f"A plan needs exactly one of runAfter, scheduledAt and cron. {said}")
    zone = zone_of(time_zone)
    if run_after:
        due = now + _after(run_after)
    elif scheduled_at:
        due = _moment(scheduled_at, zone)
    else:
        assert cron is not None
        following = next_run(cron, time_zone, after=now)
        if following is None:
            raise BadRequest(f"The cron expression '{cron[:100]}' never matches. Correct it.")
        return Times(cron=cron, time_zone=time_zone, next_run_at=following)
    if due > now + FARTHEST_MS:
        raise BadRequest("A plan may be ten years away at most. Choose a nearer time.")
    return Times(time_zone=time_zone, scheduled_at=due, next_run_at=due)


def next_run(cron: str, time_zone: str | None, *, after: int) -> int | None:
    """The first time after `after` that a cron line names, in its zone; None: there is none."""
    start = datetime.fromtimestamp(after / 1000, tz=zone_of(time_zone))
    if len(cron.split()) != len(FIELDS):  # with a sixth, for seconds, an agent would never sleep
        raise _no_cron_line(cron, "It has another number of fields")
    try:
        moment = next(CronSim(cron, start), None)
    except CronSimError as fault:
        raise _no_cron_line(cron, str(fault)) from None
    return None if moment is None else int(moment.timestamp() * 1000)


def _no_cron_line(cron: str, why: str) -> BadRequest:
    return BadRequest(f"'{cron[:100]}' is not a valid cron expression: {why}. Write five fields: {' '.join(FIELDS)}.")


def zone_of(name: str | None) -> tzinfo:
    """A time zone by its name in the tz database; None is UTC."""
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadRequest(f"There is no time zone '{name[:60]}'. Use a name like Europe/Berlin or UTC.") from None


def _after(text: str) -> int:
    found = _AFTER.fullmatch(text)
    if found is None:
        raise BadRequest(f"runAfter '{text[:60]}' is not understood. Write '<n> seconds|minutes|hours|days'.")
    return int(found[1]) * _SECONDS[found[2].lower()] * 1000


def _moment(text: str, zone: tzinfo) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadRequest(
            f"scheduledAt '{text[:60]}' is not a valid time. Write it like 2026-01-15T10:30:00Z."
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone)
    milliseconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    if milliseconds < 0:  # near the year 1, in UTC there may be no such time, and no sweep could tell it
        raise BadRequest(f"scheduledAt '{text[:60]}' is before 1970. Choose a later time.")
    return milliseconds
