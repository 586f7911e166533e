"""The config of an MCP server: `[sources.NAME]` with `kind = "mcp"`, and seed 003's `mcp.servers`. Pure."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from jackfield.errors import ConfigError
from jackfield.outgoing import OutgoingBadUrl
from jackfield.outgoing.urls import parse_url
from jackfield.settings.parsing import parse_config, snake_keys
from jackfield.settings.types import SandboxSettings
from jackfield.sources.http import check_headers

Seconds = Annotated[float, Meta(gt=0, le=3600)]
CallSeconds = Annotated[float, Meta(gt=0)]
HTTP, SSE, STDIO = "http", "sse", "stdio"
OURS = (HTTP, SSE, STDIO)
CONNECT_SECONDS = 15.0
FIRST_START_SECONDS = 120.0


class McpOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of one server; times are in seconds."""

    url: str | None = None
    """The server, for `http` and `sse`."""
    command: str | tuple[str, ...] | None = None
    """The program, for `stdio`."""
    args: tuple[str, ...] = ()
    """Its arguments, where `command` does not have them."""
    env: dict[str, str] = {}
    """Its environment, besides PATH and HOME."""
    cwd: str = "."
    """Its working directory, relative to the config."""
    transport: str = ""
    """`http`, `sse`, `stdio`, or the name of another package's transport."""
    options: dict[str, Any] = {}
    """For another package's transport, together with `url` and `headers`."""
    headers: dict[str, str] = {}
    """Sent with every request."""
    allowed_tools: tuple[str, ...] | None = None
    """Names and globs of its tools that are offered; all if left out."""
    connect_timeout: Seconds | None = None
    """15; a process that has not been up yet gets 120, since its command may have to install it first."""
    era: Literal["auto", "handshake"] = "auto"
    """`handshake`: only `initialize` is tried, for servers that fail on anything newer."""
    call_timeout: CallSeconds | None = None
    """For every call."""
    max_concurrency: Annotated[int, Meta(ge=1)] | None = None
    """Calls at once; without limit if left out."""
    sampling: bool | str = False
    """The server may ask a model: the default one, or the one of this name."""
    sandbox: bool | SandboxSettings = False
    """Whether its process runs in a sandbox; a table configures it."""

    @property
    def confinement(self) -> SandboxSettings | None:
        return SandboxSettings() if self.sandbox is True else self.sandbox or None

    @property
    def carrier(self) -> str:
        """The transport: as configured, else the one that fits."""
        return self.transport or (STDIO if self.command is not None else HTTP)

    @property
    def connect_seconds(self) -> float:
        return self.connect_timeout or CONNECT_SECONDS

    @property
    def first_seconds(self) -> float:
        """How long its first start may take."""
        return self.connect_timeout or (FIRST_START_SECONDS if self.carrier == STDIO else CONNECT_SECONDS)

    @property
    def argv(self) -> tuple[str, ...]:
        command = (self.command,) if isinstance(self.command, str) else self.command or ()
        return (*command, *self.args)

    @property
    def for_plugin(self) -> dict[str, Any]:
        """What another package's transport is given."""
        given = {"url": self.url, "headers": self.headers or None}
        return {key: value for key, value in given.items() if value is not None} | self.options

    @property
    def timeout_ms(self) -> int | None:
        return None if self.call_timeout is None else max(1, round(self.call_timeout * 1000))

    @property
    def server(self) -> str:
        """Where it is, without secrets: no user, no query, no arguments."""
        if self.url is None:
            return f"{self.carrier}:{self.argv[0].rpartition('/')[2] if self.argv else ''}"
        return self.url.partition("?")[0].partition("#")[0]


def parse_options(options: dict[str, Any], *, where: str) -> McpOptions:
    """The options of one server, checked. Raises `ConfigError` that names `where`, the key and the cure."""
    parsed = parse_config(options, McpOptions, where=where)
    carrier = parsed.carrier
    if carrier not in OURS:
        return parsed
    if parsed.sandbox and carrier != STDIO:
        raise ConfigError(f"{where}.sandbox is for a server that is started here, by a command. Remove it.")
    if parsed.options:
        raise ConfigError(f"{where}.options are for transports of other packages, not for '{carrier}'. Remove them.")
    if carrier == STDIO:
        _check_command(parsed, where)
        return parsed
    if parsed.command is not None:
        raise ConfigError(f"{where} has a command, which transport '{carrier}' does not use. Remove one of the two.")
    if parsed.url is None:
        raise ConfigError(f'{where} needs a url, or a command = ["…"] to start. Add one of them.')
    try:
        url = parse_url(parsed.url)
    except OutgoingBadUrl as fault:
        raise ConfigError(f"{where}.url is invalid. {fault} Correct it.") from None
    if url.userinfo:
        raise ConfigError(f"{where}.url has a user or password in it. Put them into headers.")
    check_headers(parsed.headers, where=f"{where}:", key="headers")
    return parsed


class _Server(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of seed 003's `mcp.servers`, with keys of our own sources besides."""

    name: str
    url: str | None = None
    transport: str = ""
    allowed_tools: tuple[str, ...] | None = None
    command: str | tuple[str, ...] | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    headers: dict[str, str] = {}
    era: Literal["auto", "handshake"] = "auto"
    sandbox: bool | SandboxSettings = False


class _Servers(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    servers: tuple[dict[str, Any], ...] = ()


def parse_servers(mcp: dict[str, Any], *, where: str) -> dict[str, McpOptions]:
    """Seed 003's `{"servers": [{"name", "url", "transport", "allowedTools"}]}` as sources' options, by name."""
    found: dict[str, McpOptions] = {}
    for number, raw in enumerate(parse_config(mcp, _Servers, where=where).servers):
        place = f"{where}.servers[{number}]"
        server = parse_config(snake_keys(raw), _Server, where=place)
        if server.name in found:
            raise ConfigError(f"{place}: two servers are called '{server.name}'. Rename one of them.")
        options = {key: value for key, value in snake_keys(raw).items() if key != "name"}
        found[server.name] = parse_options(options, where=place)
    return found


def _check_command(options: McpOptions, where: str) -> None:
    if options.url is not None:
        raise ConfigError(f"{where} has both a url and a command. Remove one of the two, or name the transport.")
    if not options.argv or not all(options.argv[:1]):
        raise ConfigError(f'{where} needs a command for transport "stdio". Write command = ["uvx", "server"].')
    if options.headers:
        raise ConfigError(f"{where}.headers mean nothing to a process. Use env, or remove them.")
    wrong = next((name for name in options.env if not name or "=" in name or "\0" in name), None)
    if wrong is not None:
        raise ConfigError(f"{where}.env has {wrong!r}, which is not a valid variable name. Correct it.")
