"""Sessions over HTTP: open one, speak in it, follow it, answer what its agent asks of you, end it.

Above: `routes_sessions.py`. Below: the sessions' room, and `session_records.py` for what is said of them.
"""

from collections.abc import AsyncGenerator
from contextlib import nullcontext
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from jackfield.calls.execute_api import wants_events
from jackfield.errors import BadRequest, EventsPurged
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Name, Request
from jackfield.http.response import EmptyResponse, Response, json_response
from jackfield.http.sse import CONNECTED, Comment, EventMessage, EventStream
from jackfield.model.principal import Principal
from jackfield.sessions.caller_tools import Declared, read_declared
from jackfield.sessions.events import CALLER_TOOL_REQUEST, SessionEvent
from jackfield.sessions.records import (
    LONGEST_WAIT,
    Opened,
    SessionRecord,
    answer_in,
    events_page,
    opened_session,
    session_record,
    taken,
)
from jackfield.sessions.session import Session

CallerId = Annotated[str, Meta(min_length=1, max_length=64)]


class OpenBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to run, what it is told first, and which tools it is lent. `context` may hold the caller's fields too."""

    agent: Name | None = None
    message: str | None = None
    session_id: Name | None = None
    """One that this key had, to be opened again: it is over, or was lost with its gateway."""
    caller_id: CallerId | None = None
    caller_tools: list[dict[str, Any]] | None = None
    context: dict[str, Any] | None = None

    @property
    def declared(self) -> Declared:
        return read_declared(context=self.context, caller_id=self.caller_id, caller_tools=self.caller_tools)


class MessageBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something for the agent, or its caller's tools anew."""

    message: str | None = None
    caller_id: CallerId | None = None
    caller_tools: list[dict[str, Any]] | None = None
    context: dict[str, Any] | None = None

    @property
    def declared(self) -> Declared:
        return read_declared(context=self.context, caller_id=self.caller_id, caller_tools=self.caller_tools)


class ToolResponseBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to one request: its result, which may be any JSON, null included, or the error that it came to."""

    request_id: Name
    result: Any = UNSET
    error: str | UnsetType | None = UNSET


class OneSession(Struct, frozen=True, kw_only=True):
    """A session in its envelope."""

    session: SessionRecord


class SessionList(Struct, frozen=True, kw_only=True):
    """The newest first, with those that ended lately."""

    sessions: list[SessionRecord]


class EventsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From where on. Given, the answer is JSON unless a stream is asked for; -1 is everything that is kept."""

    since_index: Annotated[int, Meta(ge=-1, description="Events after this one")] | None = None
    max_events: Annotated[int, Meta(ge=1, le=1000, description="How many at most")] | None = None
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT, description="Seconds to wait for an event")] = 0


_open = BodyReader(OpenBody, required=False)
_message = BodyReader(MessageBody)
_response = BodyReader(ToolResponseBody)


async def open_session(visit: Request) -> Response:
    """Open a session, and tell its agent the first message if there is one."""
    body = await _open.read(visit)
    sessions = visit.gateway.sessions
    opened = await opened_session(
        sessions,
        visit.principal,
        agent=body.agent,
        message=body.message,
        declared=body.declared,
        session_id=body.session_id,
    )
    return json_response(opened, status=201)


async def list_sessions(visit: Request) -> Response:
    """One's own; an administrator's, all."""
    found = visit.gateway.sessions.listed(visit.principal)
    return json_response(SessionList(sessions=[session_record(session, visit.principal) for session in found]))


async def show_session(visit: Request) -> Response:
    """How a session is."""
    return json_response(OneSession(session=session_record(_session(visit), visit.principal)))


async def send_message(visit: Request) -> Response:
    """Tell the agent something, or declare the caller's tools anew."""
    session, body = _session(visit), await _message.read(visit)
    declared = body.declared
    if body.message is None and declared.tools is None:
        raise BadRequest("There is neither a message nor tools in this. Send one of them.", param="message")
    before = session.ring.last_index
    await visit.gateway.sessions.message(session, body.message, declared=declared, principal=visit.principal)
    record = session_record(session, visit.principal)
    return json_response(Opened(session_id=session.id, spawned=False, last_event_index=before, session=record))


async def show_events(visit: Request) -> Response:
    """What happens in a session: as a stream, or what there is after an index."""
    session, wanted = _session(visit), visit.query(EventsQuery)
    accept = visit.headers.get(b"accept")
    is_json = wanted.since_index is not None or (accept is not None and b"application/json" in accept)
    if is_json and not wants_events(accept):
        since = -1 if wanted.since_index is None else wanted.since_index
        page = await events_page(session, visit.principal, since=since, limit=wanted.max_events, wait=wanted.wait)
        return json_response(page)
    after = _last_event_id(visit) if wanted.since_index is None else wanted.since_index
    if session.ring.is_closed and after is not None and after >= session.ring.last_index:
        return EmptyResponse(204)  # tells a browser not to come back
    if after is not None:
        session.ring.since(after, limit=1)  # an index that is purged is said before the stream begins
    return EventStream(_stream(session, visit.principal, after), streams=visit.streams)


async def respond(visit: Request) -> Response:
    """The caller's answer to a request of its agent."""
    session, body = _session(visit), await _response.read(visit)
    error = None if body.error is UNSET else body.error
    outcome = answer_in(result=body.result, error=error, is_given=body.error is not UNSET)
    call = await visit.gateway.sessions.answer(session, body.request_id, outcome, principal=visit.principal)
    return json_response(taken(session, call))


async def end_session(visit: Request) -> Response:
    """End it, and everything in it."""
    session = _session(visit)
    await visit.gateway.sessions.end(session)
    return json_response(OneSession(session=session_record(session, visit.principal)))


async def _stream(session: Session, principal: Principal, after: int | None) -> AsyncGenerator[EventMessage | Comment]:
    """From `after` on; without it from the beginning, but for requests that nobody has to answer any more."""
    listening = session.presence.stream() if principal.name == session.owner.name else nullcontext()
    begun_at = session.ring.last_index
    with listening:
        yield CONNECTED
        try:
            async for event in session.ring.follow(-1 if after is None else after):
                if after is None and event.index <= begun_at and _is_settled(session, event):
                    continue
                yield EventMessage(event=event.type, id=str(event.index), data=event)
        except EventsPurged as fault:
            yield EventMessage(event="error", data={"error": {"code": fault.code, "message": fault.message}})


def _is_settled(session: Session, event: SessionEvent) -> bool:
    return event.type == CALLER_TOOL_REQUEST and event.request_id not in session.requests


def _session(visit: Request) -> Session:
    return visit.gateway.sessions.find(visit.part("id"), visit.principal)


def _last_event_id(visit: Request) -> int | None:
    given = visit.header(b"last-event-id")
    if given is None:
        return None
    if not given.isdecimal() or len(given) > len("1000000000000"):
        raise BadRequest(
            "Last-Event-ID is not one that this stream gave. Leave it out to begin.", param="Last-Event-ID"
        )
    return int(given)
