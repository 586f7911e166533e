"""Part of the URL map: sessions, and the callers that lend them tools.

Above: `routes.py`. Below: `sessions.py`.
"""

from jackfield.http.routing import HeaderParameter, ResponseSpec, Route
from jackfield.model.principal import Scope
from jackfield.sessions.api import (
    EventsQuery,
    MessageBody,
    OneSession,
    OpenBody,
    SessionList,
    ToolResponseBody,
    end_session,
    list_sessions,
    open_session,
    respond,
    send_message,
    show_events,
    show_session,
)
from jackfield.sessions.records import EventsPage, Opened, ToolResponseTaken

_LAST_EVENT = HeaderParameter(name="Last-Event-ID", says="The last event that you have; the stream goes on after it")

SESSION_DOORS: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/api/sessions",
        handler=open_session,
        needs=Scope.CALL,
        group="Sessions",
        summary="Open a session with an agent, and lend it tools of your own",
        body=OpenBody,
        body_is_optional=True,
        answers={201: ResponseSpec(says="It is open", type=Opened)},
        refusals=(404,),
    ),
    Route(
        method="GET",
        path="/api/sessions",
        handler=list_sessions,
        needs=Scope.CALL,
        group="Sessions",
        summary="The key's own sessions",
        answers={200: ResponseSpec(says="The newest first", type=SessionList)},
    ),
    Route(
        method="GET",
        path="/api/sessions/{id}",
        handler=show_session,
        needs=Scope.CALL,
        group="Sessions",
        summary="One session",
        answers={200: ResponseSpec(says="The session", type=OneSession)},
        refusals=(404,),
    ),
    Route(
        method="DELETE",
        path="/api/sessions/{id}",
        handler=end_session,
        needs=Scope.CALL,
        group="Sessions",
        summary="End a session and everything in it",
        answers={200: ResponseSpec(says="It is over", type=OneSession)},
        refusals=(404,),
    ),
    Route(
        method="POST",
        path="/api/sessions/{id}/messages",
        handler=send_message,
        needs=Scope.CALL,
        group="Sessions",
        summary="Tell the agent something, or declare your tools anew",
        body=MessageBody,
        answers={200: ResponseSpec(says="The agent has it", type=Opened)},
        refusals=(404, 409),
    ),
    Route(
        method="GET",
        path="/api/sessions/{id}/events",
        handler=show_events,
        needs=Scope.CALL,
        group="Sessions",
        summary="What happens in a session: a stream, or with `since_index` what there is",
        query=EventsQuery,
        headers=(_LAST_EVENT,),
        answers={
            200: ResponseSpec(says="The events", type=EventsPage, streams=True),
            204: ResponseSpec(says="The session is over and you have all its events"),
        },
        refusals=(404, 410),
    ),
    Route(
        method="POST",
        path="/api/sessions/{id}/tool-responses",
        handler=respond,
        needs=Scope.CALL,
        group="Sessions",
        summary="Answer what the agent asks of one of your tools",
        body=ToolResponseBody,
        answers={200: ResponseSpec(says="The agent has it", type=ToolResponseTaken)},
        refusals=(404, 409, 410),
    ),
)
