"""Records of sessions, for HTTP and the MCP tools alike.

Above: `api.py` and `mcp/session_tools.py`. Below: `registry.py`.
"""

from contextlib import nullcontext
from typing import Any, Literal

from msgspec import UNSET, Struct

from jackfield.calls.answers import outcome_of
from jackfield.errors import BadRequest
from jackfield.model.call import Call, Done, Failed
from jackfield.model.principal import Principal
from jackfield.model.text import Time, iso_time
from jackfield.sessions.caller_tools import CallerDeclaration
from jackfield.sessions.registry import SessionRegistry
from jackfield.sessions.session import AgentSession, SessionEvent, SessionStatus

LONGEST_WAIT = 30.0
"""Seconds that a poll may wait for an event."""


class SessionRecord(Struct, frozen=True, kw_only=True):
    """A session. The socket is shown to its owner and to administrators, the key to its owner alone."""

    id: str
    agent: str
    kind: Literal["agent", "program"]
    status: str
    error: str | None
    owner: str
    caller_id: str
    tools: list[str]
    caller_is_present: bool
    open_requests: int
    last_event_index: int
    created_at: Time
    socket: str | None
    token: str | None


class Opened(Struct, frozen=True, kw_only=True):
    """The session is there, and its agent has the message. Events come after `last_event_index`."""

    session_id: str
    spawned: bool
    last_event_index: int
    session: SessionRecord


class EventsPage(Struct, frozen=True, kw_only=True):
    """What happened, the oldest first, and how the session is."""

    session_id: str
    status: str
    last_index: int
    events: list[SessionEvent]
    completed: bool
    failed: bool
    error: str | None
    dropped_events: int


class ToolResponseTaken(Struct, frozen=True, kw_only=True):
    """The answer is kept, and the agent has it."""

    success: Literal[True] = True
    session_id: str
    request_id: str
    status: str


async def opened_session(
    sessions: SessionRegistry,
    principal: Principal,
    *,
    agent: str | None,
    message: str | None,
    declared: CallerDeclaration,
    session_id: str | None = None,
) -> Opened:
    session = await sessions.open(principal, agent=agent, declared=declared, session_id=session_id)
    if message is not None:
        await sessions.message(session, message, declared=CallerDeclaration(), principal=principal)
    return Opened(session_id=session.id, spawned=True, last_event_index=-1, session=session_record(session, principal))


async def events_page(
    session: AgentSession, principal: Principal, *, since: int, limit: int | None, wait: float = 0
) -> EventsPage:
    """What there is after an index; with `wait`, as soon as there is something. Asking is a sign of life."""
    buffer = session.events
    if principal.name == session.owner.name:
        session.presence.give_sign()
        session.touch()
    if wait and buffer.last_index <= since:
        is_caller = principal.name == session.owner.name
        with session.presence.waiting() if is_caller else nullcontext():
            await buffer.wait_past(since, within=wait)
    status = session.status
    return EventsPage(
        session_id=session.id,
        status=status.value,
        last_index=buffer.last_index,
        events=buffer.since(since, limit=limit),
        completed=status is SessionStatus.COMPLETED,
        failed=status in (SessionStatus.FAILED, SessionStatus.TIMED_OUT),
        error=session.error,
        dropped_events=buffer.dropped,
    )


def answer_in(*, result: Any, error: str | None, is_given: bool) -> Done | Failed:
    """What a caller answers. The one that is not used may be left out or null; null for both is a result."""
    if result is UNSET and not is_given:
        raise BadRequest("The answer has neither 'result' nor 'error'. Send one of them; null is a result.")
    if error is not None and result is not UNSET and result is not None:
        raise BadRequest("The answer has both 'result' and 'error'. Send one of them.")
    return outcome_of(None if result is UNSET else result, error)


def taken(session: AgentSession, call: Call) -> ToolResponseTaken:
    return ToolResponseTaken(session_id=session.id, request_id=call.id, status=call.status.value)


def session_record(session: AgentSession, principal: Principal) -> SessionRecord:
    is_owner = principal.name == session.owner.name
    return SessionRecord(
        id=session.id,
        agent=session.agent,
        kind=session.kind,
        status=session.status.value,
        error=session.error,
        owner=session.owner.name,
        caller_id=session.caller_tools.caller_id,
        tools=[entry.name for entry in session.caller_tools.entries],
        caller_is_present=session.presence.is_here and not session.status.is_over,
        open_requests=len(session.requests),
        last_event_index=session.events.last_index,
        created_at=iso_time(session.opened_at),
        socket=None if session.socket is None else str(session.socket),
        token=session.token if is_owner and not session.status.is_over else None,
    )
