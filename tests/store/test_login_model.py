"""A call that waits for a login, searched exhaustively: T13, T4' and T4, two gateways, crashes and pauses at any point.

The moves are those of `protocol.py`, which `test_moves_machine.py` holds against the real stores. What gateways do
between them (run the tool, be refused, park; commit a login, then let its calls go; sweep) is played in every order.
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
MOST_LOGINS = 2
MOST_TIMES = 2
"""How often the call may wait for a login."""
MOST_ATTEMPTS = 3
Phase = Literal["begun", "refused", "acted"]


class Work(Struct, frozen=True):
    """What one process does with the call: it has begun the tool, was refused by its source, or the tool has acted."""

    attempt: int
    phase: Phase = "begun"


class State(Struct, frozen=True, kw_only=True):
    """The database with its credentials, and what the processes have in hand; a process that is gone has nothing."""

    world: World
    work: dict[str, Work]
    login: bool = False
    """Whether there are credentials that the source takes."""
    telling: frozenset[str] = frozenset()
    """Gateways that have committed a login and not yet let its calls go."""
    gone: frozenset[str] = frozenset()
    logins: int = 0
    acted: int = 0
    """How often the tool has done what it does."""
    latest: int = 1
    """The highest attempt that anybody made."""

    @property
    def call(self) -> Row:
        return self.world.rows[CALL]

    def does(self, gateway: str, work: Work | None) -> "State":
        others = {name: one for name, one in self.work.items() if name != gateway}
        return replace(self, work=others if work is None else others | {gateway: work})


def beginning(agent: str | None, *, idempotent: bool, approval: bool) -> State:
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
        status="pending_approval" if approval else "running",
        delivery="inbox" if approval else None,
        first_reply="pending" if approval else None,
        attempt=0 if approval else 1,
        owner=None if approval else "a",
    )
    world = World(now=0, gateways={"a": Lease(FAR), "b": Lease(FAR)})
    return State(world=protocol.start(world, row), work={} if approval else {"a": Work(1)})


def by_executor(state: State, gateway: str) -> Iterator[State]:
    """The next thing that a process does with the call it has in hand."""
    work, world, call = state.work[gateway], state.world, state.call
    if work.phase == "begun":
        acts = state.does(gateway, Work(work.attempt, "acted"))
        yield (
            replace(acts, acted=state.acted + 1) if state.login else state.does(gateway, Work(work.attempt, "refused"))
        )
    elif work.phase == "acted":
        after = protocol.executed(world, call, outcome="done:1", attempt=work.attempt)
        if after is not None:
            assert work.attempt == state.latest, "an attempt that another had followed settled the call"
        yield replace(state, world=after or world).does(gateway, None)
    else:
        if call.logins >= MOST_TIMES:
            after = protocol.executed(world, call, outcome="failed:login_needed", attempt=work.attempt)
        else:
            after = protocol.park_for_login(world, call, attempt=work.attempt)
        if after is not None:
            assert work.attempt == state.latest, "an attempt that another had followed parked the call"
        yield replace(state, world=after or world).does(gateway, None)


def by_sweeper(state: State, gateway: str) -> Iterator[State]:
    """What a living gateway does after a dead one, after a login of which nobody said so, and about time."""
    world, call = state.world, state.call
    if protocol.is_orphan(world, call):
        if call.idempotent and call.attempt < MOST_ATTEMPTS:
            after = protocol.reclaim(world, call, owner=gateway, seen=call.attempt)
            assert after is not None
            yield begun(replace(state, world=after), gateway)
        else:
            after = protocol.executed(world, call, outcome="failed:interrupted", attempt=call.attempt)
            yield replace(state, world=after or world)
    if state.login and (let_go := protocol.login_done(world, call)) is not None:
        yield replace(state, world=let_go)
    if gateway not in state.work and (claimed := protocol.claim(world, call, owner=gateway)) is not None:
        yield begun(replace(state, world=claimed), gateway)
    late = replace(world, now=max(world.now, call.expires or 0))
    if (expired := protocol.expire(late, call)) is not None:
        yield replace(state, world=replace(expired, now=world.now))


def begun(state: State, gateway: str) -> State:
    """A gateway begins the attempt that it has just put on record."""
    attempt = state.call.attempt
    return replace(state, latest=max(state.latest, attempt)).does(gateway, Work(attempt))


def by_themselves(state: State) -> Iterator[State]:
    """What happens though nobody does anything."""
    for gateway in state.work:
        yield from by_executor(state, gateway)
    for gateway in state.telling:  # T4', by the gateway that has the login
        after = protocol.login_done(state.world, state.call)
        yield replace(state, world=after or state.world, telling=state.telling - {gateway})
    for gateway in state.world.gateways:
        if gateway not in state.gone and not state.world.is_dead(gateway):
            yield from by_sweeper(state, gateway)


def by_others(state: State) -> Iterator[State]:
    """What people, the source and fate do, at any time."""
    world, call = state.world, state.call
    for answered in (
        protocol.cancel(world, call),
        protocol.reject(world, call),
        protocol.approve_to_run(world, call, arguments=None),
    ):
        if answered is not None:
            yield replace(state, world=answered)
    for gateway in sorted({"a", "b"} - state.gone):
        if not state.login and state.logins < MOST_LOGINS:
            telling = state.telling | {gateway}
            yield replace(state, login=True, logins=state.logins + 1, telling=telling)
    if state.login:  # the source takes it back, or wants more than it allows
        yield replace(state, login=False)
    if not world.is_dead("a"):
        leases = world.gateways | {"a": Lease(FAR, dead=True)}
        paused = replace(state, world=replace(world, gateways=leases))
        yield paused
        yield replace(paused, gone=frozenset({"a"}), telling=state.telling - {"a"}).does("a", None)


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
    if before.call.status in FINAL:
        now = (after.call.status, after.call.outcome)
        assert now == (before.call.status, before.call.outcome), "a final row changed"
    assert after.call.idempotent or after.acted <= 1, "a call that may not run twice did"
    assert after.call.logins <= MOST_TIMES, "the call waits for logins again and again"


@requirement("ID-login-wait-runs-once")
@pytest.mark.parametrize("agent", [None, "ada"])
@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("approval", [False, True])
def test_whatever_dies_the_call_runs_once_and_ends_and_the_agent_is_told_once(
    agent: str | None, *, idempotent: bool, approval: bool
) -> None:
    reached, ends = search(beginning(agent, idempotent=idempotent, approval=approval))
    assert reached > 1_000
    assert ends
    for end in ends:
        assert end.call.status in FINAL | {"pending_approval"}, end
        told = f"tr:{CALL}" in end.world.events
        is_owed = end.call.status in FINAL and end.call.delivery == "inbox" and agent is not None
        assert told == is_owed, end
    assert any(end.acted == 1 and end.call.outcome == "done:1" and end.call.logins for end in ends)


@pytest.mark.parametrize(
    "broken", ["nobody looks for logins", "an attempt's number is used again", "parked by anybody"]
)
def test_the_search_finds_what_is_wrong(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if broken.startswith("nobody"):
        monkeypatch.setattr(protocol, "login_done", lambda _world, _row: None)
        monkeypatch.setattr(protocol, "expire", lambda _world, _row: None)
        _, ends = search(beginning(None, idempotent=False, approval=False))
        assert any(end.call.status == "pending_login" and end.login for end in ends)
        return
    first = beginning("ada", idempotent=True, approval=False)
    if broken.startswith("an attempt"):
        claim = protocol.claim

        def claimed_anew(world: World, row: Row, *, owner: str) -> World | None:
            return claim(world, replace(row, last_attempt=0), owner=owner)

        monkeypatch.setattr(protocol, "claim", claimed_anew)
        with pytest.raises(AssertionError, match="an attempt that another had followed"):
            search(first)
        return
    park = protocol.park_for_login
    monkeypatch.setattr(
        protocol, "park_for_login", lambda world, row, *, attempt: park(world, row, attempt=max(row.attempt, attempt))
    )
    with pytest.raises(AssertionError, match="an attempt that another had followed"):
        search(first)
