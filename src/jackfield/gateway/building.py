"""How services that need several others are built. Above: `gateway.py`. Below: the services."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from jackfield.agents.mcp_servers import McpServers
from jackfield.agents.types import Agent, servers_of
from jackfield.audit.log import AuditLog
from jackfield.calls.answers import Answers
from jackfield.calls.pipeline import Pipeline
from jackfield.catalog.catalog import Catalog, Entry
from jackfield.catalog.checking import Checking
from jackfield.catalog.pins import Pins
from jackfield.catalog.preferences import PreferenceBook
from jackfield.connections.connections import Connections, LoginChanged
from jackfield.connections.oauth.http import is_loopback
from jackfield.errors import ConfigError
from jackfield.identity.keys import Keyring
from jackfield.identity.vault import Vault
from jackfield.llm.models import DEFAULT, Models
from jackfield.llm.script import read_script
from jackfield.model.response_request import McpTool
from jackfield.outgoing import Outgoing
from jackfield.responses.approvals import Approvals
from jackfield.responses.engine import ResponseEngine
from jackfield.runs.model_steps import StepLogs
from jackfield.runs.tool_search import ToolSearch
from jackfield.sessions.registry import SessionRegistry
from jackfield.settings import Settings
from jackfield.settings.tools import SourceSettings
from jackfield.settings.types import AgentSettings, ResponsesSettings
from jackfield.sources.base import Source, SourceContext
from jackfield.sources.kinds import make_configured
from jackfield.sources.live import LiveSources, SourceBook
from jackfield.sources.mcp.options import McpOptions
from jackfield.sources.mcp.source import McpSource, server_of_a_request
from jackfield.sources.source_registry import SourceRegistry
from jackfield.store import Store
from jackfield.store.opening import database_files
from jackfield.workers.host import WorkerHost

SPEAK_SO = 'Write calls = [{ tool = "enter_space", … }], then calls = [{ tool = "send_message", … }].'
MOST_NAMED = 5
"""Agents that one warning names."""


def catalog_of(settings: Settings, *, checking: Checking, preferences: PreferenceBook) -> Catalog:
    """An empty catalog with all that the operator says about tools."""
    catalog = Catalog(
        settings.categories,
        scenario=settings.scenario,
        pins=Pins(),
        asking=lambda: preferences.asking,
        checking=checking,
    )
    catalog.apply_sources(settings.sources)
    return catalog


def live_sources_of(
    book: SourceBook,
    catalog: Catalog,
    connections: Connections,
    *,
    registry: SourceRegistry,
    source_context: SourceContext,
    on_change: Callable[[], None],
) -> LiveSources:
    """What changes sources while the gateway runs. `on_change`: the catalog is to be merged anew."""

    def apply(sources: Sequence[SourceSettings]) -> None:
        connections.apply(sources)
        catalog.apply_sources(sources)
        on_change()

    return LiveSources(book, registry=registry, context=source_context, apply=apply)


def connections_of(
    settings: Settings, *, store: Store, outgoing: Outgoing, audit: AuditLog, on_change: LoginChanged
) -> tuple[Vault, Connections]:
    """The vault, and the logins at sources that are in it."""
    vault = Vault(settings, store, is_needed=any(source.auth != "none" for source in settings.sources))
    connections = Connections(settings, store=store, vault=vault, outgoing=outgoing, audit=audit, on_change=on_change)
    return vault, connections


def hidden_from_sandboxes(settings: Settings) -> list[Path]:
    """What no sandboxed program sees, also where it may see the folder around it."""
    database = database_files(settings.store_url, folder=settings.folder, data=settings.data)
    return [path for path in (settings.data, settings.path, *database) if path is not None]


def models_of(settings: Settings, *, outgoing: Outgoing) -> Models:
    where = "the configuration" if settings.path is None else str(settings.path)
    return Models(settings.models, folder=settings.folder, send=outgoing.send, where=where)


def mute_agents(settings: Settings) -> Iterator[tuple[str, str]]:
    """Agents of the config that people in a space would not hear, and why: their script only has `say`."""
    fallback = DEFAULT if DEFAULT in settings.models else next(iter(settings.models), "")
    in_spaces: dict[str, list[str]] = {}
    for name, agent in settings.agents.items():
        if agent.spaces:
            in_spaces.setdefault(agent.model or fallback, []).append(name)
    for model, names in in_spaces.items():
        table = settings.models.get(model, {})
        if table.get("provider") == "scripted":
            script = read_script(settings.folder / str(table.get("script")), named_in=f"models.{model}.script")
            if script.talks_to_itself:
                more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
                why = (
                    f"People in its spaces will not hear it: {script.origin} has `say`, which is a note to itself, and "
                    "never calls send_message."
                )
                yield f"{', '.join(names[:MOST_NAMED])}{more}", why


def configured_sources(settings: Settings, source_context: SourceContext) -> list[Source]:
    """A source for every `[sources.NAME]`."""
    try:
        return [make_configured(source, source_context) for source in settings.sources]
    except ConfigError as fault:
        raise ConfigError(f"{settings.path}: {fault}") from None


def configured_agents(settings: Settings) -> dict[str, AgentSettings]:
    """The agents of the config. Raises `ConfigError` where a server of their own cannot be used."""
    try:
        for name, agent in settings.agents.items():
            servers_of(Agent(name, agent))
    except ConfigError as fault:
        raise ConfigError(f"{settings.path}: {fault}") from None
    return settings.agents


def mcp_servers_of(
    source_registry: SourceRegistry,
    catalog: Catalog,
    source_context: SourceContext,
    *,
    find_agent: Callable[[str], Agent | None],
    on_listing: Callable[[], None],
) -> McpServers:
    """The MCP servers of requests and of single agents."""

    def for_request(name: str, tool: McpTool) -> Source:
        headers = dict(tool.headers or {})
        if tool.authorization is not None:
            headers["Authorization"] = f"Bearer {tool.authorization}"
        return server_of_a_request(name, url=tool.server_url or "", headers=headers, source_context=source_context)

    def for_agent(name: str, options: McpOptions, is_configured: bool) -> Source:  # noqa: FBT001 - the factory's shape
        return McpSource(name, options, source_context, from_config=is_configured, owner=name)

    return McpServers(
        sources=source_registry,
        catalog=catalog,
        make_for_request=for_request,
        make_for_agent=for_agent,
        find_agent=find_agent,
        on_listing=on_listing,
    )


def engine_of(
    models: Models,
    catalog: Catalog,
    pipeline: Pipeline,
    answers: Answers,
    *,
    store: Store,
    servers: McpServers,
    settings: ResponsesSettings,
    tool_search: ToolSearch,
    step_logs: StepLogs,
) -> ResponseEngine:
    """What carries Responses requests out."""
    return ResponseEngine(
        models=models,
        catalog=catalog,
        pipeline=pipeline,
        store=store,
        servers=servers,
        approvals=Approvals(store=store, catalog=catalog, pipeline=pipeline, answers=answers),
        settings=settings,
        tool_search=tool_search,
        step_logs=step_logs,
    )


def sessions_of(
    settings: Settings,
    models: Models,
    catalog: Catalog,
    pipeline: Pipeline,
    answers: Answers,
    *,
    store: Store,
    servers: McpServers,
    tool_search: ToolSearch,
    step_logs: StepLogs,
    worker_host: WorkerHost,
    redact: Callable[[str], str],
    keyring: Keyring,
    gateway_id: str,
) -> SessionRegistry:
    """Sandboxed agents with the callers that lend them tools."""
    return SessionRegistry(
        settings,
        models=models,
        catalog=catalog,
        pipeline=pipeline,
        answers=answers,
        store=store,
        own_tools=servers.of_agent,
        tool_search=tool_search,
        step_logs=step_logs,
        worker_host=worker_host,
        redact=redact,
        keyring=keyring,
        gateway_id=gateway_id,
    )


def identity_warnings(settings: Settings) -> Iterator[str]:
    """What works in `[auth]`, but is hardly meant."""
    oidc, oauth = settings.oidc, settings.oauth
    if oidc is not None and not settings.roles:
        yield "[auth.oidc] lets people sign in, but there is no [auth.roles], so none of them may do anything."
    if settings.roles and oidc is None and oauth.mode != "external":
        yield "[auth.roles] has no effect: nobody signs in by a provider. Add [auth.oidc]; keys have their own scopes."
    if oauth.issuer is not None and oauth.mode != "external":
        yield f'[auth.oauth] issuer is unused with mode = "{oauth.mode}". To take its tokens write mode = "external".'
    for name, issuer in (("auth.oidc", oidc and oidc.issuer), ("auth.oauth", oauth.issuer)):
        if issuer and issuer.startswith("http://") and not is_loopback(urlsplit(issuer).hostname or ""):
            yield f"[{name}] issuer is not https: whoever listens on the way can sign in as anybody. Use https."
    if oidc is not None and oauth.mode == "external" and oauth.issuer != oidc.issuer:
        yield (
            "[auth.oidc] and [auth.oauth] have different issuers. Whoever has the same 'sub' at both counts as one "
            "person: make sure that they are."
        )

    own_logins = [source.name for source in settings.sources if source.auth == "user"]
    if oidc is None and oauth.mode == "external" and own_logins:
        yield (
            f"[auth.oauth] takes tokens of people, but without [auth.oidc] none of them can sign in here to log in at "
            f"'{own_logins[0]}' (auth = \"user\"). Add [auth.oidc] with the same issuer."
        )


def public_settings(
    settings: Settings, *, sources: Iterable[SourceSettings], agents: Iterable[Agent], entries: Iterable[Entry]
) -> dict[str, Any]:
    """What in-process tools may know of the settings: names and public fields, nothing secret."""
    return {
        "url": settings.url,
        "scenario": msgspec.to_builtins(settings.scenario),
        "categories": msgspec.to_builtins(settings.categories),
        "models": [
            {"name": name, "provider": table.get("provider"), "model": table.get("model")}
            for name, table in settings.models.items()
        ],
        "agents": [
            {
                "id": agent.id,
                "name": agent.name,
                "description": agent.settings.description,
                "model": agent.settings.model,
                "spaces": list(agent.settings.spaces),
            }
            for agent in agents
        ],
        "sources": [{"name": source.name, "kind": source.kind} for source in sources],
        "tools": [
            {
                "name": entry.name,
                "source": entry.tool.source,
                "description": entry.tool.description,
                "category": entry.tool.category,
            }
            for entry in entries
        ],
    }
