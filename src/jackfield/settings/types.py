"""The tables of the config file. Sources and tools are in `tools`."""

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from jackfield.errors import ConfigError
from jackfield.model.principal import Principal, Scope
from jackfield.protocol.large_results import LARGE_RESULT
from jackfield.settings.identity import OAuthSettings, OidcSettings, RoleSettings

MAX_BODY = 32 * 1024 * 1024


MOST_WORKERS = 128


class ServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[server]`"""

    host: str = "127.0.0.1"
    """The address to listen on."""
    port: int = 8420
    """The port to listen on; 0: any free one."""
    workers: Annotated[int, Meta(ge=1, le=MOST_WORKERS)] = 1
    """Gateway processes that share the port; several need PostgreSQL."""
    allowed_hosts: tuple[str, ...] = ("127.0.0.1", "localhost")
    """Names that are accepted in the Host and Origin headers."""
    public_url: str | None = None
    """Behind a proxy: the base of generated links; its host is accepted too."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may use `/api`, `/v1` and `/mcp` from a browser, with a key or token."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses whose `X-Forwarded-*` headers are believed."""
    max_body: int = MAX_BODY
    """Bytes of the largest request body."""
    watch: bool = False
    """Whether the config and the secrets file are read anew whenever one of them changes."""


class StoreSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[store]`"""

    url: str | None = None
    """`sqlite:///FILE`, `postgresql://…` or `memory:`; left out, a SQLite file in the data folder."""
    keep: float = 30
    """Days."""
    large_result: Annotated[int, Meta(ge=0)] = LARGE_RESULT
    """Bytes from which on a result is stored apart and read by page; 0: never."""


class AuditSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[audit]`"""

    keep: Annotated[float, Meta(gt=0)] = 365
    """Days."""


class ResponsesSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[responses]`: limits of a response; `timeout` is in seconds, for all steps together."""

    max_steps: Annotated[int, Meta(ge=1, le=1000)] = 20
    """Model requests in one response."""
    timeout: Annotated[float, Meta(gt=0)] = 600
    """Seconds for all steps together, tools included."""
    retries: Annotated[int, Meta(ge=0, le=10)] = 0
    """How often a step is retried if the model fails before its first output."""
    max_background: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Responses in the background that a gateway works on at once; others are queued, parked ones do not count."""
    event_names: Literal["openai", "open-responses"] = "openai"
    """The event names of a stream, unless the request chooses."""
    unknown_tools: Literal["ignore", "refuse"] = "ignore"
    """How hosted tools of other providers in a request are treated."""


class KeySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[auth.keys.NAME]`; `tools` limits what the key sees: names, globs or `source:*`; an empty list allows none."""

    key: str
    """The secret itself; write it as `${NAME}`."""
    scopes: tuple[str, ...] = ("call",)
    """`admin`, `call`, `read`, `answer`, `worker:GLOB`, `agent:NAME`, `session:ID`."""
    tools: tuple[str, ...] | None = None
    """Tools that it can see and call: names, globs or `source:*`; an empty list allows none."""
    groups: tuple[str, ...] | None = None
    """Groups that limit what the key sees, besides `tools`; an empty list allows none."""
    agents: tuple[str, ...] | None = None
    """Names and globs of the agents that it may see, trigger and act as; an empty list allows none."""
    spaces: tuple[str, ...] | None = None
    """Names and globs of the spaces that it may see and speak in; an empty list allows none."""
    budget: Annotated[int, Meta(ge=0)] | None = None
    """Cost points per hour: a call is 1 for `low`, 5 for `medium` and `variable`, 25 for `high`."""


class GroupSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[groups.NAME]`: a named part of the catalog, at `/mcp/NAME`."""

    tools: tuple[str, ...]
    """Names and globs of tools and prompts, or `source:*`."""
    description: str = ""
    """What the group is for."""
    instructions: str = ""
    """What clients of `/mcp/NAME` are told about using it."""


_GROUP = re.compile(r"[A-Za-z0-9_-]{1,64}")


def is_group_name(name: str) -> bool:
    """Whether a group may have this name, which appears in URLs."""
    return _GROUP.fullmatch(name) is not None


class AuthSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[auth]`"""

    keys: dict[str, KeySettings] = {}
    """Keys that requests carry."""
    admin_key: bool = True
    """Whether the key in `admin.key` in the data folder is valid too."""
    oidc: OidcSettings | None = None
    """The provider that people sign in with."""
    roles: dict[str, RoleSettings] = {}
    """What people who signed in may do."""
    oauth: OAuthSettings = OAuthSettings()
    """Which OAuth tokens `/mcp` takes besides keys."""


class OutgoingSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[outgoing]`: addresses that requests may reach although they are not public."""

    allow: tuple[str, ...] = ()
    """Networks (`10.0.0.0/8`) and hosts, with or without a port, that are not public."""


class McpSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[mcp]`: how the catalog is shown to MCP clients."""

    search_tools_above: Annotated[int, Meta(ge=0)] = 0
    """Catalogs with more tools than this are searched, not listed; 0: always listed."""
    models_search_above: Annotated[int, Meta(ge=0)] = 100
    """The same for the models of agents, responses and sessions: they are shown `search_tools` and what they found."""
    code_mode: bool = False
    """MCP clients are shown `search_tools` and `run_program` instead of the tools. Needs `[programs] enabled`."""


class ApprovalSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[approval]`."""

    four_eyes: bool = False
    """Whoever asked for a call may not approve it."""


class AdminSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[admin]`: what administrators may do while the gateway runs."""

    commands: bool = False
    """Whether they may make sources that start processes or read files of this machine."""
    secrets: tuple[str, ...] = ()
    """Variables of the environment that sources made at run time may name as `${NAME}`."""


class ConsoleSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[console]`: a folder of JavaScript modules with components for tools."""

    tools: str | None = None
    """The folder, relative to the config."""


_ID = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.-]{1,64}")


class AgentSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[agents.NAME]`. An agent created over the API has the same fields."""

    model: str | None = None
    """A name under `[models]`; None: `default`, or the first one."""
    name: str | None = None
    """The display name; None: its id."""
    description: str = ""
    """What it does, for people and for other agents."""
    instructions: str = ""
    """What its model is told about how to behave."""
    tools: tuple[str, ...] = ("*",)
    """Names, globs or `source:*`; an empty list allows none. Built-in tools and its own servers' are always allowed."""
    spaces: tuple[str, ...] = ()
    """Spaces that it is a member of, created if necessary."""
    max_steps: Annotated[int, Meta(ge=1, le=1000)] = 20
    """Model requests in one cycle."""
    timeout: Annotated[float, Meta(gt=0)] = 600
    """Seconds of one cycle."""
    context_tokens: Annotated[int, Meta(ge=1000)] = 24_000
    """About how much of its history is kept verbatim; older cycles are summarized."""
    max_exchanges: Annotated[int, Meta(ge=1, le=1000)] = 12
    """Messages between agents in a row, before a person, a plan or a service must take part."""
    search_tools_above: Annotated[int, Meta(ge=0)] | None = None
    """With more tools than this its model searches them; 0: never; None: `[mcp] models_search_above`."""
    mcp: dict[str, Any] = {}
    """Its own MCP servers, as in seed 003: `servers = [{ name, url, transport, allowedTools }]`."""

    def search_above(self, default: int) -> int:
        return default if self.search_tools_above is None else self.search_tools_above


def check_agent_id(name: str, *, where: str) -> None:
    """Check an id of an agent or a space, which appears in URLs, scopes and logs."""
    if not _ID.fullmatch(name):
        raise ConfigError(
            f"{where}: the id {name!r} may have 1 to 64 letters, digits, '_', '.' or '-', not '.' or '..'. Rename it."
        )


class RelaySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[relay]`: timeouts of callers, in seconds."""

    timeout: Annotated[float, Meta(gt=0)] = 60
    """How long a caller has to answer a request of its agent."""
    grace: Annotated[float, Meta(ge=0)] = 0
    """How long a caller's open calls are kept after its stream has closed."""


class SandboxSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a sandboxed program may see and use; 0 means no limit."""

    kind: Literal["auto", "bubblewrap", "namespaces", "container", "none"] = "auto"
    """`auto`: the strictest that this machine has; `none`: a plain process group."""
    network: bool = False
    """Whether it has the network."""
    memory: Annotated[int, Meta(ge=0)] = 0
    """Bytes of address space per process."""
    cpu: Annotated[float, Meta(ge=0)] = 0
    """Seconds of CPU time per process."""
    file_size: Annotated[int, Meta(ge=0)] = 0
    """Bytes of the largest file it may write."""
    processes: Annotated[int, Meta(ge=0)] = 0
    """Processes and threads at once."""
    scratch: Annotated[int, Meta(gt=0)] = 268_435_456
    """Bytes of its private temporary folder and home, which are in memory."""
    readable: tuple[str, ...] = ()
    """Additional readable folders."""
    writable: tuple[str, ...] = ()
    """Writable folders, besides the private temporary one."""
    container: tuple[str, ...] = ()
    """For `container`: the command that runs one, with `{command}`, `{socket}`, `{name}` and `{env}`."""


class SessionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[sessions.NAME]`: a program that is started for each session."""

    command: tuple[str, ...]
    """The program and its arguments."""
    env: dict[str, str] = {}
    """Its environment, besides PATH, HOME and LANG."""
    folder: str | None = None
    """Its working directory, relative to the config."""
    sandbox: SandboxSettings = SandboxSettings()
    """What it may see and use."""
    timeout: Annotated[float, Meta(ge=0)] = 0
    """Seconds that a session may last; 0: no limit."""
    idle_timeout: Annotated[float, Meta(gt=0)] = 1800
    """Seconds without activity after which a session is closed."""
    max_sessions: Annotated[int, Meta(ge=1)] = 10
    """Concurrent sessions of this kind."""


class ProgramSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[programs]`: code mode, the tool `run_program`."""

    enabled: bool = False
    """Whether the tool `run_program` is offered."""
    timeout: Annotated[float, Meta(gt=0)] = 60
    """Seconds of computing; waiting for calls does not count."""
    memory_mb: Annotated[int, Meta(ge=64)] = 512
    """Megabytes that one program may use."""
    max_calls: Annotated[int, Meta(ge=1)] = 200
    """Calls that one program may make."""
    max_concurrency: Annotated[int, Meta(ge=1)] = 8
    """Programs that one gateway runs at a time; others wait for their turn. Parked ones do not count."""


class DiscoverySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[discovery]`: where to look for services that publish a manifest, and who may read ours."""

    env: bool | tuple[str, ...] = False
    """Use the URLs in `<NAME>_API_URL` variables: all of them, or those of these services."""
    folder: str | None = None
    """A folder where each service leaves a file with its `url`; relative to the config."""
    public: bool | tuple[str, ...] = False
    """Whether the manifest can be read without a key: all of it, or the tools that match these names and globs."""

    @property
    def reader(self) -> Principal | None:
        """The principal of requests without a key, if they are allowed."""
        if not self.public:
            return None
        reader = Principal(name="nobody", scopes=frozenset({Scope.READ.value}))
        return reader if self.public is True else msgspec.structs.replace(reader, tools=self.public)
