"""Rollups as scripts: one closed minute at a time, and reading them together with what is not rolled up yet.

Calls are found by the time of their end, by the database's clock. A minute is closed once nothing can be added to it:
every transaction that ended a call in it is committed, and the refusals in it are counted to their last repeat. So a
minute is written once, by whichever gateway advances the progress, and never changes; a gateway that dies in between
has written nothing. What is newer is read from the calls themselves.
"""

from msgspec import Struct

from jackfield.overview.rollups import (
    ALL,
    HOUR_MS,
    MINUTE_MS,
    Figures,
    Key,
    Rollup,
    folded,
    from_rows,
    grouped_calls,
    rolled_up,
    values_of,
)
from jackfield.store.scripts import Script, Sql, one, run

CLOSED_AFTER_MS = 75_000
"""A refusal is counted in its record for a minute, and the last of it is written a second later."""
FRESH_MS = 600_000
"""What is read from calls at most. Only while a backlog is rolled up is more of it missing."""
GROUPED_CALLS = Sql("grouped_calls", grouped_calls())


class Minute(Struct, frozen=True, kw_only=True):
    """A closed minute that is to be written."""

    seen: int
    """The progress that it follows."""
    start_at: int
    rows: Rollup
    hour: Rollup
    """The hour before, where this minute begins another one."""


def closed_minute() -> Script[Minute | None]:
    """The next minute in which something ended and that is closed. None: there is none yet."""
    progress = yield from one("rollup_progress")
    assert progress is not None
    seen, closed = int(progress["next_at"]), _floor(progress["now"] - CLOSED_AFTER_MS, MINUTE_MS)
    first = yield from one("first_end", since=seen)
    if first is None or first["ended"] is None or _floor(first["ended"], MINUTE_MS) >= closed:
        return None
    start_at = _floor(first["ended"], MINUTE_MS)
    rows = yield from _ended(start_at, start_at + MINUTE_MS)
    last_hour, hour = _floor(seen - 1, HOUR_MS), Rollup()
    if seen and last_hour < _floor(start_at, HOUR_MS):
        minutes = yield from _stored(MINUTE_MS, last_hour, last_hour + HOUR_MS)
        hour = folded(minutes, start_at=last_hour)
    return Minute(seen=seen, start_at=start_at, rows=rows, hour=hour)


def write_minute(minute: Minute) -> Script[bool]:
    """Write a closed minute. False: another gateway has done so."""
    values = {"seen": minute.seen, "next_at": minute.start_at + MINUTE_MS}
    if not (yield "advance_rollups", values):
        return False
    for span, rows in ((HOUR_MS, minute.hour), (MINUTE_MS, minute.rows)):
        for key in sorted(rows):
            yield "insert_rollup", values_of(key, rows[key], span=span)
    return True


class One(Struct, frozen=True):
    """One tool, source, principal or agent."""

    dimension: str
    name: str


class Window(Struct, frozen=True, kw_only=True):
    """What ended within a time, folded or not."""

    now: int
    is_complete: bool
    """False while a backlog is rolled up."""
    series: list[tuple[Key, Figures]]
    """Of all calls or of those of one name, by minute or hour."""
    by_name: list[tuple[Key, Figures]]
    """Of the dimensions with names; none for one name."""


def window(since: int, *, fine: bool, only: One | None = None) -> Script[Window]:
    """What ended from `since` on. `since` is the start of a minute; of an hour, unless `fine` wants every minute."""
    progress = yield from one("rollup_progress")
    assert progress is not None
    done, now = int(progress["next_at"]), int(progress["now"])
    fresh_from = max(done, since, _floor(now - FRESH_MS, MINUTE_MS))
    open_hour = _floor(done - 1, HOUR_MS) if done else 0
    whole_from = min(max(-_floor(-since, HOUR_MS), 0), max(open_hour, since))
    hours, before, after = (whole_from, open_hour), (since, whole_from), (max(open_hour, whole_from), done)
    parts = [(MINUTE_MS, *before), (HOUR_MS, *hours), (MINUTE_MS, *after)]
    series: list[tuple[Key, Figures]] = []
    for span, first, end in [(MINUTE_MS, since, done)] if fine else parts:
        if first < end:
            series += yield from _line(span, first, end, only)
    by_name: list[tuple[Key, Figures]] = []
    for span, first, end in [] if only is not None else parts:
        if first < end:
            by_name += from_rows((yield "rollups_by_name", {"span": span, "since": first, "until": end}))
    fresh = yield from _ended(fresh_from, now + HOUR_MS)
    wanted = One(ALL, "") if only is None else only
    series += [(key, figures) for key, figures in fresh.items() if One(key.dimension, key.name) == wanted]
    if only is None:
        by_name += [(key, figures) for key, figures in fresh.items() if key.dimension != ALL]
    first_open = yield from one("first_end", since=max(done, since))
    ended = None if first_open is None else first_open["ended"]
    return Window(now=now, is_complete=ended is None or ended >= fresh_from, series=series, by_name=by_name)


def prune_rollups(*, minutes_before: int, hours_before: int) -> Script[None]:
    """Delete what is too old to be shown."""
    yield "prune_rollups", {"span": MINUTE_MS, "before": minutes_before}
    yield "prune_rollups", {"span": HOUR_MS, "before": hours_before}


def _ended(since: int, until: int) -> Script[Rollup]:
    calls = yield GROUPED_CALLS, {"since": since, "until": until}
    runs = yield from run("tokens_of_ended_runs", since=since, until=until)
    return rolled_up(calls, runs)


def _line(span: int, since: int, until: int, only: One | None) -> Script[list[tuple[Key, Figures]]]:
    values = {"span": span, "since": since, "until": until}
    if only is None:
        return from_rows((yield "rollups_of_all", values))
    return from_rows((yield "rollups_of_name", values | {"dimension": only.dimension, "name": only.name}))


def _stored(span: int, since: int, until: int) -> Script[list[tuple[Key, Figures]]]:
    values = {"span": span, "since": since, "until": until}
    rows = from_rows((yield "rollups_of_all", values))
    return rows + from_rows((yield "rollups_by_name", values))


def _floor(moment: int, span: int) -> int:
    return int(moment) // span * span
