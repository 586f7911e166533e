"""The moves of responses and programs on paper: T1 in a run, T7 to T10, parking and answers (`pending-protocol.md`).

A `RunWorld` is all rows at one moment and never changes; a move gives the next one, or None where the protocol says
"zero rows". Above: `test_runs_model.py` and `test_runs_machine.py`. Below: nothing of ours.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

WAITING = frozenset({"queued", "parked", "ready"})


class Journaled(Struct, frozen=True, kw_only=True):
    """One call of a run."""

    run: str
    step: int
    status: str
    """`running`, `waiting`, `pending`, or `decided`."""
    owner: str | None = None
    answer: int | None = None


class RunRow(Struct, frozen=True, kw_only=True):
    """One run."""

    status: str = "queued"
    owner: str | None = None
    epoch: int = 1
    tries: int = 1
    awaited: int = 0
    answered: int = 0
    steps: int = 0
    stop_wanted: bool = False
    has_request: bool = True


class RunWorld(Struct, frozen=True, kw_only=True):
    """Everything, at one moment."""

    runs: dict[str, RunRow] = {}
    calls: dict[str, Journaled] = {}
    dead: frozenset[str] = frozenset()

    def with_run(self, name: str, run: RunRow) -> "RunWorld":
        return replace(self, runs=self.runs | {name: run})

    def undecided(self, name: str) -> list[str]:
        return [key for key, call in self.calls.items() if call.run == name and call.status != "decided"]


Next = RunWorld | None


def queue(world: RunWorld, name: str) -> RunWorld:
    """T8"""
    return world.with_run(name, RunRow())


def claim(world: RunWorld, name: str, *, owner: str) -> Next:
    return _taken(world, name, owner, among=frozenset({"queued", "ready"}))


def seize(world: RunWorld, name: str, *, owner: str) -> Next:
    return _taken(world, name, owner, among=WAITING)


def _taken(world: RunWorld, name: str, owner: str, *, among: frozenset[str]) -> Next:
    run = world.runs[name]
    if run.status not in among:
        return None
    return world.with_run(name, replace(run, status="open", owner=owner, epoch=run.epoch + 1, tries=1))


def may(run: RunRow, epoch: int) -> bool:
    return run.status == "open" and run.epoch == epoch


def take_step(world: RunWorld, name: str, *, epoch: int, calls: Sequence[tuple[str, str, str | None]]) -> Next:
    """T1. Each call with its id, its status and who executes it."""
    run = world.runs[name]
    if not may(run, epoch):
        return None
    n = run.steps + 1
    made = {key: Journaled(run=name, step=n, status=status, owner=owner) for key, status, owner in calls}
    after = replace(run, steps=n, tries=1, awaited=run.awaited + len(made))
    return replace(world.with_run(name, after), calls=world.calls | made)


def park(world: RunWorld, name: str, *, epoch: int) -> Next:
    """T13 for a run."""
    run = world.runs[name]
    if not may(run, epoch):
        return None
    return world.with_run(name, replace(run, status="parked" if run.awaited else "ready", owner=None))


def take_over(world: RunWorld, name: str, *, epoch: int, owner: str) -> Next:
    """T7"""
    run = world.runs[name]
    if not may(run, epoch) or run.owner not in world.dead:
        return None
    return world.with_run(name, replace(run, owner=owner, epoch=run.epoch + 1, tries=run.tries + 1))


def end(world: RunWorld, name: str, *, epoch: int, status: str) -> Next:
    """T9 and T10"""
    run = world.runs[name]
    if not may(run, epoch):
        return None
    return world.with_run(name, replace(run, status=status, has_request=run.has_request and status == "failed"))


def resume(world: RunWorld, name: str) -> Next:
    run = world.runs[name]
    if run.status != "failed" or not run.has_request:
        return None
    status = "parked" if run.awaited else "ready"
    return world.with_run(name, replace(run, status=status, owner=None, tries=1, stop_wanted=False))


def want_stopped(world: RunWorld, name: str) -> Next:
    run = world.runs[name]
    return None if run.status in {"done", "failed"} else world.with_run(name, replace(run, stop_wanted=True))


def decide(world: RunWorld, key: str, *, among: frozenset[str] = frozenset({"running", "waiting", "pending"})) -> Next:
    """T2 or T3 of a call whose slot was undecided: the last one that a parked run waits for makes it ready."""
    call = world.calls[key]
    if call.status not in among:
        return None
    run = world.runs[call.run]
    left = run.awaited - 1
    status = "ready" if run.status == "parked" and left == 0 else run.status
    after = world.with_run(call.run, replace(run, awaited=left, answered=run.answered + 1, status=status))
    decided = replace(call, status="decided", answer=run.answered + 1)
    return replace(after, calls=world.calls | {key: decided})
