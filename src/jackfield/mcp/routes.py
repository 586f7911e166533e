"""The three methods of `/mcp`, as the table of all doors has them."""

from typing import Any

from jackfield.http.routing import SSE_MEDIA, HeaderParameter, ResponseSpec, Route
from jackfield.mcp.api import delete_mcp, get_mcp, post_mcp

_VERSION = HeaderParameter(name="MCP-Protocol-Version", says="The revision of MCP that the client speaks")
_SESSION = HeaderParameter(name="Mcp-Session-Id", says="The session, for revisions up to 2025-11-25")
_FAULT = "A JSON-RPC error that says what is wrong with the message"
_NO_SESSION = "A JSON-RPC error: no such session here, or no such method"

MCP_DOORS: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/mcp",
        handler=post_mcp,
        for_sessions=True,
        group="MCP",
        summary="One message of the Model Context Protocol; `tools/call` needs the scope `call`",
        headers=(
            _VERSION,
            _SESSION,
            HeaderParameter(
                name="Jackfield-Search-Above",
                says="List `search_tools` instead of the tools when there are more than so many; 0: never",
            ),
        ),
        body=dict[str, Any],
        answers={
            200: ResponseSpec(
                says="The JSON-RPC response, or events of which it is the last",
                type=dict[str, Any],
                streams=True,
                headers={"Mcp-Session-Id": "The new session, in the answer to `initialize`"},
            ),
            202: ResponseSpec(says="A notification or a response was taken"),
            400: ResponseSpec(says=_FAULT, type=dict[str, Any]),
            403: ResponseSpec(says="The key may not do this", type=dict[str, Any]),
            404: ResponseSpec(says=_NO_SESSION, type=dict[str, Any]),
            406: ResponseSpec(says="The client does not accept JSON", type=dict[str, Any]),
        },
    ),
    Route(
        method="GET",
        path="/mcp",
        handler=get_mcp,
        for_sessions=True,
        group="MCP",
        summary="The stream of a session, for revisions up to 2025-11-25",
        headers=(_VERSION, _SESSION),
        answers={
            200: ResponseSpec(says="`notifications/tools/list_changed`, as it happens", media=SSE_MEDIA),
            400: ResponseSpec(says=_FAULT, type=dict[str, Any]),
            404: ResponseSpec(says=_NO_SESSION, type=dict[str, Any]),
        },
    ),
    Route(
        method="DELETE",
        path="/mcp",
        handler=delete_mcp,
        for_sessions=True,
        group="MCP",
        summary="End a session, for revisions up to 2025-11-25",
        headers=(_SESSION,),
        answers={
            204: ResponseSpec(says="It is over"),
            400: ResponseSpec(says=_FAULT, type=dict[str, Any]),
            404: ResponseSpec(says=_NO_SESSION, type=dict[str, Any]),
        },
    ),
)
