"""How long to wait before a retry."""

import random


def backoff(
    attempt: int, *, first: float = 0.1, longest: float = 10.0, factor: float = 2.0, spread: float = 0.5
) -> float:
    """The delay before retry number `attempt`, from 0: grows from `first` up to `longest`.

    Up to the share `spread` of it is taken off at random, so that clients do not retry in step.
    """
    return min(longest, first * factor ** min(attempt, 64)) * (1.0 - spread * random.random())  # noqa: S311 - no secret


class RetryDelays:
    """The growing delays of one retry loop, in seconds."""

    def __init__(self, *, first: float = 0.1, longest: float = 10.0) -> None:
        self._first = first
        self._longest = longest
        self._attempt = 0

    def next(self) -> float:
        delay = backoff(self._attempt, first=self._first, longest=self._longest)
        self._attempt += 1
        return delay

    def reset(self) -> None:
        """Start over, after a success."""
        self._attempt = 0
