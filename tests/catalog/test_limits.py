"""Exact windows of one gateway: never more than the limit within one, and never less when calls keep coming."""

import math
from collections import deque
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.catalog.limit_transactions import all_spending
from jackfield.catalog.limits import Limit, LocalLimits, budget_of, per_minute, points_of
from jackfield.model.principal import Principal
from jackfield.model.tool import CostEstimate
from jackfield.store import Store, open_store
from jackfield.store.scripts import Script, Sql
from tests.requirement import requirement

SECOND = 1_000_000_000
MINUTE = 60 * SECOND


class Clock:
    def __init__(self) -> None:
        self.now = 10_000 * SECOND

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = open_store("sqlite:///calls.db", folder=tmp_path, data=tmp_path)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def limits(clock: Clock, store: Store) -> LocalLimits:
    return LocalLimits(store, clock=clock)


def of(most: int, name: str = "tool t") -> Limit:
    found = per_minute(name, most)
    assert found is not None
    return found


def budget(points: int, name: str = "poor") -> Limit:
    found = budget_of(Principal(name=name, scopes=frozenset({"call"}), budget=points))
    assert found is not None
    return found


def test_what_has_no_limit_takes_from_none() -> None:
    assert per_minute("tool t", None) is None
    assert budget_of(Principal(name="rich", scopes=frozenset({"call"}))) is None
    assert points_of(None) == 0
    assert [points_of(cost) for cost in CostEstimate] == [1, 5, 25, 5]


async def test_the_call_past_the_limit_is_told_how_long_to_wait(limits: LocalLimits, clock: Clock) -> None:
    assert await limits.take(of(2)) == 0.0
    clock.now += 20 * SECOND
    assert await limits.take(of(2)) == 0.0
    clock.now += 10 * SECOND
    assert await limits.take(of(2)) == 30.0
    clock.now += 30 * SECOND
    assert await limits.take(of(2)) == 0.0
    assert await limits.take(of(2)) == 20.0


async def test_a_refused_call_does_not_count(limits: LocalLimits, clock: Clock) -> None:
    await limits.take(of(1))
    clock.now += 59 * SECOND
    assert await limits.take(of(1)) == 1.0
    clock.now += SECOND
    assert await limits.take(of(1)) == 0.0


async def test_what_is_given_back_is_there_again(limits: LocalLimits) -> None:
    assert await limits.take(of(1)) == 0.0
    limits.give_back(of(1))
    assert await limits.take(of(1)) == 0.0
    assert await limits.take(of(1)) == 60.0


async def test_each_tool_and_each_key_has_its_own_window(limits: LocalLimits) -> None:
    assert await limits.take(of(1, "tool a")) == 0.0
    assert await limits.take(of(1, "tool b")) == 0.0
    assert await limits.take(of(1, "tool a")) == 60.0
    assert await limits.take(budget(5), 5) == 0.0
    assert await limits.take(budget(5, "other"), 5) == 0.0
    assert await limits.take(budget(5), 1) == 3600.0


async def test_a_lowered_limit_waits_until_enough_calls_have_left(limits: LocalLimits, clock: Clock) -> None:
    for _ in range(4):
        await limits.take(of(4))
        clock.now += 10 * SECOND
    assert await limits.take(of(2)) == 40.0


@pytest.mark.parametrize("most", [0, -1])
async def test_a_limit_of_nothing_admits_nothing(limits: LocalLimits, most: int) -> None:
    assert await limits.take(of(most)) == math.inf


async def test_what_no_hour_has_is_never_affordable_and_what_costs_nothing_always_is(limits: LocalLimits) -> None:
    assert await limits.take(budget(10), 25) == math.inf
    assert await limits.take(budget(0), 0) == 0


async def test_what_was_spent_comes_back_after_an_hour(limits: LocalLimits, clock: Clock) -> None:
    assert await limits.take(budget(30), 25) == 0
    clock.now += 600 * SECOND
    assert await limits.take(budget(30), 5) == 0
    assert await limits.take(budget(30), 25) == 3000
    assert await limits.take(budget(30), 1) == 3000
    clock.now += 3000 * SECOND
    assert await limits.take(budget(30), 25) == 0
    assert await limits.take(budget(30), 5) == 600


async def test_quiet_tools_are_forgotten(limits: LocalLimits, clock: Clock) -> None:
    for number in range(100):
        await limits.take(of(5, f"tool {number}"))
    await limits.flush()
    clock.now += MINUTE
    await limits.take(of(5, "tool another"))
    await limits.flush()
    assert list(limits._logs) == ["tool another"]


@requirement("OPS-limits-restart")
async def test_a_restart_forgets_nothing_that_was_spent(limits: LocalLimits, store: Store, clock: Clock) -> None:
    assert await limits.take(budget(30), 25) == 0
    assert await limits.take(of(1)) == 0
    await limits.close()
    after = LocalLimits(store, clock=clock)
    await after.open()
    assert await after.take(budget(30), 25) > 0
    assert await after.take(budget(30), 5) == 0
    assert await after.take(of(1)) > 0


async def test_what_is_taken_is_written_once_a_flush_not_once_a_call(limits: LocalLimits, store: Store) -> None:
    for _ in range(100):
        await limits.take(of(1_000))
    await limits.flush()
    await limits.flush()
    (slots, _) = (await store.read(all_spending))["tool t"]
    assert sum(slots.values()) == 100
    assert await store.read(partial(_writes, "tool t")) == 1


def _writes(limit_id: str) -> Script[int]:
    rows = yield Sql("writes", "SELECT writes FROM spending WHERE id = :id"), {"id": limit_id}
    return int(rows[0]["writes"])


@given(
    most=st.integers(1, 5),
    steps=st.lists(st.tuples(st.integers(0, 40 * SECOND), st.sampled_from([1, 1, 2, 5])), max_size=60),
)
async def test_no_window_ever_holds_more_than_the_limit(most: int, steps: list[tuple[int, int]]) -> None:
    clock = Clock()
    limits = LocalLimits(open_store("memory:", folder=Path(), data=Path()), clock=clock)
    admitted: deque[tuple[int, int]] = deque()
    for step, points in steps:
        clock.now += step
        within = sum(cost for at, cost in admitted if clock.now - at < MINUTE)
        seconds = await limits.take(of(most), points)
        assert (seconds == 0.0) == (within + points <= most)
        if seconds == 0.0:
            admitted.append((clock.now, points))
        elif seconds != math.inf:
            then = clock.now + seconds * SECOND
            assert sum(cost for at, cost in admitted if then - at < MINUTE) + points <= most
