"""What two snapshots disagree about. Texts for people are told apart from what programs rely on. Pure."""

from collections.abc import Iterator
from typing import Any

TEXTS = frozenset({"message", "description", "summary", "title", "instructions", "error", "reason"})
"""Fields with sentences for people: they may be reworded."""
PROMISED = ("Tool timed out after", "is visible but you are not in a space")
"""Sentences that agents see and the contract quotes: they may not."""


def differences(old: Any, new: Any) -> tuple[list[str], list[str]]:
    """What changed for programs, and what was reworded."""
    hard: list[str] = []
    texts: list[str] = []
    for path, was, now in _walk(_ready(old), _ready(new), ()):
        where = " / ".join(path)
        line = f"{where}\n    - {_short(was)}\n    + {_short(now)}"
        (texts if _is_reworded(path, was, now) else hard).append(line)
    return hard, texts


def schema_names(old: Any, new: Any) -> tuple[set[str], set[str]]:
    """Which names of schemas the OpenAPI document has lost and gained. They follow our class names."""
    before, after = (set(each["openapi"].get("components", {}).get("schemas", {})) for each in (old, new))
    return before - after, after - before


def _is_reworded(path: tuple[str, ...], was: Any, now: Any) -> bool:
    if not (isinstance(was, str) and isinstance(now, str) and path and path[-1] in TEXTS):
        return False
    return not any(promise in was for promise in PROMISED)


class _Nothing:
    def __repr__(self) -> str:
        return "(nothing)"


NOTHING = _Nothing()
SHOWN = 400
"""So much of a value is shown."""


def _walk(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _walk(old.get(key, NOTHING), new.get(key, NOTHING), (*path, str(key)))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _walk(one, other, (*path, str(index)))
    elif old != new or type(old) is not type(new):
        yield path, old, new


def _ready(snapshot: Any) -> Any:
    """The OpenAPI document with its references resolved: how its schemas are called is nobody's business but ours."""
    document = snapshot["openapi"]
    schemas = document.get("components", {}).get("schemas", {})
    rest = {name: value for name, value in document.items() if name != "components"}
    others = {name: value for name, value in document.get("components", {}).items() if name != "schemas"}
    resolved = {name: _resolved(value, schemas, ()) for name, value in {**rest, "components": others}.items()}
    return {**snapshot, "openapi": resolved}


def _resolved(value: Any, schemas: dict[str, Any], within: tuple[str, ...]) -> Any:
    if isinstance(value, list):
        return [_resolved(inner, schemas, within) for inner in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/components/schemas/"):
        name = reference.rpartition("/")[2]
        if name in within:
            return {"$ref": f"{len(within) - within.index(name)} up"}
        return _resolved(schemas[name], schemas, (*within, name))
    is_schema = "type" in value or "properties" in value or "anyOf" in value
    return {
        key: _resolved(inner, schemas, within)
        for key, inner in value.items()
        if not (is_schema and key == "title" and isinstance(inner, str))
    }


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
