"""From an HTTP request to who makes it, and to the work on it.

Above: the door. Below: sessions and methods. A visit has a key, which the guard has looked at; here it gets a revision,
what its client can do, and in the handshake era a session.
"""

from jackfield.http.request import Request
from jackfield.mcp.caller import Caller
from jackfield.mcp.exchange import McpExchange
from jackfield.mcp.search_tools import HEADER as SEARCH_HEADER
from jackfield.mcp.search_tools import search_above
from jackfield.mcp.sessions import Session
from jackfield.protocol.jsonrpc import INVALID_REQUEST, RpcError
from jackfield.protocol.mcp import INITIALIZE

SESSION_HEADER = b"mcp-session-id"


def begin(visit: Request, exchange: McpExchange, caller: Caller) -> None:
    """Begin to answer. The work goes on, whoever stops listening."""
    work = visit.reception.mcp.answer(caller, exchange)
    exchange.begin(visit.streams.keep(work, name=f"MCP {exchange.request.method[:40]}"))
    if caller.session is not None:
        caller.session.keep(exchange)


def session_of(visit: Request) -> Session:
    """The session that the request names."""
    session_id = visit.header(SESSION_HEADER)
    if session_id is None:
        raise RpcError(INVALID_REQUEST, f"The request has no Mcp-Session-Id. Send '{INITIALIZE}' first.", status=400)
    session = visit.reception.mcp.sessions.find(session_id, visit.principal)
    if session is None:
        raise RpcError(INVALID_REQUEST, f"There is no such session here. Send '{INITIALIZE}' again.", status=404)
    return session


def caller_of(
    visit: Request,
    revision: str,
    *,
    session: Session | None = None,
    capabilities: dict[str, object] | None = None,
    takes_events: bool = False,
) -> Caller:
    configured = visit.gateway.settings.mcp.search_tools_above
    return Caller(
        principal=visit.principal,
        revision=revision,
        capabilities=session.capabilities if session is not None else capabilities or {},
        session=session,
        search_above=search_above(visit.headers.get(SEARCH_HEADER), configured=configured),
        headers=visit.headers,
        takes_events=takes_events,
    )
