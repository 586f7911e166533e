"""The durable transitions of programs, as scripts: a program is a run whose end settles its call.

Above: `service.py`. Below: the transitions of runs and of calls.
"""

from msgspec import Struct

from jackfield.calls import transactions as call_tx
from jackfield.calls.rows import call_from
from jackfield.calls.transactions import Moved
from jackfield.model.call import Call, CallStatus, Done, Failed
from jackfield.runs import transactions as run_tx
from jackfield.runs.transactions import Run
from jackfield.store.scripts import Script

OFFERED_TO = "program"
"""In place of a tool server: all gateways together have the calls of programs."""
PREFIX = "prog_"


class Parked(Struct, frozen=True):
    """A program that was let go, and its call."""

    run: Run
    call: Moved


def program_id(call_id: str) -> str:
    return f"{PREFIX}{call_id}"


def call_of(run_id: str) -> str:
    return run_id.removeprefix(PREFIX)


def take_program(call: Call, *, owner: str) -> Script[Run | None]:
    """Begin the program of a call, here. None: another has it, or its call is over."""
    # T8
    if not (yield "offer", {"id": call.id, "client": OFFERED_TO, "gateway": owner}):
        return None
    return (
        yield from run_tx.begin_run(
            program_id(call.id), kind="program", principal=call.principal, request="{}", owner=owner
        )
    )


def park_program(run: Run) -> Script[Parked | None]:
    """Let go of a program until the calls that it waits for are answered. None: fenced."""
    # T13, for the call and for the run
    if not (yield from run_tx.hold(run)):
        return None
    moved = yield from call_tx.shown_move("park_program_call", call_of(run.id))
    parked = yield from run_tx.park(run)
    assert parked is not None
    return Parked(parked, moved)


def end_program(run: Run, outcome: Done | Failed, *, large_result: int) -> Script[Moved | None]:
    """The program is over, and so is its call. None: fenced."""
    # T9 or T10, and T2
    is_done = isinstance(outcome, Done)
    reason = None if isinstance(outcome, Done) else outcome.message
    if (yield from run_tx.end(run, status="done" if is_done else "failed", reason=reason)) is None:
        return None
    return (yield from call_tx.settle_submitted(call_of(run.id), outcome, large_result=large_result))


def answers_after(run_id: str, after: int) -> Script[list[Call]]:
    """The calls of a program whose slots were decided since, in that order."""
    rows = yield "program_answers_after", {"run": run_id, "after": after}
    return [call_from(row) for row in rows]


def open_statuses(run_id: str) -> Script[dict[str, CallStatus]]:
    """The calls of a program that are not over."""
    rows = yield "open_statuses_of_program", {"run": run_id}
    return {row["id"]: CallStatus(row["status"]) for row in rows}


def programs_without_call(*, limit: int) -> Script[list[str]]:
    """Programs that nobody has in hand and nobody waits for any more."""
    rows = yield "programs_without_call", {"limit": limit}
    return [str(row["id"]) for row in rows]
