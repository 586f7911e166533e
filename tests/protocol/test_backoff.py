from jackfield.protocol.backoff import RetryDelays, backoff


def test_delays_double_up_to_the_longest_and_vary() -> None:
    for attempt, whole in enumerate([1.0, 2.0, 4.0, 5.0, 5.0]):
        assert whole / 2 <= backoff(attempt, first=1.0, longest=5.0) <= whole
    assert len({backoff(3) for _ in range(20)}) > 1


def test_another_factor_and_no_spread() -> None:
    assert [backoff(n, first=4.0, longest=8.0, factor=1.5, spread=0) for n in range(3)] == [4.0, 6.0, 8.0]


def test_a_very_late_attempt_does_not_overflow() -> None:
    assert backoff(100_000, longest=30.0) <= 30.0


def test_a_loop_starts_over_after_a_success() -> None:
    delays = RetryDelays(first=1.0, longest=100.0)
    assert delays.next() <= 1.0 <= delays.next() <= 2.0 <= delays.next()
    delays.reset()
    assert delays.next() <= 1.0
