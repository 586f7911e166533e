"""How long to wait before a retry."""

import random


def backoff(attempt: int, *, first: float = 0.1, longest: float = 10.0) -> float:
    """Seconds before retry number `attempt`, from 0: doubles from `first` up to `longest`, minus up to half."""
    return min(longest, first * 2.0 ** min(attempt, 50)) * random.uniform(0.5, 1.0)  # noqa: S311 - spreads retries, hides nothing
