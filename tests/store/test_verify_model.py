"""A call whose outcome nobody knows and another tool can say, searched exhaustively: T15, two gateways, crashes and
pauses at any point, in the asking call too.

The moves are those of `protocol.py`, which `test_moves_machine.py` holds against the real stores. What gateways do
between them (run the tool, run out of time, take the call over, ask, settle) is played in every order.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.requirement import requirement
from tests.store import protocol
from tests.store.protocol import FINAL, Lease, Row, World

CALL = "call"
FAR = 10_000_000
MOST_ATTEMPTS = 2
MOST_VERIFICATIONS = 2
"""Both are 3 in a gateway: one more shows nothing new, and takes five times as long."""
Phase = Literal["begun", "acted", "asks", "asking", "heard", "settles"]


class Work(Struct, frozen=True):
    """What one process does with the call: runs its tool, or asks whether that took effect and says what it heard."""

    attempt: int
    phase: Phase = "begun"
    heard: str = ""
    check: str = ""
    """The call that asks."""


class State(Struct, frozen=True, kw_only=True):
    """The database, what the processes have in hand, and what the tool has done."""

    world: World
    work: dict[str, Work]
    gone: frozenset[str] = frozenset()
    acted: int = 0
    asked: int = 0
    was_paused: bool = False
    """Somebody was taken for dead who was not, so the tool may act after it was asked about."""

    @property
    def call(self) -> Row:
        return self.world.rows[CALL]

    def does(self, gateway: str, work: Work | None) -> "State":
        others = {name: one for name, one in self.work.items() if name != gateway}
        return replace(self, work=others if work is None else others | {gateway: work})


def beginning(*, idempotent: bool) -> State:
    row = a_row(CALL, agent="ada", idempotent=idempotent, verify="check", owner="a")
    world = World(now=0, gateways={"a": Lease(FAR), "b": Lease(FAR)})
    return State(world=protocol.start(world, row), work={"a": Work(1)})


def a_row(name: str, **fields: Any) -> Row:
    usual = {"id": name, "tool": name, "waiter": None, "timeout": 1_000, "expires_in": 1_000, "created": 0}
    return Row(**(usual | {"arguments": "{}", "status": "running", "attempt": 1} | fields))


def by_executor(state: State, gateway: str) -> Iterator[State]:
    """The next thing that a process does with the call it has in hand."""
    work, world, call = state.work[gateway], state.world, state.call
    if work.phase in ("begun", "acted"):
        if work.phase == "begun":
            yield replace(state, acted=state.acted + 1).does(gateway, Work(work.attempt, "acted"))
        else:
            yield settled(state, gateway, "done:1")
        taken = protocol.verify(world, call, owner=gateway, seen=work.attempt, why="timeout")
        if taken is None:
            yield state.does(gateway, None)  # it was settled, or another has it
        else:
            yield asks(replace(state, world=taken), gateway)
    elif work.phase == "asks":
        check = f"check-{work.attempt}"
        row = a_row(check, agent=None, idempotent=True, owner=gateway)
        begun = replace(state, world=protocol.start(world, row), asked=state.asked + 1)
        yield begun.does(gateway, Work(work.attempt, "asking", check=check))
    elif work.phase == "asking":
        for heard in ("done:1" if state.acted else f"failed:{call.verifying}, not happened", "failed:interrupted"):
            yield state.does(gateway, Work(work.attempt, "heard", heard, work.check))
    elif work.phase == "heard":
        answered = protocol.executed(world, world.rows[work.check], outcome=work.heard, attempt=1)
        yield replace(state, world=answered or world).does(gateway, replace(work, phase="settles"))
    else:
        yield settled(state, gateway, work.heard)


def asks(state: State, gateway: str) -> State:
    return state.does(gateway, Work(state.call.attempt, "asks"))


def settled(state: State, gateway: str, outcome: str) -> State:
    mine = state.work[gateway].attempt
    after = protocol.executed(state.world, state.call, outcome=outcome, attempt=mine)
    assert after is None or mine == state.call.attempt, "an attempt that another had followed settled the call"
    return replace(state, world=after or state.world).does(gateway, None)


def by_sweeper(state: State, gateway: str) -> Iterator[State]:
    """What a living gateway does after a dead one, and about calls that are late."""
    for row in state.world.rows.values():
        if protocol.is_orphan(state.world, row):
            yield from taken_over(state, row, gateway)
        elif is_left(state, row):
            yield from late(state, row, gateway)


def taken_over(state: State, row: Row, gateway: str) -> Iterator[State]:
    """T6 and T15, after a dead executor. A check that is made again is made for nobody."""
    world, is_free = state.world, gateway not in state.work
    if row.idempotent and row.attempt < MOST_ATTEMPTS and row.verifying is None:
        after = protocol.reclaim(world, row, owner=gateway, seen=row.attempt)
        assert after is not None
        again = replace(state, world=after)
        if row.id != CALL:
            answered = protocol.executed(after, after.rows[row.id], outcome="done:0", attempt=row.attempt + 1)
            yield replace(state, world=answered or after)
        elif is_free:
            yield again.does(gateway, Work(row.attempt + 1))
    elif (taken := protocol.verify(world, row, owner=gateway, seen=row.attempt, why="interrupted")) is not None:
        if is_free:
            yield asks(replace(state, world=taken), gateway)
    else:
        after = protocol.executed(world, row, outcome="failed:interrupted", attempt=row.attempt)
        yield replace(state, world=after or world)


def late(state: State, row: Row, gateway: str) -> Iterator[State]:
    """Its executor lives and let its deadline pass."""
    world = state.world
    then = replace(world, now=(row.deadline or 0) + protocol.OVERDUE_MS)
    taken = protocol.verify_late(then, row, owner=gateway, seen=row.attempt, why="timeout")
    if taken is not None and gateway not in state.work:
        yield asks(replace(state, world=replace(taken, now=world.now)), gateway)
    elif taken is None and (over := protocol.overdue(then, row)) is not None:
        yield replace(state, world=replace(over, now=world.now))


def is_left(state: State, row: Row) -> bool:
    """Nobody has it in hand any more: what its owner was about to do broke off."""
    if row.id == CALL:
        return all(work.attempt != row.attempt for work in state.work.values())
    return all(work.check != row.id or work.phase == "settles" for work in state.work.values())


def by_themselves(state: State) -> Iterator[State]:
    for gateway in state.work:
        yield from by_executor(state, gateway)
    for gateway in state.world.gateways:
        if gateway not in state.gone and not state.world.is_dead(gateway):
            yield from by_sweeper(state, gateway)


def by_others(state: State) -> Iterator[State]:
    """What people and fate do, at any time: cancel, kill either gateway or take it for dead, break off what it does.

    A gateway that is started again enters under another id; `c` is the one that always lives.
    """
    world = state.world
    if (cancelled := protocol.cancel(world, state.call)) is not None:
        yield replace(state, world=cancelled)
    for gateway in ("a", "b"):
        if not world.is_dead(gateway):
            leases = world.gateways | {gateway: Lease(FAR, dead=True)}
            leases |= {"c": Lease(FAR)}
            dead = replace(state, world=replace(world, gateways=leases))
            yield replace(dead, gone=state.gone | {gateway}).does(gateway, None)
            if gateway == "a" and gateway in state.work:
                yield replace(dead, was_paused=True)
    for gateway, work in state.work.items():
        if work.phase in ("asks", "asking", "heard", "settles"):
            yield state.does(gateway, None)


@pytest.fixture(autouse=True)
def few_verifications(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MOST_VERIFICATIONS", MOST_VERIFICATIONS)


def key_of(state: State) -> bytes:
    return msgspec.json.encode(state, order="sorted")


def search(first: State) -> tuple[int, list[State]]:
    """How many states can be reached, and those in which nothing more happens by itself."""
    seen, to_look_at, ends = {key_of(first)}, [first], []
    while to_look_at:
        state = to_look_at.pop()
        key = key_of(state)
        alone = [(key_of(after), after) for after in by_themselves(state)]
        if all(after == key for after, _ in alone):
            ends.append(state)
        for after_key, after in (*alone, *((key_of(after), after) for after in by_others(state))):
            if after_key not in seen:
                check(state, after)
                seen.add(after_key)
                to_look_at.append(after)
    return len(seen), ends


def check(before: State, after: State) -> None:
    """What no step may do."""
    call = after.call
    for name, row in before.world.rows.items():
        now = after.world.rows[name]
        if row.status in FINAL:
            assert (now.status, now.outcome) == (row.status, row.outcome), "a final row changed"
    assert call.idempotent or after.acted <= 1, "a call that may not run twice did"
    assert after.acted <= MOST_ATTEMPTS
    assert call.verifications <= MOST_VERIFICATIONS
    assert after.asked <= call.verifications, "somebody asked who had not taken the call"
    assert all(row.verify is None for name, row in after.world.rows.items() if name != CALL)
    if after.was_paused or call.status not in FINAL or call.outcome is None:
        return
    if call.outcome.startswith("done"):
        assert after.acted, "it is told to have happened, and did not"
    if call.outcome.endswith("not happened"):
        assert not after.acted, "it is told not to have happened, and did"


@requirement("RUN-verify-model")
@pytest.mark.parametrize("idempotent", [False, True])
def test_whatever_dies_the_call_ends_once_and_with_the_truth(*, idempotent: bool) -> None:
    reached, ends = search(beginning(idempotent=idempotent))
    assert reached > 1_000
    assert ends
    for end in ends:
        assert end.call.status in FINAL, end
        assert not end.work, end
        assert not any(row.status == "running" for row in end.world.rows.values()), end
    told = {end.call.outcome for end in ends}
    assert {"done:1", "failed:interrupted", "failed:timeout, not happened"} <= told
    assert idempotent or "failed:interrupted, not happened" in told


def _asked_for_ever(real: Callable[..., Any]) -> Callable[..., Any]:
    def verify(world: World, row: Row, *, owner: str, seen: int, why: str) -> protocol.Next:
        after: protocol.Next = real(world, replace(row, verifications=0), owner=owner, seen=seen, why=why)
        if after is None:
            return None
        return after.with_row(replace(after.rows[row.id], verifications=row.verifications + 1))

    return verify


def _nobody(_real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *_, **__: None


def _by_anybody(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda world, row, *, outcome, attempt: real(
        world, row, outcome=outcome, attempt=row.attempt if attempt else attempt
    )


@requirement("RUN-verify-model")
@pytest.mark.parametrize(
    ("move", "broken"),
    [
        ("verify", _asked_for_ever),
        ("executed", _by_anybody),
        ("verify_late", _nobody),
    ],
)
def test_the_search_finds_what_is_wrong(
    move: str, broken: Callable[[Callable[..., Any]], Callable[..., Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, move, broken(getattr(protocol, move)))
    with pytest.raises(AssertionError):
        test_whatever_dies_the_call_ends_once_and_with_the_truth(idempotent=False)
