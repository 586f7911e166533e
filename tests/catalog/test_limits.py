"""An exact minute: never more than the limit in any sixty seconds, and never less than that when calls keep coming."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.catalog.limits import WINDOW_NS, RateLimiter

SECOND = 1_000_000_000


class Clock:
    def __init__(self) -> None:
        self.now = 1_000 * SECOND

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limiter(clock: Clock) -> RateLimiter:
    return RateLimiter(clock=clock)


def test_a_tool_without_a_limit_is_always_admitted(limiter: RateLimiter) -> None:
    assert [limiter.admit("t", None) for _ in range(1_000)] == [0.0] * 1_000
    assert limiter._calls == {}


def test_the_call_past_the_limit_is_told_how_long_to_wait(limiter: RateLimiter, clock: Clock) -> None:
    assert limiter.admit("t", 2) == 0.0
    clock.now += 20 * SECOND
    assert limiter.admit("t", 2) == 0.0
    clock.now += 10 * SECOND
    assert limiter.admit("t", 2) == 30.0
    clock.now += 30 * SECOND
    assert limiter.admit("t", 2) == 0.0
    assert len(limiter._calls["t"]) == 2
    assert limiter.admit("t", 2) == 20.0


def test_a_refused_call_does_not_count(limiter: RateLimiter, clock: Clock) -> None:
    limiter.admit("t", 1)
    clock.now += 59 * SECOND
    assert limiter.admit("t", 1) == 1.0
    clock.now += SECOND
    assert limiter.admit("t", 1) == 0.0


def test_asking_how_long_counts_nothing(limiter: RateLimiter) -> None:
    assert [limiter.wait("t", 1) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert limiter.admit("t", 1) == 0.0
    assert limiter.wait("t", 1) == 60.0


def test_each_tool_has_its_own_minute(limiter: RateLimiter) -> None:
    assert limiter.admit("a", 1) == 0.0
    assert limiter.admit("b", 1) == 0.0
    assert limiter.admit("a", 1) == 60.0


def test_a_lowered_limit_waits_until_enough_calls_have_left(limiter: RateLimiter, clock: Clock) -> None:
    for _ in range(4):
        limiter.admit("t", 4)
        clock.now += 10 * SECOND
    assert limiter.wait("t", 2) == 40.0


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_nothing_admits_nothing(limiter: RateLimiter, limit: int) -> None:
    assert limiter.admit("t", limit) == 60.0


def test_quiet_tools_are_forgotten(limiter: RateLimiter, clock: Clock) -> None:
    for number in range(1_000):
        limiter.admit(f"tool{number}", 5)
    clock.now += WINDOW_NS
    limiter.admit("another", 5)
    assert list(limiter._calls) == ["another"]


@given(
    limit=st.integers(1, 5),
    steps=st.lists(st.integers(0, 40 * SECOND), max_size=60),
)
def test_no_window_of_a_minute_ever_holds_more_than_the_limit(limit: int, steps: list[int]) -> None:
    clock = Clock()
    limiter = RateLimiter(clock=clock)
    admitted: deque[int] = deque()
    for step in steps:
        clock.now += step
        within = [at for at in admitted if clock.now - at < WINDOW_NS]
        seconds = limiter.admit("t", limit)
        assert (seconds == 0.0) == (len(within) < limit)
        if seconds == 0.0:
            admitted.append(clock.now)
        else:
            assert seconds == (within[-limit] + WINDOW_NS - clock.now) / SECOND
    assert len(limiter._calls.get("t", ())) <= limit
