"""What HTTP headers say of a request since 2026-07-28, so that a balancer need not read its body. Pure.

Above: `handshake.py` and `upstream.py`. A schema's `x-mcp-header` asks that an argument be said as a header too; a tool
whose annotations break the rules for that must not be offered.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any

KEY = "x-mcp-header"
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_SAFE = re.compile(r"[\x20-\x7e]*")
_WRAPPED = re.compile(r"=\?base64\?.*\?=")
_TYPES = frozenset({"string", "integer", "boolean"})
_ONE = frozenset(
    {
        "items",
        "contains",
        "unevaluatedItems",
        "additionalProperties",
        "propertyNames",
        "unevaluatedProperties",
        "not",
        "if",
        "then",
        "else",
        "contentSchema",
    }
)
_LIST = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAP = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})

Path = tuple[str, ...]
HeaderMap = dict[Path, str]
"""Which argument goes into which `Mcp-Param-` header."""


def routing_headers(revision: str, method: str, name: str | None = None) -> dict[str, str]:
    headers = {"mcp-protocol-version": revision, "mcp-method": method}
    if name is not None:
        headers["mcp-name"] = header_value(name)
    return headers


def param_headers(wanted: HeaderMap, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The headers that repeat arguments. One that is not given, or is no scalar, is left out."""
    headers = {}
    for path, token in wanted.items():
        value: Any = arguments
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, bool):
            headers[f"mcp-param-{token}"] = "true" if value else "false"
        elif isinstance(value, (str, int, float)):
            headers[f"mcp-param-{token}"] = header_value(str(value))
    return headers


def header_value(value: str) -> str:
    """`value` as a header can carry it; wrapped in base64 where it is not plain."""
    if _SAFE.fullmatch(value) and value == value.strip() and not _WRAPPED.fullmatch(value):
        return value
    return f"=?base64?{b64encode(value.encode()).decode()}?="


def header_map(schema: Any) -> HeaderMap:
    """What a schema asks for. Only for one in which `header_fault` finds nothing."""
    return {path: node[KEY] for path, node in _positions(schema) if path and isinstance(node.get(KEY), str)}


def header_fault(schema: Any) -> str | None:
    """What is wrong with a schema's `x-mcp-header`, to stand after "its schema"."""
    seen: set[str] = set()
    for path, node in _positions(schema):
        if KEY not in node:
            continue
        token = node[KEY]
        if not path:
            return f"has {KEY} where no argument is"
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            return f"has an {KEY} that is no header name"
        if node.get("type") not in _TYPES:
            return f"has {KEY} on an argument that is no string, integer or boolean"
        if token.lower() in seen:
            return f"has {KEY} '{token}' twice"
        seen.add(token.lower())
    return None


def _positions(root: Any) -> Iterator[tuple[Path | None, dict[str, Any]]]:
    """Every schema within a schema, with the path of properties that leads to it; None where something else does."""
    stack: list[tuple[Path | None, Any]] = [((), root)]
    while stack:
        path, node = stack.pop()
        if not isinstance(node, dict):
            continue
        yield path, node
        for word, value in node.items():
            if word == "properties" and isinstance(value, dict):
                stack += [(None if path is None else (*path, name), inner) for name, inner in value.items()]
            elif word in _ONE:
                stack.append((None, value))
            elif word in _LIST and isinstance(value, list):
                stack += [(None, inner) for inner in value]
            elif word in _MAP and isinstance(value, dict):
                stack += [(None, inner) for inner in value.values()]
