"""`[sources.NAME]` and `[[tools]]`, which the API takes in the same form."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.errors import ConfigError
from jackfield.model.tool import ExecutionType, Expiry, HttpExecution, JsonSchema, Metadata, Milliseconds
from jackfield.settings.identity import SourceAuth, SourceOAuth, parse_source_login
from jackfield.settings.parsing import parse_config, snake_keys

RESERVED_SOURCES = frozenset(
    {"builtin", "programs", "http", "internal", "external", "space", "caller", "request", "elicitation"}
)


_PLACEHOLDERS = frozenset({"", "...", "…"})
"""URLs that seed 003's examples have for tools without one."""


class ToolOverride(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[sources.X.tools.NAME]`: overrides for one tool."""

    description: str | None = None
    """In place of the description of its source."""
    category: str | None = None
    """The id of its category."""
    visible: bool | None = None
    """Whether an agent's calls are shown in its space."""
    is_async: bool | None = None
    """Whether its callers get `pending` at once, if somebody else answers it."""
    timeout: Milliseconds | None = None
    """Milliseconds that a call may take."""
    expires_in: Expiry | None = None
    """Milliseconds that a call may wait for an answer; 0: without limit."""
    metadata: dict[str, Any] = {}
    """Fields of its metadata."""


class SourceSettings(Struct, frozen=True, kw_only=True):
    """`[sources.NAME]`; `options` are those of the kind."""

    name: str
    kind: str
    """Which kind of source it is."""
    options: dict[str, Any]
    prefix: str = ""
    """Prepended to the names of its tools."""
    accepts_changes: bool = False
    """`on_change`: whether changed definitions of upstream tools are accepted without review."""
    holds_new: bool = False
    """`on_new`: whether upstream tools that appear after the first listing are quarantined."""
    tools: dict[str, ToolOverride] = {}
    rate_limit_per_minute: int | None = None
    """How many reads of its resources and prompts it takes per minute."""
    auth: SourceAuth = "none"
    """Whose login its requests are made with: nobody's, one for all, or each caller's own."""
    oauth: SourceOAuth = SourceOAuth()
    """How to log in at its server."""


class ToolSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[[tools]]`: seed 003's tool config."""

    name: str
    """What it is called."""
    description: str
    """What it does, for people and models."""
    input_schema: JsonSchema
    """JSON Schema of its arguments, an object."""
    execution_type: ExecutionType
    """How it is answered; see [Tools in the config](../configuration.md#tools-in-the-config)."""
    output_schema: JsonSchema | None = None
    """JSON Schema of its result; a result that does not match is a failure."""
    visible: bool | None = None
    """Whether an agent's calls are shown in its space."""
    is_async: bool = False
    """Whether its callers get `pending` at once, if somebody else answers it."""
    timeout: Milliseconds | None = None
    """Milliseconds that a call may take; 30 s if left out."""
    expires_in: Expiry | None = None
    """Milliseconds that a call may wait for an answer; 24 h if left out, 0: without limit."""
    execution: HttpExecution | None = None
    """The HTTP request that a call makes."""
    category: str | None = None
    """The id of its category."""
    metadata: Metadata = Metadata()
    """Limits and hints."""


def parse_source(name: str, raw: dict[str, Any], path: Path | None, *, folder: Path) -> SourceSettings:
    """One source, checked as far as all kinds are alike. `path`: the file that has it; None: the API made it."""
    where = f"sources.{name}" if path is None else f"{path}: sources.{name}"
    if name in RESERVED_SOURCES:
        raise ConfigError(f"{where}: '{name}' is a reserved name. Choose another one.")
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
    limit = options.pop("rate_limit_per_minute", None)
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise ConfigError(f"{where}.rate_limit_per_minute must be a whole number, 0 or more. Correct it.")
    auth, oauth = parse_source_login(options, where=where, folder=folder)
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
        rate_limit_per_minute=limit,
        auth=auth,
        oauth=oauth,
        tools={tool: parse_override(f"{where}.tools.{tool}", value) for tool, value in overrides.items()},
    )


def hold_or_accept(options: dict[str, Any], key: str, default: str, where: str) -> str:
    """Take `on_change` or `on_new` out of a source's options."""
    said = options.pop(key, default)
    if said not in ("hold", "accept"):
        raise ConfigError(f"{where}.{key} is {said!r}; it takes 'hold' or 'accept'. Correct it.")
    return str(said)


def is_source_name(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_-]{1,32}", name) is not None


def parse_override(where: str, value: Any) -> ToolOverride:
    """Parse `tools.NAME` of a source."""
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a table. Write [{where}].")
    override = parse_config(snake_keys(value), ToolOverride, where=where)
    parse_config(override.metadata, Metadata, where=f"{where}.metadata")
    return override


def check_connection(tool: ToolSettings, sources: Iterable[SourceSettings], *, where: str) -> None:
    """Raises `ConfigError` where the tool uses the login of a source that has none."""
    wanted = None if tool.execution is None else tool.execution.connection
    if wanted is None:
        return
    known = {source.name: source for source in sources}
    if wanted not in known:
        names = ", ".join(name for name, source in known.items() if source.auth != "none") or "none"
        raise ConfigError(
            f"{where}.execution.connection names the source '{wanted}', which is not in [sources]. "
            f"Sources with a login: {names}."
        )
    if known[wanted].auth == "none":
        raise ConfigError(
            f"{where}.execution.connection names the source '{wanted}', which has no login. "
            f'Add auth = "shared" or auth = "user" to [sources.{wanted}].'
        )


def parse_tool(raw: dict[str, Any], *, where: str) -> ToolSettings:
    """Parse a tool in the form of seed 003."""
    tool = parse_config(snake_keys(raw), ToolSettings, where=where)
    is_gateway = tool.execution_type is ExecutionType.GATEWAY
    if tool.execution is not None and tool.execution.url in _PLACEHOLDERS and not is_gateway:
        tool = msgspec.structs.replace(tool, execution=None)
    if tool.input_schema.get("type", "object") != "object":
        raise ConfigError(f'{where}.inputSchema must describe an object. Set type = "object".')
    return tool
