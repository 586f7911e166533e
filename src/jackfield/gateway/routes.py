"""The whole URL map. Served, checked and documented from here.

Above: `server.py`. Below: the `api` modules, each of which gets its services here. The first match counts.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import msgspec
from msgspec import structs

from jackfield.agents import api as agents
from jackfield.agents import state_api as agent_state
from jackfield.agents.permissions import AgentPermissions
from jackfield.agents.run_kind import CycleRuns
from jackfield.audit import api as audit_api
from jackfield.calls import answers_api, execute_api, reading_api, tool_server_api
from jackfield.calls import api as calls_api
from jackfield.catalog import api as catalog_api
from jackfield.catalog import groups_api, pins_api, preferences_api, sources_api, stored_api, switches_api
from jackfield.catalog.groups import Groups
from jackfield.connections import api as connections_api
from jackfield.connections import pages as connect_pages
from jackfield.console import api as console
from jackfield.console import apps_api
from jackfield.gateway import config_api, health, metrics, reference
from jackfield.gateway.gateway import Gateway
from jackfield.gateway.siblings import Siblings
from jackfield.hooks import api as hooks
from jackfield.http.counters import HttpCounters
from jackfield.http.openapi import openapi_document
from jackfield.http.request import Request
from jackfield.http.response import Response, encode, raw_json_response
from jackfield.http.routing import ResponseSpec, Route, SocketRoute
from jackfield.identity import api as identity
from jackfield.identity import keys_api, oidc_api, sign_in, users_api, vault_api
from jackfield.identity.authentication import Authenticator, Logins, Throttle
from jackfield.identity.browser import Browser
from jackfield.identity.keys import ADMIN
from jackfield.identity.oauth.consent_page import GroupChoice
from jackfield.mcp import api as mcp
from jackfield.mcp.server import McpServer
from jackfield.model.principal import Principal
from jackfield.notify import api as notify_api
from jackfield.overview import api as overview_api
from jackfield.programs.run_kind import ProgramRuns
from jackfield.responses import api as responses
from jackfield.responses import models_api
from jackfield.responses.run_kind import ResponseRuns
from jackfield.responses.service import ResponseService
from jackfield.runs import api as runs
from jackfield.runs.kinds import RunKind
from jackfield.runs.listing import RunKindName
from jackfield.sessions import api as sessions
from jackfield.sessions.run_kind import SessionRuns
from jackfield.settings.origins import ConfigValue, of_table
from jackfield.sources import secrets_api
from jackfield.spaces import api as spaces
from jackfield.workers import api as workers


def all_routes(
    gateway: Gateway,
    *,
    authenticator: Authenticator,
    logins: Logins,
    throttle: Throttle,
    browser: Browser,
    mcp_server: McpServer,
    response_service: ResponseService,
    http_counters: HttpCounters,
    siblings: Siblings | None = None,
) -> list[Route]:
    """Every route, in the order of the document."""
    settings = gateway.settings
    components = settings.console.tools
    store, catalog, pipeline, links = gateway.store, gateway.catalog, gateway.pipeline, gateway.links
    preferences = preferences_api.routes(
        gateway.preferences,
        catalog=catalog,
        store=store,
        sources=gateway.source_registry,
        settings=settings,
        find_key=gateway.keyring.named,
        refresh=gateway.refresh,
        statuses=gateway.source_statuses,
    )
    calls = calls_api.CallsApi(
        pipeline, store=store, catalog=catalog, links=links, four_eyes=lambda: gateway.answers.four_eyes
    )
    rights = AgentPermissions(gateway.agents, catalog, store)
    pins = pins_api.routes(gateway.pinning, catalog=catalog, sources=gateway.source_registry)
    definitions = stored_api.definition_routes(gateway.stored_tools, catalog, list_again=gateway.list_stored_tools)

    @cache
    def document() -> bytes:
        """Made when it is first asked for: it takes as long as all else that a gateway does at its start."""
        return encode(openapi_document(routes))

    routes = [
        # The first match counts, so the busiest is the first.
        *execute_api.routes(pipeline, catalog=catalog, cluster=gateway.cluster, rights=rights),
        *catalog_api.routes(
            catalog, cluster=gateway.cluster, groups=gateway.groups, preferences=preferences, pins=[*pins, *definitions]
        ),
        *switches_api.routes(
            gateway.preferences.switches,
            store=store,
            audit=gateway.audit,
            catalog=catalog,
            sources=lambda: [status.name for status in gateway.source_statuses()],
            keys=lambda: gateway.keyring.names,
            lasting_keys=lambda: gateway.keyring.lasting,
        ),
        *groups_api.routes(gateway.groups, catalog=catalog, store=store, audit=gateway.audit, url=settings.url),
        *stored_api.routes(gateway.stored_tools, catalog, list_again=gateway.list_stored_tools),
        *reading_api.routes(pipeline, catalog=catalog, cluster=gateway.cluster, groups=gateway.groups),
        *apps_api.routes(pipeline, catalog=catalog, url=settings.url),
        *calls_api.routes(calls),
        *overview_api.routes(gateway.overview),
        *answers_api.routes(gateway.answers, calls=calls, store=store, catalog=catalog, links=links),
        *tool_server_api.routes(gateway.servers, catalog=catalog),
        *agents.routes(gateway.agents, permissions=rights, models=gateway.models, keyring=gateway.keyring, store=store),
        *agent_state.routes(permissions=rights, store=store),
        *runs.routes(
            store=store, events=pipeline.events, pipeline=pipeline, kinds=run_kinds(gateway, response_service)
        ),
        *sessions.routes(gateway.sessions),
        *spaces.routes(gateway.spaces, store=store, rights=rights),
        *sources_api.routes(
            catalog,
            gateway.stored_tools,
            run_time=gateway.run_time_sources,
            statuses=gateway.source_statuses,
            take_listings=gateway.take_listings,
            redact=gateway.redactor.text,
        ),
        *secrets_api.routes(gateway.run_time_sources),
        *models_api.routes(gateway.run_time_models, redact=gateway.redactor.text),
        *workers.routes(gateway.worker_host),
        *hooks.routes(gateway.hooks, entries=lambda: catalog.view(ADMIN).entries),
        *identity_routes(gateway, logins=logins, throttle=throttle, browser=browser),
        *keys_api.routes(gateway.stored_keys, gateway.keyring, check_names=gateway.key_names.check),
        *vault_api.routes(gateway.vault, store=store, audit=gateway.audit),
        *audit_api.routes(store),
        *notify_api.routes(gateway.notifications),
        *connections_api.routes(gateway.connections, gateway.login_flows, sees_source=gateway.sees_source),
        *connect_pages.routes(gateway.login_flows, browser, public_url=settings.url),
        *config_api.routes(
            gateway.reloader,
            settings=lambda: gateway.settings,
            made_here=partial(made_here, gateway),
            redact=gateway.redactor.text,
            siblings=siblings,
        ),
        *health.routes(
            store,
            catalog,
            reloader=gateway.reloader,
            statuses=gateway.source_statuses,
            availability=gateway.availability,
            authenticator=authenticator,
        ),
        *metrics.routes(
            pipeline.counters,
            http_counters,
            gateway.models.tokens,
            catalog=catalog,
            store=store,
            worker_host=gateway.worker_host,
            statuses=gateway.source_statuses,
            sees_source=gateway.sees_source,
            outbox_depths=gateway.notifications.depths,
            tool_servers=gateway.servers,
            siblings=siblings,
        ),
        _document_route(document),
        *reference.routes(lambda: msgspec.json.decode(document())),
        *mcp.routes(
            mcp_server,
            catalog,
            groups=gateway.groups,
            search_tools_above=lambda: gateway.settings.mcp.search_tools_above,
            challenge=None if gateway.oauth.mode == "off" else gateway.oauth.lacking,
        ),
        *gateway.oauth.routes(browser, groups_of=partial(group_choices, gateway.groups)),
        *responses.routes(response_service, gateway.models),
        *console.routes(None if components is None else settings.folder / components),
    ]
    return routes


def run_kinds(gateway: Gateway, responses: ResponseService) -> dict[RunKindName, RunKind]:
    """What `/api/runs` shows, by kind."""
    store, pipeline = gateway.store, gateway.pipeline
    return {
        "cycle": CycleRuns(store=store, pipeline=pipeline),
        "response": ResponseRuns(store=store, responses=responses),
        "program": ProgramRuns(store=store, pipeline=pipeline),
        "session": SessionRuns(store=store, sessions=gateway.sessions),
    }


def identity_routes(gateway: Gateway, *, logins: Logins, throttle: Throttle, browser: Browser) -> list[Route]:
    """Signing in, by key and by provider, and who signed in."""
    keyring, people, settings = gateway.keyring, gateway.principals.people, gateway.settings
    provider = gateway.oidc
    name = None if provider is None else provider.settings.name
    return [
        *identity.routes(keyring, logins, throttle, people=people, provider=name),
        *sign_in.routes(keyring, logins, throttle, browser=browser, provider=name),
        *oidc_api.routes(provider, people, gateway.store, logins=logins, url=settings.url),
        *users_api.routes(people),
    ]


def group_choices(groups: Groups, principal: Principal) -> list[GroupChoice]:
    """The groups that a person may limit an OAuth client to."""
    return [GroupChoice(name=group.name, description=group.description) for group in groups.seen_by(principal)]


def made_here(gateway: Gateway) -> list[ConfigValue]:
    """What administrators made while the gateway runs, as values of the config."""
    sources, models, groups = gateway.run_time_sources, gateway.run_time_models, gateway.groups
    tables: dict[str, Mapping[str, Any]] = {
        f"sources.{name}": sources.settings_of(name) or {} for name in sources.all if not sources.is_configured(name)
    }
    tables |= {
        f"models.{name}": models.settings_of(name) or {} for name in models.all if name not in models.models.configured
    }
    tables |= {
        f"groups.{group.name}": {"tools": group.tools, "description": group.description}
        for group in groups.seen_by(ADMIN)
        if not group.is_configured
    }
    tables |= {f"auth.keys.{name}": structs.asdict(key.rights) for name, key in gateway.keyring.stored.items()}
    tables |= {
        f"agents.{agent.id}": structs.asdict(agent.settings)
        for agent in gateway.agents.all()
        if not agent.is_configured
    }
    return [value for name, table in tables.items() for value in of_table(name, table, origin="api")]


def all_sockets(gateway: Gateway, response_service: ResponseService) -> list[SocketRoute]:
    """Every path that speaks WebSocket."""
    changes = catalog_api.sockets(gateway.catalog, cluster=gateway.cluster, groups=gateway.groups)
    return [*changes, *responses.sockets(response_service)]


def _document_route(document: Callable[[], bytes]) -> Route:
    async def give_document(_request: Request) -> Response:
        return raw_json_response(await asyncio.to_thread(document))

    return Route(
        method="GET",
        path="/openapi.json",
        handler=give_document,
        tag="Reference",
        summary="This document",
        responses={200: ResponseSpec(description="OpenAPI 3.1", type=dict[str, Any])},
    )
