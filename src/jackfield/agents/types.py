"""An agent as its cycles know it: its id, its settings, its own MCP servers, and the principal of its calls. Pure."""

import hashlib
import re
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.catalog.globs import SOMEBODYS
from jackfield.catalog.names import legal
from jackfield.errors import ConfigError
from jackfield.model.principal import Principal
from jackfield.settings.parsing import snake_keys
from jackfield.settings.tools import ToolOverride, hold_or_accept, parse_override
from jackfield.settings.types import AgentSettings
from jackfield.sources.mcp.options import McpOptions, parse_servers

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CUT = 40


class Agent(Struct, frozen=True):
    """One agent."""

    id: str
    settings: AgentSettings
    is_configured: bool = False
    """It is in the config, so what it names is the operator's choice."""
    owner: str | None = None
    """Who made it, by the name on record: with their logins it calls. None: with its own, made by an administrator."""

    @property
    def name(self) -> str:
        return self.settings.name or self.id

    @property
    def login_name(self) -> str:
        """Whose logins at sources its calls use."""
        return self.owner or self.principal.name

    @property
    def principal(self) -> Principal:
        """Its calls are its own: it acts as itself and nobody else, with the tools that its settings name."""
        return Principal(name=f"agent:{self.id}", scopes=frozenset({f"agent:{self.id}"}), tools=self.settings.tools)


class AgentServer(Struct, frozen=True, kw_only=True):
    """One MCP server of an agent (`[agents.NAME.mcp]`), and what is said about its tools, as for every source."""

    options: McpOptions
    overrides: dict[str, ToolOverride] = {}
    accepts_changes: bool = False
    holds_new: bool = False


def source_name(agent: str, server: str) -> str:
    """What an agent's server is called as a source: `server@agent`, which no other source can be."""
    if _PLAIN.fullmatch(server):
        return f"{server}{SOMEBODYS}{agent}"
    digest = hashlib.sha256(server.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{legal(server)[:_CUT]}.{digest}{SOMEBODYS}{agent}"


def servers_of(agent: Agent) -> dict[str, AgentServer]:
    """The agent's servers by name. Raises `ConfigError` for what cannot be used."""
    mcp, where = agent.settings.mcp, f"agents.{agent.id}.mcp"
    if not mcp:
        return {}
    raws = mcp.get("servers", ())
    if not isinstance(raws, (list, tuple)) or not all(isinstance(raw, dict) for raw in raws):
        parse_servers(mcp, where=where)  # which says what is wrong
    split = [_split(raw, where=f"{where}.servers[{number}]") for number, raw in enumerate(raws)]
    parsed = parse_servers({**mcp, "servers": [rest for rest, _ in split]}, where=where)
    return {
        name: msgspec.structs.replace(rules, options=options)
        for (name, options), (_, rules) in zip(parsed.items(), split, strict=True)
    }


def _split(raw: dict[str, Any], *, where: str) -> tuple[dict[str, Any], AgentServer]:
    """How the server is reached, and what is said about its tools."""
    rest = snake_keys(raw)
    tools = rest.pop("tools", {})
    if not isinstance(tools, dict):
        raise ConfigError(f"{where}.tools must be a table of tool names. Write tools = {{ NAME = {{ … }} }}.")
    rules = AgentServer(
        options=McpOptions(),
        overrides={tool: parse_override(f"{where}.tools.{tool}", value) for tool, value in tools.items()},
        accepts_changes=hold_or_accept(rest, "on_change", "hold", where) == "accept",
        holds_new=hold_or_accept(rest, "on_new", "accept", where) == "hold",
    )
    return rest, rules
