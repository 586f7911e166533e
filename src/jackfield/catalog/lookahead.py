r"""Patterns that begin by looking ahead, written so that they are matched in linear time. Pure.

`^(?!tmp_)[a-z_]+(?![\s\S])` says the same as `^[a-z_]+$` and not `^tmp_`: at the beginning of a text, to look ahead is
to match twice, and to look for nothing more is to be at its end. Other lookarounds and backreferences stay as they are.
Above: `schemas.py`. Below: nothing.
"""

import re
from typing import Any

_AT_THE_END = re.compile(r"\(\?!\[(?:\\s\\S|\\S\\s|\^)\]\)")
_DATA = frozenset({"enum", "const", "default", "examples", "example"})
"""Words whose values are no schemas."""


def without_lookahead(schema: Any) -> Any:
    """The same demands; the same object where there is nothing to write otherwise."""
    if isinstance(schema, list):
        items = [without_lookahead(item) for item in schema]
        return schema if all(new is old for new, old in zip(items, schema, strict=True)) else items
    if not isinstance(schema, dict):
        return schema
    made = {key: value if key in _DATA else without_lookahead(value) for key, value in schema.items()}
    changed = any(made[key] is not schema[key] for key in schema)
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and "(?" in pattern and isinstance(schema.get("allOf", []), list):
        rest, ahead = _taken_apart(pattern)
        if rest != pattern:
            further = [_demand(word, inner) for word, inner in ahead]
            made |= {"pattern": rest} | ({"allOf": [*made.get("allOf", []), *further]} if further else {})
            changed = True
    return made if changed else schema


def _demand(word: str, inner: str) -> dict[str, Any]:
    if word == "(?=":
        return {"pattern": f"^(?:{inner})"}
    return {"not": {"type": "string", "pattern": f"^(?:{inner})"}}


def _taken_apart(pattern: str) -> tuple[str, list[tuple[str, str]]]:
    """The pattern without what it looks ahead for at its beginning, and that."""
    pattern = _AT_THE_END.sub("$", pattern)
    ahead: list[tuple[str, str]] = []
    rest = pattern.removeprefix("^")
    if rest == pattern or _has_choice(rest):
        return pattern, ahead
    while rest.startswith(("(?!", "(?=")):
        end = _closing(rest)
        if end is None or rest[end + 1 : end + 2] in ("*", "+", "?", "{"):
            break
        ahead.append((rest[:3], rest[3:end]))
        rest = rest[end + 1 :]
    return f"^{rest}", ahead


def _closing(pattern: str) -> int | None:
    """Where the group ends that the pattern begins with."""
    return next((place for place, letter, depth in _letters(pattern) if letter == ")" and depth == 0), None)


def _has_choice(pattern: str) -> bool:
    """Whether `|` parts the whole pattern, so that `^` belongs to the first part alone."""
    return any(letter == "|" and depth == 0 for _, letter, depth in _letters(pattern))


def _letters(pattern: str) -> list[tuple[int, str, int]]:
    """Those that mean something, with how many groups they are in; of a class only nothing."""
    found: list[tuple[int, str, int]] = []
    depth, place, in_class = 0, 0, False
    while place < len(pattern):
        letter = pattern[place]
        if letter == "\\":
            place += 2
            continue
        if in_class:
            in_class = letter != "]"
        elif letter == "[":
            in_class = True
        else:
            depth -= letter == ")"
            found.append((place, letter, depth))
            depth += letter == "("
        place += 1
    return found
