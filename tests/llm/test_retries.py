"""When a model is asked again and when it is left alone, by a clock of our own."""

from datetime import UTC, datetime

import pytest

from jackfield.llm.retries import Breaker, RetryPolicy, retry_after
from jackfield.llm.types import ModelFailed
from tests.clock import Clock
from tests.requirement import requirement

DOWN = ModelFailed("It is down.", status=503)


def breaker(clock: Clock, *, failures: int = 2) -> Breaker:
    return Breaker("default", failures=failures, seconds=30, clock=clock)


@requirement("TOOL-ext-loop-retry")
def test_waits_double_with_some_chance_and_then_end() -> None:
    policy = RetryPolicy(retries=3, delay=1, max_delay=30)
    assert [policy.wait(DOWN, tried=tried, chance=0.5) for tried in (1, 2, 3, 4)] == [1, 2, 4, None]
    assert policy.wait(DOWN, tried=1, chance=0) == 0.75
    assert RetryPolicy(retries=99, delay=1, max_delay=30).wait(DOWN, tried=50, chance=0.5) == 8


@pytest.mark.parametrize(
    ("fault", "wait"),
    [
        (ModelFailed("", status=429, retry_after=7), 7),
        (ModelFailed("", status=429, retry_after=31), None),
        (ModelFailed("", status=400), None),
        (ModelFailed("", status=429, code="quota_exceeded"), None),
        (ModelFailed("", code="unsupported_input"), None),
        (ModelFailed("", before_first_token=False), None),
        (ModelFailed(""), 1),
    ],
)
def test_only_what_may_pass_is_tried_again(fault: ModelFailed, wait: float | None) -> None:
    assert RetryPolicy(retries=1, delay=1, max_delay=30).wait(fault, tried=1, chance=0.5) == wait


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("2.5", 2.5),
        ("-1", 0),
        ("Mon, 16 Nov 2026 00:00:30 GMT", 30),
        ("Sun, 15 Nov 2026 00:00:00 GMT", 0),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_a_number_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, now=datetime(2026, 11, 16, tzinfo=UTC)) == seconds


def test_it_opens_after_so_many_failures_in_a_row_and_says_when_it_is_tried_again() -> None:
    clock = Clock()
    door = breaker(clock)
    door.failed(DOWN)
    door.succeeded()
    door.failed(DOWN)
    assert not door.enter()
    door.failed(DOWN)
    clock.now += 12
    with pytest.raises(
        ModelFailed, match=r"'default' failed 2 requests .* again in 18 s\. Last: It is down\."
    ) as caught:
        door.enter()
    assert caught.value.retry_after == 18


def test_one_probe_at_a_time_decides() -> None:
    clock = Clock()
    door = breaker(clock)
    door.failed(DOWN)
    door.failed(DOWN)
    clock.now += 30
    assert door.enter()
    with pytest.raises(ModelFailed):
        door.enter()
    door.failed(DOWN)
    door.probe_ended()
    with pytest.raises(ModelFailed, match="in 30 s"):
        door.enter()
    clock.now += 30
    assert door.enter()
    door.succeeded()
    door.probe_ended()
    assert not door.enter()


def test_a_probe_that_nobody_waited_for_leaves_the_breaker_to_the_next() -> None:
    clock = Clock()
    door = breaker(clock)
    door.failed(DOWN)
    door.failed(DOWN)
    clock.now += 30
    door.enter()
    door.probe_ended()
    assert door.enter()


def test_refusals_prove_that_the_server_lives() -> None:
    door = breaker(Clock())
    door.failed(DOWN)
    door.failed(ModelFailed("", status=400))
    door.failed(DOWN)
    for _ in range(9):
        door.failed(ModelFailed("", status=429))
    assert not door.enter()


def test_it_can_be_switched_off() -> None:
    door = breaker(Clock(), failures=0)
    for _ in range(99):
        door.failed(DOWN)
    assert not door.enter()
