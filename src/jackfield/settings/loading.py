"""Reading the operator's words: the config file, the environment and the secrets file, put together and checked.

Above: everybody who starts a gateway. Below: the tables, each in its module.
"""

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from jackfield.errors import ConfigError
from jackfield.model.large_result import LARGE_RESULT
from jackfield.model.principal import is_scope
from jackfield.model.tool import Category
from jackfield.model.words import nearest, with_article
from jackfield.protocol.manifest import ScenarioInfo, is_semver
from jackfield.settings.parsing import parse_config
from jackfield.settings.tools import RESERVED_SOURCES, SourceSettings, ToolSettings, numbered_tool, parse_source
from jackfield.settings.types import (
    AgentSettings,
    AuthSettings,
    ConsoleSettings,
    DiscoverySettings,
    KeySettings,
    McpSettings,
    OutgoingSettings,
    RelaySettings,
    ResponsesSettings,
    ServerSettings,
    SessionSettings,
    StoreSettings,
    check_agent_id,
    services_in,
)

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class _Document(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file's own shape, before sources and tools are read."""

    server: ServerSettings = ServerSettings()
    store: StoreSettings = StoreSettings()
    responses: ResponsesSettings = ResponsesSettings()
    scenario: ScenarioInfo = ScenarioInfo()
    categories: tuple[Category, ...] = ()
    auth: AuthSettings = AuthSettings()
    outgoing: OutgoingSettings = OutgoingSettings()
    discovery: DiscoverySettings = DiscoverySettings()
    mcp: McpSettings = McpSettings()
    console: ConsoleSettings = ConsoleSettings()
    models: dict[str, dict[str, Any]] = {}
    sources: dict[str, dict[str, Any]] = {}
    tools: tuple[dict[str, Any], ...] = ()
    agents: dict[str, AgentSettings] = {}
    sessions: dict[str, SessionSettings] = {}
    relay: RelaySettings = RelaySettings()


class Settings(Struct, frozen=True, kw_only=True):
    """Everything the gateway was told, checked."""

    path: Path | None
    """The config file; None when the gateway runs on defaults alone."""
    folder: Path
    data: Path
    server: ServerSettings = ServerSettings()
    store_url: str
    store_from: str = ""
    """Where the store's url was given: a file and its key, a variable or an option; nothing for the default."""
    keep_days: float = 30
    large_result: int = LARGE_RESULT
    scenario: ScenarioInfo = ScenarioInfo()
    categories: tuple[Category, ...] = ()
    keys: dict[str, KeySettings] = {}
    admin_key: bool = True
    outgoing: OutgoingSettings = OutgoingSettings()
    mcp: McpSettings = McpSettings()
    responses: ResponsesSettings = ResponsesSettings()
    console: ConsoleSettings = ConsoleSettings()
    models: dict[str, dict[str, Any]] = {}
    """`[models.NAME]`, in the order of the file; each table is checked by its provider (`llm/models.py`)."""
    sources: tuple[SourceSettings, ...] = ()
    discovery: DiscoverySettings = DiscoverySettings()
    services: dict[str, str] = {}
    """Services that the environment names, and their urls."""
    tools: tuple[ToolSettings, ...] = ()
    agents: dict[str, AgentSettings] = {}
    sessions: dict[str, SessionSettings] = {}
    relay: RelaySettings = RelaySettings()
    log_format: str = "text"
    secrets: "Secrets" = field(default_factory=lambda: Secrets({}, {}))

    @property
    def url(self) -> str:
        """Where people and the CLI find this gateway."""
        return url_of(self.server)


class LocalGateway(Struct, frozen=True, kw_only=True):
    """What a client has to know of the config: where its gateway is, and with which keys it can be asked."""

    data: Path
    url: str
    keys: dict[str, KeySettings] = {}
    """Those whose value is known here."""
    unset: frozenset[str] = frozenset()
    """Names of those whose value is not: the variable that holds it is not set here."""
    admin_key: bool = True


class _LocalDocument(Struct, frozen=True, kw_only=True):
    """As much of the file as a client reads; the rest may be wrong."""

    server: ServerSettings = ServerSettings()
    auth: AuthSettings = AuthSettings()


class Secrets:
    """Values by name, from the environment, then the secrets file. Remembers which were used, to redact them."""

    def __init__(self, environment: Mapping[str, str], file: Mapping[str, str]) -> None:
        self._environment = environment
        self._file = file
        self.used: set[str] = set()

    def get(self, name: str) -> str | None:
        value = self._environment.get(name, self._file.get(name))
        if value is not None:
            self.used.add(value)
        return value


def load_settings(
    config: str | Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, str | int | None] | None = None,
) -> Settings:
    """Read config, environment and secrets. `overrides` are the command line's host, port and store."""
    env = os.environ if environment is None else environment
    path = find_config(config, environment=env)
    folder, data = _folders(path, env)
    secrets = Secrets(env, _read_secrets(data / "secrets.toml"))
    raw = _fill_in(_read(path), secrets, str(path), "") if path else {}
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
        scenario=document.scenario,
        categories=document.categories,
        keys=document.auth.keys,
        admin_key=document.auth.admin_key,
        outgoing=document.outgoing,
        discovery=document.discovery,
        services=services_in(env, document.discovery, taken=document.sources.keys() | RESERVED_SOURCES),
        responses=document.responses,
        mcp=document.mcp,
        console=document.console,
        models=with_environment_model(document.models, env, secret=secrets.get),
        sources=tuple(parse_source(name, raw, path) for name, raw in document.sources.items()),
        tools=tuple(numbered_tool(number, raw, path) for number, raw in enumerate(document.tools)),
        agents=document.agents,
        sessions=document.sessions,
        relay=document.relay,
        log_format=env.get("JACKFIELD_LOG", "text"),
        secrets=secrets,
    )
    _check(settings)
    return settings


def load_local(config: str | Path | None = None, *, environment: Mapping[str, str] | None = None) -> LocalGateway:
    """The gateway of this config as its clients see it. What only the gateway needs, `${NAME}` too, may be missing."""
    env = os.environ if environment is None else environment
    path = find_config(config, environment=env)
    _, data = _folders(path, env)
    secrets = Secrets(env, _read_secrets(data / "secrets.toml"))
    raw = _read(path) if path else {}
    raw = {key: _fill_in(raw[key], secrets, str(path), key, unset="") for key in ("server", "auth") if key in raw}
    document = parse_config(raw, _LocalDocument, where=f"{path or 'the configuration'}:")
    return LocalGateway(
        data=data,
        url=url_of(_server(document.server, env, {})),
        keys={name: key for name, key in document.auth.keys.items() if key.key},
        unset=frozenset(name for name, key in document.auth.keys.items() if not key.key),
        admin_key=document.auth.admin_key,
    )


def url_of(server: ServerSettings) -> str:
    """Where a gateway with this `[server]` is found."""
    if server.public_url:
        return server.public_url.rstrip("/")
    host = "127.0.0.1" if is_for_all(server) else server.host
    return f"http://{f'[{host}]' if ':' in host else host}:{server.port}"


def is_for_all(server: ServerSettings) -> bool:
    """Whether the gateway listens on every address of the machine."""
    return server.host in ("0.0.0.0", "::", "")  # noqa: S104 - read, not bound


def find_config(given: str | Path | None, *, environment: Mapping[str, str] | None = None) -> Path | None:
    """The config file that is meant; None where there is none and none was named."""
    env = os.environ if environment is None else environment
    if named := given or env.get("JACKFIELD_CONFIG"):
        path = Path(named).expanduser().resolve()
        if path.is_dir():
            path = next((path / n for n in ("jackfield.toml", "jackfield.json") if (path / n).is_file()), path)
        if not path.is_file():
            raise ConfigError(
                f"There is no config at {path}. Give an existing file, or make one with 'jackfield init'."
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
        raise ConfigError(f"{path} is not valid {kind}: {fault}. Correct that place.") from None
    if not isinstance(loaded, dict):
        raise ConfigError(f"{path} must hold an object of settings, not {with_article(type(loaded).__name__)}.")
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
    """Where relative paths begin, and where the gateway keeps its own files."""
    folder = path.parent if path else Path.cwd()
    return folder, (folder / env.get("JACKFIELD_DATA", ".jackfield")).resolve()


def _store(
    configured: str | None, path: Path | None, env: Mapping[str, str], given: Mapping[str, str | int]
) -> tuple[str, str]:
    """The store's url, and where it was given."""
    named = ((given.get("store"), "--store"), (env.get("JACKFIELD_STORE"), "JACKFIELD_STORE"))
    for url, where in (*named, (configured, f"{path}: store.url")):
        if url:
            return str(url), where
    return "sqlite:///", ""


def _fill_in(value: Any, secrets: Secrets, path: str, key: str, *, unset: str | None = None) -> Any:
    """`value` with every `${NAME}` replaced, at any depth; one that is not set is an error, or `unset`."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _lookup(found[1], secrets, path, key, unset=unset), value)
    if isinstance(value, dict):
        return {k: _fill_in(v, secrets, path, f"{key}.{k}" if key else k, unset=unset) for k, v in value.items()}
    if isinstance(value, list):
        return [_fill_in(item, secrets, path, f"{key}[{n}]", unset=unset) for n, item in enumerate(value)]
    return value


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
            f"{path}: scenario.version is '{scenario.version[:50]}', which is no semantic version. "
            "Write it as MAJOR.MINOR.PATCH, for example 1.0.0."
        )


def _server(server: ServerSettings, env: Mapping[str, str], given: Mapping[str, str | int]) -> ServerSettings:
    host = str(given.get("host") or env.get("JACKFIELD_HOST") or server.host)
    port = given.get("port", env.get("JACKFIELD_PORT") or server.port)  # 0 is a port: the system chooses
    try:
        number = int(port)
    except ValueError:
        number = -1
    if not 0 <= number <= 65535:  # noqa: PLR2004 - the range of TCP ports
        raise ConfigError(f"The port {port!r} is not a number from 0 to 65535. Correct JACKFIELD_PORT or server.port.")
    if server.public_url and not urlsplit(server.public_url).netloc:
        raise ConfigError(f"server.public_url {server.public_url!r} is not a full url. Write https://host[:port].")
    return ServerSettings(
        host=host,
        port=number,
        allowed_hosts=server.allowed_hosts,
        public_url=server.public_url,
        trusted_proxies=server.trusted_proxies,
        max_body=server.max_body,
    )


def _check(settings: Settings) -> None:
    where = settings.path
    names = [tool.name for tool in settings.tools]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"{where}: two of the [[tools]] are called '{twice}'. Rename one of them.")
    for name, key in settings.keys.items():
        _check_key(key, where=f"{where}: auth.keys.{name}")
    for agent in settings.agents:
        _check_agent(settings, agent, where=f"{where}: agents.{agent}")
    for source in settings.sources:
        sampling = source.options.get("sampling")
        if source.kind == "mcp" and isinstance(sampling, str):
            _check_model(settings, sampling, where=f"{where}: sources.{source.name}.sampling")
    if settings.log_format not in ("text", "json"):
        raise ConfigError(f"JACKFIELD_LOG is {settings.log_format!r}; it takes 'text' or 'json'.")


def _check_key(key: KeySettings, *, where: str) -> None:
    if not key.key:
        raise ConfigError(f'{where}.key is empty. Give it a value, for example "${{OPS_KEY}}".')
    unknown = next((scope for scope in key.scopes if not is_scope(scope)), None)
    if unknown is not None:
        raise ConfigError(
            f"{where}.scopes has the unknown scope '{unknown}'. "
            "Known: admin, call, read, answer, worker:GLOB, agent:NAME, session:ID."
        )


def _check_agent(settings: Settings, agent: str, *, where: str) -> None:
    check_agent_id(agent, where=where)
    if agent in settings.sessions:
        raise ConfigError(f"{settings.path}: '{agent}' is both an agent and a session. Rename one of them.")
    _check_model(settings, settings.agents[agent].model, where=f"{where}.model")
    for space in settings.agents[agent].spaces:
        check_agent_id(space, where=f"{where}.spaces")


def _check_model(settings: Settings, model: str | None, *, where: str) -> None:
    """A model that is named must be one of `[models]`; none named means the default one."""
    if model is None or model in settings.models:
        return
    known = f"Known: {', '.join(settings.models)}." if settings.models else f"Add [models.{model}]."
    raise ConfigError(f"{where} is '{model}', which is no model here.{nearest(model, list(settings.models))} {known}")


DEFAULT_MODEL = "default"
URL, NAME, KEY = "JACKFIELD_MODEL_URL", "JACKFIELD_MODEL", "JACKFIELD_MODEL_KEY"


def with_environment_model(
    tables: Mapping[str, dict[str, Any]], environment: Mapping[str, str], *, secret: Callable[[str], str | None]
) -> dict[str, dict[str, Any]]:
    """The tables under `[models]`, with `default` as the environment says; agents that name no model think with it."""
    url = environment.get(URL)
    if not url:
        if environment.get(NAME):
            raise ConfigError(f"{URL} is not set, though {NAME} is. Set both, or describe the model under [models].")
        return dict(tables)
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{URL} is {url!r}, which is not a full url. Write http://host[:port]/v1 or https://…")
    table: dict[str, Any] = {"provider": "openai", "base_url": url, "model": environment.get(NAME) or DEFAULT_MODEL}
    if key := secret(KEY):
        table["api_key"] = key
    return {**tables, DEFAULT_MODEL: table}
