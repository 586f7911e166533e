from jackfield.protocol.backoff import backoff


def test_pauses_double_up_to_the_longest_and_vary() -> None:
    for attempt, whole in enumerate([1.0, 2.0, 4.0, 5.0, 5.0]):
        assert whole / 2 <= backoff(attempt, first=1.0, longest=5.0) <= whole
    assert len({backoff(3) for _ in range(20)}) > 1


def test_a_very_late_attempt_does_not_overflow() -> None:
    assert backoff(100_000, longest=30.0) <= 30.0
