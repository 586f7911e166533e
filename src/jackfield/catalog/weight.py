"""What it costs to compile a schema and to check a value against it, estimated before either is done. Pure.

Both hold Python's global lock from beginning to end, so what may take longer than `MOST_HERE` is done in a process
aside (`checking.py`). Estimated is the worst that a value of that size could do, as measured: what a look costs, and
what a byte costs that each state of a pattern is tried on.
Above: `checking.py`. Below: `expansion.py` counts the looks.
"""

import re
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.model.tool import JsonSchema
from jackfield.protocol.schema_limits import looks_of

MOST_HERE = 5_000_000
"""Nanoseconds that one check may hold the event loop."""
LOOK = 100
STATE = 20
COMPILED_BYTE = 200
COMPILED_STATE = 1_500
"""Nanoseconds."""
BACKTRACKING = 3_000
"""Looks that a pattern costs which is not matched in linear time; only the operator's own tools may have such."""
EXPLAINED_HERE = 1_000
"""Looks at a value that does not fit. Each may be a fault, and a fault costs fifty times as much as a look."""
_MOST_STATES = 1_000_000_000
_WIDE = 12
"""States of a class that has most characters in it, written as bytes."""
_PROPERTY = 700
"""States of a class of Unicode like `\\p{L}`."""
_TOKEN = re.compile(
    r"(?P<property>\\[pP](?:\{[^}]*\}|.))|(?P<wide>\\[SWDB]|\.)|\\.|(?P<group>\((?:\?(?:[:=!>]|<[=!]|P?<[^>]*>|[a-z-]+:?))?)"
    r"|(?P<end>\))|\[(?P<class>(?:\\.|[^\]\\])*)\]?|(?P<repeat>\{(?P<least>\d+)(?:,(?P<most>\d*))?\})|(?P<again>[*+?])|.",
    re.DOTALL,
)


class Weight(Struct, frozen=True, kw_only=True):
    """What values cost against one schema."""

    looks: int
    """At one place of a value, at the most; too many where it depends on how deep the value is."""
    states: int
    """Of all its patterns together."""

    def cost(self, value: bytes) -> int:
        """Nanoseconds that a check of this JSON takes at the most."""
        if self.looks * len(value) * LOOK <= MOST_HERE and not self.states:
            return 0
        return nodes_in(value) * self.looks * LOOK + len(value) * self.states * STATE


def weight_of(schema: JsonSchema, *, is_linear: bool) -> Weight:
    """`is_linear`: its patterns are matched by an engine that never goes back."""
    states = _states_in(schema)
    return Weight(looks=looks_of(schema) + (0 if is_linear else BACKTRACKING), states=states)


def is_heavy(schema: JsonSchema, text: bytes) -> bool:
    """Whether compiling it, `text` as JSON, might hold the event loop for too long."""
    cost = len(text) * COMPILED_BYTE
    if b'"pattern' in text and cost <= MOST_HERE:
        cost += _states_in(schema) * COMPILED_STATE
    return cost > MOST_HERE


def nodes_in(value: bytes) -> int:
    """How many values JSON has at the most, those within others counted."""
    return 1 + value.count(b",") + value.count(b"[") + value.count(b"{")


def _states_in(schema: JsonSchema) -> int:
    total = 0
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if isinstance(node.get("pattern"), str):
                total += states_of(node["pattern"])
            if isinstance(node.get("patternProperties"), dict):
                total += sum(states_of(str(pattern)) for pattern in node["patternProperties"])
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return min(total, _MOST_STATES)


def states_of(pattern: str) -> int:
    """About how large the machine is that matches this pattern: what is to be repeated counts as often."""
    open_groups = [0]
    last = 0
    """What a repetition would be one of."""
    for token in _TOKEN.finditer(pattern):
        if token["group"]:
            open_groups[-1] += last
            open_groups.append(0)
            last = 0
        elif token["end"]:
            inside = open_groups.pop() + last if len(open_groups) > 1 else 0
            last = max(1, inside)
        elif token["repeat"]:
            last *= max(1, int(token["most"] or 0), int(token["least"]) + 1)
        elif token["again"]:
            last += 1
        else:
            open_groups[-1] += last
            last = _atom(token)
        last = min(last, _MOST_STATES)
    return min(sum(open_groups) + last, _MOST_STATES)


def _atom(token: "re.Match[str]") -> int:
    inside = token["class"]
    if token["property"]:
        return _PROPERTY
    if token["wide"]:
        return _WIDE
    if inside is None:
        return 1 if token[0].isascii() else 4
    named = inside.count("\\p") + inside.count("\\P")
    is_wide = inside.startswith("^") or not inside.isascii() or any(word in inside for word in ("\\S", "\\W", "\\D"))
    return named * _PROPERTY + (_WIDE if is_wide or "\\u" in inside else 1)


def encoded(value: Any) -> bytes | None:
    """The value as JSON; None where JSON cannot hold it."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
