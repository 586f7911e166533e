"""Tool arguments from the command line, and the JSON Schema that types them.

Schemas come from other programs: an unusual one is shown vaguely, never an error.
"""

import math
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.cli.options import UsageError
from jackfield.model.references import resolved
from jackfield.model.text import nearest

Schema = dict[str, Any]
_INTEGER = re.compile(r"[+-]?[0-9]+")
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_TYPE_WORDS = {"integer": "a whole number", "number": "a number", "boolean": "true or false", "null": "null"}
_EXAMPLES = {"integer": "3", "number": "1.5", "boolean": "true", "null": "null", "array": "'[…]'", "object": "'{…}'"}
_MAX_DEPTH = 6
_SAMPLES: dict[str, Any] = {
    "string": "text",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}


def from_pairs(pairs: Sequence[str], schema: Schema, *, tool: str) -> dict[str, Any]:
    """`["a=1", "b:=[2]"]` → `{"a": 1, "b": [2]}`. The value after `:=` is JSON, regardless of the schema."""
    arguments: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        is_json = key.endswith(":")
        key = key.removesuffix(":")
        if not equals or not key:
            raise UsageError(f"'{pair}' is not an argument. Write key=value, key:=JSON, or --json '{{…}}' for all.")
        if key in arguments:
            raise UsageError(f"The argument '{key}' is given twice.")
        if not _is_utf8(pair):
            raise UsageError(f"The argument '{key}' is not UTF-8. Pass it as JSON in a file: --json @file.")
        _check_known(key, schema, tool)
        arguments[key] = _json(text, key) if is_json else _typed(text, key, schema)
    return arguments


def _typed(text: str, key: str, schema: Schema) -> Any:
    """The text as a value of the type that the schema has for this key."""
    types = types_of(properties_of(schema).get(key), schema)
    if not types:
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            return text
    if types - {"null"} == {"string"}:
        return text
    for kind in ("integer", "number", "boolean", "null", "array", "object"):
        if kind in types and (found := _parse(text, kind)) is not None:
            return found[0]
    if "string" in types:
        return text
    expected = " or ".join(_TYPE_WORDS.get(kind, f"a JSON {kind}") for kind in sorted(types))
    raise UsageError(f"'{key}' takes {expected}, not '{text}'. Write {key}={_EXAMPLES.get(min(types), '…')}.")


def _parse(text: str, kind: str) -> tuple[Any] | None:
    """The text as a value of that type, in a tuple; None if it is not one."""
    word = text.strip()
    if kind == "boolean":
        return (_BOOLEANS[word.lower()],) if word.lower() in _BOOLEANS else None
    if kind == "integer":
        return (int(text),) if _INTEGER.fullmatch(word) and len(text) < sys.get_int_max_str_digits() else None
    if kind == "number":
        return _parse(text, "integer") or _number(text)
    if kind == "null":
        return (None,) if word == "null" else None
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    return (value,) if isinstance(value, list if kind == "array" else dict) else None


def _number(text: str) -> tuple[float] | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return (value,) if math.isfinite(value) else None


def _json(text: str, key: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as fault:
        raise UsageError(f"The value after '{key}:=' is not valid JSON: {fault}. A string needs quotes.") from None


def _is_utf8(text: str) -> bool:
    """Bytes of the command line that are not UTF-8 arrive as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_known(key: str, schema: Schema, tool: str) -> None:
    known = list(properties_of(schema))
    more = schema.get("additionalProperties")
    takes_more = more is True or isinstance(more, dict) or "patternProperties" in schema or (not known and more is None)
    if key in known or takes_more:
        return
    hint = nearest(key, known) or (f" It takes: {', '.join(known)}." if known else " It takes none.")
    raise UsageError(f"'{tool}' has no argument '{key}'.{hint}")


def json_object(given: str, *, what: str) -> dict[str, Any]:
    """A JSON object: as text, in the file after `@`, or on stdin (`-`)."""
    value, place = _read_json(given, what)
    if not isinstance(value, dict):
        raise UsageError(f'{place} must be a JSON object, like {{"a": 1}}.')
    return value


def json_value(given: str, *, what: str) -> Any:
    """Any JSON value: as text, in the file after `@`, or on stdin (`-`)."""
    return _read_json(given, what)[0]


def _read_json(given: str, what: str) -> tuple[Any, str]:
    text: str | bytes = given
    place = what
    if given == "-":
        text, place = sys.stdin.buffer.read(), "The input on stdin"
    elif given.startswith("@"):
        place = f"The file {given[1:]}"
        try:
            text = Path(given[1:]).read_bytes()
        except OSError as fault:
            raise UsageError(f"{place} cannot be read: {fault.strerror}.") from None
    try:
        return msgspec.json.decode(text), place
    except (msgspec.DecodeError, UnicodeDecodeError, UnicodeEncodeError) as fault:
        raise UsageError(f"{place} is not valid JSON: {fault}. A string needs quotes: '\"…\"'.") from None


class Field(Struct, frozen=True, kw_only=True):
    """One field of an object; the path of a nested one is `options.units`."""

    path: str
    type: str
    required: bool
    description: str


def types_of(schema: Any, root: Schema, *, depth: int = 0) -> frozenset[str]:
    """The JSON types a schema allows; empty if it does not say."""
    found = resolved(schema, root)
    stated = found.get("type")
    if isinstance(stated, str):
        return frozenset({stated})
    if isinstance(stated, list):
        return frozenset(kind for kind in stated if isinstance(kind, str))
    if values := _values(found):
        return frozenset(_type_of(value) for value in values)
    return _types_of_parts(found, root, depth) if depth < _MAX_DEPTH else frozenset()


def _types_of_parts(schema: Schema, root: Schema, depth: int) -> frozenset[str]:
    """The types of `anyOf` or `oneOf` together, or of the first part of `allOf` that has any."""
    for word in ("anyOf", "oneOf"):
        if isinstance(choices := schema.get(word), list):
            types = [types_of(choice, root, depth=depth + 1) for choice in choices]
            return frozenset().union(*types) if all(types) else frozenset()
    parts = schema.get("allOf")
    typed = (types_of(part, root, depth=depth + 1) for part in (parts if isinstance(parts, list) else ()))
    return next((types for types in typed if types), frozenset())


def properties_of(schema: Any) -> dict[str, Any]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else {}


def fields(schema: Schema, root: Schema | None = None, *, prefix: str = "", depth: int = 0) -> Iterator[Field]:
    """Every field, nested ones after their parent."""
    root = schema if root is None else root
    required = schema.get("required")
    for name, raw in properties_of(schema).items():
        inner = resolved(raw, root)
        path = f"{prefix}{name}"
        is_required = isinstance(required, list) and name in required
        yield Field(path=path, type=type_words(inner, root), required=is_required, description=_description(inner))
        if depth >= _MAX_DEPTH:
            continue
        yield from fields(inner, root, prefix=f"{path}.", depth=depth + 1)
        yield from fields(resolved(inner.get("items"), root), root, prefix=f"{path}[].", depth=depth + 1)


def type_words(schema: Schema, root: Schema) -> str:
    """`integer`, `array of string`, `string or null`, `any`"""
    types = sorted(types_of(schema, root), key=lambda kind: (kind == "null", kind))
    words = [
        f"array of {inner}" if kind == "array" and (inner := _item_words(schema, root)) else kind for kind in types
    ]
    return " or ".join(words) or "any"


def sample(schema: Any, root: Schema) -> Any:
    """A sample value: the first example or choice, the default, else a plain value of its type."""
    found = resolved(schema, root)
    for word in ("examples", "enum"):
        if isinstance(values := found.get(word), list) and values:
            return values[0]
    if "const" in found or "default" in found:
        return found.get("const", found.get("default"))
    types = types_of(found, root)
    kind = next((kind for kind in _SAMPLES if kind in types), "string")
    if kind == "object":
        return sample_object(found, root)
    if kind in ("integer", "number") and isinstance(least := found.get("minimum"), (int, float)):
        return least
    return _SAMPLES[kind]


def sample_object(schema: Schema, root: Schema) -> dict[str, Any]:
    """A sample object with every required field."""
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


def _description(schema: Schema) -> str:
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
    names = {str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    return names.get(type(value), "null")
