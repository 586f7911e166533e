"""The pending protocol on paper: what each move does to a row, in plain Python, written from `pending-protocol.md`.

A `World` is all rows at one moment and never changes; a move gives the next world, or None where the protocol says
"zero rows". Above: `test_moves_machine.py`, which plays the same moves against real stores. Below: nothing of ours.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

FINAL = frozenset({"completed", "failed", "rejected", "expired", "cancelled"})
LEASE_MS = 15_000
VERIFY_MS = 30_000
OVERDUE_MS = 15_000
MOST_VERIFICATIONS = 3
GONE_MS = 10_000


class Row(Struct, frozen=True, kw_only=True):
    """One call, with every column that a move may touch or ask for."""

    id: str
    tool: str
    agent: str | None
    idempotent: bool
    waiter: str | None
    timeout: int
    expires_in: int
    created: int
    arguments: str
    status: str
    delivery: str | None = None
    first_reply: str | None = None
    outcome: str | None = None
    attempt: int = 0
    owner: str | None = None
    sent: int | None = None
    deadline: int | None = None
    expires: int | None = None
    finished: int | None = None
    offered_to: str | None = None
    offered_by: str | None = None
    offers: int = 0
    left: int | None = None
    """When the tool server that has it went away."""
    begun: int = 0
    """The first of its offers under which progress was reported."""
    cycle: str | None = None
    step: int | None = None
    idx: int | None = None
    logins: int = 0
    """How often it has waited for a login."""
    last_attempt: int = 0
    """Which attempt came to that, last."""
    since: int | None = None
    """When it began to, last."""
    verify: str | None = None
    """Who can say whether it took effect."""
    verifying: str | None = None
    """Why that is asked: `interrupted` or `timeout`."""
    verifications: int = 0
    """How often it was."""

    @property
    def is_open_to_answers(self) -> bool:
        return self.status in {"waiting", "pending"}

    @property
    def may_be_verified(self) -> bool:
        return self.verify is not None and self.verifications < MOST_VERIFICATIONS

    @property
    def may_change_hands(self) -> bool:
        """Whether a server that has not had this call may have it."""
        return self.idempotent or self.begun == 0


class Lease(Struct, frozen=True):
    """One gateway."""

    alive_until: int
    dead: bool = False


class Event(Struct, frozen=True, kw_only=True):
    """Something in an inbox."""

    agent: str
    status: str = "pending"
    cycle: str | None = None
    not_before: int = 0


class Cycle(Struct, frozen=True, kw_only=True):
    """One wake-up of an agent (`cycle_protocol.py`)."""

    id: str
    agent: str
    number: int
    owner: str
    consumed: tuple[str, ...]
    created: int
    status: str = "open"
    epoch: int = 1
    tries: int = 1
    finished: int | None = None


class World(Struct, frozen=True, kw_only=True):
    """Everything, at one moment of the database's clock."""

    now: int
    rows: dict[str, Row] = {}
    events: dict[str, Event] = {}
    """In the order they came."""
    gateways: dict[str, Lease] = {}
    cycles: dict[str, Cycle] = {}
    steps: dict[tuple[str, int], str] = {}
    minds: dict[str, tuple[int, str]] = {}
    """Of each agent, how often it was written and what."""

    def with_row(self, row: Row) -> "World":
        return replace(self, rows=self.rows | {row.id: row})

    def with_event(self, row: Row, *, not_before: int = 0) -> "World":
        """The one `tr:` event of this call. A second is a fault of the protocol itself."""
        event = f"tr:{row.id}"
        assert event not in self.events, f"a second {event}"
        assert row.agent is not None
        return replace(self, events=self.events | {event: Event(agent=row.agent, not_before=not_before)})

    def is_dead(self, gateway: str | None) -> bool:
        return gateway not in self.gateways or self.gateways[gateway].dead


Next = World | None
Rule = Callable[..., Next]


def start(world: World, row: Row) -> World:
    """T1: the clock starts in the transaction that writes the row."""
    row = replace(row, created=world.now)
    if row.status == "waiting" or (row.status == "running" and row.attempt > 0):
        row = replace(row, deadline=world.now + row.timeout)
    if row.status in {"pending", "pending_approval", "pending_login"}:
        row = replace(row, expires=expiry(world, row))
    return world.with_row(row)


def expiry(world: World, row: Row) -> int | None:
    """When nobody needs to answer any more; None where the operator wrote that there is no end (`expiresIn = 0`)."""
    return world.now + row.expires_in if row.expires_in else None


def start_settled(world: World, row: Row, outcome: str) -> World:
    """T1 and T2 in one, for a short call."""
    status = _status_of(outcome)
    settled = replace(
        row, status=status, outcome=outcome, delivery="inline", created=world.now, finished=world.now, attempt=1
    )
    return world.with_row(settled)


def _settle(world: World, row: Row, status: str, outcome: str) -> World:
    """T2: the only way to a final status; where the outcome goes is decided with it."""
    settled = replace(row, status=status, outcome=outcome, delivery=row.delivery or "inline", finished=world.now)
    after = world.with_row(settled)
    return after.with_event(settled) if settled.delivery == "inbox" and settled.agent else after


def _status_of(outcome: str) -> str:
    return "completed" if outcome.startswith("done") else "failed"


def submit(world: World, row: Row, *, outcome: str) -> Next:
    return _settle(world, row, _status_of(outcome), outcome) if row.is_open_to_answers else None


def executed(world: World, row: Row, *, outcome: str, attempt: int) -> Next:
    mine = row.status == "running" and row.attempt == attempt
    return _settle(world, row, _status_of(outcome), outcome) if mine else None


def reject(world: World, row: Row) -> Next:
    waits = row.status in {"pending_approval", "pending_login"}
    return _settle(world, row, "rejected", "failed:rejected") if waits else None


def cancel(world: World, row: Row) -> Next:
    return None if row.status in FINAL else _settle(world, row, "cancelled", "failed:cancelled")


def expire(world: World, row: Row) -> Next:
    return _settle(world, row, "expired", "failed:expired") if is_expired(world, row) else None


def overdue(world: World, row: Row) -> Next:
    is_lost = is_overdue(world, row) and not row.may_be_verified
    return _settle(world, row, "failed", "failed:timeout") if is_lost else None


def flip(world: World, row: Row) -> Next:
    """T3, at the deadline."""
    return abandon(world, row) if is_due(world, row) else None


def abandon(world: World, row: Row) -> Next:
    """T3, because the HTTP client hung up."""
    if row.status != "waiting":
        return None
    expires = expiry(world, row)
    return world.with_row(replace(row, status="pending", delivery="inbox", first_reply="timeout", expires=expires))


def report(world: World, row: Row, *, limit: int, holder: str, offer: int, begins: bool) -> Next:
    """Progress: another timeout for who waits, up to the limit; a pending call only shows that it lives.

    With the number of an `offer` it is that offer's server who speaks, without (0) it is somebody with a key.
    """
    if not row.is_open_to_answers or not _may_report(row, holder=holder, offer=offer, begins=begins):
        return None
    if row.begun == 0:
        is_its_server = offer == row.offers if offer else _has(holder, row) or (begins and row.offered_to is None)
        row = replace(row, begun=row.offers if is_its_server else 0)
    if row.status == "waiting":
        assert row.deadline is not None
        later = min(world.now + row.timeout, row.created + limit)
        row = replace(row, deadline=max(later, row.deadline))
    return world.with_row(row)


def _may_report(row: Row, *, holder: str, offer: int, begins: bool) -> bool:
    if row.idempotent:
        return True
    if offer:
        return offer == (row.begun or row.offers)
    return not begins or row.offered_to is None or _has(holder, row)


def _has(holder: str, row: Row) -> bool:
    return row.offered_to is not None and row.offered_to.startswith(holder)


def approve_to_run(world: World, row: Row, *, arguments: str | None) -> Next:
    """T4: the row may be claimed."""
    if row.status != "pending_approval":
        return None
    return world.with_row(replace(row, status="running", attempt=0, arguments=arguments or row.arguments))


def approve_to_wait(world: World, row: Row, *, arguments: str | None) -> Next:
    """T4 for tools that somebody else answers."""
    if row.status != "pending_approval":
        return None
    expires = expiry(world, row)
    return world.with_row(replace(row, status="pending", arguments=arguments or row.arguments, expires=expires))


def claim(world: World, row: Row, *, owner: str) -> Next:
    """T5"""
    if not is_unclaimed(row):
        return None
    attempt = row.last_attempt + 1
    return world.with_row(replace(row, attempt=attempt, owner=owner, deadline=world.now + row.timeout))


def reclaim(world: World, row: Row, *, owner: str, seen: int) -> Next:
    """T6"""
    if row.status != "running" or row.attempt != seen or row.verifying is not None:
        return None
    return world.with_row(replace(row, attempt=seen + 1, owner=owner, deadline=world.now + row.timeout))


def verify(world: World, row: Row, *, owner: str, seen: int, why: str) -> Next:
    """T15, after its executor's timer or after its executor: whoever does this asks whether it took effect."""
    if row.status != "running" or row.attempt != seen or seen < 1 or not row.may_be_verified:
        return None
    asked = replace(row, attempt=seen + 1, owner=owner, deadline=world.now + VERIFY_MS)
    return world.with_row(replace(asked, verifying=row.verifying or why, verifications=row.verifications + 1))


def verify_late(world: World, row: Row, *, owner: str, seen: int, why: str) -> Next:
    """T15 by the sweeper: its executor lives and did not keep its own deadline."""
    late = row.deadline is not None and row.deadline + OVERDUE_MS <= world.now
    return verify(world, row, owner=owner, seen=seen, why=why) if late else None


def park(world: World, row: Row, *, owner: str, attempt: int) -> Next:
    """T13: its executor lives on, and waits for somebody."""
    if row.status != "running" or row.attempt != attempt or attempt < 1:
        return None
    return world.with_row(
        replace(
            row,
            status="pending",
            attempt=0,
            owner=owner,
            delivery=row.delivery or ("inbox" if row.agent else None),
            first_reply=row.first_reply or "pending",
            expires=expiry(world, row),
        )
    )


def park_operation(world: World, row: Row, *, attempt: int) -> Next:
    """T13: its work goes on at the tool's owner, and no gateway holds anything."""
    parked = park(world, row, owner="", attempt=attempt)
    if parked is None:
        return None
    return parked.with_row(replace(parked.rows[row.id], owner=None, offered_to="operation"))


def park_for_login(world: World, row: Row, *, attempt: int) -> Next:
    """T13: the source refused before it acted; no gateway holds anything."""
    parked = park(world, row, owner="", attempt=attempt)
    if parked is None:
        return None
    waits = replace(parked.rows[row.id], status="pending_login", owner=None, logins=row.logins + 1, since=world.now)
    return parked.with_row(replace(waits, last_attempt=attempt))


def login_done(world: World, row: Row) -> Next:
    """T4': the row may be claimed."""
    return world.with_row(replace(row, status="running", attempt=0)) if row.status == "pending_login" else None


def resume(world: World, row: Row, *, owner: str, seen: int) -> Next:
    """The end of T13, by the gateway that parked it and nobody else; `seen` is the attempt that it goes on as."""
    if not is_parked(row) or row.owner != owner:
        return None
    return world.with_row(replace(row, status="running", attempt=seen, deadline=world.now + row.timeout))


def interrupt(world: World, row: Row, *, owner: str) -> Next:
    """T2 for a parked call whose gateway died."""
    if not is_parked(row) or row.owner != owner:
        return None
    return _settle(world, row, "failed", "failed:interrupted")


def mark_sent(world: World, row: Row) -> Next:
    """T11"""
    return world.with_row(replace(row, sent=world.now)) if row.delivery == "inline" else None


def give(world: World, row: Row) -> Next:
    """T12"""
    settled_for_one = row.status in FINAL and row.delivery == "inline" and row.agent is not None
    if not settled_for_one or row.sent is not None or row.cycle is not None:
        return None
    given = replace(row, delivery="inbox")
    return world.with_row(given).with_event(given)


def offer(world: World, row: Row, *, client: str, gateway: str) -> Next:
    """To the first tool server that takes it, and to that one again."""
    is_free = row.offered_to is None and row.may_change_hands
    if not row.is_open_to_answers or row.owner is not None or not (is_free or row.offered_to == client):
        return None
    return world.with_row(replace(row, offered_to=client, offered_by=gateway, offers=row.offers + 1, left=None))


CALL_MOVES: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        submit,
        executed,
        reject,
        cancel,
        expire,
        overdue,
        flip,
        abandon,
        report,
        approve_to_run,
        approve_to_wait,
        claim,
        reclaim,
        verify,
        verify_late,
        park,
        park_operation,
        park_for_login,
        login_done,
        resume,
        interrupt,
        mark_sent,
        give,
        offer,
    )
}
"""Every move that concerns one call."""


def server_left(world: World, *, client: str, gateway: str) -> World:
    """A tool server is gone."""
    return release(_left(world, lambda row: row.offered_to == client and row.offered_by == gateway))


def release_all(world: World) -> World:
    """By the sweeper: servers are gone with their gateway too. Work that goes on at its owner was offered by none."""
    return release(_left(world, lambda row: row.offered_by is not None and world.is_dead(row.offered_by)))


def _left(world: World, had: Callable[[Row], bool]) -> World:
    for row in world.rows.values():
        if row.is_open_to_answers and row.left is None and had(row):
            world = world.with_row(replace(row, left=world.now))
    return world


def release(world: World) -> World:
    """What may run twice is free at once, the rest 10 s after its server left, unless that had begun."""
    for row in world.rows.values():
        if row.is_open_to_answers and row.left is not None:
            waited = world.now - row.left >= GONE_MS
            if row.idempotent or (waited and row.begun == 0):
                world = world.with_row(replace(row, offered_to=None, offered_by=None, left=None))
    return world


def enter(world: World, *, gateway: str, shared: bool) -> World:
    """A new process. Where only one can be, every other is dead, and so is whoever waited there."""
    if shared:
        return replace(world, gateways=world.gateways | {gateway: Lease(world.now + LEASE_MS)})
    dead = {name: replace(one, dead=True) for name, one in world.gateways.items()}
    world = replace(world, gateways=dead | {gateway: Lease(world.now + LEASE_MS)})
    for row in world.rows.values():
        if row.cycle is None:
            world = abandon(world, row) or world
    return world


def beat(world: World, *, gateway: str) -> Next:
    if world.is_dead(gateway):
        return None
    return replace(world, gateways=world.gateways | {gateway: Lease(world.now + LEASE_MS)})


def late_gateways(world: World, *, besides: str) -> set[str]:
    late = {name for name, lease in world.gateways.items() if not lease.dead and lease.alive_until < world.now}
    return late - {besides}


def bury(world: World, *, besides: str) -> World:
    """By a gateway that is at work again, whatever its own lease says."""
    dead = {name: replace(world.gateways[name], dead=True) for name in late_gateways(world, besides=besides)}
    return replace(world, gateways=world.gateways | dead)


def moments(world: World) -> list[int]:
    """When something falls due from now on, the nearest first; and a second from now."""
    rows = world.rows.values()
    deadlines = [row.deadline for row in rows if row.deadline is not None]
    expiries = [row.expires for row in rows if row.expires is not None]
    leases = [lease.alive_until for lease in world.gateways.values() if not lease.dead]
    events = [event.not_before for event in world.events.values()]
    gone = [row.left + GONE_MS for row in rows if row.left is not None]
    late = [at + OVERDUE_MS for at in deadlines]
    all_of_them = [*deadlines, *late, *expiries, *leases, *events, *gone, world.now + 1_000]
    return sorted({at for at in all_of_them if at >= world.now})


def is_due(world: World, row: Row) -> bool:
    return row.status == "waiting" and row.deadline is not None and row.deadline <= world.now


def is_expired(world: World, row: Row) -> bool:
    waits = row.status in {"pending", "pending_approval", "pending_login"}
    return waits and row.expires is not None and row.expires <= world.now


def is_overdue(world: World, row: Row) -> bool:
    begun = row.status == "running" and row.attempt >= 1
    return begun and row.deadline is not None and row.deadline + OVERDUE_MS <= world.now


def is_unclaimed(row: Row) -> bool:
    return row.status == "running" and row.attempt == 0


def is_orphan(world: World, row: Row) -> bool:
    return row.status == "running" and row.attempt >= 1 and world.is_dead(row.owner)


def is_parked(row: Row) -> bool:
    return row.status == "pending" and row.owner is not None


def is_orphaned_park(world: World, row: Row) -> bool:
    return is_parked(row) and world.is_dead(row.owner)


def is_orphaned_wait(world: World, row: Row) -> bool:
    return row.status == "waiting" and row.cycle is None and row.waiter is not None and world.is_dead(row.waiter)


def is_undelivered(world: World, row: Row) -> bool:
    """What the sweeper gives to the inbox: nobody is left who could send it."""
    return row.waiter is not None and world.is_dead(row.waiter) and give(world, row) is not None


def slot(row: Row) -> Any:
    """What the tool call returns, as the protocol reads it off a row; None while undecided."""
    if row.delivery == "inbox" and row.first_reply:
        return row.first_reply
    return row.outcome if row.delivery is not None and row.status in FINAL else None


def shown_status(row: Row) -> str:
    """What a space sees of the call (contract §7, §14): whether somebody is asked, and how it ended."""
    if row.status in FINAL:
        return "complete" if row.status == "completed" else "error"
    is_asked = row.status in {"pending_approval", "pending_login"} or (
        row.status == "pending" and row.first_reply == "pending"
    )
    return "requires_action" if is_asked else "running"
