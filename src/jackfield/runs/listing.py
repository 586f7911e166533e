"""All runs that are on record, whatever their kind: pages of them, newest first, and one by its id.

A cycle and a program are rows of the journal; a response and a session have rows of their own. Each kind has its prefix
of ids, behind which is the time, so that a page is put together from one page of each.
Above: `api.py`. Below: the store's tables of every kind.
"""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from jackfield.runs.model_steps import StepTotals, totals_of
from jackfield.store.scripts import Row, Script, Sql

RunKindName = Literal["cycle", "response", "program", "session"]
RunStatus = Literal["queued", "running", "parked", "completed", "incomplete", "failed", "cancelled", "interrupted"]
OPEN: frozenset[RunStatus] = frozenset({"queued", "running", "parked"})
AFTER_ALL = "g"
"""Behind every hexadecimal number."""
WINDOW = 2_000
"""Runs of a kind that one look for a status goes through."""
LONGEST_ASKED = 16_000
"""Characters of what a run was given that a list reads."""
CLOCKS_DIFFER_MS = 24 * 60 * 60 * 1000
"""By how much a gateway's clock, which is in ids, may differ from its database's."""

PREFIXES: dict[RunKindName, str] = {
    "cycle": "cycle_",
    "response": "resp_",
    "program": "prog_call_",
    "session": "ses_",
}


class RunRow(Struct, frozen=True, kw_only=True):
    """A run of any kind. Times are milliseconds since 1970 by the database's clock."""

    id: str
    kind: RunKindName
    principal: str
    """In whose name; a cycle's is its agent's."""
    agent: str | None
    status: RunStatus
    owner: str | None
    """The gateway that has it in hand, or had."""
    tries: int | None
    number: int | None
    summary: str | None
    reason: str | None
    parked_at: int | None
    input_tokens: int
    output_tokens: int
    created_at: int
    finished_at: int | None
    asked: str | None = None
    """What a response or a program was given, as JSON; None: of another kind, or too long for a list."""

    @property
    def is_over(self) -> bool:
        return self.status not in OPEN


class RunFilter(Struct, frozen=True, kw_only=True):
    """Which runs a page shows; what is not given does not matter."""

    kind: RunKindName | None = None
    status: tuple[RunStatus, ...] = ()
    agent: str | None = None
    principal: str | None = None
    since: int | None = None
    until: int | None = None
    """Begun from `since` on and before `until`, in milliseconds since 1970."""
    own: tuple[str, ...] | None = None
    """Only runs in these names; None: in all."""
    agents: tuple[str, ...] | None = None
    """Only cycles of these agents; None: of all."""


class ListedRun(Struct, frozen=True):
    """A run, and what its steps came to."""

    run: RunRow
    totals: StepTotals | None


class RunPage(Struct, frozen=True):
    """Runs, newest first, and where the next page begins."""

    runs: list[ListedRun]
    next_cursor: str | None


def run_page(wanted: RunFilter, *, limit: int, cursor: str | None = None) -> Script[RunPage]:
    """One page. A cursor is what follows the kind in the last id seen.

    A status may be one that few runs have, and no index knows it: then a page has what a bounded look finds, perhaps
    less than `limit`, though `next_cursor` says that there is more.
    """
    found: list[RunRow] = []
    horizon = ""
    for kind in PREFIXES if wanted.kind is None else (wanted.kind,):
        bounds = _bounds_of(kind, wanted, cursor or AFTER_ALL)
        edge = None if not wanted.status else (yield from _edge_of(kind, bounds))
        if edge is not None:
            bounds["first"] = edge
            horizon = max(horizon, place_of(edge))
        query = _page_of(kind, wanted, bounds | {"limit": limit + 1})
        rows = () if query is None else (yield query)
        found += map(_run_from, rows)
    newest = sorted(
        (run for run in found if place_of(run.id) >= horizon), key=lambda run: place_of(run.id), reverse=True
    )
    shown = newest[:limit]
    totals = yield from totals_of([run.id for run in shown])
    listed = [ListedRun(run, totals.get(run.id)) for run in shown]
    return RunPage(listed, place_of(shown[-1].id) if len(newest) > limit else horizon or None)


def one_run(run_id: str) -> Script[ListedRun | None]:
    """The run of this id."""
    kind = kind_of(run_id)
    if kind is None:
        return None
    text = f"SELECT * FROM ({_SOURCES[kind]}) AS found WHERE id = :run"  # noqa: S608 - our own words
    rows = yield Sql("one_run", text), {"run": run_id}
    if not rows:
        return None
    totals = yield from totals_of([run_id])
    return ListedRun(_run_from(rows[0]), totals.get(run_id))


def kind_of(run_id: str) -> RunKindName | None:
    """The kind of a run by its id; None: nothing but the calls that went under one id."""
    return next((kind for kind, prefix in PREFIXES.items() if run_id.startswith(prefix)), None)


def place_of(run_id: str) -> str:
    """What follows the kind: the time, then chance."""
    return run_id.rpartition("_")[2]


_PARKED = "CASE WHEN runs.status IN ('parked', 'ready') THEN runs.parked_at END AS parked_at"
_CYCLES = """
SELECT runs.id AS id, 'cycle' AS kind, 'agent:' || runs.agent AS principal, runs.agent AS agent,
    CASE WHEN runs.status = 'open' THEN 'running' WHEN runs.status = 'done' THEN 'completed'
        WHEN runs.stop_wanted = 1 THEN 'cancelled' ELSE 'failed' END AS status,
    runs.owner AS owner, runs.tries AS tries, runs.number AS number, runs.summary AS summary, runs.reason AS reason,
    CAST(NULL AS BIGINT) AS parked_at, runs.input_tokens AS input_tokens, runs.output_tokens AS output_tokens,
    runs.created_at AS created_at, runs.finished_at AS finished_at, CAST(NULL AS TEXT) AS asked
FROM runs WHERE runs.kind = 'cycle'
"""
_PROGRAMS = f"""
SELECT runs.id AS id, 'program' AS kind, runs.principal AS principal,
    CASE WHEN runs.principal LIKE 'agent:%' THEN substr(runs.principal, 7) END AS agent,
    CASE WHEN runs.status = 'open' THEN 'running' WHEN runs.status = 'parked' THEN 'parked'
        WHEN runs.status = 'done' THEN 'completed' WHEN runs.status <> 'failed' THEN 'queued'
        WHEN calls.status = 'cancelled' THEN 'cancelled' ELSE 'failed' END AS status,
    runs.owner AS owner, runs.tries AS tries, runs.number AS number, runs.summary AS summary, runs.reason AS reason,
    {_PARKED}, runs.input_tokens AS input_tokens, runs.output_tokens AS output_tokens,
    runs.created_at AS created_at, runs.finished_at AS finished_at,
    CASE WHEN length(calls.arguments) <= {LONGEST_ASKED} THEN calls.arguments END AS asked
FROM runs LEFT JOIN calls ON calls.id = substr(runs.id, 6) WHERE runs.kind = 'program'
"""  # noqa: S608 - our own words
_RESPONSES = f"""
SELECT responses.id AS id, 'response' AS kind, responses.principal AS principal, CAST(NULL AS TEXT) AS agent,
    CASE WHEN responses.finished_at IS NOT NULL THEN responses.status
        WHEN runs.status = 'parked' THEN 'parked' WHEN runs.status IN ('queued', 'ready') THEN 'queued'
        WHEN runs.id IS NULL AND (gateways.id IS NULL OR gateways.dead = 1) THEN 'failed'
        WHEN responses.status = 'queued' AND runs.id IS NULL THEN 'queued' ELSE 'running' END AS status,
    COALESCE(runs.owner, responses.owner) AS owner, runs.tries AS tries, runs.number AS number,
    runs.summary AS summary, runs.reason AS reason, {_PARKED},
    COALESCE(runs.input_tokens, 0) AS input_tokens, COALESCE(runs.output_tokens, 0) AS output_tokens,
    responses.created_at AS created_at, responses.finished_at AS finished_at,
    CASE WHEN length(responses.input) <= {LONGEST_ASKED} THEN responses.input END AS asked
FROM responses LEFT JOIN runs ON runs.id = responses.id LEFT JOIN gateways ON gateways.id = responses.owner
"""  # noqa: S608 - our own words
_SESSIONS = """
SELECT sessions.id AS id, 'session' AS kind, sessions.owner AS principal, sessions.agent AS agent,
    CASE WHEN sessions.ended_at IS NOT NULL THEN 'completed'
        WHEN gateways.id IS NULL OR gateways.dead = 1 THEN 'interrupted' ELSE 'running' END AS status,
    sessions.gateway AS owner, CAST(NULL AS BIGINT) AS tries, CAST(NULL AS BIGINT) AS number,
    CAST(NULL AS TEXT) AS summary, CAST(NULL AS TEXT) AS reason, CAST(NULL AS BIGINT) AS parked_at,
    0 AS input_tokens, 0 AS output_tokens, sessions.opened_at AS created_at, sessions.ended_at AS finished_at,
    CAST(NULL AS TEXT) AS asked
FROM sessions LEFT JOIN gateways ON gateways.id = sessions.gateway
"""
_SOURCES: dict[RunKindName, str] = {
    "cycle": _CYCLES,
    "response": _RESPONSES,
    "program": _PROGRAMS,
    "session": _SESSIONS,
}
"""What each kind's rows are as a run. The names that a page is ordered and limited by are columns of one table."""
_TABLES: dict[RunKindName, str] = {
    "cycle": "runs",
    "response": "responses",
    "program": "runs",
    "session": "sessions",
}


def _bounds_of(kind: RunKindName, wanted: RunFilter, cursor: str) -> dict[str, Any]:
    """Between which ids this kind's part of a page is."""
    prefix = PREFIXES[kind]
    first = "" if wanted.since is None else _time_of(wanted.since - CLOCKS_DIFFER_MS)
    until = AFTER_ALL if wanted.until is None else _time_of(wanted.until + CLOCKS_DIFFER_MS)
    return {"first": prefix + first, "cursor": prefix + min(cursor, until)}


def _edge_of(kind: RunKindName, bounds: dict[str, Any]) -> Script[str | None]:
    """The id down to which one look goes; None: to the end."""
    text = f"SELECT id FROM {_TABLES[kind]} WHERE id >= :first AND id < :cursor "  # noqa: S608 - our own words
    rows = yield Sql("edge_of_runs", f"{text}ORDER BY id DESC LIMIT 1 OFFSET :window"), bounds | {"window": WINDOW}
    return str(rows[0]["id"]) if rows else None


def _page_of(kind: RunKindName, wanted: RunFilter, bounds: dict[str, Any]) -> tuple[Sql, dict[str, Any]] | None:
    """The query for this kind's part of a page; None: it has no part in it."""
    conditions = ["id >= :first", "id < :cursor"]
    values = dict(bounds)
    if wanted.since is not None:
        conditions.append("created_at >= :since")
        values["since"] = wanted.since
    if wanted.until is not None:
        conditions.append("created_at < :until")
        values["until"] = wanted.until
    if wanted.agent is not None:
        conditions.append("agent = :agent")
        values["agent"] = wanted.agent
    if wanted.principal is not None:
        conditions.append("principal = :principal")
        values["principal"] = wanted.principal
    among = ("agent", wanted.agents) if kind == "cycle" else ("principal", wanted.own)
    if among[1] is not None:
        if not among[1]:
            return None
        named = {f"name_{'x' * number}": name for number, name in enumerate(among[1])}
        conditions.append(f"{among[0]} IN ({', '.join(f':{name}' for name in named)})")
        values |= named
    if wanted.status:
        words = ", ".join(f"'{status}'" for status in wanted.status)
        conditions.append(f"status IN ({words})")
    text = f"SELECT * FROM ({_SOURCES[kind]}) AS found WHERE {' AND '.join(conditions)} "  # noqa: S608 - our own words
    return Sql("list_runs", f"{text}ORDER BY id DESC LIMIT :limit"), values


def _time_of(moment: int) -> str:
    return f"{max(moment, 0):012x}"


def _run_from(row: Row) -> RunRow:
    return RunRow(**{name: row[name] for name in RunRow.__struct_fields__})


def visible_names(agents: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """In whose names the runs are that somebody sees who has these names and acts as these agents."""
    return tuple(dict.fromkeys([*names, *(f"agent:{agent}" for agent in agents)]))
