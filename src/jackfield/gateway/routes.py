"""The whole URL map: every door, who may pass, what it takes and answers. Served, checked and documented from here.

Above: `server.py`. Below: one module per kind of door. The first match counts, so the busiest door is the first.
"""

from typing import Any

from jackfield.agents import api as agents
from jackfield.agents import runs_api as runs
from jackfield.agents import state_api as agent_state
from jackfield.agents.permissions import AgentPermissions
from jackfield.calls import execute_api as execute
from jackfield.calls.api import (
    CallsQuery,
    OneCallQuery,
    ResultQuery,
    StreamQuery,
    cancel_call,
    follow_calls,
    list_calls,
    show_call,
    show_result,
)
from jackfield.calls.records import CallPage, ExecuteAnswer, OneCall
from jackfield.catalog.api import (
    FoundTools,
    Manifest,
    SearchQuery,
    ToolEntry,
    list_tools,
    search_tools,
    show_tool,
    socket_changes,
    stream_changes,
)
from jackfield.console import api as console
from jackfield.gateway import health
from jackfield.gateway.gateway import Gateway
from jackfield.gateway.routes_pending import PENDING_DOORS
from jackfield.gateway.routes_pins import PIN_DOORS
from jackfield.gateway.routes_sessions import SESSION_DOORS
from jackfield.gateway.routes_sources import SOURCE_ROUTES
from jackfield.gateway.routes_stored import PREFERENCE_DOORS, SHELF_DOORS
from jackfield.http.openapi import openapi_document
from jackfield.http.permissions import SEES_CALLS
from jackfield.http.request import Request
from jackfield.http.response import Response, encode, raw_json_response
from jackfield.http.routing import SSE_MEDIA, HeaderParameter, ResponseSpec, Route, SocketRoute
from jackfield.identity import api as identity
from jackfield.identity.authentication import Authenticator, Logins, Throttle
from jackfield.mcp.routes import MCP_DOORS
from jackfield.model.principal import Scope
from jackfield.protocol.large_results import ResultPage
from jackfield.responses.routes import RESPONSE_DOORS, RESPONSE_SOCKETS
from jackfield.responses.service import ResponseService
from jackfield.spaces import api as spaces
from jackfield.workers import api as workers

_CALL_ID = {"X-Call-Id": "The call's id"}


DOORS: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/api/v1/tools/{name}/execute",
        path_takes_slashes=True,
        handler=execute.execute,
        needs=Scope.CALL,
        for_sessions=True,
        group="Tools",
        summary="Call a tool",
        headers=(
            HeaderParameter(
                name="Idempotency-Key",
                says="The same key with the same body is the same call for 24 hours; with another body it is refused",
                type=execute.IdempotencyKey,
            ),
        ),
        body=execute.ExecuteBody,
        body_is_optional=True,
        answers={
            200: ResponseSpec(
                says="The call is settled: completed, or failed, which is a result too. With `Accept: "
                "text/event-stream` the call's events, then `call.result` with the same object",
                type=ExecuteAnswer,
                streams=True,
                headers=_CALL_ID,
            ),
            202: ResponseSpec(
                says="Somebody else has to answer or approve first", type=ExecuteAnswer, headers=_CALL_ID
            ),
        },
        refusals=(404, 409, 429),
    ),
    Route(
        method="GET",
        path="/api/v1/tools",
        handler=list_tools,
        for_sessions=True,
        is_discovery=True,
        group="Tools",
        summary="The manifest of all tools that the key may see",
        headers=(HeaderParameter(name="If-None-Match", says="The ETag of the manifest that you have"),),
        answers={
            200: ResponseSpec(says="The manifest", type=Manifest, headers={"ETag": "Changes with any definition"}),
            304: ResponseSpec(says="You have it"),
        },
    ),
    Route(
        method="GET",
        path="/api/v1/tools/search",
        handler=search_tools,
        for_sessions=True,
        is_discovery=True,
        group="Tools",
        summary="Find tools by words",
        query=SearchQuery,
        answers={200: ResponseSpec(says="The best matches first", type=FoundTools)},
    ),
    Route(
        method="GET",
        path="/api/v1/tools/changes",
        handler=stream_changes,
        for_sessions=True,
        is_discovery=True,
        group="Tools",
        summary="Changes of the catalog, live (also as WebSocket)",
        answers={200: ResponseSpec(says="`connected`, then `tools.changed` events", media=SSE_MEDIA)},
    ),
    *PREFERENCE_DOORS,
    *PIN_DOORS,
    Route(
        method="GET",
        path="/api/v1/tools/{name}",
        path_takes_slashes=True,
        handler=show_tool,
        for_sessions=True,
        is_discovery=True,
        group="Tools",
        summary="One tool",
        answers={200: ResponseSpec(says="The tool", type=ToolEntry)},
        refusals=(404,),
    ),
    *SHELF_DOORS,
    Route(
        method="GET",
        path="/api/v1/calls",
        handler=list_calls,
        needs=SEES_CALLS,
        group="Calls",
        summary="The records of calls, newest first",
        query=CallsQuery,
        answers={200: ResponseSpec(says="A page of records", type=CallPage)},
    ),
    Route(
        method="GET",
        path="/api/v1/calls/stream",
        handler=follow_calls,
        needs=SEES_CALLS,
        group="Calls",
        summary="What happens to calls, live",
        query=StreamQuery,
        answers={200: ResponseSpec(says="One event per change of a call", media=SSE_MEDIA)},
    ),
    Route(
        method="GET",
        path="/api/v1/calls/{id}",
        handler=show_call,
        needs=SEES_CALLS,
        group="Calls",
        summary="The record of one call, at once or when it is settled",
        query=OneCallQuery,
        answers={200: ResponseSpec(says="The record", type=OneCall)},
        refusals=(404,),
    ),
    Route(
        method="GET",
        path="/api/v1/calls/{id}/result",
        handler=show_result,
        needs=SEES_CALLS,
        group="Calls",
        summary="The result of a settled call as JSON text, page by page: for results too large for the record",
        query=ResultQuery,
        answers={200: ResponseSpec(says="A page; joined, they are the text that the digest is of", type=ResultPage)},
        refusals=(404, 409),
    ),
    Route(
        method="POST",
        path="/api/v1/calls/{id}/cancel",
        handler=cancel_call,
        needs=Scope.CALL,
        group="Calls",
        summary="Stop a call",
        answers={200: ResponseSpec(says="The record of the stopped call", type=OneCall)},
        refusals=(404, 409),
    ),
    *PENDING_DOORS,
)

SOCKET_DOORS = (
    SocketRoute(path="/api/v1/tools/changes", handler=socket_changes, for_sessions=True, is_discovery=True),
    *RESPONSE_SOCKETS,
)


def all_routes(
    gateway: Gateway,
    *,
    authenticator: Authenticator,
    logins: Logins,
    throttle: Throttle,
    responses: ResponseService,
) -> list[Route]:
    """Every route, in the order of the document."""
    settings = gateway.settings
    components = settings.console.tools
    rights = AgentPermissions(gateway.agents, gateway.catalog, gateway.store)
    routes = [
        *DOORS,
        *agents.routes(
            gateway.agents, permissions=rights, models=gateway.models, keyring=gateway.keyring, store=gateway.store
        ),
        *agent_state.routes(permissions=rights, store=gateway.store),
        *runs.routes(store=gateway.store, events=gateway.pipeline.events, find_response=responses.find),
        *SESSION_DOORS,
        *spaces.routes(gateway.spaces, store=gateway.store, rights=rights),
        *SOURCE_ROUTES,
        *workers.routes(gateway.worker_host),
        *identity.routes(gateway.keyring, logins, throttle),
        *health.routes(gateway, authenticator),
        _document_route(document := bytearray()),
        *MCP_DOORS,
        *RESPONSE_DOORS,
        *console.routes(None if components is None else settings.folder / components),
    ]
    document += encode(openapi_document(routes))
    return routes


def all_sockets() -> list[SocketRoute]:
    """Every path that speaks WebSocket."""
    return [*SOCKET_DOORS]


def _document_route(document: bytearray) -> Route:
    async def give_document(_request: Request) -> Response:
        return raw_json_response(bytes(document))

    return Route(
        method="GET",
        path="/openapi.json",
        handler=give_document,
        group="Reference",
        summary="This document",
        answers={200: ResponseSpec(says="OpenAPI 3.1", type=dict[str, Any])},
    )
