"""Part of the URL map: calls that somebody else answers, who answers them, and the inboxes that hear of it.

Above: `routes.py`, which puts all parts in order. Below: the doors themselves.
"""

from typing import Any

from jackfield.model.principal import Scope
from jackfield.web import approvals, inboxes, results, tool_stream
from jackfield.web.door import SSE_MEDIA, Body, Door
from jackfield.web.needs import ANSWERS, HAS_INBOX, SERVES
from jackfield.web.records import OneCall

PENDING_DOORS: tuple[Door, ...] = (
    Door(
        method="POST",
        path="/api/runs/{runId}/tool-results",
        handler=results.submit_result,
        needs=ANSWERS,
        group="Pending calls",
        summary="Answer a call that waits for its result",
        body=results.OneOfBoth,
        answers={200: Body(says="The result is kept and will reach the agent once", type=results.ResultAnswer)},
        refusals=(404, 409, 410),
    ),
    Door(
        method="POST",
        path="/api/v1/callbacks/{token}",
        handler=results.submit_by_callback,
        needs=None,
        group="Pending calls",
        summary="Answer a call by its signed url, once; the body is the result, no body is null",
        body=Any,
        body_is_optional=True,
        answers={200: Body(says="The result is kept and will reach the agent once", type=results.ResultAnswer)},
        refusals=(404, 409, 410),
    ),
    Door(
        method="GET",
        path="/api/v1/callbacks/{token}",
        handler=results.show_by_callback,
        needs=None,
        group="Pending calls",
        summary="What a signed url is about: exactly what would run or is asked",
        answers={200: Body(says="The question", type=results.Asked)},
        refusals=(404,),
    ),
    Door(
        method="POST",
        path="/api/v1/calls/{id}/progress",
        handler=results.report_progress,
        needs=ANSWERS,
        group="Pending calls",
        summary="Say how far a call is; extends its deadline and resolves nothing",
        body=results.ProgressBody,
        answers={200: Body(says="The record", type=OneCall)},
        refusals=(404, 409, 410),
    ),
    Door(
        method="POST",
        path="/api/v1/calls/{id}/approve",
        handler=approvals.approve_call,
        needs=Scope.ANSWER,
        group="Pending calls",
        summary="Allow a call that waits for approval, perhaps with other arguments",
        body=approvals.ApproveBody,
        body_is_optional=True,
        answers={200: Body(says="The record; the call runs now, or waits for whoever answers it", type=OneCall)},
        refusals=(404, 409, 410),
    ),
    Door(
        method="POST",
        path="/api/v1/calls/{id}/reject",
        handler=approvals.reject_call,
        needs=Scope.ANSWER,
        group="Pending calls",
        summary="Refuse a call that waits for approval",
        body=approvals.RejectBody,
        body_is_optional=True,
        answers={200: Body(says="The record of the refused call", type=OneCall)},
        refusals=(404, 409, 410),
    ),
    Door(
        method="GET",
        path="/api/tools/stream",
        handler=tool_stream.stream_tool_calls,
        needs=SERVES,
        group="Pending calls",
        summary="The calls that an external tool server is to answer, live",
        query=tool_stream.ToolStreamQuery,
        answers={200: Body(says="`connected`, then `tool.call` frames", media=SSE_MEDIA)},
    ),
    Door(
        method="GET",
        path="/api/agents/{id}/inbox",
        handler=inboxes.show_inbox,
        needs=HAS_INBOX,
        group="Agents",
        summary="What an agent has been told, the oldest first",
        query=inboxes.InboxQuery,
        answers={200: Body(says="A page of events", type=inboxes.InboxPage)},
        refusals=(404,),
    ),
    Door(
        method="POST",
        path="/api/agents/{id}/trigger",
        handler=inboxes.trigger_agent,
        needs=Scope.CALL,
        group="Agents",
        summary="Tell an agent something, in a service's name",
        body=inboxes.TriggerBody,
        answers={200: Body(says="The event is in the inbox", type=inboxes.Triggered)},
        refusals=(404,),
    ),
)
