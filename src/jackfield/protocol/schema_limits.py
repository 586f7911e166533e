r"""What could make checking a value slow: patterns that are not matched in linear time, and schemas that explode.

Patterns: `^(?!tmp_)[a-z_]+(?![\s\S])` is `^[a-z_]+$` and not `^tmp_`. A lookahead at the beginning is a second match,
and one for "nothing more" is the end of the text, so both are rewritten; other lookarounds and backreferences stay.

Explosion: a small schema can refer to itself so often that checking `{}` takes years. Counted is how many subschemas
apply to one place of a value, to one place within it, and so on, each as often as it is referred to. A schema that
recurs (a tree of trees) is counted once, since there the value's depth is the bound, unless the caller asks otherwise.
"""

import re
from typing import Any
from urllib.parse import unquote

import msgspec

_AT_THE_END = re.compile(r"\(\?!\[(?:\\s\\S|\\S\\s|\^)\]\)")
_DATA = frozenset({"enum", "const", "default", "examples", "example"})
"""Keywords whose values are not schemas."""


def without_lookahead(schema: Any) -> Any:
    """An equivalent schema; the same object when there is nothing to rewrite."""
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


MOST_WORK = 1_000_000
"""Subschemas applied to one value along one path; about 40 ms."""
UNKNOWN_WORK = MOST_WORK // 100
"""The assumed cost of a reference whose target is not found here, though the validator may find it."""

ALL_DIFFERENT = 25
"""The cost of each item of an array with `uniqueItems`."""

_COMPARED = ("enum", "properties", "patternProperties", "required")
_NEEDED = (b'"$ref"', b'"$dynamicRef"', b'"$recursiveRef"', b'"unevaluated')
_LISTS = ("allOf", "anyOf", "oneOf")
_ONES = ("not", "if", "then", "else")
_MAPS = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_AGAIN = ("unevaluatedProperties", "unevaluatedItems")
"""Keywords that evaluate everything at the same place once more."""
_WITHIN_ONES = (
    "items",
    "contains",
    "additionalProperties",
    "additionalItems",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
)
_WITHIN_LISTS = ("prefixItems", "items")
_WITHIN_MAPS = ("properties", "patternProperties")


def is_explosive(schema: dict[str, Any], *, for_any_depth: bool = False) -> bool:
    """Whether a value could keep the checker busy for longer than anybody waits. May raise `RecursionError`.

    `for_any_depth`: a value as deep as it likes. One that comes back to itself by two ways at once doubles with each
    level.
    """
    text = msgspec.json.encode(schema)
    if not any(word in text for word in _NEEDED):
        return False  # nothing is looked at twice; most schemas are so, and this is asked of ten thousand
    expansion = _Expansion(schema, cost_of_return=MOST_WORK // 2 + 1 if for_any_depth else 1)
    return expansion.work(schema) > MOST_WORK


def looks_of(schema: dict[str, Any]) -> int:
    """How often a place of a value is looked at, at the most; more than `MOST_WORK` where its depth decides that."""
    try:
        if _Expansion(schema, cost_of_return=MOST_WORK // 2 + 1).work(schema) > MOST_WORK:
            return MOST_WORK + 1
        return _Expansion(schema, cost_of_return=1).work(schema)
    except RecursionError:
        return MOST_WORK + 1


class _Expansion:
    def __init__(self, root: dict[str, Any], *, cost_of_return: int) -> None:
        self._root = root
        self._cost_of_return = cost_of_return
        self._known: dict[int, int] = {}
        self._named: dict[str, Any] | None = None

    def work(self, node: Any) -> int:
        """Looks that `node` costs, or one more than the most."""
        if node is None:
            return UNKNOWN_WORK
        if not isinstance(node, dict):
            return 1
        if id(node) not in self._known:
            self._known[id(node)] = self._cost_of_return
            here = sum(map(self.work, self._here(node))) * (1 + sum(word in node for word in _AGAIN))
            within = max(map(self.work, _within(node)), default=0)
            self._known[id(node)] = min(_own(node) + here + within, MOST_WORK + 1)
        return self._known[id(node)]

    def _here(self, node: dict[str, Any]) -> list[Any]:
        """Schemas that look at the same place."""
        found = [node[word] for word in _ONES if word in node]
        found += [self._target(str(node[word])) for word in _REFERENCES if word in node]
        for word in _LISTS:
            found += node[word] if isinstance(node.get(word), list) else ()
        for word in _MAPS:
            found += node[word].values() if isinstance(node.get(word), dict) else ()
        return found

    def _target(self, reference: str) -> Any:
        """The schema that is meant; None where that is not found."""
        base, _, fragment = reference.partition("#")
        if self._named is None:
            self._named = _names_in(self._root)
        target = self._named.get(base) if base else self._root
        if not fragment:
            return target
        if not fragment.startswith("/"):
            return self._named.get(f"#{fragment}")
        for step in unquote(fragment)[1:].split("/"):
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict):
                target = target.get(key)
            elif isinstance(target, list) and key.isdecimal() and int(key) < len(target):
                target = target[int(key)]
            else:
                return None
        return target


def _own(node: dict[str, Any]) -> int:
    """The cost of the schema itself: some keywords compare with a list, `uniqueItems` compares all with all."""
    listed = sum(len(node[word]) for word in _COMPARED if isinstance(node.get(word), (list, dict)))
    return 1 + listed + (ALL_DIFFERENT if node.get("uniqueItems") is True else 0)


def _within(node: dict[str, Any]) -> list[Any]:
    """Subschemas that apply within the value."""
    found = [node[word] for word in _WITHIN_ONES if isinstance(node.get(word), dict)]
    for word in _WITHIN_LISTS:
        found += node[word] if isinstance(node.get(word), list) else ()
    for word in _WITHIN_MAPS:
        found += node[word].values() if isinstance(node.get(word), dict) else ()
    return found


def _names_in(root: dict[str, Any]) -> dict[str, Any]:
    """Schemas by their `$id` and `$anchor`."""
    named: dict[str, Any] = {}
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            for word in ("$id", "id"):
                if isinstance(node.get(word), str):
                    named[node[word].removesuffix("#")] = node
            for word in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(word), str):
                    named[f"#{node[word]}"] = node
            stack += node.values()
        elif isinstance(node, list):
            stack += node
    return named
