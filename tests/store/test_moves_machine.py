"""Every move, in every order: a store does what the protocol says, zero rows exactly where the protocol says so.

A Hypothesis state machine plays moves on a store and on the model in `protocol.py` and compares every column after
each step. What must hold whatever the model says (a final row never changes, one event at most) is checked apart.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from jackfield.calls import transactions as call_tx
from jackfield.store import Store
from jackfield.store import gateways as gateway_tx
from tests.examples import examples
from tests.requirement import requirement
from tests.store import cycle_protocol, protocol
from tests.store.protocol import CALL_MOVES, FINAL, Row, World
from tests.store.replay import (
    EPOCH,
    Bench,
    Sight,
    a_bench,
    events_from,
    from_store,
    is_shown,
    play,
    searching,
    slot_in,
    spoil,
    to_call,
    to_outcome,
)
from tests.store.strategies import (
    AGENTS,
    BEGINNINGS,
    CLIENTS,
    GATEWAYS,
    GROUPS,
    MOST_OPEN,
    NEW_CALL,
    ORDINARY,
    OUTCOMES,
    PICK,
    SPANS,
    STEPS,
    TAKES,
    TOOLS,
    VALUES,
    VIA,
)

STORES = {"memory": examples(20), "sqlite": examples(12), "postgres": examples(8)}
"""Each store, and how many plays it gets."""

Move = tuple[str, dict[str, Any]]


def rule_for(group: str) -> Callable[..., None]:
    """Plays one of the group's moves where the protocol lets one through."""

    def move(self: "Moves", pick: int, values: dict[str, Any], via: int) -> None:
        apt = self.apt_moves(GROUPS[group], values) or self.apt_moves(GROUPS[group], ORDINARY)
        call, chosen = apt[pick % len(apt)]
        self.one_move(call, chosen, via)

    move.__name__ = group
    made: Callable[..., None] = rule(pick=PICK, values=VALUES, via=VIA)(move)
    return precondition(lambda self: bool(self.apt_moves(GROUPS[group], ORDINARY)))(made)


class Moves(RuleBasedStateMachine):
    """Moves in any order, by several gateways, while the clock goes on."""

    bench: ClassVar[Bench]

    def __init__(self) -> None:
        super().__init__()
        self.world = World(now=EPOCH)
        self.seen: dict[str, Row] = {}
        self.slots: dict[str, str | None] = {}
        self.bench.clear()

    @initialize(agent=st.sampled_from(AGENTS), timeout=st.sampled_from(SPANS), idempotent=st.booleans())
    def one_of_each(self, agent: str | None, timeout: int, *, idempotent: bool) -> None:
        self.enter("gw_a")
        fields = {"idempotent": idempotent, "waiter": "gw_a", "tool": "weather", "expires_in": 1_000}
        for kind in BEGINNINGS:
            self.started(kind, agent, owner="gw_a", via=0, timeout=timeout, **fields)

    @precondition(lambda self: len(self.open_calls()) < MOST_OPEN)
    @rule(new=NEW_CALL)
    def start(self, new: dict[str, Any]) -> None:
        """T1"""
        self.started(**new)

    @precondition(lambda self: len(self.open_calls()) < MOST_OPEN)
    @rule(agent=st.sampled_from(AGENTS), outcome=st.sampled_from(OUTCOMES))
    def start_short(self, agent: str | None, outcome: str) -> None:
        """T1 and T2 in one."""
        fields = {"idempotent": False, "waiter": None, "tool": "weather", "timeout": 10, "expires_in": 10}
        row = self.new_row(agent=agent, status="running", owner="gw_a", **fields)
        settled = to_outcome(outcome)
        self.bench.do(
            lambda: self.store(0).write(
                call_tx.SettledCall(
                    to_call(row), settled, age_ms=0, duration_ms=1.0, large_result=self.store(0).large_result
                )
            )
        )
        self.world = protocol.start_settled(self.world, row, outcome)

    for _group in GROUPS:
        locals()[_group] = rule_for(_group)

    @rule(values=VALUES, via=VIA)
    def nothing_else_is_let_through(self, values: dict[str, Any], via: int) -> None:
        """Every move that the protocol refuses now, of every call: zero rows each."""
        apt = self.apt_moves(tuple(TAKES), values)
        pairs = [(call, self.move_of(call, name, values)) for call in self.world.rows for name in TAKES]
        refused = [pair for pair in pairs if pair not in apt]

        async def try_all() -> list[bool]:
            played = (play(self.store(via), name, call, **given) for call, (name, given) in refused)
            return list(await asyncio.gather(*played))

        moved = self.bench.run(try_all())
        assert not any(moved), [pair for pair, was_let in zip(refused, moved, strict=True) if was_let]

    @rule(new=NEW_CALL, before=st.lists(PICK, max_size=3), picks=st.tuples(PICK, PICK), values=VALUES, others=VALUES)
    def two_moves_at_once(
        self, new: dict[str, Any], before: list[int], picks: tuple[int, int], values: Any, others: Any
    ) -> None:
        """Of a call of their own, by two gateways where there can be two: what comes out is one order or the other.

        The call is taken away again: which order it was is chance, and Hypothesis wants to be able to repeat a play.
        """
        world = self.world
        call = self.started(**new)
        for pick in before:
            self.one_move(call, self.picked(call, pick, values), pick)
        first, second = self.picked(call, picks[0], values), self.picked(call, picks[1], others)

        async def both() -> list[bool]:
            one = play(self.store(0), first[0], call, **first[1])
            other = play(self.store(1), second[0], call, **second[1])
            return list(await asyncio.gather(one, other))

        moved = self.bench.run(both())
        rows, events = self.bench.rows(), self.bench.events()
        forwards, backwards = self.in_order(call, first, second), self.in_order(call, second, first)
        orders = (forwards, (backwards[0], backwards[1][::-1]))
        fits = [answers == moved and (after.rows, after.events) == (rows, events) for after, answers in orders]
        assert any(fits), f"{first} and {second} at once gave {moved} and {rows[call]}: no order gives that"
        self.bench.forget(call)
        self.world = world

    @rule(pick=PICK, offset=st.sampled_from((-1, 0, 1)))
    def time_goes_on(self, pick: int, offset: int) -> None:
        """To the moment when something falls due, a millisecond before it or after it."""
        moments = protocol.moments(self.world)
        self.world = replace(self.world, now=max(self.world.now, moments[pick % len(moments)] + offset))
        self.bench.set_clock(self.world.now)

    @rule(gateway=st.sampled_from(GATEWAYS), what=st.sampled_from(("enters", "beats", "buries")))
    def a_gateway(self, gateway: str, what: str) -> None:
        if what == "buries":
            buried = self.bench.write(self.store(0), partial(gateway_tx.bury_late, besides=gateway))
            assert set(buried) == protocol.late_gateways(self.world, besides=gateway)
            self.world = protocol.bury(self.world, besides=gateway)
        elif what == "beats":
            after = protocol.beat(self.world, gateway=gateway)
            assert self.bench.write(self.store(0), partial(gateway_tx.beat, gateway)) == (after is not None)
            self.world = after or self.world
        elif gateway not in self.world.gateways:
            self.enter(gateway)

    @rule(client=st.sampled_from(CLIENTS), gateway=st.sampled_from(GATEWAYS), of_the_dead=st.booleans())
    def offers_are_released(self, client: str, gateway: str, *, of_the_dead: bool) -> None:
        if of_the_dead:
            self.bench.write(self.store(0), call_tx.release_offers)
            self.world = protocol.release_all(self.world)
        else:
            self.bench.write(self.store(0), partial(call_tx.server_left, client, gateway=gateway))
            self.world = protocol.server_left(self.world, client=client, gateway=gateway)

    @invariant()
    def all_is_as_the_protocol_says(self) -> None:
        sight = self.bench.run(self.bench.look(tools=TOOLS, clients=CLIENTS))
        rows = {row.id: row for row in map(from_store, sight.stored)}
        assert rows == self.world.rows
        assert sight.gateways == self.world.gateways
        assert sight.found == self.expected_finds()
        self.check_events(sight.events, rows)
        self.check_cycles(sight)
        self.check_shown(sight, rows)
        for stored in sight.stored:
            self.check_history(rows[stored["id"]], slot_in(stored))

    def expected_finds(self) -> dict[str, set[str]]:
        """What the sweeper and the tool servers should find, and nothing else."""
        world, rows = self.world, self.world.rows.values()
        answerable = [row for row in rows if row.is_open_to_answers]
        unowned = [row for row in answerable if row.owner is None]
        unheld = [row for row in unowned if row.offered_to is None and row.may_change_hands]
        free = {tool: [row for row in unheld if row.tool == tool] for tool in TOOLS}
        held = {client: [row for row in answerable if row.offered_to == client] for client in CLIENTS}
        return {
            "due_waits": _ids(row for row in rows if protocol.is_due(world, row)),
            "due_expiries": _ids(row for row in rows if protocol.is_expired(world, row)),
            "overdue_calls": _ids(row for row in rows if protocol.is_overdue(world, row)),
            "orphaned_waits": _ids(row for row in rows if protocol.is_orphaned_wait(world, row)),
            "undelivered_calls": _ids(row for row in rows if protocol.is_undelivered(world, row)),
            "orphaned_calls": _ids(row for row in rows if protocol.is_orphan(world, row)),
            "orphaned_parks": _ids(row for row in rows if protocol.is_orphaned_park(world, row)),
            "unclaimed_calls": _ids(row for row in rows if protocol.is_unclaimed(row)),
            "waiting for a login": _ids(row for row in rows if row.status == "pending_login"),
            "orphaned_cycles": cycle_protocol.orphaned_cycles(world),
            "agents_to_wake": cycle_protocol.agents_to_wake(world),
            "settled_among": _ids(row for row in rows if row.status in FINAL),
            **{f"to offer: {tool}": _ids(found) for tool, found in free.items()},
            **{f"offered to: {client}": _ids(found) for client, found in held.items()},
        }

    def check_events(self, events: list[Any], rows: dict[str, Row]) -> None:
        """One event for each outcome that goes to an inbox, and for nothing else."""
        by_inbox = [row for row in rows.values() if row.status in FINAL and row.delivery == "inbox" and row.agent]
        results = [event for event in events if event["event_id"].startswith("tr:")]
        assert sorted(event["event_id"] for event in results) == sorted(f"tr:{row.id}" for row in by_inbox)
        assert list(events_from(events).items()) == list(self.world.events.items())
        for event in results:
            row = rows[event["event_id"].removeprefix("tr:")]
            assert event["agent"] == row.agent
            assert msgspec.json.decode(event["data"])["toolCallId"] == row.id

    def check_shown(self, sight: Sight, rows: dict[str, Row]) -> None:
        """The space sees each visible call once, where it is now. Built-ins it does not see."""
        calls = [row for row in rows.values() if row.deadline is not None or row.delivery != "inline" or not row.cycle]
        expected = [(row.id, protocol.shown_status(row), row.arguments) for row in calls if is_shown(row.id)]
        seen = [(shown.tool_call_id, shown.status, bytes(shown.args).decode()) for shown in sight.shown]
        assert sorted(seen) == sorted(expected)

    def check_cycles(self, sight: Sight) -> None:
        """Where nobody opens one there is none."""
        assert not [*sight.cycles, *sight.steps, *sight.minds]

    def check_history(self, row: Row, slot: str | None) -> None:
        """What is decided stays decided, whatever the model thinks. Nobody reads the slots of a failed cycle."""
        if row.cycle is not None and self.world.cycles[row.cycle].status == "failed":
            slot = self.slots[row.id] = protocol.slot(row)
        assert slot == protocol.slot(row)
        if (before := self.seen.get(row.id)) is not None:
            _check_change(before, row)
            assert self.slots[row.id] in {None, slot}, f"the slot of {row.id} changed"
        self.seen[row.id], self.slots[row.id] = row, slot

    def one_move(self, call: str, move: Move, via: int) -> None:
        name, values = move
        after = CALL_MOVES[name](self.world, self.world.rows[call], **values)
        moved = self.bench.run(play(self.store(via), name, call, **values))
        assert moved == (after is not None), f"{name} of {call}: the store says {moved}"
        self.world = after or self.world

    def started(self, kind: str, agent: str | None, *, owner: str, via: int, **fields: Any) -> str:
        row = self.new_row(agent=agent, owner=owner if kind == "running" else None, **BEGINNINGS[kind], **fields)
        self.bench.do(lambda: self.store(via).write(partial(call_tx.start_call, to_call(row))))
        self.world = protocol.start(self.world, row)
        return row.id

    def enter(self, gateway: str) -> None:
        self.bench.write(self.store(0), partial(gateway_tx.enter, gateway, is_shared=self.store(0).is_shared))
        self.world = protocol.enter(self.world, gateway=gateway, shared=self.bench.is_shared)

    def in_order(self, call: str, *moves: Move) -> tuple[World, list[bool]]:
        world, answers = self.world, []
        for name, values in moves:
            after = CALL_MOVES[name](world, world.rows[call], **values)
            answers.append(after is not None)
            world = after or world
        return world, answers

    def picked(self, call: str, pick: int, values: dict[str, Any]) -> Move:
        """One of the moves that would be let through; of all, if none would."""
        apt = [move for found, move in self.apt_moves(tuple(TAKES), values) if found == call]
        moves = apt or [self.move_of(call, name, values) for name in TAKES]
        return moves[pick % len(moves)]

    def apt_moves(self, names: Sequence[str], values: dict[str, Any]) -> list[tuple[str, Move]]:
        """Those of the moves that the protocol would let through now, and for which call."""
        rows = self.world.rows
        pairs = [(call, self.move_of(call, name, values)) for call in rows for name in names]
        return [(call, move) for call, move in pairs if CALL_MOVES[move[0]](self.world, rows[call], **move[1])]

    def move_of(self, call: str, name: str, values: dict[str, Any]) -> Move:
        """The move with what it takes, attempts counted from the row's own."""
        row = self.world.rows[call]
        attempt = row.attempt
        given = values | {"attempt": attempt + values["attempt"], "seen": attempt + values["seen"]}
        given["offer"] = 0 if values["offer"] is None else max(row.offers + values["offer"], 0)
        return name, {key: given[key] for key in TAKES[name]}

    def open_calls(self) -> list[str]:
        return [row.id for row in self.world.rows.values() if row.status not in FINAL]

    def new_row(self, **fields: Any) -> Row:
        call_id = f"call_{len(self.world.rows):03}"
        return Row(id=call_id, arguments='{"text":"hi"}', created=self.world.now, **fields)

    def store(self, via: int) -> Store:
        return self.bench.stores[via % len(self.bench.stores)]


def _ids(rows: Iterable[Row]) -> set[str]:
    return {row.id for row in rows}


def _check_change(before: Row, now: Row) -> None:
    """What may become of a row, whatever the model thinks."""
    if before.status in FINAL:
        assert (now.status, now.outcome) == (before.status, before.outcome), "a final row changed"
    if before.delivery == "inbox":
        assert now.delivery == "inbox", "an outcome left the inbox"
    if before.delivery == "inline" and now.delivery != "inline":
        assert now.delivery == "inbox", "a decided delivery was undecided"
        assert before.status in FINAL, "only a settled outcome may be given to the inbox"
        assert before.sent is None or now.cycle is not None, "what was sent was given as well"
    if before.first_reply is not None:
        assert now.first_reply == before.first_reply, "the first reply changed"
    if before.delivery is None and now.delivery == "inbox":
        given_up = now.cycle is not None and now.first_reply is None
        parked = before.status == "running" and now.first_reply == "pending"
        assert given_up or parked or now.first_reply == "timeout", (
            "an undecided call went to the inbox by another way than T3, T10, T13"
        )


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bench(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    urls = {"memory": ["memory:"], "sqlite": ["sqlite:///calls.db"]}
    two_gateways = urls.get(kind) or [request.getfixturevalue("postgres_url")] * 2
    with a_bench(two_gateways, tmp_path) as made:
        yield made


def play_on(bench: Bench, limits: settings) -> None:
    machine = type("MovesHere", (Moves,), {"bench": bench})
    run_state_machine_as_test(machine, settings=limits)


@requirement("CON-one-deadline")
@pytest.mark.timeout(examples(600))
def test_every_store_moves_as_the_protocol_says(kind: str, bench: Bench) -> None:
    play_on(bench, settings(max_examples=STORES[kind], stateful_step_count=STEPS))


@pytest.mark.parametrize("kind", ["memory"], indirect=True)
@pytest.mark.parametrize(
    ("statement", "guard", "instead"),
    [
        ("settle_submitted", "IN ('waiting', 'pending')", "IN ('waiting', 'pending', 'completed')"),
        ("settle_submitted", "COALESCE(delivery, 'inline')", "'inline'"),
        ("settle_executed", "attempt = ?", "? IS NOT NULL"),
        ("settle_expired", "expires_at <=", "0 <="),
        ("settle_overdue", "deadline + 15000", "deadline"),
        ("flip_one", "deadline <=", "0 <="),
        ("claim", "AND attempt = 0", ""),
        ("park", "AND attempt = ?", "AND ? IS NOT NULL"),
        ("park_operation", "AND attempt = ?", "AND ? IS NOT NULL"),
        ("park_for_login", "AND attempt = ?", "AND ? IS NOT NULL"),
        ("login_to_run", "status = 'pending_login'", "status IN ('pending_login', 'cancelled')"),
        ("resume", "AND owner = ?", "AND ? IS NOT NULL"),
        ("settle_parked", "AND owner = ?", "AND ? IS NOT NULL"),
        ("give_to_inbox", "AND sent_at IS NULL", ""),
        ("offer", "offered_to = ? OR (offered_to IS NULL AND", "? IS NOT NULL OR (offered_to IS NULL AND"),
        ("beat", "AND dead = 0", ""),
    ],
)
def test_a_store_without_one_of_the_guards_is_found_out(bench: Bench, statement: str, guard: str, instead: str) -> None:
    spoil(bench, statement, guard=guard, instead=instead)
    with pytest.raises((AssertionError, sqlite3.IntegrityError)):
        play_on(bench, searching(1_500, STEPS))
