"""Arguments that stand in a header too: `x-mcp-header` in a tool's schema, `Mcp-Param-*` on the request (2026-07-28).

Above: `methods.py`, which compares, and `jackfield mcp`, which sends. Below: `envelope.py`'s reading of a value. Pure.
A schema whose annotations are not right declares nothing: clients drop such a tool.
"""

import base64
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from jackfield.catalog.merge import Entry
from jackfield.mcp.envelope import header_value
from jackfield.mcp.wire import HEADER_MISMATCH, RpcError
from jackfield.model.tool import JsonSchema

ANNOTATION = "x-mcp-header"
PREFIX = "Mcp-Param-"
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_SENTINEL = "=?base64?"
_DECIMAL = re.compile(r"-?[0-9]+(\.0+)?")
_TYPES = frozenset({"string", "integer", "boolean"})
_MAPS = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})
_WITHIN = frozenset(
    {
        "additionalProperties", "allOf", "anyOf", "contains", "contentSchema", "else", "if", "items", "not", "oneOf",
        "prefixItems", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip
_KEPT = 25_000


class Declared(Struct, frozen=True):
    """One argument that has a header."""

    path: tuple[str, ...]
    header: str
    type: str


_known: OrderedDict[str, tuple[Declared, ...]] = OrderedDict()
"""What each version of a tool declares, read once."""


def check_param_headers(entry: Entry, arguments: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> None:
    """Raise `RpcError` unless each declared argument and its header say the same, or neither is there."""
    for declared in _declared_by(entry):
        given = headers.get(f"{PREFIX}{declared.header}".lower().encode())
        value = rendered(_at(arguments, declared.path))
        if value is None and given is None:
            continue
        if value is None or given is None or not _agree(header_value(given), value, declared.type):
            where = ".".join(declared.path)
            raise RpcError(
                HEADER_MISMATCH,
                f"The header {PREFIX}{declared.header} and the argument '{where}' must agree, or both be absent.",
            )


def _declared_by(entry: Entry) -> tuple[Declared, ...]:
    found = _known.get(entry.version)
    if found is None:
        found = _known[entry.version] = declared_in(entry.tool.input_schema)
        if len(_known) > _KEPT:
            _known.popitem(last=False)
    return found


def headers_for(schema: JsonSchema, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The headers that a call with these arguments carries."""
    values = {declared.header: rendered(_at(arguments, declared.path)) for declared in declared_in(schema)}
    return {f"{PREFIX}{header}": header_text(value) for header, value in values.items() if value is not None}


def header_text(value: str) -> str:
    """A text as a header can carry it."""
    if (not value or _PLAIN.fullmatch(value)) and not value.startswith(_SENTINEL):
        return value
    return f"{_SENTINEL}{base64.b64encode(value.encode()).decode()}?="


def declared_in(schema: JsonSchema) -> tuple[Declared, ...]:
    """Every annotated property; none at all if one of the annotations is not right."""
    found: dict[str, Declared] = {}
    for path, part in _parts(schema):
        if ANNOTATION not in part:
            continue
        header, kind = part[ANNOTATION], part.get("type")
        is_right = path and isinstance(header, str) and _TOKEN.fullmatch(header) and kind in _TYPES
        if not is_right or header.lower() in found:
            return ()
        found[header.lower()] = Declared(path or (), header, str(kind))
    return tuple(found.values())


def rendered(value: Any) -> str | None:
    """A value as it stands in a header; None for what cannot stand there."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (str, int, float)) else None


def _agree(header: str | None, value: str, kind: str) -> bool:
    if header is None:
        return False
    if kind == "integer" and _DECIMAL.fullmatch(header) and _DECIMAL.fullmatch(value):
        return header.partition(".")[0] == value.partition(".")[0]
    return header == value


def _at(arguments: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = arguments
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _parts(schema: Any) -> Iterator[tuple[tuple[str, ...] | None, dict[str, Any]]]:
    """Every subschema, with the path of properties that leads to it; None where something else leads there too.

    What is data and no schema (`default`, `enum`, …) is not looked into.
    """
    waiting: list[tuple[tuple[str, ...] | None, Any]] = [((), schema)]
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, list):
            waiting += [(None, item) for item in part]
        if not isinstance(part, dict):
            continue
        yield path, part
        for key, value in part.items():
            if key == "properties" and isinstance(value, dict):
                waiting += [(None if path is None else (*path, name), sub) for name, sub in value.items()]
            elif key in _MAPS and isinstance(value, dict):
                waiting += [(None, sub) for sub in value.values()]
            elif key in _WITHIN:
                waiting.append((None, value))
