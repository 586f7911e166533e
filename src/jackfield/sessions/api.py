"""Sessions over HTTP: open, message, follow, answer tool requests, end.

Above: the URL map. Below: `registry.py`, and `records.py` for the records.
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
from jackfield.http.routing import HeaderParameter, ResponseSpec, Route
from jackfield.http.sse import CONNECTED, Comment, EventMessage, EventStream
from jackfield.model.principal import Principal, Scope
from jackfield.sessions.caller_tools import CallerDeclaration, read_declared
from jackfield.sessions.records import (
    LONGEST_WAIT,
    EventsPage,
    Opened,
    SessionRecord,
    ToolResponseTaken,
    answer_in,
    events_page,
    opened_session,
    session_record,
    taken,
)
from jackfield.sessions.registry import SessionRegistry
from jackfield.sessions.session import CALLER_TOOL_REQUEST, AgentSession, SessionEvent

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
    def declared(self) -> CallerDeclaration:
        return read_declared(context=self.context, caller_id=self.caller_id, caller_tools=self.caller_tools)


class SessionMessageBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something for the agent, or its caller's tools anew."""

    message: str | None = None
    caller_id: CallerId | None = None
    caller_tools: list[dict[str, Any]] | None = None
    context: dict[str, Any] | None = None

    @property
    def declared(self) -> CallerDeclaration:
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
_message = BodyReader(SessionMessageBody)
_response = BodyReader(ToolResponseBody)


_LAST_EVENT = HeaderParameter(
    name="Last-Event-ID", description="The last event that you have; the stream goes on after it"
)


class SessionApi:
    """Handlers of `/api/sessions`."""

    def __init__(self, sessions: SessionRegistry) -> None:
        self._sessions = sessions

    async def open_session(self, request: Request) -> Response:
        """Open a session, and tell its agent the first message if there is one."""
        body = await _open.read(request)
        if body.session_id is not None and request.has_neighbours:
            request.hand_over(await self._sessions.home_of(body.session_id))
        opened = await opened_session(
            self._sessions,
            request.principal,
            agent=body.agent,
            message=body.message,
            declared=body.declared,
            session_id=body.session_id,
        )
        return json_response(opened, status=201)

    async def list_sessions(self, request: Request) -> Response:
        """One's own; an administrator's, all."""
        found = self._sessions.listed(request.principal)
        return json_response(SessionList(sessions=[session_record(session, request.principal) for session in found]))

    async def show_session(self, request: Request) -> Response:
        """How a session is."""
        session = await self._session(request)
        return json_response(OneSession(session=session_record(session, request.principal)))

    async def send_message(self, request: Request) -> Response:
        """Tell the agent something, or declare the caller's tools anew."""
        session, body = await self._session(request), await _message.read(request)
        declared = body.declared
        if body.message is None and declared.tools is None:
            raise BadRequest("There is neither a message nor tools in this. Send one of them.", param="message")
        before = session.events.last_index
        await self._sessions.message(session, body.message, declared=declared, principal=request.principal)
        record = session_record(session, request.principal)
        return json_response(Opened(session_id=session.id, spawned=False, last_event_index=before, session=record))

    async def show_events(self, request: Request) -> Response:
        """What happens in a session: as a stream, or what there is after an index."""
        session, wanted = await self._session(request), request.query(EventsQuery)
        accept = request.headers.get(b"accept")
        is_json = wanted.since_index is not None or (accept is not None and b"application/json" in accept)
        if is_json and not wants_events(accept):
            since = -1 if wanted.since_index is None else wanted.since_index
            page = await events_page(session, request.principal, since=since, limit=wanted.max_events, wait=wanted.wait)
            return json_response(page)
        after = _last_event_id(request) if wanted.since_index is None else wanted.since_index
        if session.events.is_closed and after is not None and after >= session.events.last_index:
            return EmptyResponse(204)  # tells a browser not to come back
        if after is not None:
            session.events.since(after, limit=1)  # an index that is purged is said before the stream begins
        return EventStream(_stream(session, request.principal, after), streams=request.streams)

    async def respond(self, request: Request) -> Response:
        """The caller's answer to a request of its agent."""
        session, body = await self._session(request), await _response.read(request)
        error = None if body.error is UNSET else body.error
        outcome = answer_in(result=body.result, error=error, is_given=body.error is not UNSET)
        call = await self._sessions.answer(session, body.request_id, outcome, principal=request.principal)
        return json_response(taken(session, call))

    async def end_session(self, request: Request) -> Response:
        """End it, and everything in it."""
        session = await self._session(request)
        await self._sessions.end(session)
        return json_response(OneSession(session=session_record(session, request.principal)))

    async def _session(self, request: Request) -> AgentSession:
        if request.has_neighbours:
            request.hand_over(await self._sessions.home_of(request.part("id")))
        return self._sessions.find(request.part("id"), request.principal)


async def _stream(
    session: AgentSession, principal: Principal, after: int | None
) -> AsyncGenerator[EventMessage | Comment]:
    """From `after` on; without it from the beginning, but for requests that nobody has to answer any more."""
    listening = session.presence.stream() if principal.name == session.owner.name else nullcontext()
    begun_at = session.events.last_index
    with listening:
        yield CONNECTED
        try:
            async for event in session.events.follow(-1 if after is None else after):
                if after is None and event.index <= begun_at and _is_settled(session, event):
                    continue
                yield EventMessage(event=event.type, id=str(event.index), data=event)
        except EventsPurged as fault:
            yield EventMessage(event="error", data={"error": {"code": fault.code, "message": fault.message}})


def _is_settled(session: AgentSession, event: SessionEvent) -> bool:
    return event.type == CALLER_TOOL_REQUEST and event.request_id not in session.requests


def _last_event_id(request: Request) -> int | None:
    given = request.header(b"last-event-id")
    if given is None:
        return None
    if not given.isdecimal() or len(given) > len("1000000000000"):
        raise BadRequest(
            "Last-Event-ID is not an id of this stream. Leave it out to start from the beginning.",
            param="Last-Event-ID",
        )
    return int(given)


def routes(sessions: SessionRegistry) -> list[Route]:
    """Every route of sessions."""
    api = SessionApi(sessions)
    return [
        Route(
            method="POST",
            path="/api/sessions",
            handler=api.open_session,
            scope=Scope.CALL,
            tag="Sessions",
            summary="Open a session with an agent, and lend it tools of your own",
            body=OpenBody,
            body_is_optional=True,
            responses={201: ResponseSpec(description="It is open", type=Opened)},
            errors=(404,),
        ),
        Route(
            method="GET",
            path="/api/sessions",
            handler=api.list_sessions,
            scope=Scope.CALL,
            tag="Sessions",
            summary="The key's own sessions",
            responses={200: ResponseSpec(description="The newest first", type=SessionList)},
        ),
        Route(
            method="GET",
            path="/api/sessions/{id}",
            handler=api.show_session,
            scope=Scope.CALL,
            tag="Sessions",
            summary="One session",
            responses={200: ResponseSpec(description="The session", type=OneSession)},
            errors=(404,),
        ),
        Route(
            method="DELETE",
            path="/api/sessions/{id}",
            handler=api.end_session,
            scope=Scope.CALL,
            tag="Sessions",
            summary="End a session and everything in it",
            responses={200: ResponseSpec(description="It is over", type=OneSession)},
            errors=(404,),
        ),
        Route(
            method="POST",
            path="/api/sessions/{id}/messages",
            handler=api.send_message,
            scope=Scope.CALL,
            tag="Sessions",
            summary="Tell the agent something, or declare your tools anew",
            body=SessionMessageBody,
            responses={200: ResponseSpec(description="The agent has it", type=Opened)},
            errors=(404, 409),
        ),
        Route(
            method="GET",
            path="/api/sessions/{id}/events",
            handler=api.show_events,
            scope=Scope.CALL,
            tag="Sessions",
            summary="What happens in a session: a stream, or with `since_index` what there is",
            query=EventsQuery,
            headers=(_LAST_EVENT,),
            responses={
                200: ResponseSpec(description="The events", type=EventsPage, streams=True),
                204: ResponseSpec(description="The session is over and you have all its events"),
            },
            errors=(404, 410),
        ),
        Route(
            method="POST",
            path="/api/sessions/{id}/tool-responses",
            handler=api.respond,
            scope=Scope.CALL,
            tag="Sessions",
            summary="Answer what the agent asks of one of your tools",
            body=ToolResponseBody,
            responses={200: ResponseSpec(description="The agent has it", type=ToolResponseTaken)},
            errors=(404, 409, 410),
        ),
    ]
