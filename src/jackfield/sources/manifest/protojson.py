"""A manifest as protojson writes it, in the document's own spelling. Pure.

protojson writes camelCase, leaves out what is zero, and wraps values whose type it does not know:
`{"stringValue": "x"}`, `{"intValue": "30"}`, `{"fields": {…}}`.
"""

from collections.abc import Callable
from typing import Any

from jackfield.settings.parsing import snake_case

_KEYWORDS = {
    "min_length": "minLength",
    "max_length": "maxLength",
    "additional_properties": "additionalProperties",
}
"""Words of JSON Schema that protobuf spells its own way."""
_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_SCHEMAS = frozenset(
    {"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "prefixItems"}
    | {"anyOf", "oneOf", "allOf", "unevaluatedProperties", "unevaluatedItems"}
)
_BACKOFF = {"initial_seconds": "initial", "initial_interval_seconds": "initial", "initial_interval": "initial"}
_BACKOFF |= {"max_seconds": "max", "max_interval_seconds": "max", "max_interval": "max"}


def snake_deep(value: Any) -> Any:
    """The same JSON with every key in snake_case."""
    if isinstance(value, dict):
        return {_BACKOFF.get(snake_case(key), snake_case(key)): snake_deep(inner) for key, inner in value.items()}
    return [snake_deep(inner) for inner in value] if isinstance(value, list) else value


def plain(value: Any) -> Any:
    """A value that protojson wrapped, unwrapped; any other as it is."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    [(key, inner)] = value.items()
    unwrap = _WRAPPERS.get(snake_case(key))
    return value if unwrap is None else unwrap(inner)


def plain_object(value: Any) -> Any:
    """An example's input: an object, or protojson's `{"fields": {name: wrapped}}` for one."""
    if isinstance(value, dict) and set(value) == {"fields"} and isinstance(value["fields"], dict):
        return {name: plain(inner) for name, inner in value["fields"].items()}
    return value


def plain_schema(schema: Any) -> Any:
    """A JSON Schema with its keywords spelled as JSON Schema does, and its defaults unwrapped."""
    if isinstance(schema, list):
        return [plain_schema(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    return {_keyword(key): _plain_part(_keyword(key), inner) for key, inner in schema.items()}


def _keyword(key: str) -> str:
    return _KEYWORDS.get(key, key)


def _plain_part(key: str, value: Any) -> Any:
    if key in _BY_NAME and isinstance(value, dict):
        return {name: plain_schema(inner) for name, inner in value.items()}
    if key in _SCHEMAS:
        return plain_schema(value)
    if key == "default":
        return plain(value)
    if key == "enum" and isinstance(value, list):
        return [plain(inner) for inner in value]
    return value


def _whole(value: Any) -> Any:
    """A 64-bit number, which protojson writes as text."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return value


def _real(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def _list(value: Any) -> Any:
    values = value.get("values", []) if isinstance(value, dict) else value
    return [plain(inner) for inner in values] if isinstance(values, list) else value


def _object(value: Any) -> Any:
    return plain_object(value if isinstance(value, dict) and value else {"fields": {}})


def _same(value: Any) -> Any:
    return value


def _nothing(_: Any) -> None:
    return None


_WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "string_value": _same,
    "bool_value": _same,
    "int_value": _whole,
    "double_value": _real,
    "number_value": _real,
    "null_value": _nothing,
    "list_value": _list,
    "object_value": _object,
    "struct_value": _object,
}
