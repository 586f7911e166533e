"""A run that outlives its gateways, searched exhaustively: two gateways, a run of three steps, crashes and pauses at
any point, wake-ups that may all be lost.

The moves are those of `run_protocol.py`, which `test_runs_machine.py` holds against the real stores. What a gateway
does between them (ask the model, run a tool, settle it, park; sweep after the dead) is played here in every order; and,
for responses, somebody who cancels the run at another gateway, and one who resumes it after it failed.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.requirement import requirement
from tests.store import run_protocol as protocol
from tests.store.run_protocol import RunRow, RunWorld

RUN = "run"
PLAN: tuple[tuple[str, ...], ...] = (("running", "pending"), ("pending",), ("running",))
"""What the model asks for in each step; then it answers."""
MOST_TRIES = 3
Phase = Literal["reading", "asking", "acting", "parking"]
Cancel = Literal["nobody", "asked", "tried"]
"""How far somebody is who cancels the run at `b`: the wish is on record, then the run was taken where nobody had it."""


class Task(Struct, frozen=True):
    """What one process does with the run: it has read the journal up to `step`, and goes on under `epoch`."""

    epoch: int
    phase: Phase = "reading"
    step: int = 0


class State(Struct, frozen=True, kw_only=True):
    """The database, and what the processes have in hand; one that is gone has nothing."""

    world: RunWorld
    tasks: dict[str, Task] = {}
    tools: dict[str, str] = {}
    """Calls whose tool a process has run and not settled yet, by call."""
    ran: dict[str, int] = {}
    """How often each call's tool was run."""
    gone: frozenset[str] = frozenset()
    cancel: Cancel = "nobody"
    resumed: bool = False

    @property
    def run(self) -> RunRow:
        return self.world.runs[RUN]

    def does(self, gateway: str, task: Task | None) -> "State":
        others = {name: one for name, one in self.tasks.items() if name != gateway}
        return replace(self, tasks=others if task is None else others | {gateway: task})

    def lives(self, gateway: str) -> bool:
        return gateway not in self.gone


def beginning() -> State:
    return State(world=protocol.queue(RunWorld(), RUN))


def by_task(state: State, gateway: str) -> Iterator[State]:
    """The next thing that a process does with the run that it has in hand."""
    task, world = state.tasks[gateway], state.world
    if task.phase == "reading":
        if world.undecided(RUN):
            yield state.does(gateway, replace(task, phase="acting", step=state.run.steps))
        else:
            yield state.does(gateway, replace(task, phase="asking", step=state.run.steps))
    elif task.phase == "asking":
        yield _stepped(state, gateway, task)
    elif task.phase == "acting":
        left = [world.calls[key] for key in world.undecided(RUN)]
        if not left:
            yield state.does(gateway, replace(task, phase="asking", step=state.run.steps))
        elif not any(call.status == "running" and call.owner == gateway for call in left):
            yield state.does(gateway, replace(task, phase="parking"))
    elif state.run.stop_wanted:  # looked for in the transaction that would park it
        yield _cancelled(state, gateway, epoch=task.epoch)
    else:  # the answer may have come since it was looked for
        yield replace(state, world=protocol.park(world, RUN, epoch=task.epoch) or world).does(gateway, None)


def _cancelled(state: State, gateway: str, *, epoch: int) -> State:
    """The run is over, and nobody waits for its calls any more."""
    ended = protocol.end(state.world, RUN, epoch=epoch, status="done")
    if ended is None:
        return state.does(gateway, None)
    for key in ended.undecided(RUN):
        ended = protocol.decide(ended, key, among=frozenset({"pending"})) or ended
    return replace(state, world=ended).does(gateway, None)


def by_canceller(state: State) -> Iterator[State]:
    """The wish is on record first; then the run is ended here if nobody has it, or by who has it."""
    if state.cancel == "nobody" and (wanted := protocol.want_stopped(state.world, RUN)) is not None:
        yield replace(state, world=wanted, cancel="asked")
    if state.cancel == "asked":
        tried = replace(state, cancel="tried")
        seized = protocol.seize(state.world, RUN, owner="b")
        if seized is None:
            yield tried
        else:
            yield _cancelled(replace(tried, world=seized), "b", epoch=seized.runs[RUN].epoch)


def by_resumer(state: State) -> Iterator[State]:
    if not state.resumed and (resumed := protocol.resume(state.world, RUN)) is not None:
        yield replace(state, world=resumed, resumed=True)


def with_people(state: State) -> Iterator[State]:
    yield from by_others(state)
    yield from by_canceller(state)
    yield from by_resumer(state)


def _stepped(state: State, gateway: str, task: Task) -> State:
    """The model has spoken: T1, or T9 where it asks for nothing more."""
    world, n = state.world, task.step
    if n == len(PLAN):
        return replace(state, world=protocol.end(world, RUN, epoch=task.epoch, status="done") or world).does(
            gateway, None
        )
    calls = [(f"{n + 1}.{idx}", kind, gateway if kind == "running" else None) for idx, kind in enumerate(PLAN[n])]
    after = protocol.take_step(world, RUN, epoch=task.epoch, calls=calls)
    if after is None:
        return state.does(gateway, None)
    assert state.run.steps == n, "a step that was on record was asked for again"
    return replace(state, world=after).does(gateway, replace(task, phase="acting", step=n + 1))


def by_tools(state: State, gateway: str) -> Iterator[State]:
    """A process that took the step runs its tools, and settles what they came to."""
    for key, call in state.world.calls.items():
        if call.status == "running" and call.owner == gateway and key not in state.tools and key not in state.ran:
            yield replace(state, tools=state.tools | {key: gateway}, ran=state.ran | {key: 1})
        if state.tools.get(key) == gateway:
            others = {name: one for name, one in state.tools.items() if name != key}
            yield replace(state, world=protocol.decide(state.world, key) or state.world, tools=others)


def by_sweeper(state: State, gateway: str, *, most_tries: int = MOST_TRIES) -> Iterator[State]:
    """What a living gateway does about what nobody has in hand, and after the dead."""
    world, run = state.world, state.run
    if gateway not in state.tasks:
        claimed = protocol.claim(world, RUN, owner=gateway)
        if claimed is not None and run.stop_wanted:
            yield _cancelled(replace(state, world=claimed), gateway, epoch=claimed.runs[RUN].epoch)
        elif claimed is not None:
            yield replace(state, world=claimed).does(gateway, Task(claimed.runs[RUN].epoch))
        taken = protocol.take_over(world, RUN, epoch=run.epoch, owner=gateway)
        if taken is not None and run.stop_wanted:
            yield _cancelled(replace(state, world=taken), gateway, epoch=taken.runs[RUN].epoch)
        elif taken is not None and taken.runs[RUN].tries > most_tries:
            failed = protocol.end(taken, RUN, epoch=taken.runs[RUN].epoch, status="failed")
            yield replace(state, world=failed or taken)
        elif taken is not None:
            yield replace(state, world=taken).does(gateway, Task(taken.runs[RUN].epoch))
    for key, call in world.calls.items():  # T6: interrupted
        if call.status == "running" and call.owner in world.dead:
            yield replace(state, world=protocol.decide(world, key) or world)


def by_themselves(state: State, *, most_tries: int) -> Iterator[State]:
    """What happens though nobody does anything."""
    for gateway in ("a", "b"):
        if state.lives(gateway):
            if gateway in state.tasks:
                yield from by_task(state, gateway)
            yield from by_tools(state, gateway)
            if gateway not in state.world.dead:
                yield from by_sweeper(state, gateway, most_tries=most_tries)


def by_others(state: State) -> Iterator[State]:
    """What people and fate do, at any time: answer, kill `a`, or take it for dead while it is only paused."""
    for key, call in state.world.calls.items():
        if call.status == "pending":
            yield replace(state, world=protocol.decide(state.world, key) or state.world)
    if "a" not in state.world.dead:
        paused = replace(state, world=replace(state.world, dead=frozenset({"a"})))
        yield paused
        tools = {key: one for key, one in state.tools.items() if one != "a"}
        yield replace(paused, gone=frozenset({"a"}), tools=tools).does("a", None)


def key_of(state: State) -> bytes:
    return msgspec.json.encode(state, order="sorted")


def search(
    first: State, *, others: Callable[[State], Iterator[State]] = by_others, most_tries: int = MOST_TRIES
) -> tuple[int, list[State]]:
    """How many states can be reached, and those in which nothing more happens by itself."""
    seen, to_look_at, ends = {key_of(first)}, [first], []
    while to_look_at:
        state = to_look_at.pop()
        alone = [after for after in by_themselves(state, most_tries=most_tries) if key_of(after) != key_of(state)]
        if not alone:
            ends.append(state)
        for after in (*alone, *others(state)):
            check(state, after)
            if (key := key_of(after)) not in seen:
                seen.add(key)
                to_look_at.append(after)
    return len(seen), ends


def check(before: State, after: State) -> None:
    """What no move may do, and what always holds."""
    for key, call in before.world.calls.items():
        if call.status == "decided":
            assert after.world.calls[key] == call, "an answer changed"
    run, undecided = after.run, after.world.undecided(RUN)
    assert run.awaited == len(undecided)
    assert (run.owner is None) == (run.status in protocol.WAITING) or run.status in {"done", "failed"}
    assert run.status != "parked" or undecided, "a run waits for nothing"
    assert run.status != "ready" or not undecided
    assert all(count == 1 for count in after.ran.values())
    if before.run.status in {"done", "failed"} and after.resumed == before.resumed:
        assert run.status == before.run.status


@requirement("RUN-journal-model")
def test_whatever_dies_a_run_comes_to_its_end_and_nothing_is_done_twice() -> None:
    reached, ends = search(beginning())
    assert reached > 1_000
    assert ends
    for end in ends:
        pending = [call for call in end.world.calls.values() if call.status == "pending"]
        if pending:
            assert end.run.status == "parked", end
            assert not end.tasks.keys() - {"a"}, "somebody has a parked run in hand"
        else:
            assert end.run.status == "done", end
            assert end.run.steps == len(PLAN)
            assert sorted(call.answer or 0 for call in end.world.calls.values()) == [1, 2, 3, 4]


@requirement("RUN-journal-model", "RUN-responses-cancel", "RUN-responses-resume")
@pytest.mark.parametrize("most_tries", [MOST_TRIES, 1])
def test_a_run_that_is_cancelled_or_resumed_at_any_time_never_waits_for_ever_for_nobody(most_tries: int) -> None:
    """With one try, a run whose gateway dies has failed, and may be resumed."""
    reached, ends = search(beginning(), others=with_people, most_tries=most_tries)
    assert reached > 3_000
    assert {end.run.status for end in ends} == {"parked", "done"} | ({"failed"} if most_tries == 1 else set())
    for end in ends:
        if end.cancel == "tried" and end.run.stop_wanted:
            assert end.run.status in {"done", "failed"}, "a cancelled run is parked"
        if end.run.status == "done" and end.cancel == "nobody":
            assert end.run.steps == len(PLAN)


@requirement("RUN-journal-model")
@pytest.mark.parametrize("broken", ["seize", "resume"])
def test_the_search_finds_what_is_wrong_with_cancelling_and_resuming(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, broken, _nobody(None) if broken == "seize" else _resumes_into_nothing)
    with pytest.raises(AssertionError):
        test_a_run_that_is_cancelled_or_resumed_at_any_time_never_waits_for_ever_for_nobody(1)


def _resumes_into_nothing(world: RunWorld, name: str) -> protocol.Next:
    run = world.runs[name]
    return None if run.status != "failed" else world.with_run(name, replace(run, status="ready", owner=None))


def _always_parked(real: Callable[..., Any]) -> Callable[..., Any]:
    def park(world: RunWorld, name: str, *, epoch: int) -> protocol.Next:
        after = real(world, name, epoch=epoch)
        return None if after is None else after.with_run(name, replace(after.runs[name], status="parked"))

    return park


def _without_epoch(real: Callable[..., Any]) -> Callable[..., Any]:
    def take_step(world: RunWorld, name: str, *, epoch: int, calls: Any) -> protocol.Next:
        del epoch
        return (
            None if world.runs[name].status != "open" else real(world, name, epoch=world.runs[name].epoch, calls=calls)
        )

    return take_step


def _wakes_nobody(real: Callable[..., Any]) -> Callable[..., Any]:
    def decide(world: RunWorld, key: str) -> protocol.Next:
        after = real(world, key)
        was = world.runs[RUN].status
        return None if after is None else after.with_run(RUN, replace(after.runs[RUN], status=was))

    return decide


def _nobody(_real: object) -> Callable[..., Any]:
    return lambda *_, **__: None


@requirement("RUN-journal-model")
@pytest.mark.parametrize(
    ("move", "broken"),
    [
        ("park", _always_parked),
        ("take_step", _without_epoch),
        ("decide", _wakes_nobody),
        ("claim", _nobody),
        ("take_over", _nobody),
    ],
)
def test_the_search_finds_what_is_wrong(
    move: str, broken: Callable[[Callable[..., Any]], Callable[..., Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, move, broken(getattr(protocol, move)))
    with pytest.raises(AssertionError):
        test_whatever_dies_a_run_comes_to_its_end_and_nothing_is_done_twice()
