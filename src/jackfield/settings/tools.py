"""The operator's words about sources and tools: `[sources.NAME]` and `[[tools]]`, checked.

Above: `loading.py`, and the doors that take tools of the same shape. Below: the model's words.
"""

import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.errors import ConfigError
from jackfield.model.tool import ExecutionType, Expiry, HttpExecution, JsonSchema, Metadata, Milliseconds
from jackfield.settings.parsing import parse_config, snake_keys

RESERVED_SOURCES = frozenset({"builtin", "http", "internal", "external", "space", "caller", "request", "elicitation"})


_PLACEHOLDERS = frozenset({"", "...", "…"})
"""What seed 003's own example of a `space` tool has for a url: none."""


class ToolOverride(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[sources.X.tools.NAME]`: what the operator says about a tool, over what its source says."""

    description: str | None = None
    category: str | None = None
    visible: bool | None = None
    is_async: bool | None = None
    timeout: Milliseconds | None = None
    expires_in: Expiry | None = None
    metadata: dict[str, Any] = {}


class SourceSettings(Struct, frozen=True, kw_only=True):
    """`[sources.NAME]`: kind, prefix, on_change, overrides, and options that only that kind understands."""

    name: str
    kind: str
    options: dict[str, Any]
    prefix: str = ""
    """Put before the names of its tools."""
    accepts_changes: bool = False
    """`on_change`: whether a foreign tool whose definition changed goes on being offered, unseen by anybody."""
    holds_new: bool = False
    """`on_new`: whether a foreign tool that comes after the first listing waits until a person accepts it."""
    tools: dict[str, ToolOverride] = {}


class ToolSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[[tools]]`: seed 003's tool config."""

    name: str
    description: str
    input_schema: JsonSchema
    execution_type: ExecutionType
    output_schema: JsonSchema | None = None
    visible: bool | None = None
    is_async: bool = False
    timeout: Milliseconds | None = None
    expires_in: Expiry | None = None
    execution: HttpExecution | None = None
    category: str | None = None
    metadata: Metadata = Metadata()


def parse_source(name: str, raw: dict[str, Any], path: Path | None) -> SourceSettings:
    where = f"{path}: sources.{name}"
    if name in RESERVED_SOURCES:
        raise ConfigError(f"{where}: '{name}' is a name the gateway keeps for itself. Choose another one.")
    if not is_source_name(name):
        raise ConfigError(f"{where}: a source's name has 1 to 32 letters, digits, '_' or '-'. Rename it.")
    options = dict(raw)
    kind = options.pop("kind", None)
    if not isinstance(kind, str):
        raise ConfigError(f'{where} needs a kind, for example kind = "files". Add it.')
    prefix = options.pop("prefix", "")
    if not isinstance(prefix, str) or not re.fullmatch(r"[A-Za-z0-9_]{0,32}", prefix):
        raise ConfigError(f"{where}.prefix has up to 32 letters, digits or '_'. Correct it.")
    on_change = hold_or_accept(options, "on_change", "hold", where)
    on_new = hold_or_accept(options, "on_new", "accept", where)
    overrides = options.pop("tools", {})
    if not isinstance(overrides, dict):
        raise ConfigError(f"{where}.tools must be a table of tool names. Write [sources.{name}.tools.NAME].")
    return SourceSettings(
        name=name,
        kind=kind,
        options=options,
        prefix=prefix,
        accepts_changes=on_change == "accept",
        holds_new=on_new == "hold",
        tools={tool: parse_override(f"{where}.tools.{tool}", value) for tool, value in overrides.items()},
    )


def hold_or_accept(options: dict[str, Any], key: str, default: str, where: str) -> str:
    """`on_change` or `on_new`, taken out of the options of a source."""
    said = options.pop(key, default)
    if said not in ("hold", "accept"):
        raise ConfigError(f"{where}.{key} is {said!r}; it takes 'hold' or 'accept'. Correct it.")
    return str(said)


def is_source_name(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_-]{1,32}", name) is not None


def parse_override(where: str, value: Any) -> ToolOverride:
    """What stands below `tools.NAME` of a source."""
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a table. Write [{where}] and its keys below.")
    override = parse_config(snake_keys(value), ToolOverride, where=where)
    parse_config(override.metadata, Metadata, where=f"{where}.metadata")
    return override


def numbered_tool(number: int, raw: dict[str, Any], path: Path | None) -> ToolSettings:
    name = f" ({raw['name']})" if isinstance(raw.get("name"), str) else ""
    return parse_tool(raw, where=f"{path}: tools[{number}]{name}")


def parse_tool(raw: dict[str, Any], *, where: str) -> ToolSettings:
    """A tool in seed 003's shape, wherever it was written."""
    tool = parse_config(snake_keys(raw), ToolSettings, where=where)
    if tool.execution is not None and tool.execution.url in _PLACEHOLDERS and not _is_gateway(tool):
        tool = msgspec.structs.replace(tool, execution=None)
    if tool.input_schema.get("type", "object") != "object":
        raise ConfigError(f'{where}.inputSchema must describe an object. Set type = "object".')
    return tool


def _is_gateway(tool: ToolSettings) -> bool:
    return tool.execution_type is ExecutionType.GATEWAY
