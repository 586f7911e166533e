"""Every move of a cycle among every move of a call, in every order: a store does what the protocol says.

The machine of `test_moves_machine.py`, with agents that wake, take steps, are taken over, commit and give up.
"""

import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test
from msgspec.structs import replace

from jackfield.agents import cycle_transactions as cycle_tx
from jackfield.agents.cycle_transactions import Cycle as StoredCycle
from jackfield.agents.cycle_transactions import CycleOutcome, StepCall, cycle_from, push_event
from tests.examples import TIMES, examples
from tests.store import cycle_protocol
from tests.store.cycles import over
from tests.store.protocol import FINAL, Cycle, Row
from tests.store.replay import Bench, Sight, a_bench, cycle_of, searching, spoil, to_call, to_outcome
from tests.store.strategies import BEGINNINGS, GATEWAYS, MOST_OPEN, OFF_BY, PICK, SPANS, STEPS, VIA
from tests.store.test_moves_machine import Moves

STORES = {"memory": examples(12), "sqlite": examples(6), "postgres": examples(5)}
"""Each store, and how many plays it gets."""
LIVING = st.sampled_from(("ada", "bob"))
OWNER = st.sampled_from(GATEWAYS)
FORMS: dict[str, dict[str, Any]] = BEGINNINGS | {
    "builtin": {"status": "completed", "outcome": "done:1", "delivery": "inline", "attempt": 1}
}
"""T1's branches in a cycle."""
CALLS = st.lists(st.tuples(st.sampled_from(tuple(FORMS)), st.sampled_from(SPANS), st.booleans()), max_size=3)
ELSEWHERE = (
    "start",
    "start_short",
    "deliver",
    "hand_out",
    "offers_are_released",
    "nothing_else_is_let_through",
    "two_moves_at_once",
)
"""Rules that have little to do with cycles. `test_moves_machine.py` plays them; here they would only take turns."""
ALL_FORMS = [(form, 1_000, False) for form in FORMS]


class CycleMoves(Moves):
    """Agents live, by several gateways, while calls are answered and gateways die."""

    @initialize(owner=OWNER)
    def two_agents_are_at_work(self, owner: str) -> None:
        for agent in ("ada", "bob"):
            self.an_event_comes(agent=agent, via=0)
            self.an_agent_wakes(agent=agent, owner=owner, via=0)
        self.a_step(pick=0, calls=ALL_FORMS, off=0, via=0)

    @rule(agent=LIVING, via=VIA)
    def an_event_comes(self, agent: str, via: int) -> None:
        event_id = f"e{len(self.world.events):03}"
        pushed = partial(push_event, agent, event_id=event_id, type="space_message", data="{}")
        assert self.bench.write(self.store(via), pushed)
        self.world = cycle_protocol.push(self.world, event_id, agent=agent)

    @rule(agent=LIVING, owner=OWNER, via=VIA)
    def an_agent_wakes(self, agent: str, owner: str, via: int) -> None:
        """T8"""
        cycle_id = f"cycle_{len(self.world.cycles):03}"
        after = cycle_protocol.open_cycle(self.world, cycle_id, agent=agent, owner=owner)
        opened = self.bench.write(self.store(via), partial(cycle_tx.open_cycle, cycle_id, agent=agent, owner=owner))
        assert (opened is None) == (after is None), f"T8 for {agent} came to {opened}"
        if opened is not None and after is not None:
            assert tuple(event.event_id for event in opened.events) == after.cycles[cycle_id].consumed
            self.world = after

    @precondition(lambda self: self.world.cycles and len(self.open_calls()) < 2 * MOST_OPEN)
    @rule(pick=PICK, calls=CALLS, off=OFF_BY, via=VIA)
    def a_step(self, pick: int, calls: list[tuple[str, int, bool]], off: int, via: int) -> None:
        """T1"""
        cycle = self.cycle_at(pick)
        rows = [self.row_of(number, *call) for number, call in enumerate(calls)]
        epoch, n = cycle.epoch + off, cycle_protocol.next_step(self.world, cycle)
        after = cycle_protocol.take_step(self.world, cycle, epoch=epoch, message="{}", rows=rows)
        step = partial(
            cycle_tx.take_step,
            held(cycle, epoch),
            n=n,
            message="{}",
            calls=[*map(step_call, rows)],
            large_result=self.store(via).large_result,
        )
        self.moved(after, self.bench.write(self.store(via), step))

    @precondition(lambda self: self.world.cycles)
    @rule(pick=PICK, owner=OWNER, off=OFF_BY, via=VIA)
    def a_cycle_is_taken_over(self, pick: int, owner: str, off: int, via: int) -> None:
        """T7"""
        cycle = self.cycle_at(pick)
        seen = cycle.epoch + off
        after = cycle_protocol.take_over(self.world, cycle, seen=seen, owner=owner)
        self.moved(
            after, self.bench.write(self.store(via), partial(cycle_tx.take_over, held(cycle, seen), owner=owner))
        )

    @precondition(lambda self: self.world.cycles)
    @rule(pick=PICK, off=OFF_BY, via=VIA)
    def a_cycle_commits(self, pick: int, off: int, via: int) -> None:
        """T9"""
        cycle = self.cycle_at(pick)
        epoch, mind = cycle.epoch + off, f"after {cycle.id}"
        after = cycle_protocol.commit(self.world, cycle, epoch=epoch, mind=mind)
        commit = partial(cycle_tx.commit, held(cycle, epoch), context=mind, record=CycleOutcome())
        self.moved(after, self.bench.write(self.store(via), commit))

    @precondition(lambda self: self.world.cycles)
    @rule(pick=PICK, off=OFF_BY, backoff=st.sampled_from(SPANS), via=VIA)
    def a_cycle_is_given_up(self, pick: int, off: int, backoff: int, via: int) -> None:
        """T10"""
        cycle = self.cycle_at(pick)
        epoch = cycle.epoch + off
        after = cycle_protocol.abandon(self.world, cycle, epoch=epoch, backoff=backoff)
        abandon = partial(cycle_tx.abandon, held(cycle, epoch), reason="test", backoff_ms=backoff)
        self.moved(after, self.bench.write(self.store(via), abandon))

    def check_cycles(self, sight: Sight) -> None:
        assert {row["id"]: cycle_of(row) for row in sight.cycles} == self.world.cycles
        assert {(row["cycle_id"], row["n"]): row["message"] for row in sight.steps} == self.world.steps
        assert {row["agent"]: (row["version"], row["data"]) for row in sight.minds} == self.world.minds
        self.check_failures(sight)
        self.check_that_nothing_is_lost()

    def check_failures(self, sight: Sight) -> None:
        """Each failed cycle has told its agent all that it had called."""
        told = {row["event_id"]: msgspec.json.decode(row["data"]) for row in sight.events}
        failed = [cycle for cycle in self.world.cycles.values() if cycle.status == "failed"]
        assert {name for name in told if name.startswith("cf:")} == {f"cf:{cycle.id}" for cycle in failed}
        for cycle in failed:
            made = [row for row in self.world.rows.values() if row.cycle == cycle.id]
            made.sort(key=lambda row: (row.step, row.idx))
            assert [call["toolCallId"] for call in told[f"cf:{cycle.id}"]["calls"]] == [row.id for row in made]

    def check_that_nothing_is_lost(self) -> None:
        """Whatever the model thinks: an agent gets each outcome of its cycles' calls one way, and events once."""
        cycles = self.world.cycles
        for event in self.world.events.values():
            expected = {"processing": "open", "processed": "done"}.get(event.status)
            assert expected == (cycles[event.cycle].status if event.cycle else None)
        for row in self.world.rows.values():
            if row.cycle is None or cycles[row.cycle].status != "failed" or row.status not in FINAL:
                continue
            is_builtin = row.deadline is None and row.delivery == "inline"
            assert is_builtin != (f"tr:{row.id}" in self.world.events)

    def moved(self, after: Any, answer: object) -> None:
        assert (answer is None) == (after is None), f"the store says {answer}"
        self.world = after or self.world

    def cycle_at(self, pick: int) -> Cycle:
        """Mostly one that is open, if there is one."""
        cycles = list(self.world.cycles.values())
        choice = [cycle for cycle in cycles if cycle.status == "open"] * 3 + cycles
        return choice[pick % len(choice)]

    def row_of(self, number: int, form: str, span: int, idempotent: bool) -> Row:  # noqa: FBT001 - as drawn
        owner = "gw_a" if form in {"running", "builtin"} else None
        fields = {"agent": None, "waiter": None, "tool": "weather", "timeout": span, "expires_in": span}
        row = self.new_row(idempotent=idempotent, owner=owner, **fields, **FORMS[form])
        return replace(row, id=f"call_{len(self.world.rows) + number:03}")


def step_call(row: Row) -> StepCall:
    return StepCall(to_call(row), None if row.outcome is None else over(to_outcome(row.outcome)))


def held(cycle: Cycle, epoch: int) -> StoredCycle:
    """The cycle in the hands of a gateway that means this epoch."""
    none = {"consumed": "[]", "summary": None, "reason": None, "input_tokens": 0, "output_tokens": 0}
    times = {"created_at": cycle.created, "finished_at": cycle.finished}
    return cycle_from(msgspec.structs.asdict(cycle) | none | times | {"epoch": epoch})


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
    machine = type("CyclesHere", (CycleMoves,), {"bench": bench, **dict.fromkeys(ELSEWHERE)})
    run_state_machine_as_test(machine, settings=limits)


@pytest.mark.timeout(examples(600))
def test_every_store_moves_cycles_as_the_protocol_says(kind: str, bench: Bench) -> None:
    play_on(bench, settings(max_examples=STORES[kind], stateful_step_count=STEPS))


RARE = [
    ("abandon_cycle", "AND epoch = ?", "AND ? IS NOT NULL"),
    ("take_over_cycle", "AND gateways.dead = 0", ""),
]
"""That one of these is gone shows only after long searches, which `make stress` does."""


@pytest.mark.parametrize("kind", ["memory"], indirect=True)
@pytest.mark.parametrize(
    ("statement", "guard", "instead"),
    [
        ("hold_cycle", "AND epoch = ?", "AND ? IS NOT NULL"),
        ("hold_cycle", "AND status = 'open'", ""),
        ("commit_cycle", "AND epoch = ?", "AND ? IS NOT NULL"),
        ("take_over_cycle", "AND epoch = ?", "AND ? IS NOT NULL"),
        ("claim_events", "AND not_before <=", "AND 0 <="),
        ("claim_events", "AND status = 'pending'", ""),
        ("process_events", "WHERE cycle_id = ?", "WHERE ? IS NOT NULL"),
        ("flip_calls_of_cycle", "'timeout'", "'pending'"),
        ("decide_calls_of_cycle", "delivery IS NULL", "delivery = 'never'"),
        ("give_outcomes_of_cycle", "AND deadline IS NOT NULL", ""),
        ("give_events_back", "WHERE cycle_id = ?", "WHERE ? = ''"),
        ("agents_to_wake", "AND runs.status = 'open'", ""),
        *(RARE if TIMES > 1 else ()),
    ],
)
def test_a_store_without_one_of_the_guards_is_found_out(bench: Bench, statement: str, guard: str, instead: str) -> None:
    spoil(bench, statement, guard=guard, instead=instead)
    with pytest.raises((AssertionError, sqlite3.IntegrityError)):
        play_on(bench, searching(1_000, STEPS))
