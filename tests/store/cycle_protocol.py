"""The moves of a cycle on paper: T1 in a cycle and T7 to T10, written from `pending-protocol.md`.

As in `protocol.py`: a move gives the next world, or None where the protocol says "zero rows".
Above: `test_cycles_machine.py`. Below: `protocol.py`.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from tests.store import protocol
from tests.store.protocol import FINAL, Cycle, Event, Next, Row, World


def push(world: World, event_id: str, *, agent: str) -> World:
    """Something happens that the agent should know."""
    return replace(world, events=world.events | {event_id: Event(agent=agent)})


def is_open(world: World, agent: str) -> bool:
    return any(cycle.status == "open" for cycle in world.cycles.values() if cycle.agent == agent)


def due_events(world: World, agent: str) -> dict[str, Event]:
    mine = {name: event for name, event in world.events.items() if event.agent == agent}
    return {name: event for name, event in mine.items() if event.status == "pending" and event.not_before <= world.now}


def agents_to_wake(world: World) -> set[str]:
    agents = {event.agent for event in world.events.values()}
    return {agent for agent in agents if due_events(world, agent) and not is_open(world, agent)}


def orphaned_cycles(world: World) -> set[str]:
    return {cycle.id for cycle in world.cycles.values() if cycle.status == "open" and world.is_dead(cycle.owner)}


def open_cycle(world: World, cycle_id: str, *, agent: str, owner: str) -> Next:
    """T8"""
    due = due_events(world, agent)
    if is_open(world, agent) or not due:
        return None
    number = 1 + sum(cycle.agent == agent for cycle in world.cycles.values())
    cycle = Cycle(id=cycle_id, agent=agent, number=number, owner=owner, consumed=tuple(due), created=world.now)
    taken = {name: replace(event, status="processing", cycle=cycle_id) for name, event in due.items()}
    return replace(world, cycles=world.cycles | {cycle_id: cycle}, events=world.events | taken)


def take_step(world: World, cycle: Cycle, *, epoch: int, message: str, rows: Sequence[Row]) -> Next:
    """T1. A row that is final is a built-in's."""
    if not _may(cycle, epoch):
        return None
    n = next_step(world, cycle)
    for idx, row in enumerate(rows):
        placed = replace(row, agent=cycle.agent, cycle=cycle.id, step=n, idx=idx)
        if row.status in FINAL:
            world = world.with_row(replace(placed, created=world.now, finished=world.now))
        else:
            world = protocol.start(world, placed)
    return replace(world, steps=world.steps | {(cycle.id, n): message})


def next_step(world: World, cycle: Cycle) -> int:
    return 1 + sum(of == cycle.id for of, _ in world.steps)


def take_over(world: World, cycle: Cycle, *, seen: int, owner: str) -> Next:
    """T7"""
    if not _may(cycle, seen) or not world.is_dead(cycle.owner):
        return None
    taken = replace(cycle, owner=owner, epoch=cycle.epoch + 1, tries=cycle.tries + 1)
    return _with_cycle(world, taken)


def commit(world: World, cycle: Cycle, *, epoch: int, mind: str) -> Next:
    """T9"""
    if not _may(cycle, epoch):
        return None
    version, _ = world.minds.get(cycle.agent, (0, ""))
    processed = {
        name: replace(event, status="processed") for name, event in world.events.items() if event.cycle == cycle.id
    }
    after = replace(world, minds=world.minds | {cycle.agent: (version + 1, mind)}, events=world.events | processed)
    return _with_cycle(after, replace(cycle, status="done", finished=world.now))


def abandon(world: World, cycle: Cycle, *, epoch: int, backoff: int) -> Next:
    """T10"""
    if not _may(cycle, epoch):
        return None
    not_before = world.now + backoff
    rows = [row for row in world.rows.values() if row.cycle == cycle.id]
    for row in sorted(rows, key=lambda row: (row.step, row.idx)):
        world = _given(world, row, not_before=not_before)
    back = {
        name: replace(event, status="pending", cycle=None, not_before=not_before)
        for name, event in world.events.items()
        if event.cycle == cycle.id
    }
    told = {f"cf:{cycle.id}": Event(agent=cycle.agent, not_before=not_before)}
    after = replace(world, events=world.events | back | told)
    return _with_cycle(after, replace(cycle, status="failed", finished=world.now))


def _given(world: World, row: Row, *, not_before: int) -> World:
    """One call of a cycle that is given up: from now on its outcome comes by the inbox."""
    if row.status == "waiting":
        flipped = protocol.abandon(world, row)
        assert flipped is not None
        return flipped
    if row.delivery is None:
        return world.with_row(replace(row, delivery="inbox"))
    is_builtin = row.deadline is None
    if row.delivery == "inbox" or is_builtin:
        return world
    given = replace(row, delivery="inbox")
    return world.with_row(given).with_event(given, not_before=not_before)


def _may(cycle: Cycle, epoch: int) -> bool:
    return cycle.status == "open" and cycle.epoch == epoch


def _with_cycle(world: World, cycle: Cycle) -> World:
    return replace(world, cycles=world.cycles | {cycle.id: cycle})
