"""YAML as the JSON values that it means, for documents of OpenAPI. Pure.

Built from the events of PyYAML's parser (libyaml's where it was built with it). Plain words follow YAML 1.2's core
schema, as OpenAPI demands: `no` and `2026-01-31` are text, keys are text. Aliases share
what they name; what a document would come to with all of them written out is bounded by its own length, so that a few
lines cannot stand for more than memory holds, and an alias within what it names is refused.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml
from msgspec import Struct

MAX_DEPTH = 200
LEAST = 1_000_000
"""Values that any document may come to, however short."""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "<<"
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {word: value for value in (True, False) for word in (str(value), str(value).lower(), str(value).upper())}
_INTEGER = re.compile(r"[-+]?[0-9]{1,300}|0o[0-7]{1,300}|0x[0-9a-fA-F]{1,200}")
_BEYOND_JSON = 2**63
"""Greater ones are numbers that JSON's readers round."""
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


class BadYaml(Exception):
    """The text stands after "is not valid YAML: "."""


class _Open(Struct):
    """A list or an object that is not at its end."""

    value: list[Any] | dict[str, Any]
    anchor: str | None
    size: int = 1
    key: str | None = None
    merged: dict[str, Any] = {}


class _Named(Struct, frozen=True):
    """What an anchor stands for, and how many values that is."""

    value: Any
    size: int


def read_yaml(content: bytes) -> Any:
    """The first document in these bytes. Raises `BadYaml`."""
    try:
        return _Building(max(LEAST, len(content))).value_of(yaml.parse(content, Loader=_LOADER))
    except yaml.MarkedYAMLError as fault:
        line = "" if fault.problem_mark is None else f" (line {fault.problem_mark.line + 1})"
        raise BadYaml(f"{fault.problem or fault.context}{line}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as fault:
        raise BadYaml(" ".join(str(fault).split())) from None


class _Building:
    """Values as the events tell of them. No recursion: how deep a document goes is the document's doing."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: list[_Open] = []
        self._anchors: dict[str, _Named | None] = {}
        """None: begun, and not at its end."""
        self._result: Any = None

    def value_of(self, events: Iterator[Any]) -> Any:
        for event in events:
            match event:
                case yaml.ScalarEvent():
                    self._scalar(event)
                case yaml.MappingStartEvent():
                    self._begin({}, event.anchor)
                case yaml.SequenceStartEvent():
                    self._begin([], event.anchor)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    self._end()
                case yaml.AliasEvent():
                    self._alias(event.anchor or "")
                case yaml.DocumentEndEvent():
                    break
                case _:
                    pass
        return self._result

    def _begin(self, value: list[Any] | dict[str, Any], anchor: str | None) -> None:
        if self._open and isinstance(self._open[-1].value, dict) and self._open[-1].key is None:
            raise BadYaml("one of its keys is not text")
        if len(self._open) >= MAX_DEPTH:
            raise BadYaml(f"it is nested more than {MAX_DEPTH} levels deep")
        if anchor is not None:
            self._anchors[anchor] = None
        self._open.append(_Open(value=value, anchor=anchor))

    def _end(self) -> None:
        done = self._open.pop()
        if isinstance(done.value, dict):
            for key, value in done.merged.items():
                done.value.setdefault(key, value)
        if done.anchor is not None:
            self._anchors[done.anchor] = _Named(done.value, done.size)
        self._put(done.value, done.size)

    def _alias(self, anchor: str) -> None:
        named = self._anchors.get(anchor)
        if named is None:
            said = "stands within what it names" if anchor in self._anchors else "names nothing before it"
            raise BadYaml(f"its alias '*{anchor[:40]}' {said}")
        self._put(named.value, named.size)

    def _scalar(self, event: Any) -> None:
        holder = self._open[-1] if self._open else None
        if holder is not None and isinstance(holder.value, dict) and holder.key is None:
            holder.key = event.value
            if event.anchor is not None:
                self._anchors[event.anchor] = _Named(event.value, 1)
            return
        value = _meant(event.value) if event.implicit[0] else event.value
        if event.anchor is not None:
            self._anchors[event.anchor] = _Named(value, 1)
        self._put(value, 1)

    def _put(self, value: Any, size: int) -> None:
        if not self._open:
            self._result = value
            return
        holder = self._open[-1]
        holder.size += size
        if holder.size > self._most:
            raise BadYaml("with its aliases written out it would be many times its size")
        if isinstance(holder.value, list):
            holder.value.append(value)
        elif holder.key is None:
            raise BadYaml("one of its keys is not text")
        else:
            key, holder.key = holder.key, None
            if key == _MERGE:
                holder.merged = {**_merged(value), **holder.merged}
            else:
                holder.value[key] = value


def _merged(value: Any) -> dict[str, Any]:
    """`<<: *base`, or a list of such, of which the first wins."""
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, dict) for part in parts):
        raise BadYaml("what it merges with '<<' is not an object")
    return {key: inner for part in reversed(parts) for key, inner in part.items()}


def _meant(word: str) -> Any:
    """What a word without quotes means."""
    if word in _NULL:
        return None
    if word in _BOOLS:
        return _BOOLS[word]
    if _INTEGER.fullmatch(word):
        number = int(word, {"0o": 8, "0x": 16}.get(word[:2], 10))
        return number if abs(number) < _BEYOND_JSON else float(number)
    if _NUMBER.fullmatch(word):
        return float(word) if math.isfinite(float(word)) else word
    return word
