"""A histogram of how long things took: the same buckets for calls and for requests, so that they can be compared."""

from bisect import bisect_left

BUCKETS_MS = (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)


class Durations:
    """Counts per bucket (the last one is everything longer), their number and sum."""

    __slots__ = ("buckets", "count", "total_ms")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BUCKETS_MS) + 1)
        self.count = 0
        self.total_ms = 0.0

    def add(self, milliseconds: float) -> None:
        self.buckets[bisect_left(BUCKETS_MS, milliseconds)] += 1
        self.count += 1
        self.total_ms += milliseconds
