"""Rows of the rollups, and how groups of calls become such rows. Pure.

Each call is counted in the minute in which it ended, once for each dimension: in all, by its tool, source, principal
and agent. How long calls took is a histogram whose buckets grow by a fifth, so percentiles are right to about a tenth.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.model.call import CallStatus
from jackfield.model.tool import CALLER, REQUEST, CallKind
from jackfield.store.scripts import Row

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
OTHER = "(other)"
UNKNOWN = "(unknown)"
"""What refused calls of tools that do not exist are counted under."""
MOST_NAMES = 200
"""Of one dimension in a minute; what is beyond the busiest is counted together."""
RUNS = ""
"""The outcome of rows that have the tokens of runs."""
ALL, TOOL, SOURCE, PRINCIPAL, AGENT = "all", "tool", "source", "principal", "agent"
_E12 = (1.0, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2)
BOUNDS_MS = tuple(round(step * 10.0**decade, 6) for decade in range(-1, 6) for step in _E12)
"""The upper bounds of the buckets; the last bucket has all that took longer."""
_OF_A_REQUEST = re.compile(rf"{REQUEST}@[0-9a-f]{{24}}")
_decode_durations = msgspec.json.Decoder(dict[int, int]).decode


class Key(Struct, frozen=True, order=True):
    """What a row is about."""

    dimension: str
    start_at: int
    name: str
    source: str
    outcome: str


class Figures:
    """What is counted of one key; sums add up."""

    __slots__ = ("calls", "durations", "input_tokens", "output_tokens")

    def __init__(self) -> None:
        self.calls = 0
        self.durations: dict[int, int] = {}
        self.input_tokens = 0
        self.output_tokens = 0

    def add(self, other: "Figures") -> None:
        self.calls += other.calls
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        for bucket, count in other.durations.items():
            self.durations[bucket] = self.durations.get(bucket, 0) + count


Rollup = dict[Key, Figures]


def percentile(durations: dict[int, int], share: float) -> float | None:
    """How long `share` of the calls took at most, in milliseconds."""
    wanted = share * sum(durations.values())
    passed = 0
    for bucket in sorted(durations):
        passed += durations[bucket]
        if passed >= wanted:
            upper = BOUNDS_MS[min(bucket, len(BOUNDS_MS) - 1)]
            lower = BOUNDS_MS[bucket - 1] if bucket else 0.0
            within = (wanted - (passed - durations[bucket])) / durations[bucket]
            return round(lower + (upper - lower) * within, 3) if bucket < len(BOUNDS_MS) else upper
    return None


def rolled_up(calls: Iterable[Row], runs: Iterable[Row]) -> Rollup:
    """Groups of calls and runs, by minute, as rows of every dimension."""
    found: Rollup = {}
    for row in calls:
        tool, source = _labels(row["tool"], row["source"], kind=row["kind"], status=row["status"])
        names = {ALL: ("", ""), TOOL: (tool, source), SOURCE: (source, ""), PRINCIPAL: (row["principal"], "")}
        for dimension, (name, of) in (names | _agent(row["agent"])).items():
            figures = _at(found, Key(dimension, row["start_at"], name, of, row["status"]))
            figures.calls += row["calls"]
            if row["bucket"] is not None:
                figures.durations[row["bucket"]] = figures.durations.get(row["bucket"], 0) + row["calls"]
    for row in runs:
        names = {ALL: ("", "")} | ({} if row["principal"] is None else {PRINCIPAL: (row["principal"], "")})
        for dimension, (name, of) in (names | _agent(row["agent"])).items():
            figures = _at(found, Key(dimension, row["start_at"], name, of, RUNS))
            figures.input_tokens += row["input_tokens"]
            figures.output_tokens += row["output_tokens"]
    return _bounded(found)


def from_rows(rows: Iterable[Row]) -> list[tuple[Key, Figures]]:
    """Stored rows, as they were folded."""
    return [(_key_of(row), _figures_of(row)) for row in rows]


def folded(minutes: Iterable[tuple[Key, Figures]], *, start_at: int) -> Rollup:
    """The rows of minutes as those of the hour they are in."""
    found: Rollup = {}
    for key, figures in minutes:
        _at(found, Key(key.dimension, start_at, key.name, key.source, key.outcome)).add(figures)
    return found


def values_of(key: Key, figures: Figures, *, span: int) -> dict[str, Any]:
    """A row as the statement wants it."""
    return {
        **msgspec.structs.asdict(key),
        "span": span,
        "calls": figures.calls,
        "durations": msgspec.json.encode(figures.durations).decode(),
        "input_tokens": figures.input_tokens,
        "output_tokens": figures.output_tokens,
    }


def grouped_calls() -> str:
    """The query for calls that ended from `:since` on and before `:until`, in groups of what is counted alike.

    How long a call took is how long its tool ran, or how long its caller waited for somebody else's answer. Waiting for
    an approval or a login is not counted: that says nothing about the tool.
    """
    return f"""
        SELECT start_at, tool, source, kind, principal, agent, status, bucket, CAST(SUM(count) AS BIGINT) AS calls
        FROM (SELECT start_at, tool, source, kind, principal, agent, status, count,
                CASE WHEN took IS NULL THEN NULL ELSE {_bucket(0, len(BOUNDS_MS))} END AS bucket
            FROM (SELECT finished_at - finished_at % {MINUTE_MS} AS start_at, tool, source, kind, principal, agent,
                    status, count,
                    COALESCE(duration_ms, CASE WHEN attempt = 0 AND status IN ('completed', 'failed')
                        AND first_reply IS NULL AND decision IS NULL THEN finished_at - created_at END) AS took
                FROM calls WHERE finished_at IS NOT NULL AND finished_at >= :since AND finished_at < :until) AS ended
            ) AS sorted
        GROUP BY start_at, tool, source, kind, principal, agent, status, bucket
    """  # noqa: S608 - our own numbers


def _bucket(first: int, last: int) -> str:
    """The number of the bucket that `took` is in, found by halving."""
    if first == last:
        return str(first)
    middle = (first + last) // 2
    return f"CASE WHEN took <= {BOUNDS_MS[middle]} THEN {_bucket(first, middle)} ELSE {_bucket(middle + 1, last)} END"


def _agent(name: str | None) -> dict[str, tuple[str, str]]:
    return {} if name is None else {AGENT: (name, "")}


def _labels(tool: str, source: str, *, kind: str, status: str) -> tuple[str, str]:
    """Under which tool and source a call is counted; what callers name as they like has no name of its own."""
    if source == CALLER:
        return OTHER, CALLER
    if _OF_A_REQUEST.fullmatch(source):
        return OTHER, REQUEST
    if source == "" and status == CallStatus.REFUSED.value:
        return UNKNOWN, UNKNOWN
    return (tool if kind == CallKind.TOOL.value else f"({kind}s)"), source


def _bounded(found: Rollup) -> Rollup:
    """At most `MOST_NAMES` names a minute in the dimensions that may have any number of them."""
    busy: dict[tuple[str, int], dict[tuple[str, str], int]] = {}
    for key, figures in found.items():
        if key.dimension in (TOOL, SOURCE, AGENT):
            names = busy.setdefault((key.dimension, key.start_at), {})
            names[key.name, key.source] = names.get((key.name, key.source), 0) + figures.calls
    kept = {place: set(_busiest(names)) for place, names in busy.items()}
    bounded: Rollup = {}
    for key, figures in found.items():
        names_kept = kept.get((key.dimension, key.start_at))
        is_kept = names_kept is None or (key.name, key.source) in names_kept
        named = key if is_kept else msgspec.structs.replace(key, name=OTHER, source="")
        _at(bounded, named).add(figures)
    return bounded


def _busiest(names: dict[tuple[str, str], int]) -> Sequence[tuple[str, str]]:
    return sorted(names, key=lambda name: (-names[name], name))[:MOST_NAMES]


def _at(found: Rollup, key: Key) -> Figures:
    figures = found.get(key)
    if figures is None:
        figures = found[key] = Figures()
    return figures


def _key_of(row: Row) -> Key:
    return Key(row["dimension"], row["start_at"], row["name"], row["source"], row["outcome"])


def _figures_of(row: Row) -> Figures:
    figures = Figures()
    figures.calls = row["calls"]
    figures.durations = _decode_durations(row["durations"])
    figures.input_tokens, figures.output_tokens = row["input_tokens"], row["output_tokens"]
    return figures
