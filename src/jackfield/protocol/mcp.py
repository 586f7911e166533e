"""MCP's revisions, the keys, codes and headers that both its sides need. Pure.

There are two eras: up to 2025-11-25 a client shakes hands once and has a session; from 2026-07-28 on every request says
for itself who asks and what the client can do, and says in headers, too, what it is about.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

MODERN = "2026-07-28"
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LATEST_HANDSHAKE = HANDSHAKE[-1]
WITH_STRUCTURED_CONTENT = frozenset({"2025-06-18", "2025-11-25", MODERN})
WITH_ELICITATION_MODES = frozenset({"2025-11-25", MODERN})
WITHOUT_LINKS = frozenset({"2024-11-05", "2025-03-26"})
WITHOUT_AUDIO = frozenset({"2024-11-05"})
WITH_BATCHES = "2025-03-26"
"""The one revision in which a body may hold several messages."""

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
LOG_LEVEL_KEY = "io.modelcontextprotocol/logLevel"
"""Keys of `_meta`, from 2026-07-28 on."""

TASKS = "io.modelcontextprotocol/tasks"
"""The extension of 2026-07-28; before, tasks are part of 2025-11-25 itself."""
RELATED_TASK = "io.modelcontextprotocol/related-task"
"""In `_meta`, at 2025-11-25: the task that a message belongs to."""
WITH_CORE_TASKS = LATEST_HANDSHAKE
NEEDS_TASKS: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
"""The data of a `MISSING_CAPABILITY` that declaring tasks would mend."""

INITIALIZE = "initialize"
DISCOVER = "server/discover"
ELICIT = "elicitation/create"
ELICITED = "notifications/elicitation/complete"
"""Of 2025-11-25: a url was opened, and what it is for is done."""
SAMPLE = "sampling/createMessage"
ROOTS = "roots/list"
TASKS = "io.modelcontextprotocol/tasks"
APPS = "io.modelcontextprotocol/ui"
APP_TYPE = "text/html;profile=mcp-app"
"""The extension's name."""
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
URL_REQUIRED = -32042
"""Of 2025-11-25: a person has to open a url before the call can be made."""
"""The client does not declare what the server needs of it."""
UNSUPPORTED_VERSION = -32022
RESOURCE_NOT_FOUND = -32002
"""Until 2025-11-25; later a resource that is not there is an invalid parameter."""
CANCELLED = -32800
"""Ends the stream of a request that its client has called off; without it the stream would just break off."""

SESSION_HEADER = "mcp-session-id"
VERSION_HEADER = "mcp-protocol-version"
METHOD_HEADER = "mcp-method"
NAME_HEADER = "mcp-name"
NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""Methods whose subject stands in `Mcp-Name` too, and the parameter that has it."""
PARAM_PREFIX = "Mcp-Param-"
ANNOTATION = "x-mcp-header"
"""In a tool's schema: the argument is sent as a header too."""

_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_BASE64 = re.compile(r"=\?base64\?(.*)\?=")
_BASE64_BEGIN = "=?base64?"
_TYPES = frozenset({"string", "integer", "boolean"})
_MAPS = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})
_WITHIN = frozenset(
    {
        "additionalProperties", "allOf", "anyOf", "contains", "contentSchema", "else", "if", "items", "not", "oneOf",
        "prefixItems", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip


def negotiated(requested: str) -> str:
    """The revision of a handshake that asks for `requested`."""
    return requested if requested in HANDSHAKE else LATEST_HANDSHAKE


class ParamHeader(Struct, frozen=True):
    """One argument that is sent as a header too."""

    path: tuple[str, ...]
    header: str
    type: str


def declared_headers(schema: Any) -> tuple[ParamHeader, ...]:
    """The annotated arguments of a tool; none at all if one of the annotations is invalid."""
    return () if header_fault(schema) is not None else tuple(_annotated(schema))


def header_fault(schema: Any) -> str | None:
    """What is wrong with a schema's `x-mcp-header`, as the predicate of "its schema"."""
    seen: set[str] = set()
    for path, node in _subschemas(schema):
        if ANNOTATION not in node:
            continue
        header = node[ANNOTATION]
        if not path:
            return f"has {ANNOTATION} where no argument is"
        if not isinstance(header, str) or not _HEADER_NAME.fullmatch(header):
            return f"has an {ANNOTATION} that is not a valid header name"
        if not isinstance(node.get("type"), str) or node["type"] not in _TYPES:
            return f"has {ANNOTATION} on an argument that is not a string, integer or boolean"
        if header.lower() in seen:
            return f"has {ANNOTATION} '{header}' twice"
        seen.add(header.lower())
    return None


def param_headers(declared: tuple[ParamHeader, ...], arguments: Mapping[str, Any]) -> dict[str, str]:
    """The headers that a call with these arguments carries. An argument that is absent or no scalar has none."""
    values = {param.header: scalar_text(argument_at(arguments, param.path)) for param in declared}
    return {f"{PARAM_PREFIX}{header}": header_text(value) for header, value in values.items() if value is not None}


@lru_cache(maxsize=10_000)
def routing_headers(revision: str, method: str, name: str | None = None) -> Mapping[str, str]:
    """What a request of 2026-07-28 says in headers too, so that a balancer need not read its body."""
    headers = {VERSION_HEADER: revision, METHOD_HEADER: method}
    return headers if name is None else {**headers, NAME_HEADER: header_text(name)}


def argument_at(arguments: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = arguments
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def scalar_text(value: Any) -> str | None:
    """A value as a header's text; None for what a header cannot carry."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (str, int, float)) else None


def header_text(value: str) -> str:
    """A text as a header can carry it, in base64 where it is not plain."""
    if (not value or _PLAIN.fullmatch(value)) and not value.startswith(_BASE64_BEGIN):
        return value
    return f"{_BASE64_BEGIN}{base64.b64encode(value.encode()).decode()}?="


def header_value(header: bytes | None) -> str | None:
    """A header's text, decoded from base64 where it is in it; None when that is invalid."""
    if header is None:
        return None
    text = header.decode("latin-1").strip(" \t")
    found = _BASE64.fullmatch(text)
    if found is None:
        return text
    try:
        decoded = base64.b64decode(found[1], validate=True)
        return decoded.decode() if base64.b64encode(decoded).decode() == found[1] else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _annotated(schema: Any) -> Iterator[ParamHeader]:
    for path, node in _subschemas(schema):
        if ANNOTATION in node:
            yield ParamHeader(path or (), node[ANNOTATION], node["type"])


def _subschemas(schema: Any) -> Iterator[tuple[tuple[str, ...] | None, dict[str, Any]]]:
    """Every subschema, with the path of properties that leads to it; None where something else leads there.

    What is data and no schema (`default`, `enum`, …) is not looked into.
    """
    waiting: list[tuple[tuple[str, ...] | None, Any]] = [((), schema)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, list):
            waiting += [(None, item) for item in node]
        if not isinstance(node, dict):
            continue
        yield path, node
        for key, value in node.items():
            if key == "properties" and isinstance(value, dict):
                waiting += [(None if path is None else (*path, name), sub) for name, sub in value.items()]
            elif key in _MAPS and isinstance(value, dict):
                waiting += [(None, sub) for sub in value.values()]
            elif key in _WITHIN:
                waiting.append((None, value))
