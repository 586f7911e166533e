"""How many calls, how they ended, how long they took: the figures behind `/metrics`."""

from bisect import bisect_left

from jackfield.model.call import Call

BUCKETS_MS = (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)


class Durations:
    """A histogram: counts per bucket (the last one is everything longer), their number and sum."""

    def __init__(self) -> None:
        self.buckets = [0] * (len(BUCKETS_MS) + 1)
        self.count = 0
        self.total_ms = 0.0

    def add(self, milliseconds: float) -> None:
        self.buckets[bisect_left(BUCKETS_MS, milliseconds)] += 1
        self.count += 1
        self.total_ms += milliseconds


class Counters:
    """Since this gateway started."""

    def __init__(self) -> None:
        self.calls: dict[tuple[str, str, str], int] = {}
        """(tool, source, status) → calls that came to that status."""
        self.durations: dict[tuple[str, str], Durations] = {}
        """(tool, source) → how long its executed calls took."""
        self.running = 0

    def count(self, call: Call) -> None:
        key = (call.tool, call.source, call.status.value)
        self.calls[key] = self.calls.get(key, 0) + 1
        if call.duration_ms is not None:
            found = self.durations.get(key[:2])
            if found is None:
                found = self.durations[key[:2]] = Durations()
            found.add(call.duration_ms)
