"""The plain tables of the config: what may stand in each, and what it means when it does not.

Above: `loading.py`. Below: the model's words.
"""

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from jackfield.errors import ConfigError
from jackfield.model.large_result import LARGE_RESULT
from jackfield.model.principal import Principal, Scope

MAX_BODY = 32 * 1024 * 1024


class ServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[server]`"""

    host: str = "127.0.0.1"
    port: int = 8420
    allowed_hosts: tuple[str, ...] = ("127.0.0.1", "localhost")
    public_url: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    max_body: int = MAX_BODY


class StoreSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[store]`; `keep` is in days, `large_result` in bytes, above which a result is kept apart (0: none is)."""

    url: str | None = None
    keep: float = 30
    large_result: Annotated[int, Meta(ge=0)] = LARGE_RESULT


class ResponsesSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[responses]`: how far one response may go; `timeout` is in seconds, for all of it."""

    max_steps: Annotated[int, Meta(ge=1, le=1000)] = 20
    timeout: Annotated[float, Meta(gt=0)] = 600
    retries: Annotated[int, Meta(ge=0, le=10)] = 0
    """How often a step is asked again whose model failed before it had said anything."""
    event_names: Literal["openai", "open-responses"] = "openai"
    """Whose names the events of a stream have, unless the request says so."""
    unknown_tools: Literal["ignore", "refuse"] = "ignore"
    """What becomes of tools in a request that another provider would run and this gateway has not."""


class KeySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[auth.keys.NAME]`; `tools` limits what the key sees: names, globs or `source:*`, and an empty list is none."""

    key: str
    scopes: tuple[str, ...] = ("call",)
    tools: tuple[str, ...] | None = None
    budget: Annotated[int, Meta(ge=0)] | None = None
    """Points that its calls may cost within an hour: 1 for `low`, 5 for `medium` and `variable`, 25 for `high`."""


class AuthSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[auth]`"""

    keys: dict[str, KeySettings] = {}
    admin_key: bool = True
    """Whether the key in the data folder's `admin.key` stays valid beside these."""


class OutgoingSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[outgoing]`: addresses that requests to foreign urls may reach although they are not public."""

    allow: tuple[str, ...] = ()


class McpSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[mcp]`: how the catalog is shown to MCP clients."""

    search_tools_above: Annotated[int, Meta(ge=0)] = 0
    """Catalogs with more tools than this are searched, not listed; 0: always listed."""


class ConsoleSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[console]`: a folder of JavaScript modules that bring components for tools of one's own."""

    tools: str | None = None


_ID = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.-]{1,64}")


class AgentSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[agents.NAME]`: who it is, how it thinks, what it may use and where it is found."""

    model: str | None = None
    """A name under `[models]`; None: `default`, or the first one."""
    name: str | None = None
    """How people see it; None: its id."""
    description: str = ""
    instructions: str = ""
    tools: tuple[str, ...] = ("*",)
    """Names, globs or `source:*`; an empty list is none. Built-in tools and its own servers' are always there."""
    spaces: tuple[str, ...] = ()
    """Spaces that it is a member of; one that does not exist is made."""
    max_steps: Annotated[int, Meta(ge=1, le=1000)] = 20
    """How often its model is asked in one cycle."""
    timeout: Annotated[float, Meta(gt=0)] = 600
    """Seconds that one cycle may take."""
    context_tokens: Annotated[int, Meta(ge=1000)] = 24_000
    """About how much of its past it keeps word by word; older cycles stay as their summaries."""
    max_exchanges: Annotated[int, Meta(ge=1, le=1000)] = 12
    """Messages that agents may send each other in a row, before a person, a plan or a service has to say something."""
    mcp: dict[str, Any] = {}
    """Servers of its own, in seed 003's shape: `servers = [{ name, url, transport, allowedTools }]`."""


def check_agent_id(name: str, *, where: str) -> None:
    """Ids of agents and spaces appear in urls, scopes and logs."""
    if not _ID.fullmatch(name):
        raise ConfigError(
            f"{where}: the id {name!r} may have 1 to 64 letters, digits, '_', '.' or '-', not '.' or '..'. Rename it."
        )


class RelaySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[relay]`: how long a caller may take over an answer, and be away, in seconds."""

    timeout: Annotated[float, Meta(gt=0)] = 60
    grace: Annotated[float, Meta(ge=0)] = 0
    """How long a caller's open calls are kept for its return after its stream has closed."""


class SandboxSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a program may see and use. Limits of 0 do not limit."""

    kind: Literal["auto", "bubblewrap", "namespaces", "container", "none"] = "auto"
    """`auto`: the strictest that this machine has; `none`: a plain process group, because the operator says so."""
    network: bool = False
    memory: Annotated[int, Meta(ge=0)] = 0
    """Bytes of address space, for each process."""
    cpu: Annotated[float, Meta(ge=0)] = 0
    """Seconds of CPU time, for each process."""
    file_size: Annotated[int, Meta(ge=0)] = 0
    """Bytes of the largest file that may be written."""
    processes: Annotated[int, Meta(ge=0)] = 0
    """How many at once, threads counted."""
    scratch: Annotated[int, Meta(gt=0)] = 268_435_456
    """Bytes that fit in its private temporary folder and home; they are kept in memory."""
    readable: tuple[str, ...] = ()
    """Further folders that may be read."""
    writable: tuple[str, ...] = ()
    """Folders that may be written, besides a private temporary one."""
    container: tuple[str, ...] = ()
    """For `container`: the command that runs one, with `{command}`, `{socket}`, `{name}` and `{env}` in it."""


class SessionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[sessions.NAME]`: an agent program that is started for each session."""

    command: tuple[str, ...]
    env: dict[str, str] = {}
    folder: str | None = None
    """Where it starts; relative paths begin at the config's folder."""
    sandbox: SandboxSettings = SandboxSettings()
    timeout: Annotated[float, Meta(ge=0)] = 0
    """Seconds that a session may last; 0: as long as its caller wants."""
    idle_timeout: Annotated[float, Meta(gt=0)] = 1800
    """Seconds without a word from anybody after which a session is ended."""
    max_sessions: Annotated[int, Meta(ge=1)] = 10
    """Sessions of this kind at once."""


SUFFIX = "_API_URL"
OURS = "JACKFIELD"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")


class DiscoverySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[discovery]`: where to look for services that publish a manifest, and who may read ours."""

    env: bool | tuple[str, ...] = False
    """Take the urls in `<NAME>_API_URL` variables: all of them, or those of these services."""
    folder: str | None = None
    """A folder in which services leave a small file each, with their `url`; relative to the config."""
    public: bool | tuple[str, ...] = False
    """Whether the manifest is read without a key: all of it, or the tools that fit these names and globs."""

    @property
    def reader(self) -> Principal | None:
        """Whoever asks without a key, where that is allowed: reads what a key without a limit of its own would."""
        if not self.public:
            return None
        reader = Principal(name="nobody", scopes=frozenset({Scope.READ.value}))
        return reader if self.public is True else msgspec.structs.replace(reader, tools=self.public)


def services_in(
    environment: Mapping[str, str], settings: DiscoverySettings, *, taken: Collection[str]
) -> dict[str, str]:
    """Services by name, with their urls, as the environment has them. `taken` names are the config's own."""
    if settings.env is True:
        names = [service_of(variable) for variable in environment if variable.endswith(SUFFIX)]
    else:
        names = list(settings.env or ())
    wanted = [name for name in sorted(names) if _NAME.fullmatch(name) and name not in taken]
    return {name: url for name in wanted if (url := environment.get(variable_of(name)))}


def variable_of(name: str) -> str:
    """`agent-manager` → `AGENT_MANAGER_API_URL`."""
    return f"{name.replace('-', '_').upper()}{SUFFIX}"


def service_of(variable: str) -> str:
    """`AGENT_MANAGER_API_URL` → `agent-manager`; empty where the variable is no service's."""
    name = variable.removesuffix(SUFFIX)
    return "" if name == OURS else name.replace("_", "-").lower()
