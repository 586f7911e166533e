"""The durable transitions of programs, as scripts: a program is a run whose end settles its call.

Above: `service.py`. Below: the transitions of runs and of calls.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from jackfield.calls import transactions as call_tx
from jackfield.calls.operation_transactions import untaken_operations
from jackfield.calls.rows import call_from
from jackfield.calls.transactions import Moved
from jackfield.model.call import Call, CallStatus, Delivery, Done, Failed
from jackfield.runs import transactions as run_tx
from jackfield.runs.transactions import Run, RunJournal
from jackfield.store.scripts import Script

OFFERED_TO = "program"
"""In place of a tool server: all gateways together have the calls of programs."""
PREFIX = "prog_"
SPARE_MS = 3_600_000
"""How much longer than what it waits for the call of a program stays open."""


class Parked(Struct, frozen=True):
    """A program that was let go, and its call."""

    run: Run
    call: Moved


class ToBegin(Struct, frozen=True, kw_only=True):
    """What a gateway can take in hand."""

    any_to_wake: bool
    """Whether there are parked runs whose time has come."""
    orphans: list[Run]
    """Programs whose gateway died."""
    ready: list[str]
    """Those for which an answer came."""
    new: list[Call]
    """Calls whose program nobody has begun."""


def program_id(call_id: str) -> str:
    return f"{PREFIX}{call_id}"


def call_of(run_id: str) -> str:
    return run_id.removeprefix(PREFIX)


def to_begin(names: Sequence[str], *, limit: int) -> Script[ToBegin]:
    """Everything that waits for a gateway, in one look; of what is not begun at most `limit` each.

    `names`: what `run_program` is called in the catalog.
    """
    any_to_wake = yield from run_tx.any_to_wake()
    orphans = yield from run_tx.orphaned_runs("program")
    ready: list[str] = []
    new: list[Call] = []
    if limit:
        ready = yield from run_tx.runs_to_claim("program", limit=limit)
    if limit and names:
        new = yield from untaken_operations(names, limit=limit)
    return ToBegin(any_to_wake=any_to_wake, orphans=orphans, ready=ready, new=new)


def read_program(run_id: str) -> Script[tuple[Call | None, RunJournal | None]]:
    """The call of a program, and what the program has on record."""
    call = yield from call_tx.get_call(call_of(run_id))
    return call, (yield from run_tx.read_journal(run_id))


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


def park_program(run: Run, *, wake_ms: int | None = None, is_asleep: bool = False) -> Script[Parked | None]:
    """Let go of a program until the calls that it waits for are answered, or so long. None: fenced.

    Its own call stays open a little longer than theirs, so that it hears of those that nobody answers.
    """
    # T13, for the call and for the run
    if not (yield from run_tx.hold(run)):
        return None
    moved = yield from call_tx.shown_move("park_program_call", call_of(run.id))
    yield "extend_program_call", {"id": call_of(run.id), "run": run.id, "spare_ms": SPARE_MS}
    parked = yield from run_tx.park(run, wake_ms=wake_ms, is_asleep=is_asleep)
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


class NextStep(Struct, frozen=True, kw_only=True):
    """What a program asks for."""

    run: Run
    n: int
    message: str
    calls: Sequence[Call] = ()


def take_step(step: NextStep) -> Script[tuple[Call, ...] | None]:
    """Record it before anything of it begins. None: fenced."""
    # T1
    return run_tx.take_step(step.run, n=step.n, message=step.message, calls=step.calls)


def settle_and_take_step(
    settle: Callable[..., Script[Moved]], call: Call, step: NextStep
) -> Script[tuple[Moved, tuple[Call, ...] | None]]:
    """The end of a call that the program was told of, and the step that it took then: both or neither.

    `settle` takes the call as it is on record, as `known`. Where somebody else settled it first, the program was told
    what is not so, and its step is not written.
    """
    # T2 and T1
    moved = yield from settle(known=call)
    if not moved.moved or moved.call is None:
        return moved, None
    if moved.call.delivery is not Delivery.INLINE:  # its slot was decided before
        return moved, (yield from take_step(step))
    after = run_tx.take_step_after(moved.call, step.run, n=step.n, message=step.message, calls=step.calls)
    return moved, (yield from after)


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
