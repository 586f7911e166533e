"""Every move of responses and programs in every order, among answers to their calls, on the real stores.

`run_protocol.py` says what each move comes to; the stores are those of every kind, PostgreSQL with two connections.
"""

import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

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
from msgspec import Raw
from msgspec.structs import replace

from jackfield.calls import transactions as call_tx
from jackfield.model.call import Call, CallStatus, Failed, done
from jackfield.programs.transactions import NextStep, settle_and_take_step
from jackfield.runs import transactions as run_tx
from jackfield.runs.transactions import Run
from jackfield.store import Store
from jackfield.store import gateways as gateway_tx
from tests.examples import TIMES, examples
from tests.requirement import requirement
from tests.store import run_protocol as protocol
from tests.store.replay import EPOCH, Bench, a_bench, searching, spoil
from tests.store.run_protocol import RunWorld

STORES = {"memory": examples(12), "sqlite": examples(6), "postgres": examples(5)}
STEPS = 40
GATEWAYS = ("gw_a", "gw_b")
OWNER = st.sampled_from(GATEWAYS)
PICK = st.integers(0, 50)
OFF_BY = st.sampled_from((0, 0, 0, 0, -1, 1))
VIA = st.integers(0, 1)
FORMS = st.lists(st.sampled_from(("running", "waiting", "pending", "approval")), max_size=3)
STATUSES = {"running": CallStatus.RUNNING, "waiting": CallStatus.WAITING, "pending": CallStatus.PENDING}
MOST_RUNS = 4
MOST_CALLS = 12


class RunMoves(RuleBasedStateMachine):
    """Runs are queued, claimed, stepped, parked, taken over and ended, while their calls are answered."""

    bench: ClassVar[Bench]

    @initialize()
    def empty(self) -> None:
        self.bench.clear()
        self.world = RunWorld()
        self.forms: dict[str, str] = {}
        for gateway in GATEWAYS:
            self.bench.write(self.store(0), partial(gateway_tx.enter, gateway, is_shared=True))
        for _ in range(2):
            self.a_run_is_queued(via=0)
            self.one_is_claimed(pick=0, owner="gw_a", via=0)

    def store(self, via: int) -> Store:
        return self.bench.stores[via % len(self.bench.stores)]

    @precondition(lambda self: len(self.world.runs) < MOST_RUNS)
    @rule(via=VIA)
    def a_run_is_queued(self, via: int) -> None:
        name = f"resp_{len(self.world.runs):03}"
        principal = "ada" if len(self.world.runs) % 2 else "bob"
        queued = partial(run_tx.queue_run, name, kind="response", principal=principal, request="{}")
        assert self.bench.write(self.store(via), queued).status == "queued"
        self.world = protocol.queue(self.world, name)

    @rule(pick=PICK, owner=OWNER, via=VIA)
    def one_is_claimed(self, pick: int, owner: str, via: int) -> None:
        name = self.run_at(pick)
        after = protocol.claim(self.world, name, owner=owner)
        self.moved(after, self.bench.write(self.store(via), partial(run_tx.claim, name, owner=owner)))

    @rule(pick=PICK, owner=OWNER, via=VIA)
    def one_is_seized(self, pick: int, owner: str, via: int) -> None:
        name = self.run_at(pick)
        after = protocol.seize(self.world, name, owner=owner)
        self.moved(after, self.bench.write(self.store(via), partial(run_tx.seize, name, owner=owner)))

    @precondition(lambda self: len(self.world.calls) < MOST_CALLS)
    @rule(pick=PICK, forms=FORMS, off=OFF_BY, via=VIA)
    def a_step(self, pick: int, forms: list[str], off: int, via: int) -> None:
        """T1"""
        name = self.run_at(pick)
        run = self.world.runs[name]
        ids = [f"call_{len(self.world.calls) + number:03}" for number in range(len(forms))]
        planned = [
            (key, "pending" if form == "approval" else form, "gw_a" if form == "running" else None)
            for key, form in zip(ids, forms, strict=True)
        ]
        after = protocol.take_step(self.world, name, epoch=run.epoch + off, calls=planned)
        calls = [made_call(key, form, run=name) for key, form in zip(ids, forms, strict=True)]
        step = partial(run_tx.take_step, self.held(name, off), n=run.steps + 1, message="{}", calls=calls)
        self.moved(after, self.bench.write(self.store(via), step))
        if after is not None:
            self.forms |= dict(zip(ids, forms, strict=True))

    @rule(pick=PICK, off=OFF_BY, via=VIA)
    def one_is_parked(self, pick: int, off: int, via: int) -> None:
        """T13"""
        name = self.run_at(pick)
        after = protocol.park(self.world, name, epoch=self.world.runs[name].epoch + off)
        self.moved(after, self.bench.write(self.store(via), partial(run_tx.park, self.held(name, off))))

    @rule(pick=PICK, off=OFF_BY, owner=OWNER, via=VIA)
    def one_is_taken_over(self, pick: int, off: int, owner: str, via: int) -> None:
        """T7"""
        name = self.run_at(pick)
        after = protocol.take_over(self.world, name, epoch=self.world.runs[name].epoch + off, owner=owner)
        self.moved(
            after, self.bench.write(self.store(via), partial(run_tx.take_over, self.held(name, off), owner=owner))
        )

    @rule(pick=PICK, off=OFF_BY, status=st.sampled_from(("done", "failed")), via=VIA)
    def one_ends(self, pick: int, off: int, status: Any, via: int) -> None:
        """T9 and T10"""
        name = self.run_at(pick)
        after = protocol.end(self.world, name, epoch=self.world.runs[name].epoch + off, status=status)
        self.moved(after, self.bench.write(self.store(via), partial(run_tx.end, self.held(name, off), status=status)))

    @rule(pick=PICK, via=VIA)
    def one_is_resumed(self, pick: int, via: int) -> None:
        name = self.run_at(pick)
        self.moved(protocol.resume(self.world, name), self.bench.write(self.store(via), partial(run_tx.resume, name)))

    @rule(pick=PICK, via=VIA)
    def one_is_to_stop(self, pick: int, via: int) -> None:
        name = self.run_at(pick)
        after = protocol.want_stopped(self.world, name)
        self.moved(after, self.bench.write(self.store(via), partial(run_tx.want_stopped, name)))

    @precondition(lambda self: self.world.calls)
    @rule(pick=PICK, way=st.sampled_from(("submit", "execute", "reject", "cancel", "flip")), via=VIA)
    def a_call_is_answered(self, pick: int, way: str, via: int) -> None:
        """T2 and T3, by whoever may; a second answer changes nothing."""
        names = list(self.world.calls)
        key = names[pick % len(names)]
        form, is_decided = self.forms[key], self.world.calls[key].status == "decided"
        script: Any = {
            "submit": partial(call_tx.settle_submitted, key, done(1), large_result=0),
            "execute": partial(call_tx.settle_executed, key, done(1), attempt=1, duration_ms=1.0, large_result=0),
            "reject": partial(call_tx.settle_rejected, key, Failed("rejected", "No."), large_result=0),
            "cancel": partial(call_tx.settle_cancelled, key, Failed("cancelled", "Stop.")),
            "flip": partial(call_tx.abandon_wait, key),
        }[way]
        fits = {"submit": {"waiting", "pending"}, "execute": {"running"}, "reject": {"approval"}, "flip": {"waiting"}}
        moved = self.bench.write(self.store(via), script).moved
        if not is_decided:
            assert moved == (way == "cancel" or form in fits[way]), (way, form)
            if moved:
                self.world = protocol.decide(self.world, key) or self.world

    @precondition(lambda self: self.world.calls and len(self.world.calls) < MOST_CALLS)
    @rule(pick=PICK, forms=FORMS, off=OFF_BY, via=VIA)
    def an_answer_and_the_step_after_it(self, pick: int, forms: list[str], off: int, via: int) -> None:
        """T2 and T1 in one transaction: the answer counts, whoever has the run; a second one takes no step."""
        key = list(self.world.calls)[pick % len(self.world.calls)]
        name = self.world.calls[key].run
        run = self.world.runs[name]
        known = self.bench.do(lambda: self.store(0).read(partial(call_tx.get_call, key)))
        known = replace(known, answer=run.answered + 1 + off)
        ids = [f"call_{len(self.world.calls) + number:03}" for number in range(len(forms))]
        calls = [made_call(one, form, run=name) for one, form in zip(ids, forms, strict=True)]
        step = NextStep(run=self.held(name, off), n=run.steps + 1, message="{}", calls=calls)
        settle = partial(call_tx.settle_executed, key, done(1), attempt=1, duration_ms=1.0, large_result=0)
        moved, written = self.bench.write(self.store(via), partial(settle_and_take_step, settle, known, step))
        answered = protocol.decide(self.world, key, among=frozenset({"running"}))
        assert moved.moved == (answered is not None)
        if answered is None:
            assert written is None
            return
        planned = [
            (one, "pending" if form == "approval" else form, "gw_a" if form == "running" else None)
            for one, form in zip(ids, forms, strict=True)
        ]
        after = protocol.take_step(answered, name, epoch=run.epoch + off, calls=planned)
        self.world = answered
        self.moved(after, written)
        if after is not None:
            self.forms |= dict(zip(ids, forms, strict=True))

    @rule(gateway=OWNER)
    def a_gateway_dies(self, gateway: str) -> None:
        self.bench.write(self.store(0), partial(gateway_tx.leave, gateway))
        self.world = replace(self.world, dead=self.world.dead | {gateway})

    @invariant()
    def the_store_has_what_the_protocol_says(self) -> None:
        if not hasattr(self, "world"):
            return
        store = self.store(0)
        for name, run in self.world.runs.items():
            journal = self.bench.do(partial(store.read, partial(run_tx.read_journal, name)))
            row = journal.run
            assert (row.status, row.epoch, row.tries, row.awaited) == (run.status, run.epoch, run.tries, run.awaited)
            assert row.stop_wanted == run.stop_wanted
            assert (row.owner == run.owner) or row.status in {"done", "failed"}
            assert [step.n for step in journal.steps] == list(range(1, run.steps + 1))
            calls = {call.id: call for step in journal.steps for call in step.calls}
            expected = {key: call for key, call in self.world.calls.items() if call.run == name}
            assert {key: call.answer for key, call in calls.items()} == {k: c.answer for k, c in expected.items()}
            undecided = {key for key, call in calls.items() if run_tx.is_undecided(call)}
            assert undecided == set(self.world.undecided(name))
            told = self.bench.do(partial(store.read, partial(run_tx.answered_calls, name)))
            assert [call.answer for call in told] == sorted(c.answer for c in expected.values() if c.answer is not None)
        self.check_sweeps(store)

    def check_sweeps(self, store: Store) -> None:
        orphans = self.bench.do(lambda: store.read(partial(run_tx.orphaned_runs, "response")))
        runs = self.world.runs.items()
        assert {run.id for run in orphans} == {
            name for name, run in runs if run.status == "open" and run.owner in self.world.dead
        }
        found = self.bench.do(lambda: store.read(partial(run_tx.runs_to_claim, "response", limit=10)))
        claimable = [name for name, run in runs if run.status in {"queued", "ready"}]
        firsts = {min(mine) for of in ("0", "1") if (mine := [n for n in claimable if int(n[-3:]) % 2 == int(of)])}
        assert set(found) == firsts

    def moved(self, after: Any, answer: Run | tuple[Call, ...] | None) -> None:
        assert (answer is None) == (after is None), f"the store says {answer}"
        self.world = after or self.world

    def run_at(self, pick: int) -> str:
        """Mostly one that is not over."""
        runs = self.world.runs.items()
        choice = [name for name, run in runs if run.status not in {"done", "failed"}] * 3 + [name for name, _ in runs]
        return choice[pick % len(choice)]

    def held(self, name: str, off: int) -> Run:
        """The run in the hands of a gateway that means this epoch."""
        run = self.world.runs[name]
        return Run(
            id=name, kind="response", principal="ada", status="open", owner=None, epoch=run.epoch + off, tries=run.tries
        )


def made_call(key: str, form: str, *, run: str) -> Call:
    return Call(
        id=key,
        run_id=run,
        tool="weather",
        source="test",
        tool_version="1",
        arguments=Raw(b"{}"),
        principal="ada",
        status=STATUSES.get(form, CallStatus.PENDING_APPROVAL),
        agent="ada",
        attempt=1 if form == "running" else 0,
        owner="gw_a" if form == "running" else None,
        created_at=EPOCH,
    )


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bench(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    urls = {"memory": ["memory:"], "sqlite": ["sqlite:///runs.db"]}
    with a_bench(urls.get(kind) or [request.getfixturevalue("postgres_url")] * 2, tmp_path) as made:
        yield made


def play_on(bench: Bench, limits: settings) -> None:
    run_state_machine_as_test(type("RunsHere", (RunMoves,), {"bench": bench}), settings=limits)


@requirement("RUN-journal-model")
@pytest.mark.timeout(examples(600))
def test_every_store_moves_runs_as_the_protocol_says(kind: str, bench: Bench) -> None:
    play_on(bench, settings(max_examples=STORES[kind], stateful_step_count=STEPS, deadline=None))


RARE = [
    ("answer_and_note_step", "AND epoch = ?", "AND ? IS NOT NULL"),
    ("park_run", "AND epoch = ?", "AND ? IS NOT NULL"),
    ("claim_run", "'queued', 'ready'", "'queued', 'ready', 'parked'"),
    ("answer_run", "AND awaited = 1", "AND awaited >= 1"),
]
"""That one of these is gone shows only after long searches, which `make stress` does."""


@requirement("RUN-journal-model")
@pytest.mark.parametrize("kind", ["memory"], indirect=True)
@pytest.mark.parametrize(
    ("statement", "guard", "instead"),
    [
        ("note_step", "AND epoch = ?", "AND ? IS NOT NULL"),
        ("note_step", "AND status = 'open'", ""),
        (
            "park_run",
            "CASE WHEN awaited = 0 AND ? = 0 THEN 'ready' ELSE 'parked' END",
            "CASE WHEN ? = 0 THEN 'parked' ELSE 'parked' END",
        ),
        ("end_run", "AND epoch = ?", "AND ? IS NOT NULL"),
        ("take_over_run", "AND epoch = ?", "AND ? IS NOT NULL"),
        ("take_over_run", "AND gateways.dead = 0", ""),
        ("claim_run", "epoch = epoch + 1", "epoch = epoch"),
        ("answer_run", "awaited = awaited - 1", "awaited = awaited"),
        ("answer_and_note_step", "awaited - 1 + ?", "awaited + ?"),
        ("resume_run", "AND status = 'failed'", ""),
        *(RARE if TIMES > 1 else ()),
    ],
)
def test_a_store_without_one_of_the_guards_is_found_out(bench: Bench, statement: str, guard: str, instead: str) -> None:
    spoil(bench, statement, guard=guard, instead=instead)
    with pytest.raises((AssertionError, sqlite3.IntegrityError)):
        play_on(bench, searching(1_000, STEPS))
