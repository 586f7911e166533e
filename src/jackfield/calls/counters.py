"""How many calls, how they ended, how long they took, what was refused: the figures behind `/metrics`.

Above: whoever settles or refuses a call. A call is counted once, when it is over, at the gateway that ended it.
"""

import re

from jackfield.model.call import Call
from jackfield.model.durations import Durations
from jackfield.model.tool import CALLER, REQUEST, CallKind

MOST_TOOLS = 2_000
"""Tools with figures of their own; those that come later are counted together, by their source."""
MOST_SOURCES = 200
MOST_PRINCIPALS = 200
MOST_SERIES = 10_000
"""Combinations of tool, source, principal and outcome; later ones are counted without their principal."""
MOST_CODES = 100
OTHER = "(other)"
REFUSED = "refused"
"""The outcome of a call that was not carried out."""
_OF_A_REQUEST = re.compile(rf"{REQUEST}@[0-9a-f]{{24}}")


class _Series:
    """The calls of one tool, source, principal and outcome."""

    __slots__ = ("count", "durations", "labels")

    def __init__(self, labels: tuple[str, str]) -> None:
        self.labels = labels
        self.count = 0
        self.durations: Durations | None = None
        """Those of the tool and source, as soon as there are any."""


class Counters:
    """Since this gateway started."""

    def __init__(self) -> None:
        self.durations: dict[tuple[str, str], Durations] = {}
        """(tool, source) → how long its executed calls took."""
        self.refusals: dict[str, int] = {}
        """Error code → calls that were refused with it."""
        self.running = 0
        self._series: dict[tuple[str, str, str, str], _Series] = {}
        self._known: dict[tuple[str, str, str, str], _Series] = {}
        """The same by what calls say, so that the usual call takes one look; bounded like the labels."""
        self._labels: dict[tuple[str, str], tuple[str, str]] = {}
        self._sources: set[str] = set()
        self._principals: set[str] = set()

    @property
    def calls(self) -> dict[tuple[str, str, str, str], int]:
        """(tool, source, principal, outcome) → calls that ended so."""
        return {labels: series.count for labels, series in self._series.items()}

    def count(self, call: Call) -> None:
        """The call may be over. One that goes on is counted when it is."""
        series = self._known.get((call.tool, call.source, call.principal, call.status.value))
        if series is None:
            if not call.status.is_final:
                return
            series = self._series_of(call.tool, call.source, call.principal, call.status.value, kind=call.kind)
        series.count += 1
        if call.duration_ms is not None:
            durations = series.durations
            if durations is None:
                durations = series.durations = self.durations.setdefault(series.labels, Durations())
            durations.add(call.duration_ms)

    def refuse(
        self,
        code: str,
        *,
        principal: str,
        tool: str | None = None,
        source: str = "",
        kind: CallKind = CallKind.TOOL,
    ) -> None:
        """A call was not carried out. `tool` is one that exists; names that callers invent have no label."""
        known = code if code in self.refusals or len(self.refusals) < MOST_CODES else OTHER
        self.refusals[known] = self.refusals.get(known, 0) + 1
        self._series_of(tool, source, principal, REFUSED, kind=kind).count += 1

    def _series_of(self, tool: str | None, source: str, principal: str, outcome: str, *, kind: CallKind) -> _Series:
        labels = (OTHER, OTHER) if tool is None else self._labels_of(tool, source, kind)
        named = principal if principal in self._principals else self._new_principal(principal)
        found = self._series.get((*labels, named, outcome))
        if found is None:
            if len(self._series) >= MOST_SERIES:
                named = OTHER
            found = self._series.setdefault((*labels, named, outcome), _Series(labels))
        if tool is not None and (*labels, named) == (tool, source, principal):
            self._known[tool, source, principal, outcome] = found
        return found

    def _new_principal(self, name: str) -> str:
        if len(self._principals) >= MOST_PRINCIPALS:
            return OTHER
        self._principals.add(name)
        return name

    def _labels_of(self, tool: str, source: str, kind: CallKind) -> tuple[str, str]:
        named = (tool if kind is CallKind.TOOL else f"({kind.value}s)", source)
        return self._labels.get(named) or self._new_labels(*named)

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
