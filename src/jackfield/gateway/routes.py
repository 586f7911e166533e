"""The whole URL map: every door, who may pass, what it takes and answers. Served, checked and documented from here.

Above: `server.py`. Below: one module per kind of door. The first match counts, so the busiest door is the first.
"""

from typing import Any

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
from jackfield.console.api import OwnModules, list_own_modules, show_asset, show_own_module, show_page, static_file
from jackfield.gateway.health import Alive, Readiness, alive, metrics, readiness
from jackfield.gateway.routes_agents import AGENT_DOORS
from jackfield.gateway.routes_pending import PENDING_DOORS
from jackfield.gateway.routes_pins import PIN_DOORS
from jackfield.gateway.routes_sessions import SESSION_DOORS
from jackfield.gateway.routes_spaces import SPACE_DOORS
from jackfield.gateway.routes_stored import PREFERENCE_DOORS, SHELF_DOORS
from jackfield.gateway.routes_workers import WORKER_DOORS
from jackfield.http.openapi import give_document
from jackfield.http.permissions import ANYBODY_KNOWN, SEES_CALLS
from jackfield.http.routing import SSE_MEDIA, HeaderParameter, ResponseSpec, Route, SocketRoute
from jackfield.identity.api import LoginBody, SignedIn, log_in, log_out, show_login
from jackfield.mcp.routes import MCP_DOORS
from jackfield.model.large_result import ResultPage
from jackfield.model.principal import Scope
from jackfield.responses.routes import RESPONSE_DOORS, RESPONSE_SOCKETS

_CALL_ID = {"X-Call-Id": "The call's id"}


def _page(path: str, file: str, media: str) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=static_file(file, f"{media}; charset=utf-8"),
        operation=f"page_{file.replace('.', '_')}",
        needs=None,
        always_open=True,
        group="Reference",
        summary=f"The page at / ({file})",
        answers={200: ResponseSpec(says="The file", media=media)},
    )


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
    *AGENT_DOORS,
    *SESSION_DOORS,
    *SPACE_DOORS,
    *WORKER_DOORS,
    Route(
        method="POST",
        path="/api/login",
        handler=log_in,
        needs=None,
        takes_key=True,
        group="Identity",
        summary="Exchange the code of a printed link, or a key, for a cookie",
        body=LoginBody,
        body_is_optional=True,
        answers={200: ResponseSpec(says="Signed in", type=SignedIn, headers={"Set-Cookie": "The login"})},
    ),
    Route(
        method="GET",
        path="/api/login",
        handler=show_login,
        needs=ANYBODY_KNOWN,
        group="Identity",
        summary="Who you are, by the cookie or the key",
        answers={200: ResponseSpec(says="Signed in", type=SignedIn)},
    ),
    Route(
        method="POST",
        path="/api/logout",
        handler=log_out,
        needs=None,
        group="Identity",
        summary="End the login of the cookie",
        answers={204: ResponseSpec(says="Signed out")},
    ),
    Route(
        method="GET",
        path="/healthz",
        handler=alive,
        needs=None,
        always_open=True,
        group="Health",
        summary="Whether the process lives",
        answers={200: ResponseSpec(says="It does", type=Alive)},
    ),
    Route(
        method="GET",
        path="/readyz",
        handler=readiness,
        needs=None,
        always_open=True,
        takes_key=True,
        group="Health",
        summary="Whether calls can be taken; with a key, the state of each source",
        answers={
            200: ResponseSpec(says="Ready", type=Readiness),
            503: ResponseSpec(says="Not ready", type=Readiness),
        },
    ),
    Route(
        method="GET",
        path="/metrics",
        handler=metrics,
        group="Health",
        summary="Counts for Prometheus",
        answers={200: ResponseSpec(says="Prometheus text format", media="text/plain")},
    ),
    Route(
        method="GET",
        path="/openapi.json",
        handler=give_document,
        group="Reference",
        summary="This document",
        answers={200: ResponseSpec(says="OpenAPI 3.1", type=dict[str, Any])},
    ),
    *MCP_DOORS,
    *RESPONSE_DOORS,
    Route(
        method="GET",
        path="/",
        handler=show_page,
        needs=None,
        always_open=True,
        group="Reference",
        summary="The console",
        answers={200: ResponseSpec(says="The page", media="text/html")},
    ),
    Route(
        method="GET",
        path="/api/console/tools",
        handler=list_own_modules,
        needs=ANYBODY_KNOWN,
        group="Console",
        summary="The operator's own components for tools",
        answers={200: ResponseSpec(says="Their addresses", type=OwnModules)},
    ),
    Route(
        method="GET",
        path="/api/console/tools/{file}",
        handler=show_own_module,
        needs=ANYBODY_KNOWN,
        group="Console",
        summary="One of the operator's own components",
        answers={200: ResponseSpec(says="The module", media="text/javascript")},
        refusals=(404,),
    ),
    Route(
        method="GET",
        path="/assets/{file}",
        handler=show_asset,
        needs=None,
        always_open=True,
        group="Reference",
        summary="A file of the console",
        answers={200: ResponseSpec(says="The file", media="text/javascript")},
        refusals=(404,),
    ),
    _page("/icon.svg", "icon.svg", "image/svg+xml"),
    _page("/page.css", "page.css", "text/css"),
    _page("/page.js", "page.js", "text/javascript"),
)

SOCKET_DOORS = (
    SocketRoute(path="/api/v1/tools/changes", handler=socket_changes, for_sessions=True, is_discovery=True),
    *RESPONSE_SOCKETS,
)
