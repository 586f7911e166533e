"""The whole URL map. Served, checked and documented from here.

Above: `server.py`. Below: the `api` modules, each of which gets its services here. The first match counts.
"""

from functools import partial
from typing import Any

import msgspec

from jackfield.agents import api as agents
from jackfield.agents import runs_api as runs
from jackfield.agents import state_api as agent_state
from jackfield.agents.permissions import AgentPermissions
from jackfield.audit import api as audit_api
from jackfield.calls import answers_api, execute_api, reading_api, tool_server_api
from jackfield.calls import api as calls_api
from jackfield.catalog import api as catalog_api
from jackfield.catalog import groups_api, pins_api, preferences_api, sources_api, stored_api, switches_api
from jackfield.catalog.groups import Groups
from jackfield.connections import api as connections_api
from jackfield.connections import pages as connect_pages
from jackfield.console import api as console
from jackfield.gateway import config_api, health, metrics, reference
from jackfield.gateway.gateway import Gateway
from jackfield.http.counters import HttpCounters
from jackfield.http.openapi import openapi_document
from jackfield.http.request import Request
from jackfield.http.response import Response, encode, raw_json_response
from jackfield.http.routing import ResponseSpec, Route, SocketRoute
from jackfield.identity import api as identity
from jackfield.identity import keys_api, oidc_api, sign_in, users_api, vault_api
from jackfield.identity.authentication import Authenticator, Logins, Throttle
from jackfield.identity.browser import Browser
from jackfield.identity.oauth.consent_page import GroupChoice
from jackfield.mcp import api as mcp
from jackfield.mcp.server import McpServer
from jackfield.model.principal import Principal
from jackfield.notify import api as notify_api
from jackfield.responses import api as responses
from jackfield.responses.service import ResponseService
from jackfield.sessions import api as sessions
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
    routes = [
        # The first match counts, so the busiest is the first.
        *execute_api.routes(pipeline, catalog=catalog, cluster=gateway.cluster, rights=rights),
        *catalog_api.routes(
            catalog, cluster=gateway.cluster, groups=gateway.groups, preferences=preferences, pins=pins
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
        *calls_api.routes(calls),
        *answers_api.routes(gateway.answers, calls=calls, store=store, catalog=catalog, links=links),
        *tool_server_api.routes(gateway.servers, catalog=catalog),
        *agents.routes(gateway.agents, permissions=rights, models=gateway.models, keyring=gateway.keyring, store=store),
        *agent_state.routes(permissions=rights, store=store),
        *runs.routes(store=store, events=pipeline.events, find_response=response_service.find),
        *sessions.routes(gateway.sessions),
        *spaces.routes(gateway.spaces, store=store, rights=rights),
        *sources_api.routes(
            catalog,
            gateway.stored_tools,
            configured=gateway.source_book,
            source_registry=gateway.source_registry,
            statuses=gateway.source_statuses,
        ),
        *workers.routes(gateway.worker_host),
        *identity_routes(gateway, logins=logins, throttle=throttle, browser=browser),
        *keys_api.routes(gateway.stored_keys, gateway.keyring, check_names=gateway.key_names.check),
        *vault_api.routes(gateway.vault, store=store, audit=gateway.audit),
        *audit_api.routes(store),
        *notify_api.routes(gateway.notifications),
        *connections_api.routes(gateway.connections, gateway.login_flows, sees_source=gateway.sees_source),
        *connect_pages.routes(gateway.login_flows, browser, public_url=settings.url),
        *config_api.routes(gateway.reloader),
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
        ),
        _document_route(document := bytearray()),
        *reference.routes(lambda: msgspec.json.decode(document)),
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
    document += encode(openapi_document(routes))
    return routes


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


def all_sockets(gateway: Gateway, response_service: ResponseService) -> list[SocketRoute]:
    """Every path that speaks WebSocket."""
    changes = catalog_api.sockets(gateway.catalog, cluster=gateway.cluster, groups=gateway.groups)
    return [*changes, *responses.sockets(response_service)]


def _document_route(document: bytearray) -> Route:
    async def give_document(_request: Request) -> Response:
        return raw_json_response(bytes(document))

    return Route(
        method="GET",
        path="/openapi.json",
        handler=give_document,
        tag="Reference",
        summary="This document",
        responses={200: ResponseSpec(description="OpenAPI 3.1", type=dict[str, Any])},
    )
