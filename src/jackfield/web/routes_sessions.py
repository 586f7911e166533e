"""Part of the URL map: sessions, and the callers that lend them tools.

Above: `routes.py`. Below: `sessions.py`.
"""

from jackfield.model.principal import Scope
from jackfield.web import session_records, sessions
from jackfield.web.door import Body, Door, HeaderParameter

_LAST_EVENT = HeaderParameter(name="Last-Event-ID", says="The last event that you have; the stream goes on after it")

SESSION_DOORS: tuple[Door, ...] = (
    Door(
        method="POST",
        path="/api/sessions",
        handler=sessions.open_session,
        needs=Scope.CALL,
        group="Sessions",
        summary="Open a session with an agent, and lend it tools of your own",
        body=sessions.OpenBody,
        body_is_optional=True,
        answers={201: Body(says="It is open", type=session_records.Opened)},
        refusals=(404,),
    ),
    Door(
        method="GET",
        path="/api/sessions",
        handler=sessions.list_sessions,
        needs=Scope.CALL,
        group="Sessions",
        summary="The key's own sessions",
        answers={200: Body(says="The newest first", type=sessions.SessionList)},
    ),
    Door(
        method="GET",
        path="/api/sessions/{id}",
        handler=sessions.show_session,
        needs=Scope.CALL,
        group="Sessions",
        summary="One session",
        answers={200: Body(says="The session", type=sessions.OneSession)},
        refusals=(404,),
    ),
    Door(
        method="DELETE",
        path="/api/sessions/{id}",
        handler=sessions.end_session,
        needs=Scope.CALL,
        group="Sessions",
        summary="End a session and everything in it",
        answers={200: Body(says="It is over", type=sessions.OneSession)},
        refusals=(404,),
    ),
    Door(
        method="POST",
        path="/api/sessions/{id}/messages",
        handler=sessions.send_message,
        needs=Scope.CALL,
        group="Sessions",
        summary="Tell the agent something, or declare your tools anew",
        body=sessions.MessageBody,
        answers={200: Body(says="The agent has it", type=session_records.Opened)},
        refusals=(404, 409),
    ),
    Door(
        method="GET",
        path="/api/sessions/{id}/events",
        handler=sessions.show_events,
        needs=Scope.CALL,
        group="Sessions",
        summary="What happens in a session: a stream, or with `since_index` what there is",
        query=sessions.EventsQuery,
        headers=(_LAST_EVENT,),
        answers={
            200: Body(says="The events", type=session_records.EventsPage, streams=True),
            204: Body(says="The session is over and you have all its events"),
        },
        refusals=(404, 410),
    ),
    Door(
        method="POST",
        path="/api/sessions/{id}/tool-responses",
        handler=sessions.respond,
        needs=Scope.CALL,
        group="Sessions",
        summary="Answer what the agent asks of one of your tools",
        body=sessions.ToolResponseBody,
        answers={200: Body(says="The agent has it", type=session_records.ToolResponseTaken)},
        refusals=(404, 409, 410),
    ),
)
