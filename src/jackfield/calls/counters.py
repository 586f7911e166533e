"""How many calls, how they ended, how long they took: the figures behind `/metrics`."""

import re
from bisect import bisect_left

from jackfield.model.call import Call
from jackfield.model.tool import CALLER, REQUEST, CallKind

MOST_TOOLS = 2_000
"""Tools with figures of their own; those that come later are counted together, by their source."""
MOST_SOURCES = 200
OTHER = "(other)"
_OF_A_REQUEST = re.compile(rf"{REQUEST}@[0-9a-f]{{24}}")
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
        self._labels: dict[tuple[str, str], tuple[str, str]] = {}
        self._sources: set[str] = set()

    def count(self, call: Call) -> None:
        named = (call.tool if call.kind is CallKind.TOOL else f"({call.kind.value}s)", call.source)
        labels = self._labels.get(named) or self._new_labels(*named)
        key = (*labels, call.status.value)
        self.calls[key] = self.calls.get(key, 0) + 1
        if call.duration_ms is not None:
            found = self.durations.get(labels)
            if found is None:
                found = self.durations[labels] = Durations()
            found.add(call.duration_ms)

    def _new_labels(self, tool: str, source: str) -> tuple[str, str]:
        """Under which tool and source the first call of a tool is counted. What callers name as they like has no
        label of its own, and the number of labels is bounded.
        """
        if source == CALLER:
            return OTHER, CALLER
        if _OF_A_REQUEST.fullmatch(source):
            return OTHER, REQUEST
        if source not in self._sources and len(self._sources) >= MOST_SOURCES:
            return OTHER, OTHER
        self._sources.add(source)
        if len(self._labels) >= MOST_TOOLS:
            return OTHER, source
        labels = self._labels[tool, source] = (tool, source)
        return labels
