"""The journal of responses and programs, as scripts: the pending-call protocol, T1 in a run and T7 to T10, and parking.

A run stands in the same tables as an agent's cycle, with its kind: each step is on record with its calls before any of
them begins, and whoever holds a `Run` holds its epoch; once another has the run, that epoch moves nothing. A run that
waits for somebody has no owner and no task. Every call that it waits for counts in `awaited`; what decides its slot
counts it down in the same transaction (`calls/transactions.py`), and the last one makes a parked run `ready`, for any
gateway to claim. None says that somebody else was first, and that nothing was written.
Above: whoever makes runs. Below: the transactions of calls.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from jackfield.calls import transactions as call_tx
from jackfield.calls.rows import call_from
from jackfield.model.call import Call
from jackfield.spaces import transactions as space_tx
from jackfield.store.scripts import READY_TOPIC, RUN_TOPIC, Row, Script, json_list, one, wake

Kind = Literal["response", "program"]
Status = Literal["queued", "open", "parked", "ready", "done", "failed"]


class Fenced(Exception):
    """Another gateway has taken the run over, or it is over: nothing more may be written for it here."""


class Run(Struct, frozen=True, kw_only=True):
    """A run as its row was when this gateway last moved or read it. Times are milliseconds since 1970."""

    id: str
    kind: Kind
    principal: str
    status: Status
    owner: str | None
    epoch: int
    tries: int
    awaited: int = 0
    """Calls whose slots are undecided."""
    stop_wanted: bool = False
    request: str | None = None
    """What it was asked for, as JSON; None: it is over and cannot be resumed."""
    reason: str | None = None
    """Why it failed."""
    input_tokens: int = 0
    output_tokens: int = 0
    created_at: int = 0
    parked_at: int | None = None
    finished_at: int | None = None


class RunStep(Struct, frozen=True):
    """One step as JSON, and the calls that it made."""

    n: int
    message: str
    calls: tuple[Call, ...]
    created_at: int | None = None


class RunJournal(Struct, frozen=True):
    """All that a run has said and done so far: enough to go on anywhere."""

    run: Run
    steps: tuple[RunStep, ...]


class Tokens(Struct, frozen=True):
    """What a step cost."""

    input: int = 0
    output: int = 0


def queue_run(run_id: str, *, kind: Kind, principal: str, request: str) -> Script[Run]:
    """A run waits for its first turn, at any gateway."""
    # T8
    values = {"run": run_id, "kind": kind, "principal": principal, "request": request}
    rows = yield "insert_run", values | {"status": "queued", "owner": None}
    yield wake(READY_TOPIC + kind)
    return run_from(rows[0])


def begin_run(run_id: str, *, kind: Kind, principal: str, request: str, owner: str) -> Script[Run | None]:
    """A run begins at once, here. None: there is one with this id."""
    # T8
    values = {"run": run_id, "kind": kind, "principal": principal, "request": request}
    return _maybe((yield "insert_run", values | {"status": "open", "owner": owner}))


def claim(run_id: str, *, owner: str) -> Script[Run | None]:
    """Go on with a run that nobody has in hand. None: it waits for an answer, or another has it, or it is over."""
    return _maybe((yield "claim_run", {"run": run_id, "owner": owner}))


def seize(run_id: str, *, owner: str) -> Script[Run | None]:
    """Take a run that nobody has in hand, also one that waits for an answer, to end it."""
    return _maybe((yield "seize_run", {"run": run_id, "owner": owner}))


def hold(run: Run) -> Script[bool]:
    """Whether this epoch is still the run's; it then stays so until the end of the transaction."""
    rows = yield "hold_run", {"run": run.id, "epoch": run.epoch}
    return bool(rows)


def take_step(
    run: Run, *, n: int, message: str, calls: Sequence[Call] = (), tokens: Tokens | None = None
) -> Script[tuple[Call, ...] | None]:
    """Record a step with its calls, in their order, before any of them runs. None: fenced."""
    # T1
    if not (yield from _note_step(run, awaited=len(calls), tokens=tokens)):
        return None
    return (yield from _write_step(run, n=n, message=message, calls=calls))


def take_step_after(
    answered: Call, run: Run, *, n: int, message: str, calls: Sequence[Call] = ()
) -> Script[tuple[Call, ...] | None]:
    """As `take_step`, in the transaction that has just settled a call of the run, and left it to this to count that.

    None: fenced; the answer is counted.
    """
    # T2 for the run, and T1
    values = {"journal_id": run.id, "epoch": run.epoch, "awaited": len(calls)}
    found = yield "answer_and_note_step", values
    if not found:
        yield from call_tx.answer_run(answered)
        return None
    if found[0]["answered"] != answered.answer:
        yield "number_answer", {"id": answered.id, "answer": found[0]["answered"]}
    return (yield from _write_step(run, n=n, message=message, calls=calls))


def _write_step(run: Run, *, n: int, message: str, calls: Sequence[Call]) -> Script[tuple[Call, ...]]:
    yield "insert_step", {"cycle_id": run.id, "n": n, "message": message}
    written = []
    for idx, call in enumerate(calls):
        written.append((yield from _insert(run, call, n=n, idx=idx)))
    yield wake(RUN_TOPIC + run.id)
    return tuple(written)


def add_call(run: Run, call: Call, *, n: int, idx: int) -> Script[Call | None]:
    """Record one more call of a step before it runs: one that waited for another of the same step. None: fenced."""
    # T1
    if not (yield from _note_step(run, awaited=1)):
        return None
    written = yield from _insert(run, call, n=n, idx=idx)
    yield wake(RUN_TOPIC + run.id)
    return written


def _note_step(run: Run, *, awaited: int, tokens: Tokens | None = None) -> Script[bool]:
    """As `hold`, and the run waits for so many more calls."""
    spent = tokens or Tokens()
    values = {"awaited": awaited, "input_tokens": spent.input, "output_tokens": spent.output}
    rows = yield "note_step", {"run": run.id, "epoch": run.epoch, **values}
    return bool(rows)


def _insert(run: Run, call: Call, *, n: int, idx: int) -> Script[Call]:
    placed = replace(
        call, cycle_id=run.id, step=n, idx=idx, awaited_by=run.id, delivery=None, first_reply=None, waiter=None
    )
    rows = yield "insert_call", call_tx.insert_values(placed, age_ms=0)
    written = call_tx.inserted(placed, rows[0])
    if written.shown:
        yield from space_tx.show_call(written, status=space_tx.status_shown(written))
    yield from call_tx.announce(written)
    return written


def park(run: Run, *, wake_ms: int | None = None, is_asleep: bool = False) -> Script[Run | None]:
    """Let go of a run until the calls that it waits for are answered, or at once if they are. None: fenced.

    `wake_ms`: it goes on after so long, whatever it waits for. `is_asleep`: it waits for nothing else.
    """
    # T13
    values = {"run": run.id, "epoch": run.epoch, "wake_ms": wake_ms, "asleep": int(is_asleep)}
    parked = _maybe((yield "park_run", values))
    if parked is not None and parked.status == "ready":
        yield wake(READY_TOPIC + parked.kind)
    yield wake(RUN_TOPIC + run.id)
    return parked


def any_to_wake() -> Script[bool]:
    """Whether there are parked runs whose time has come."""
    return bool((yield "parked_runs_to_wake", {}))


def wake_parked() -> Script[int]:
    """Have runs claimed whose time has come; how many there are."""
    rows = yield "wake_parked_runs", {}
    return len(rows)


def take_over(run: Run, *, owner: str) -> Script[Run | None]:
    """Another gateway goes on with a run whose owner is dead. None: it lives, or another has it, or it is over."""
    # T7
    return _maybe((yield "take_over_run", {"run": run.id, "epoch": run.epoch, "owner": owner}))


def end(
    run: Run, *, status: Literal["done", "failed"], reason: str | None = None, tokens: Tokens | None = None
) -> Script[Run | None]:
    """A run is over. One that failed can be resumed. None: fenced."""
    # T9 and T10
    values = {
        "run": run.id,
        "epoch": run.epoch,
        "status": status,
        "reason": reason,
        "input_tokens": None if tokens is None else tokens.input,
        "output_tokens": None if tokens is None else tokens.output,
    }
    ended = _maybe((yield "end_run", values))
    yield wake(RUN_TOPIC + run.id)
    return ended


def resume(run_id: str) -> Script[Run | None]:
    """A run that failed goes on from its journal, at any gateway. None: it did not fail."""
    run = _maybe((yield "resume_run", {"run": run_id}))
    if run is not None and run.status == "ready":
        yield wake(READY_TOPIC + run.kind)
    return run


def want_stopped(run_id: str) -> Script[Run | None]:
    """Ask whoever has it to end it. None: it is over."""
    run = _maybe((yield "want_run_stopped", {"run": run_id}))
    yield wake(stop_topic(run_id))
    return run


def stop_topic(run_id: str) -> str:
    """Published when a run is to be stopped."""
    return f"{run_id}:stop"


def get_run(run_id: str) -> Script[Run | None]:
    row = yield from one("get_run", run=run_id)
    return None if row is None or row["kind"] == "cycle" else run_from(row)


def read_journal(run_id: str) -> Script[RunJournal | None]:
    """What a run has on record. A step that is written meanwhile is there whole or not at all."""
    run = yield from get_run(run_id)
    if run is None:
        return None
    steps = yield "steps_of_cycle", {"cycle_id": run_id}
    rows = yield "calls_of_cycle", {"cycle_id": run_id}
    calls = [call_from(row) for row in rows]
    return RunJournal(
        run,
        tuple(
            RunStep(row["n"], row["message"], tuple(c for c in calls if c.step == row["n"]), row["created_at"])
            for row in steps
        ),
    )


def answered_calls(run_id: str) -> Script[list[Call]]:
    """The calls of a run whose slots are decided, in the order in which they were."""
    return call_tx.calls_in("answered_calls_of_run", run=run_id)


def open_calls(run_id: str) -> Script[list[str]]:
    """The calls of a run that are not over."""
    rows = yield "open_calls_of_run", {"run": run_id}
    return [str(row["id"]) for row in rows]


def runs_to_claim(kind: Kind, *, limit: int) -> Script[list[str]]:
    """Runs that can be claimed, one of each principal; who has fewest at work comes first."""
    rows = yield "runs_to_claim", {"kind": kind, "limit": limit}
    return [str(row["id"]) for row in rows]


def orphaned_runs(kind: Kind, *, limit: int = 500) -> Script[list[Run]]:
    """Runs whose owner is dead."""
    rows = yield "orphaned_runs", {"kind": kind, "limit": limit}
    return [run_from(row) for row in rows]


def delete(run_id: str) -> Script[None]:
    """Forget a run and its steps; its calls stay on record."""
    yield "delete_run", {"run": run_id}
    yield "delete_steps", {"run": run_id}


def prune(*, before: int, limit: int) -> Script[int]:
    """Delete a few of the runs that were over by then, with their steps; how many."""
    gone = yield "prune_runs", {"before": before, "limit": limit}
    if gone:
        yield "prune_steps", {"ids": json_list(row["id"] for row in gone)}
    return len(gone)


def is_undecided(call: Call) -> bool:
    """Whether a run still waits for this call of its own."""
    return call.delivery is None and not call.status.is_final


def run_from(row: Row) -> Run:
    """The run that a row of `runs` holds."""
    return Run(
        id=row["id"],
        kind=row["kind"],
        principal=row["principal"],
        status=row["status"],
        owner=row["owner"],
        epoch=row["epoch"],
        tries=row["tries"],
        awaited=row["awaited"],
        stop_wanted=bool(row["stop_wanted"]),
        request=row["request"],
        reason=row["reason"],
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
        created_at=row["created_at"],
        parked_at=row["parked_at"],
        finished_at=row["finished_at"],
    )


def _maybe(rows: Sequence[Row]) -> Run | None:
    return run_from(rows[0]) if rows else None
