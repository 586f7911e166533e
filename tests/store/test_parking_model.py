"""T13 searched exhaustively: one call that asks questions or becomes a task of its server, two gateways, crashes and
pauses at any point.

The moves are those of `protocol.py`, which `test_moves_machine.py` holds against the real stores. What a gateway does
between them (ask, read the answer, go on, settle; sweep after the dead) is played here in every order.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.requirement import requirement
from tests.store import protocol
from tests.store.protocol import FINAL, Lease, Row, World

CALL = "call"
FAR = 10_000_000
MOST_ASKED = 2
MOST_ATTEMPTS = 3
Phase = Literal["running", "asking", "answered"]


class Work(Struct, frozen=True):
    """What one process does with the call."""

    attempt: int
    phase: Phase = "running"
    question: str = ""


class State(Struct, frozen=True, kw_only=True):
    """The database, and what the processes have in hand; a process that is gone has nothing."""

    world: World
    work: dict[str, Work]
    gone: frozenset[str] = frozenset()
    asked: int = 0
    latest: int = 1
    """The highest attempt that anybody ran."""

    @property
    def call(self) -> Row:
        return self.world.rows[CALL]

    @property
    def questions(self) -> list[Row]:
        return [row for row in self.world.rows.values() if row.id != CALL]

    def does(self, gateway: str, work: Work | None) -> "State":
        others = {name: one for name, one in self.work.items() if name != gateway}
        return replace(self, work=others if work is None else others | {gateway: work})


def beginning(agent: str | None, *, idempotent: bool) -> State:
    row = Row(
        id=CALL,
        tool="book",
        agent=agent,
        idempotent=idempotent,
        waiter=None,
        timeout=FAR,
        expires_in=1_000,
        created=0,
        arguments="{}",
        status="running",
        attempt=1,
        owner="a",
    )
    world = World(now=0, gateways={"a": Lease(FAR), "b": Lease(FAR)})
    return State(world=protocol.start(world, row), work={"a": Work(1)})


def by_executor(state: State, gateway: str) -> Iterator[State]:
    """The next thing that a process does with the call it has in hand."""
    work = state.work[gateway]
    world, call = state.world, state.call
    if work.phase == "running":
        after = protocol.executed(world, call, outcome="done:1", attempt=work.attempt)
        if after is not None:
            assert work.attempt == state.latest, "an attempt that another had followed settled the call"
        yield replace(state, world=after or world).does(gateway, None)
        if state.asked < MOST_ASKED:
            yield _asked(state, gateway, work)
        yield _left_to_owner(state, gateway, work)
    elif work.phase == "asking":
        if world.rows[work.question].status in FINAL:
            yield state.does(gateway, Work(work.attempt, "answered"))
        elif call.status in FINAL:
            yield replace(state, world=_closed(world, work.question)).does(gateway, None)
    else:
        resumed = protocol.resume(world, call, owner=gateway, seen=work.attempt + 1)
        if resumed is None:
            yield state.does(gateway, None)
        else:
            went_on = replace(state, world=resumed, latest=work.attempt + 1)
            yield went_on.does(gateway, Work(work.attempt + 1))


def _asked(state: State, gateway: str, work: Work) -> State:
    """T13 with its question in one transaction; where the call is over, the tool is stopped."""
    parked = protocol.park(state.world, state.call, owner=gateway, attempt=work.attempt)
    if parked is None:
        return state.does(gateway, None)
    name = f"question {state.asked + 1}"
    question = replace(state.call, id=name, agent=None, status="pending", owner=gateway, attempt=0, delivery=None)
    world = protocol.start(parked, replace(question, expires_in=FAR))
    return replace(state, world=world, asked=state.asked + 1).does(gateway, Work(work.attempt, "asking", name))


def _left_to_owner(state: State, gateway: str, work: Work) -> State:
    """T13 for a task of the tool's server: nothing stays in hand; where the call is over, the task is to be stopped."""
    parked = protocol.park_operation(state.world, state.call, attempt=work.attempt)
    if parked is not None:
        assert work.attempt == state.latest, "an attempt that another had followed left a task"
    return replace(state, world=parked or state.world).does(gateway, None)


def _closed(world: World, question: str) -> World:
    return protocol.cancel(world, world.rows[question]) or world


def by_sweeper(state: State, gateway: str) -> Iterator[State]:
    """What a living gateway does after a dead one, and about time."""
    world, call = state.world, state.call
    if protocol.is_orphan(world, call):
        if call.idempotent and call.attempt < MOST_ATTEMPTS:
            after = protocol.reclaim(world, call, owner=gateway, seen=call.attempt)
            assert after is not None
            attempt = call.attempt + 1
            yield replace(state, world=after, latest=attempt).does(gateway, Work(attempt))
        else:
            after = protocol.executed(world, call, outcome="failed:interrupted", attempt=call.attempt)
            yield replace(state, world=after or world)
    if call.status == "pending" and call.owner is None:  # whoever looks after tasks finds that this one is over
        yield replace(state, world=protocol.submit(world, call, outcome="done:3") or world)
    if protocol.is_orphaned_park(world, call):
        assert call.owner is not None
        yield replace(state, world=protocol.interrupt(world, call, owner=call.owner) or world)
    for question in state.questions:
        if protocol.is_orphaned_park(world, question):
            yield replace(state, world=_closed(world, question.id))
    late = replace(world, now=max(world.now, call.expires or 0))
    if call.status == "pending" and (expired := protocol.expire(late, call)) is not None:
        yield replace(state, world=replace(expired, now=world.now))


def by_themselves(state: State) -> Iterator[State]:
    """What happens though nobody does anything: the gateways at work, and the sweeper of one that lives."""
    for gateway in state.work:
        yield from by_executor(state, gateway)
    for gateway in state.world.gateways:
        if gateway not in state.gone and not state.world.is_dead(gateway):
            yield from by_sweeper(state, gateway)


def by_others(state: State) -> Iterator[State]:
    """What people and fate do, at any time: answer, cancel, kill `a`, or take it for dead while it is only paused."""
    for question in state.questions:
        if (answered := protocol.submit(state.world, question, outcome="done:2")) is not None:
            yield replace(state, world=answered)
    if (cancelled := protocol.cancel(state.world, state.call)) is not None:
        yield replace(state, world=cancelled)
    if not state.world.is_dead("a"):
        leases = state.world.gateways | {"a": Lease(FAR, dead=True)}
        paused = replace(state, world=replace(state.world, gateways=leases))
        yield paused
        yield replace(paused, gone=frozenset({"a"})).does("a", None)


def key_of(state: State) -> bytes:
    return msgspec.json.encode(state, order="sorted")


def search(first: State) -> tuple[int, list[State]]:
    """How many states can be reached, and those in which nothing more happens by itself."""
    seen, to_look_at, ends = {key_of(first)}, [first], []
    while to_look_at:
        state = to_look_at.pop()
        alone = [after for after in by_themselves(state) if key_of(after) != key_of(state)]
        if not alone:
            ends.append(state)
        for after in (*alone, *by_others(state)):
            check(state, after)
            if (key := key_of(after)) not in seen:
                seen.add(key)
                to_look_at.append(after)
    return len(seen), ends


def check(before: State, after: State) -> None:
    """What no step may do."""
    for name, row in before.world.rows.items():
        if row.status in FINAL:
            now = after.world.rows[name]
            assert (now.status, now.outcome) == (row.status, row.outcome), "a final row changed"
    assert len([event for event in after.world.events if event.startswith("tr:")]) <= 1


@requirement("SAFE-question-ends-with-its-asker")
@pytest.mark.parametrize("agent", [None, "ada"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_whatever_dies_the_call_and_its_question_end_and_the_agent_is_told_once(
    agent: str | None, *, idempotent: bool
) -> None:
    reached, ends = search(beginning(agent, idempotent=idempotent))
    assert reached > 100
    assert ends
    for end in ends:
        assert end.call.status in FINAL, end
        assert all(question.status in FINAL for question in end.questions), end
        told = f"tr:{CALL}" in end.world.events
        assert told == (end.call.delivery == "inbox" and agent is not None), end


@pytest.mark.parametrize("broken", ["nobody looks after the parked", "resumed by the same attempt"])
def test_the_search_finds_what_is_wrong(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if broken.startswith("nobody"):
        monkeypatch.setattr(protocol, "is_orphaned_park", lambda _world, _row: False)
        monkeypatch.setattr(protocol, "expire", lambda _world, _row: None)
        _, ends = search(beginning(None, idempotent=False))
        assert any(end.call.status not in FINAL for end in ends)
        return
    real = protocol.resume
    monkeypatch.setattr(
        protocol, "resume", lambda world, row, *, owner, seen: real(world, row, owner=owner, seen=min(seen, 1))
    )
    with pytest.raises(AssertionError, match="an attempt that another had followed settled the call"):
        search(beginning("ada", idempotent=True))
