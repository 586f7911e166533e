"""The whole URL map: every door, who may pass, what it takes and answers. Served, checked and documented from here.

Above: `server.py`. Below: one module per kind of door. The first match counts, so the busiest door is the first.
"""

from typing import Any

from jackfield.model.large_result import ResultPage
from jackfield.model.principal import Scope
from jackfield.web import calls, changes, console, execute, health, large_results, login, tools
from jackfield.web.door import SSE_MEDIA, Body, Door, HeaderParameter, SocketDoor
from jackfield.web.mcp.routes import MCP_DOORS
from jackfield.web.needs import ANYBODY_KNOWN, SEES_CALLS
from jackfield.web.openapi import give_document
from jackfield.web.page import static_file
from jackfield.web.records import CallPage, ExecuteAnswer, OneCall
from jackfield.web.responses.routes import RESPONSE_DOORS, RESPONSE_SOCKETS
from jackfield.web.routes_agents import AGENT_DOORS
from jackfield.web.routes_pending import PENDING_DOORS
from jackfield.web.routes_pins import PIN_DOORS
from jackfield.web.routes_sessions import SESSION_DOORS
from jackfield.web.routes_shelf import PREFERENCE_DOORS, SHELF_DOORS
from jackfield.web.routes_spaces import SPACE_DOORS
from jackfield.web.routes_workers import WORKER_DOORS

_CALL_ID = {"X-Call-Id": "The call's id"}


def _page(path: str, file: str, media: str) -> Door:
    return Door(
        method="GET",
        path=path,
        handler=static_file(file, f"{media}; charset=utf-8"),
        operation=f"page_{file.replace('.', '_')}",
        needs=None,
        always_open=True,
        group="Reference",
        summary=f"The page at / ({file})",
        answers={200: Body(says="The file", media=media)},
    )


DOORS: tuple[Door, ...] = (
    Door(
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
            200: Body(
                says="The call is settled: completed, or failed, which is a result too. With `Accept: "
                "text/event-stream` the call's events, then `call.result` with the same object",
                type=ExecuteAnswer,
                streams=True,
                headers=_CALL_ID,
            ),
            202: Body(says="Somebody else has to answer or approve first", type=ExecuteAnswer, headers=_CALL_ID),
        },
        refusals=(404, 409, 429),
    ),
    Door(
        method="GET",
        path="/api/v1/tools",
        handler=tools.list_tools,
        for_sessions=True,
        is_discovery=True,
        group="Tools",
        summary="The manifest of all tools that the key may see",
        headers=(HeaderParameter(name="If-None-Match", says="The ETag of the manifest that you have"),),
        answers={
            200: Body(says="The manifest", type=tools.Manifest, headers={"ETag": "Changes with any definition"}),
            304: Body(says="You have it"),
        },
    ),
    Door(
        method="GET",
        path="/api/v1/tools/search",
        handler=tools.search_tools,
        for_sessions=True,
        is_discovery=True,
        group="Tools",
        summary="Find tools by words",
        query=tools.SearchQuery,
        answers={200: Body(says="The best matches first", type=tools.FoundTools)},
    ),
    Door(
        method="GET",
        path="/api/v1/tools/changes",
        handler=changes.stream_changes,
        for_sessions=True,
        is_discovery=True,
        group="Tools",
        summary="Changes of the catalog, live (also as WebSocket)",
        answers={200: Body(says="`connected`, then `tools.changed` events", media=SSE_MEDIA)},
    ),
    *PREFERENCE_DOORS,
    *PIN_DOORS,
    Door(
        method="GET",
        path="/api/v1/tools/{name}",
        path_takes_slashes=True,
        handler=tools.show_tool,
        for_sessions=True,
        is_discovery=True,
        group="Tools",
        summary="One tool",
        answers={200: Body(says="The tool", type=tools.ToolEntry)},
        refusals=(404,),
    ),
    *SHELF_DOORS,
    Door(
        method="GET",
        path="/api/v1/calls",
        handler=calls.list_calls,
        needs=SEES_CALLS,
        group="Calls",
        summary="The records of calls, newest first",
        query=calls.CallsQuery,
        answers={200: Body(says="A page of records", type=CallPage)},
    ),
    Door(
        method="GET",
        path="/api/v1/calls/stream",
        handler=calls.follow_calls,
        needs=SEES_CALLS,
        group="Calls",
        summary="What happens to calls, live",
        query=calls.StreamQuery,
        answers={200: Body(says="One event per change of a call", media=SSE_MEDIA)},
    ),
    Door(
        method="GET",
        path="/api/v1/calls/{id}",
        handler=calls.show_call,
        needs=SEES_CALLS,
        group="Calls",
        summary="The record of one call, at once or when it is settled",
        query=calls.OneCallQuery,
        answers={200: Body(says="The record", type=OneCall)},
        refusals=(404,),
    ),
    Door(
        method="GET",
        path="/api/v1/calls/{id}/result",
        handler=large_results.show_result,
        needs=SEES_CALLS,
        group="Calls",
        summary="The result of a settled call as JSON text, page by page: for results too large for the record",
        query=large_results.ResultQuery,
        answers={200: Body(says="A page; joined, they are the text that the digest is of", type=ResultPage)},
        refusals=(404, 409),
    ),
    Door(
        method="POST",
        path="/api/v1/calls/{id}/cancel",
        handler=calls.cancel_call,
        needs=Scope.CALL,
        group="Calls",
        summary="Stop a call",
        answers={200: Body(says="The record of the stopped call", type=OneCall)},
        refusals=(404, 409),
    ),
    *PENDING_DOORS,
    *AGENT_DOORS,
    *SESSION_DOORS,
    *SPACE_DOORS,
    *WORKER_DOORS,
    Door(
        method="POST",
        path="/api/login",
        handler=login.log_in,
        needs=None,
        takes_key=True,
        group="Identity",
        summary="Exchange the code of a printed link, or a key, for a cookie",
        body=login.LoginBody,
        body_is_optional=True,
        answers={200: Body(says="Signed in", type=login.SignedIn, headers={"Set-Cookie": "The login"})},
    ),
    Door(
        method="GET",
        path="/api/login",
        handler=login.show_login,
        needs=ANYBODY_KNOWN,
        group="Identity",
        summary="Who you are, by the cookie or the key",
        answers={200: Body(says="Signed in", type=login.SignedIn)},
    ),
    Door(
        method="POST",
        path="/api/logout",
        handler=login.log_out,
        needs=None,
        group="Identity",
        summary="End the login of the cookie",
        answers={204: Body(says="Signed out")},
    ),
    Door(
        method="GET",
        path="/healthz",
        handler=health.alive,
        needs=None,
        always_open=True,
        group="Health",
        summary="Whether the process lives",
        answers={200: Body(says="It does", type=health.Alive)},
    ),
    Door(
        method="GET",
        path="/readyz",
        handler=health.readiness,
        needs=None,
        always_open=True,
        takes_key=True,
        group="Health",
        summary="Whether calls can be taken; with a key, the state of each source",
        answers={
            200: Body(says="Ready", type=health.Readiness),
            503: Body(says="Not ready", type=health.Readiness),
        },
    ),
    Door(
        method="GET",
        path="/metrics",
        handler=health.metrics,
        group="Health",
        summary="Counts for Prometheus",
        answers={200: Body(says="Prometheus text format", media="text/plain")},
    ),
    Door(
        method="GET",
        path="/openapi.json",
        handler=give_document,
        group="Reference",
        summary="This document",
        answers={200: Body(says="OpenAPI 3.1", type=dict[str, Any])},
    ),
    *MCP_DOORS,
    *RESPONSE_DOORS,
    Door(
        method="GET",
        path="/",
        handler=console.show_page,
        needs=None,
        always_open=True,
        group="Reference",
        summary="The console",
        answers={200: Body(says="The page", media="text/html")},
    ),
    Door(
        method="GET",
        path="/api/console/tools",
        handler=console.list_own_modules,
        needs=ANYBODY_KNOWN,
        group="Console",
        summary="The operator's own components for tools",
        answers={200: Body(says="Their addresses", type=console.OwnModules)},
    ),
    Door(
        method="GET",
        path="/api/console/tools/{file}",
        handler=console.show_own_module,
        needs=ANYBODY_KNOWN,
        group="Console",
        summary="One of the operator's own components",
        answers={200: Body(says="The module", media="text/javascript")},
        refusals=(404,),
    ),
    Door(
        method="GET",
        path="/assets/{file}",
        handler=console.show_asset,
        needs=None,
        always_open=True,
        group="Reference",
        summary="A file of the console",
        answers={200: Body(says="The file", media="text/javascript")},
        refusals=(404,),
    ),
    _page("/icon.svg", "icon.svg", "image/svg+xml"),
    _page("/page.css", "page.css", "text/css"),
    _page("/page.js", "page.js", "text/javascript"),
)

SOCKET_DOORS = (
    SocketDoor(path="/api/v1/tools/changes", handler=changes.socket_changes, for_sessions=True, is_discovery=True),
    *RESPONSE_SOCKETS,
)
