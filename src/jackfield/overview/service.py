"""The figures of the overview, and the rollups that they are made of.

Above: its route and the gateway's background. Below: `transactions.py`.
"""

import asyncio
from collections.abc import Iterable
from functools import partial

from msgspec import Struct

from jackfield.model.call import CallStatus
from jackfield.overview import transactions as overview_tx
from jackfield.overview.rollups import HOUR_MS, MINUTE_MS, PRINCIPAL, RUNS, SOURCE, TOOL, Figures, Key, percentile
from jackfield.store import Store

ROLL_UP_SECONDS = 10.0
PAUSE_SECONDS = 0.05
"""Between the minutes of a backlog: calls come first."""
SHOWN = 100
"""Names of each dimension, the busiest."""
STEPS_MS = {15: MINUTE_MS, 60: MINUTE_MS, 360: 5 * MINUTE_MS, 1440: 15 * MINUTE_MS, 10_080: 2 * HOUR_MS}
"""The lengths of time that figures are given for, in minutes, and how far apart the points of their lines are."""

FROM_WHOLE_HOURS_MS = 24 * HOUR_MS
"""Times as long as this begin with an hour, so that only the last hour is summed from minutes."""


class Tally(Struct, frozen=True, kw_only=True):
    """What calls came to."""

    calls: int
    outcomes: dict[str, int]
    error_rate: float | None
    p50_ms: float | None
    p95_ms: float | None
    input_tokens: int
    output_tokens: int


class Point(Struct, frozen=True, kw_only=True):
    """One step of the lines."""

    at: int
    tally: Tally


class Named(Struct, frozen=True, kw_only=True):
    """A tool, source, principal or agent."""

    name: str
    source: str
    tally: Tally


class Summary(Struct, frozen=True, kw_only=True):
    """What ended within the last minutes. Times are milliseconds since 1970 by the database's clock."""

    as_of: int
    since: int
    step_ms: int
    is_complete: bool
    total: Tally
    points: list[Point]
    by_name: dict[str, list[Named]]
    """By dimension, the busiest first; none where only the calls of one name are counted."""


class Overview:
    """Rolls up what has ended, and sums up the last minutes to the last week."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def roll_up(self) -> None:
        """Write every closed minute that is not written yet."""
        while (minute := await self._store.read(overview_tx.closed_minute)) is not None:
            await self._store.write(partial(overview_tx.write_minute, minute))
            await asyncio.sleep(PAUSE_SECONDS)

    async def summary(self, minutes: int, *, only: overview_tx.One | None = None) -> Summary:
        """The last `minutes`, which are a key of `STEPS_MS`; of all calls, or of those of one name."""
        step = STEPS_MS[minutes]
        now = await self._store.now_ms()
        aligned = HOUR_MS if minutes * MINUTE_MS >= FROM_WHOLE_HOURS_MS else step
        since = now // aligned * aligned - (minutes * MINUTE_MS - aligned)
        script = partial(overview_tx.window, since, fine=step < HOUR_MS, only=only)
        window = await self._store.read(script)
        return Summary(
            as_of=window.now,
            since=since,
            step_ms=step,
            is_complete=window.is_complete,
            total=tally(window.series),
            points=_points(window.series, since=since, until=window.now, step=step),
            by_name={} if only is not None else _by_name(window.by_name),
        )


def tally(rows: Iterable[tuple[Key, Figures]]) -> Tally:
    """Rows of one name, summed up."""
    outcomes: dict[str, int] = {}
    whole = Figures()
    for key, figures in rows:
        whole.add(figures)
        if key.outcome != RUNS:
            outcomes[key.outcome] = outcomes.get(key.outcome, 0) + figures.calls
    failed = outcomes.get(CallStatus.FAILED.value, 0)
    return Tally(
        calls=whole.calls,
        outcomes=outcomes,
        error_rate=round(failed / whole.calls, 5) if whole.calls else None,
        p50_ms=percentile(whole.durations, 0.5),
        p95_ms=percentile(whole.durations, 0.95),
        input_tokens=whole.input_tokens,
        output_tokens=whole.output_tokens,
    )


def _points(rows: list[tuple[Key, Figures]], *, since: int, until: int, step: int) -> list[Point]:
    """Every step of the line, also those in which nothing ended."""
    steps: dict[int, list[tuple[Key, Figures]]] = {at: [] for at in range(since, until + 1, step)}
    for key, figures in rows:
        steps.setdefault(key.start_at // step * step, []).append((key, figures))
    return [Point(at=at, tally=tally(steps[at])) for at in sorted(steps)]


def _by_name(rows: list[tuple[Key, Figures]]) -> dict[str, list[Named]]:
    names: dict[tuple[str, str, str], list[tuple[Key, Figures]]] = {}
    for key, figures in rows:
        names.setdefault((key.dimension, key.name, key.source), []).append((key, figures))
    found: dict[str, list[Named]] = {TOOL: [], SOURCE: [], PRINCIPAL: [], "agent": []}
    for (dimension, name, source), of in names.items():
        found[dimension].append(Named(name=name, source=source, tally=tally(of)))
    return {dimension: sorted(named, key=_busiest_first)[:SHOWN] for dimension, named in found.items()}


def _busiest_first(named: Named) -> tuple[int, int, str]:
    return -named.tally.calls, -named.tally.input_tokens, named.name
