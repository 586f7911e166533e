"""What a key may spend within an hour."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.catalog.limits import Budgets, points_of
from jackfield.model.principal import Principal
from jackfield.model.tool import CostEstimate
from tests.clock import Clock


def key(budget: int | None, name: str = "poor") -> Principal:
    return Principal(name=name, scopes=frozenset({"call"}), budget=budget)


def test_a_tool_that_says_nothing_costs_nothing() -> None:
    assert points_of(None) == 0
    assert [points_of(cost) for cost in CostEstimate] == [1, 5, 25, 5]


def test_what_was_spent_comes_back_after_an_hour() -> None:
    clock = Clock(100.0)
    budgets = Budgets(clock=clock)
    poor = key(30)
    assert budgets.wait(poor, 25) == 0
    budgets.spend(poor, 25)
    clock.now += 600
    budgets.spend(poor, 5)
    assert budgets.wait(poor, 25) == pytest.approx(3000)
    assert budgets.wait(poor, 1) == pytest.approx(3000)
    clock.now += 3000
    assert budgets.wait(poor, 25) == 0
    assert budgets.wait(poor, 26) == pytest.approx(600)


def test_what_no_hour_has_is_never_affordable_and_a_key_without_a_budget_affords_all() -> None:
    budgets = Budgets()
    assert budgets.wait(key(10), 25) == math.inf
    assert budgets.wait(key(0), 0) == 0
    assert budgets.wait(key(None), 25) == 0


def test_keys_have_budgets_of_their_own() -> None:
    budgets = Budgets()
    budgets.spend(key(5), 5)
    assert budgets.wait(key(5), 1) > 0
    assert budgets.wait(key(5, "other"), 5) == 0


@given(steps=st.lists(st.tuples(st.integers(0, 2000), st.sampled_from([1, 5, 25])), max_size=40))
def test_no_hour_ever_costs_more_than_the_budget(steps: list[tuple[int, int]]) -> None:
    clock = Clock(100.0)
    budgets, poor = Budgets(clock=clock), key(40)
    spent: list[tuple[float, int]] = []
    for seconds, points in steps:
        clock.now += seconds
        if budgets.wait(poor, points) == 0:
            budgets.spend(poor, points)
            spent.append((clock.now, points))
        assert sum(cost for at, cost in spent if at > clock.now - 3600) <= 40
