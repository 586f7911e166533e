"""Loads the settings from the config file, the environment and the secrets file, and checks them."""

import json
import os
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from jackfield.errors import ConfigError
from jackfield.model.redaction import LONG, LongSecrets
from jackfield.model.text import nearest, with_article
from jackfield.model.tool import Category
from jackfield.protocol.large_results import LARGE_RESULT
from jackfield.protocol.manifest import ScenarioInfo, is_semver
from jackfield.settings.digests import table_digests
from jackfield.settings.hooks import HookSettings, check_hooks
from jackfield.settings.identity import (
    OAuthSettings,
    OidcSettings,
    RoleSettings,
    check_oidc,
    check_role,
    check_scopes,
)
from jackfield.settings.notify import NotifySettings, check_target
from jackfield.settings.origins import ConfigValue, Origin, described
from jackfield.settings.parsing import parse_config
from jackfield.settings.tools import (
    RESERVED_SOURCES,
    SourceSettings,
    ToolSettings,
    check_connection,
    parse_source,
    parse_tool,
)
from jackfield.settings.types import (
    MOST_WORKERS,
    AdminSettings,
    AgentSettings,
    ApprovalSettings,
    AuditSettings,
    AuthSettings,
    ConsoleSettings,
    DiscoverySettings,
    GroupSettings,
    KeySettings,
    McpSettings,
    OutgoingSettings,
    ProgramSettings,
    RelaySettings,
    ResponsesSettings,
    ServerSettings,
    SessionSettings,
    StoreSettings,
    check_agent_id,
    is_group_name,
)
from jackfield.settings.variables import expanded

_SERVICE_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
_SERVICE_SUFFIX = "_API_URL"
_RESERVED_SERVICE = "JACKFIELD"
_MODEL_URL, _MODEL_NAME, _MODEL_KEY = "JACKFIELD_MODEL_URL", "JACKFIELD_MODEL", "JACKFIELD_MODEL_KEY"
DEFAULT_MODEL = "default"
MOST_SHORT = 50
"""Short secrets learned while the gateway runs; each costs every call a little."""
_GATEWAYS_OWN = ("oidc", "roles", "oauth")
"""Tables of `[auth]` that no client needs; their variables may be unset there."""


class _Tables(Struct, frozen=True, kw_only=True):
    """The tables that are used as the file has them."""

    server: ServerSettings = ServerSettings()
    audit: AuditSettings = AuditSettings()
    responses: ResponsesSettings = ResponsesSettings()
    scenario: ScenarioInfo = ScenarioInfo()
    categories: tuple[Category, ...] = ()
    outgoing: OutgoingSettings = OutgoingSettings()
    discovery: DiscoverySettings = DiscoverySettings()
    mcp: McpSettings = McpSettings()
    approval: ApprovalSettings = ApprovalSettings()
    admin: AdminSettings = AdminSettings()
    console: ConsoleSettings = ConsoleSettings()
    models: dict[str, dict[str, Any]] = {}
    """`[models.NAME]`, in file order; each table is checked by its provider (`llm/models.py`)."""
    agents: dict[str, AgentSettings] = {}
    groups: dict[str, GroupSettings] = {}
    sessions: dict[str, SessionSettings] = {}
    programs: ProgramSettings = ProgramSettings()
    relay: RelaySettings = RelaySettings()
    notify: dict[str, NotifySettings] = {}
    hooks: tuple[HookSettings, ...] = ()
    """In the order in which they are asked."""


class _Document(_Tables, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The config file."""

    store: StoreSettings = StoreSettings()
    auth: AuthSettings = AuthSettings()
    sources: dict[str, dict[str, Any]] = {}
    tools: tuple[dict[str, Any], ...] = ()


class SettingsOrigin(Struct, frozen=True, kw_only=True):
    """What settings were read from, so that they can be read anew."""

    config: str | Path | None
    environment: Mapping[str, str]
    overrides: Mapping[str, str | int | None]


class Settings(_Tables, frozen=True, kw_only=True):
    """The settings of a gateway, checked. `changes.py` says of each field whether a reload applies it."""

    path: Path | None
    """The config file; None if there is none."""
    folder: Path
    data: Path
    store_url: str
    store_from: str = ""
    """Where `store_url` comes from: a file and its key, a variable or an option; empty for the default."""
    keep_days: float = 30
    large_result: int = LARGE_RESULT
    keys: dict[str, KeySettings] = {}
    admin_key: bool = True
    oidc: OidcSettings | None = None
    roles: dict[str, RoleSettings] = {}
    oauth: OAuthSettings = OAuthSettings()
    sources: tuple[SourceSettings, ...] = ()
    services: dict[str, str] = {}
    """Services in the environment, and their URLs."""
    tools: tuple[ToolSettings, ...] = ()
    log_format: str = "text"
    secrets: "Secrets" = field(default_factory=lambda: Secrets({}, {}))
    origin: SettingsOrigin | None = None
    digests: dict[str, str] = {}
    """By table of the config file: a digest of what is written there, without secrets."""
    values: tuple[ConfigValue, ...] = ()
    """Every value and where it comes from, without secrets."""

    @property
    def url(self) -> str:
        """The gateway's URL."""
        return url_of(self.server)


class LocalGateway(Struct, frozen=True, kw_only=True):
    """The part of the config that clients need: the gateway's URL and keys."""

    data: Path
    url: str
    keys: dict[str, KeySettings] = {}
    """Keys whose value is available."""
    unset: frozenset[str] = frozenset()
    """Names of keys whose variable is not set."""
    admin_key: bool = True
    fault: str | None = None
    """Why the config cannot be read. Its gateway may be running all the same, and is found by the data folder."""


class Project(Struct, frozen=True, kw_only=True):
    """Where the files of a gateway are, and what its config says, with variables as far as they are set."""

    path: Path | None
    folder: Path
    """What paths of the config are relative to."""
    data: Path
    store_url: str
    raw: dict[str, Any]


class _LocalDocument(Struct, frozen=True, kw_only=True):
    """The tables that a client reads; the others may be invalid."""

    server: ServerSettings = ServerSettings()
    auth: AuthSettings = AuthSettings()


class Secrets:
    """Values from the environment, then the secrets file. Remembers the used ones, for redaction."""

    def __init__(self, environment: Mapping[str, str], file: Mapping[str, str]) -> None:
        self._environment = environment
        self._file = file
        self._asked: set[str] = set()
        self._added: frozenset[str] = frozenset()
        self._given: frozenset[str] = frozenset()
        self._short: dict[str, None] = {}
        self.used: frozenset[str] = frozenset()
        """Those that must not be shown; another object whenever there are more."""
        self.tokens = LongSecrets()
        """The same for what comes and goes while the gateway runs."""

    def get(self, name: str) -> str | None:
        self._asked.add(name)
        value = self._environment.get(name, self._file.get(name))
        if value is not None:
            self._give(value)
        return value

    def add(self, value: str) -> None:
        """One more that must never be shown."""
        self._added |= {value}
        self._give(value)

    def _give(self, value: str) -> None:
        if value not in self._given:
            self._given |= {value}
            self.used = self._given.union(self._short)

    def take(self, newer: "Secrets") -> None:
        """The values of `newer` from now on. Those that only this one had stay out of what is shown for a while."""
        before = self._given
        for name in self._asked:
            newer.get(name)
        self._environment, self._file = newer._environment, newer._file  # noqa: SLF001 - of the same class
        self._given = newer._given | self._added  # noqa: SLF001
        self.used = self._given.union(self._short)
        self.note(*(before - self._given))

    def note(self, *values: str) -> None:
        """More to keep out of what is shown, such as tokens. The least recently noted of very many are let go."""
        for value in values:
            if len(value) >= LONG:
                self.tokens.note(value)
            elif value not in self._given:
                self._short.pop(value, None)
                self._short[value] = None
                while len(self._short) > MOST_SHORT:
                    del self._short[next(iter(self._short))]
                self.used = self._given.union(self._short)


def load_settings(
    config: str | Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, str | int | None] | None = None,
) -> Settings:
    """Load the settings; `overrides` are host, port, workers and store of the command line."""
    env = os.environ if environment is None else environment
    path = find_config(config, environment=env)
    folder, data = _folders(path, env)
    secrets = Secrets(env, _read_secrets(data / "secrets.toml"))
    written = _read(path) if path else {}
    raw = _expand(written, secrets, str(path), "")
    document = parse_config(raw, _Document, where=f"{path or 'the configuration'}:")
    _check_scenario(document.scenario, path)
    given = {key: value for key, value in (overrides or {}).items() if value is not None}
    store_url, store_from = _store(document.store.url, path, env, given)
    settings = Settings(
        path=path,
        folder=folder,
        data=data,
        server=_server(document.server, env, given),
        store_url=store_url,
        store_from=store_from,
        keep_days=document.store.keep,
        large_result=document.store.large_result,
        audit=document.audit,
        scenario=document.scenario,
        categories=document.categories,
        keys=document.auth.keys,
        admin_key=document.auth.admin_key,
        oidc=document.auth.oidc,
        roles=document.auth.roles,
        oauth=document.auth.oauth,
        outgoing=document.outgoing,
        discovery=document.discovery,
        services=services_in(env, document.discovery, taken=document.sources.keys() | RESERVED_SOURCES),
        responses=document.responses,
        mcp=document.mcp,
        approval=document.approval,
        admin=document.admin,
        console=document.console,
        models=with_environment_model(document.models, env, secret=secrets.get),
        sources=tuple(parse_source(name, raw, path, folder=folder) for name, raw in document.sources.items()),
        tools=tuple(parse_tool(raw, where=_tool_place(number, raw, path)) for number, raw in enumerate(document.tools)),
        agents=document.agents,
        groups=document.groups,
        sessions=document.sessions,
        programs=document.programs,
        relay=document.relay,
        notify=document.notify,
        hooks=document.hooks,
        log_format=env.get("JACKFIELD_LOG", "text"),
        secrets=secrets,
        origin=SettingsOrigin(config=config, environment=env, overrides=dict(overrides or {})),
        digests=table_digests(written),
        values=described(written, _Document, _set_elsewhere(env, given, store=(store_url, store_from), data=data)),
    )
    _check(settings)
    return settings


def load_again(settings: Settings) -> Settings:
    """Read everything that these settings were read from anew, and check it as at the start."""
    origin = settings.origin
    if origin is None:
        raise ConfigError("These settings were not read from a file, so they cannot be read anew.")
    return load_settings(origin.config, environment=origin.environment, overrides=origin.overrides)


def load_local(config: str | Path | None = None, *, environment: Mapping[str, str] | None = None) -> LocalGateway:
    """Load what clients need; variables that only the gateway needs may be unset. A fault is part of what is found."""
    env = os.environ if environment is None else environment
    path = find_config(config, environment=env)
    _, data = _folders(path, env)
    try:
        return _local(path, data, env)
    except ConfigError as fault:
        return LocalGateway(data=data, url=url_of(_server(ServerSettings(), env, {})), fault=fault.message)


def _local(path: Path | None, data: Path, env: Mapping[str, str]) -> LocalGateway:
    secrets = Secrets(env, _read_secrets(data / "secrets.toml"))
    raw = _read(path) if path else {}
    raw = {key: _expand(raw[key], secrets, str(path), key, unset="") for key in ("server", "auth") if key in raw}
    if isinstance(raw.get("auth"), dict):
        raw["auth"] = {key: value for key, value in raw["auth"].items() if key not in _GATEWAYS_OWN}
    document = parse_config(raw, _LocalDocument, where=f"{path or 'the configuration'}:")
    return LocalGateway(
        data=data,
        url=url_of(_server(document.server, env, {})),
        keys={name: key for name, key in document.auth.keys.items() if key.key},
        unset=frozenset(name for name, key in document.auth.keys.items() if not key.key),
        admin_key=document.auth.admin_key,
    )


class ToolSource(Struct, frozen=True, kw_only=True):
    """One source of a config, for a program that needs nothing else of it."""

    settings: SourceSettings | None
    """None: the config was not asked for any."""
    folder: Path
    data: Path
    path: Path | None
    secrets: Secrets


def load_tool_source(
    config: str | Path | None = None,
    *,
    kind: str,
    name: str | None,
    environment: Mapping[str, str] | None = None,
) -> ToolSource:
    """The one source of this kind in a config, or the one of this name. Of the rest, variables may be unset."""
    env = os.environ if environment is None else environment
    path = find_config(config, environment=env)
    folder, data = _folders(path, env)
    secrets = Secrets(env, _read_secrets(data / "secrets.toml"))
    tables = _read(path).get("sources", {}) if path else {}
    found = [one for one, table in tables.items() if isinstance(table, dict) and table.get("kind") == kind]
    if name is not None and name not in found:
        raise ConfigError(f"{path or 'The configuration'} has no source '{name}' of kind {kind}.{nearest(name, found)}")
    if name is None and len(found) != 1:
        several = f"several sources of kind {kind}: {', '.join(found)}. Name one with --source."
        none = f"no source of kind {kind}. Add one, or name the files."
        raise ConfigError(f"{path or 'The configuration'} has {several if found else none}")
    chosen = name or found[0]
    raw = _expand(tables[chosen], secrets, str(path), f"sources.{chosen}")
    settings = parse_source(chosen, raw, path, folder=folder)
    return ToolSource(settings=settings, folder=folder, data=data, path=path, secrets=secrets)


def no_source(environment: Mapping[str, str] | None = None) -> ToolSource:
    """The same where there is no config: this folder, and its data folder."""
    env = os.environ if environment is None else environment
    folder, data = _folders(None, env)
    secrets = Secrets(env, _read_secrets(data / "secrets.toml"))
    return ToolSource(settings=None, folder=folder, data=data, path=None, secrets=secrets)


def load_project(
    config: str | Path | None = None, *, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> Project:
    """Load where the files of a gateway are; variables may be unset. `folder`: where the config is going to be."""
    env = os.environ if environment is None else environment
    path = find_config(config, environment=env)
    placed = path if path is None or folder is None else folder / path.name
    place, data = _folders(placed, env)
    secrets = Secrets(env, _read_secrets(data / "secrets.toml"))
    raw = _expand(_read(path), secrets, str(path), "", unset="") if path else {}
    store = raw.get("store")
    store_url, _ = _store(store.get("url") if isinstance(store, dict) else None, placed, env, {})
    return Project(path=placed, folder=place, data=data, store_url=store_url, raw=raw)


def url_of(server: ServerSettings) -> str:
    """The URL of a gateway with this `[server]`."""
    if server.public_url:
        return server.public_url.rstrip("/")
    host = "127.0.0.1" if listens_on_all(server) else server.host
    return f"http://{f'[{host}]' if ':' in host else host}:{server.port}"


def listens_on_all(server: ServerSettings) -> bool:
    """Whether the gateway listens on all addresses."""
    return server.host in ("0.0.0.0", "::", "")  # noqa: S104 - read, not bound


def find_config(given: str | Path | None, *, environment: Mapping[str, str] | None = None) -> Path | None:
    """The config file: the given one, `JACKFIELD_CONFIG`, or the one in this folder; None if there is none."""
    env = os.environ if environment is None else environment
    if named := given or env.get("JACKFIELD_CONFIG"):
        path = Path(named).expanduser().resolve()
        if path.is_dir():
            path = next((path / n for n in ("jackfield.toml", "jackfield.json") if (path / n).is_file()), path)
        if not path.is_file():
            raise ConfigError(
                f"There is no config at {path}. Give an existing file, or create one with 'jackfield init'."
            )
        return path
    here = (Path.cwd() / name for name in ("jackfield.toml", "jackfield.json"))
    return next((path.resolve() for path in here if path.is_file()), None)


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        loaded = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as fault:
        raise ConfigError(f"{path} cannot be read: {fault}. Check the file and its permissions.") from None
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as fault:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise ConfigError(f"{path} is not valid {kind}: {fault}. Correct it.") from None
    if not isinstance(loaded, dict):
        raise ConfigError(f"{path} must be an object, not {with_article(type(loaded).__name__)}.")
    return loaded


def _read_secrets(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    loaded = _read(path)
    wrong = next((key for key, value in loaded.items() if not isinstance(value, str)), None)
    if wrong is not None:
        raise ConfigError(f"{path}: '{wrong}' must be a string. Write {wrong} = \"…\".")
    return loaded


def _folders(path: Path | None, env: Mapping[str, str]) -> tuple[Path, Path]:
    """The folder that paths are relative to, and the data folder."""
    folder = path.parent if path else Path.cwd()
    return folder, (folder / env.get("JACKFIELD_DATA", ".jackfield")).resolve()


def _store(
    configured: str | None, path: Path | None, env: Mapping[str, str], given: Mapping[str, str | int]
) -> tuple[str, str]:
    """The store's URL, and where it comes from."""
    named = ((given.get("store"), "--store"), (env.get("JACKFIELD_STORE"), "JACKFIELD_STORE"))
    for url, where in (*named, (configured, f"{path}: store.url")):
        if url:
            return str(url), where
    return "sqlite:///", ""


def _set_elsewhere(
    env: Mapping[str, str], given: Mapping[str, str | int], *, store: tuple[str, str], data: Path
) -> list[ConfigValue]:
    """What options and variables say, which goes before the file; and the defaults that are no key's."""
    url, store_from = store
    found = [
        ConfigValue(
            key="JACKFIELD_DATA", value=str(data), origin="environment" if "JACKFIELD_DATA" in env else "default"
        ),
        ConfigValue(
            key="JACKFIELD_LOG",
            value=env.get("JACKFIELD_LOG", "text"),
            origin="environment" if "JACKFIELD_LOG" in env else "default",
        ),
    ]
    for option in ("host", "port", "workers"):
        key, variable = f"server.{option}", f"JACKFIELD_{option.upper()}"
        if given.get(option) or (option == "port" and option in given):
            found.append(ConfigValue(key=key, value=given[option], origin="command_line", given_by=f"--{option}"))
        elif env.get(variable):
            found.append(ConfigValue(key=key, value=env[variable], origin="environment", given_by=variable))
    if not store_from:
        found.append(ConfigValue(key="store.url", value=url, origin="default"))
    elif store_from in ("--store", "JACKFIELD_STORE"):
        origin: Origin = "command_line" if store_from == "--store" else "environment"
        found.append(ConfigValue(key="store.url", value=url, origin=origin, given_by=store_from))
    if env.get(_MODEL_URL):
        model = {"base_url": env[_MODEL_URL], "model": env.get(_MODEL_NAME) or DEFAULT_MODEL}
        if env.get(_MODEL_KEY):
            model["api_key"] = f"${{{_MODEL_KEY}}}"
        variables = {"base_url": _MODEL_URL, "model": _MODEL_NAME, "api_key": _MODEL_KEY}
        found += [
            ConfigValue(key=f"models.{DEFAULT_MODEL}.{key}", value=value, origin="environment", given_by=variables[key])
            for key, value in model.items()
        ]
    return found


def _expand(value: Any, secrets: Secrets, path: str, key: str, *, unset: str | None = None) -> Any:
    """Replace every `${NAME}`, at any depth, by its value, else `unset`, else an error."""
    return expanded(value, lambda name, where: _lookup(name, secrets, path, where, unset=unset), key)


def _lookup(name: str, secrets: Secrets, path: str, key: str, *, unset: str | None) -> str:
    value = secrets.get(name)
    if value is None and unset is not None:
        return unset
    if value is None:
        raise ConfigError(
            f"{path}: {key} uses ${{{name}}}, which is not set. "
            f"Set the environment variable {name}, or write it in secrets.toml in the data folder."
        )
    return value


def _check_scenario(scenario: ScenarioInfo, path: Path | None) -> None:
    if not is_semver(scenario.version):
        raise ConfigError(
            f"{path}: scenario.version is '{scenario.version[:50]}', which is not a semantic version. "
            "Write MAJOR.MINOR.PATCH, for example 1.0.0."
        )


def _server(server: ServerSettings, env: Mapping[str, str], given: Mapping[str, str | int]) -> ServerSettings:
    host = str(given.get("host") or env.get("JACKFIELD_HOST") or server.host)
    port = given.get("port", env.get("JACKFIELD_PORT") or server.port)  # 0: the system chooses
    try:
        number = int(port)
    except ValueError:
        number = -1
    if not 0 <= number <= 65535:  # noqa: PLR2004 - the range of TCP ports
        raise ConfigError(f"The port {port!r} is not a number from 0 to 65535. Correct JACKFIELD_PORT or server.port.")
    workers = given.get("workers", env.get("JACKFIELD_WORKERS") or server.workers)
    if not str(workers).isdecimal() or not 1 <= int(workers) <= MOST_WORKERS:
        raise ConfigError(
            f"The number of workers {workers!r} is not a number from 1 to {MOST_WORKERS}. "
            "Correct --workers, JACKFIELD_WORKERS or server.workers."
        )
    for origin in server.cors_origins:
        if not _is_origin(origin):
            raise ConfigError(
                f"server.cors_origins has {origin!r}, which is no origin. Write https://host[:port], without a path."
            )
    if server.public_url and not urlsplit(server.public_url).netloc:
        raise ConfigError(f"server.public_url {server.public_url!r} is not a full URL. Write https://host[:port].")
    return replace(server, host=host, port=number, workers=int(workers))


def _is_origin(text: str) -> bool:
    """`scheme://host[:port]` as browsers send it, or `*` for all."""
    if text == "*":
        return True
    try:
        parts = urlsplit(text.rstrip("/"))
        _ = parts.port
    except ValueError:
        return False
    has_more = parts.path or parts.query or parts.fragment or "@" in parts.netloc
    return bool(parts.scheme and parts.hostname and not has_more and text.isascii())


def _check(settings: Settings) -> None:
    where = settings.path
    names = [tool.name for tool in settings.tools]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"{where}: two [[tools]] have the name '{twice}'. Rename one of them.")
    _check_auth(settings, where=f"{where}: auth")
    check_hooks(settings.hooks, where=str(where))
    for tool in settings.tools:
        check_connection(tool, settings.sources, where=f"{where}: the tool '{tool.name}'")
    for group in settings.groups:
        if not is_group_name(group):
            raise ConfigError(
                f"{where}: groups.{group}: a group's name has 1 to 64 letters, digits, '_' or '-'. Rename it."
            )
    for name, target in settings.notify.items():
        check_target(name, target, where=f"{where}: notify.{name}")
    for agent in settings.agents:
        _check_agent(settings, agent, where=f"{where}: agents.{agent}")
    _check_mcp(settings, where=where)
    _check_workers(settings)
    if settings.log_format not in ("text", "json"):
        raise ConfigError(f"JACKFIELD_LOG is {settings.log_format!r}; it takes 'text' or 'json'.")


def _check_workers(settings: Settings) -> None:
    kind = settings.store_url.partition(":")[0]
    if settings.server.workers > 1 and kind not in ("postgresql", "postgres"):
        store = "The memory store" if kind == "memory" else "A SQLite database"
        raise ConfigError(
            f"{settings.server.workers} gateway workers need PostgreSQL. {store} belongs to one process. "
            "Set --store, JACKFIELD_STORE or [store] url to postgresql://USER:PASSWORD@HOST/DATABASE, or leave the "
            "workers out."
        )


def _check_mcp(settings: Settings, *, where: Path | None) -> None:
    for source in settings.sources:
        check_sampling(settings, source, where=f"{where}: sources.{source.name}")
    if settings.mcp.code_mode and not settings.programs.enabled:
        raise ConfigError(f"{where}: mcp.code_mode needs programs. Write [programs] enabled = true as well.")


def check_sampling(settings: Settings, source: SourceSettings, *, where: str) -> None:
    """Raises `ConfigError` where a server is to ask a model that there is not."""
    sampling = source.options.get("sampling")
    if source.kind == "mcp" and isinstance(sampling, str):
        _check_model(settings, sampling, where=f"{where}.sampling")


def _check_auth(settings: Settings, *, where: str) -> None:
    for name, key in settings.keys.items():
        if ":" in name:
            raise ConfigError(f"{where}.keys.{name}: the name of a key has no ':'. Rename it.")
        _check_key(key, where=f"{where}.keys.{name}")
    if settings.oidc is not None:
        check_oidc(settings.oidc, where=f"{where}.oidc")
    for name, role in settings.roles.items():
        check_role(role, where=f"{where}.roles.{name}")


def _check_key(key: KeySettings, *, where: str) -> None:
    if not key.key:
        raise ConfigError(f'{where}.key is empty. Give it a value, for example "${{OPS_KEY}}".')
    check_scopes(key.scopes, where=where)


def _check_agent(settings: Settings, agent: str, *, where: str) -> None:
    check_agent_id(agent, where=where)
    if agent in settings.sessions:
        raise ConfigError(f"{settings.path}: '{agent}' is both an agent and a session. Rename one of them.")
    _check_model(settings, settings.agents[agent].model, where=f"{where}.model")
    for space in settings.agents[agent].spaces:
        check_agent_id(space, where=f"{where}.spaces")


def _check_model(settings: Settings, model: str | None, *, where: str) -> None:
    """Check that a named model exists; None is the default model."""
    if model is None or model in settings.models:
        return
    known = f"Known: {', '.join(settings.models)}." if settings.models else f"Add [models.{model}]."
    raise ConfigError(f"{where} is '{model}', which is not in [models].{nearest(model, list(settings.models))} {known}")


def _tool_place(number: int, raw: Mapping[str, Any], path: Path | None) -> str:
    name = f" ({raw['name']})" if isinstance(raw.get("name"), str) else ""
    return f"{path}: tools[{number}]{name}"


def with_environment_model(
    tables: Mapping[str, dict[str, Any]], environment: Mapping[str, str], *, secret: Callable[[str], str | None]
) -> dict[str, dict[str, Any]]:
    """`[models]`, with `default` from the environment if it names a model."""
    url = environment.get(_MODEL_URL)
    if not url:
        if environment.get(_MODEL_NAME):
            raise ConfigError(f"{_MODEL_URL} is not set, but {_MODEL_NAME} is. Set both, or add the model to [models].")
        return dict(tables)
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{_MODEL_URL} is {url!r}, which is not a full URL. Write http://host[:port]/v1 or https://…")
    table: dict[str, Any] = {
        "provider": "openai",
        "base_url": url,
        "model": environment.get(_MODEL_NAME) or DEFAULT_MODEL,
    }
    if key := secret(_MODEL_KEY):
        table["api_key"] = key
    return {**tables, DEFAULT_MODEL: table}


def services_in(
    environment: Mapping[str, str], settings: DiscoverySettings, *, taken: Collection[str]
) -> dict[str, str]:
    """Services in the environment by name, with their URLs; `taken` are the names of the config's sources."""
    if settings.env is True:
        names = [service_of(variable) for variable in environment if variable.endswith(_SERVICE_SUFFIX)]
    else:
        names = list(settings.env or ())
    wanted = [name for name in sorted(names) if _SERVICE_NAME.fullmatch(name) and name not in taken]
    return {name: url for name in wanted if (url := environment.get(variable_of(name)))}


def variable_of(name: str) -> str:
    """`agent-manager` → `AGENT_MANAGER_API_URL`."""
    return f"{name.replace('-', '_').upper()}{_SERVICE_SUFFIX}"


def service_of(variable: str) -> str:
    """`AGENT_MANAGER_API_URL` → `agent-manager`; empty for a reserved name."""
    name = variable.removesuffix(_SERVICE_SUFFIX)
    return "" if name == _RESERVED_SERVICE else name.replace("_", "-").lower()
