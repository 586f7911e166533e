"""A tool's JSON Schema for people: which types it allows, its fields as lines, and a value that would do.

Above: `arguments.py` and `tools.py`. Below: `model/references.py`. Pure; a schema that is strange is shown
vaguely, never an error.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.model.references import resolved

Schema = dict[str, Any]
_DEEPEST = 6
_SAMPLES: dict[str, Any] = {
    "string": "text",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}


class Field(Struct, frozen=True, kw_only=True):
    """One field of an object: `path` is `options.units` for an inner one."""

    path: str
    type: str
    required: bool
    says: str


def types_of(schema: Any, root: Schema, *, depth: int = 0) -> frozenset[str]:
    """The JSON types a schema allows; empty when it does not say."""
    found = resolved(schema, root)
    stated = found.get("type")
    if isinstance(stated, str):
        return frozenset({stated})
    if isinstance(stated, list):
        return frozenset(kind for kind in stated if isinstance(kind, str))
    if values := _values(found):
        return frozenset(_type_of(value) for value in values)
    return _types_of_parts(found, root, depth) if depth < _DEEPEST else frozenset()


def _types_of_parts(schema: Schema, root: Schema, depth: int) -> frozenset[str]:
    """What a schema that is made of others allows: any of its choices, or what its first speaking part says."""
    for word in ("anyOf", "oneOf"):
        if isinstance(choices := schema.get(word), list):
            kinds = [types_of(choice, root, depth=depth + 1) for choice in choices]
            return frozenset().union(*kinds) if all(kinds) else frozenset()
    parts = schema.get("allOf")
    speaking = (types_of(part, root, depth=depth + 1) for part in (parts if isinstance(parts, list) else ()))
    return next((kinds for kinds in speaking if kinds), frozenset())


def properties_of(schema: Any) -> dict[str, Any]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else {}


def fields(schema: Schema, root: Schema | None = None, *, prefix: str = "", depth: int = 0) -> Iterator[Field]:
    """Every field, inner ones after their owner."""
    root = schema if root is None else root
    required = schema.get("required")
    for name, raw in properties_of(schema).items():
        inner = resolved(raw, root)
        path = f"{prefix}{name}"
        is_required = isinstance(required, list) and name in required
        yield Field(path=path, type=type_words(inner, root), required=is_required, says=_says(inner))
        if depth >= _DEEPEST:
            continue
        yield from fields(inner, root, prefix=f"{path}.", depth=depth + 1)
        yield from fields(resolved(inner.get("items"), root), root, prefix=f"{path}[].", depth=depth + 1)


def type_words(schema: Schema, root: Schema) -> str:
    """`integer`, `array of string`, `string or null`, `any`"""
    kinds = sorted(types_of(schema, root), key=lambda kind: (kind == "null", kind))
    words = [
        f"array of {inner}" if kind == "array" and (inner := _item_words(schema, root)) else kind for kind in kinds
    ]
    return " or ".join(words) or "any"


def sample(schema: Any, root: Schema) -> Any:
    """A value of the right shape: an example, the default, the first choice, else a plain one of its type."""
    found = resolved(schema, root)
    for word in ("examples", "enum"):
        if isinstance(values := found.get(word), list) and values:
            return values[0]
    if "const" in found or "default" in found:
        return found.get("const", found.get("default"))
    kinds = types_of(found, root)
    kind = next((kind for kind in _SAMPLES if kind in kinds), "string")
    if kind == "object":
        return sample_object(found, root)
    if kind in ("integer", "number") and isinstance(least := found.get("minimum"), (int, float)):
        return least
    return _SAMPLES[kind]


def sample_object(schema: Schema, root: Schema) -> dict[str, Any]:
    """An object with every required field."""
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    properties = properties_of(schema)
    return {name: sample(properties.get(name), root) for name in names if isinstance(name, str)}


def _item_words(schema: Schema, root: Schema) -> str:
    items = schema.get("items")
    if items is None and isinstance(choices := schema.get("anyOf"), list):
        items = next((choice["items"] for choice in choices if isinstance(choice, dict) and "items" in choice), None)
    words = type_words(resolved(items, root), root) if isinstance(items, dict) else ""
    return "" if words == "any" else words


def _says(schema: Schema) -> str:
    parts = [schema["description"].strip()] if isinstance(schema.get("description"), str) else []
    if values := _values(schema):
        parts.append("one of " + ", ".join(str(value) for value in values))
    if "default" in schema:
        parts.append(f"default {msgspec.json.encode(schema['default']).decode()}")
    return "; ".join(part for part in parts if part)


def _values(schema: Schema) -> list[Any]:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else []


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    kinds = {str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    return kinds.get(type(value), "null")
