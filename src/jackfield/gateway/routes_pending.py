"""Part of the URL map: calls that somebody else answers, who answers them, and the inboxes that hear of it.

Above: `routes.py`, which puts all parts in order. Below: the doors themselves.
"""

from typing import Any

from jackfield.calls.answers_api import (
    ApproveBody,
    Asked,
    OneOfBoth,
    ProgressBody,
    RejectBody,
    ResultAnswer,
    approve_call,
    reject_call,
    report_progress,
    show_by_callback,
    submit_by_callback,
    submit_result,
)
from jackfield.calls.records import OneCall
from jackfield.calls.tool_server_api import ToolStreamQuery, stream_tool_calls
from jackfield.http.permissions import ANSWERS, SERVES
from jackfield.http.routing import SSE_MEDIA, ResponseSpec, Route
from jackfield.model.principal import Scope

PENDING_DOORS: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/api/runs/{runId}/tool-results",
        handler=submit_result,
        needs=ANSWERS,
        group="Pending calls",
        summary="Answer a call that waits for its result",
        body=OneOfBoth,
        answers={200: ResponseSpec(says="The result is kept and will reach the agent once", type=ResultAnswer)},
        refusals=(404, 409, 410),
    ),
    Route(
        method="POST",
        path="/api/v1/callbacks/{token}",
        handler=submit_by_callback,
        needs=None,
        group="Pending calls",
        summary="Answer a call by its signed url, once; the body is the result, no body is null",
        body=Any,
        body_is_optional=True,
        answers={200: ResponseSpec(says="The result is kept and will reach the agent once", type=ResultAnswer)},
        refusals=(404, 409, 410),
    ),
    Route(
        method="GET",
        path="/api/v1/callbacks/{token}",
        handler=show_by_callback,
        needs=None,
        group="Pending calls",
        summary="What a signed url is about: exactly what would run or is asked",
        answers={200: ResponseSpec(says="The question", type=Asked)},
        refusals=(404,),
    ),
    Route(
        method="POST",
        path="/api/v1/calls/{id}/progress",
        handler=report_progress,
        needs=ANSWERS,
        group="Pending calls",
        summary="Say how far a call is; extends its deadline and resolves nothing",
        body=ProgressBody,
        answers={200: ResponseSpec(says="The record", type=OneCall)},
        refusals=(404, 409, 410),
    ),
    Route(
        method="POST",
        path="/api/v1/calls/{id}/approve",
        handler=approve_call,
        needs=Scope.ANSWER,
        group="Pending calls",
        summary="Allow a call that waits for approval, perhaps with other arguments",
        body=ApproveBody,
        body_is_optional=True,
        answers={
            200: ResponseSpec(says="The record; the call runs now, or waits for whoever answers it", type=OneCall)
        },
        refusals=(404, 409, 410),
    ),
    Route(
        method="POST",
        path="/api/v1/calls/{id}/reject",
        handler=reject_call,
        needs=Scope.ANSWER,
        group="Pending calls",
        summary="Refuse a call that waits for approval",
        body=RejectBody,
        body_is_optional=True,
        answers={200: ResponseSpec(says="The record of the refused call", type=OneCall)},
        refusals=(404, 409, 410),
    ),
    Route(
        method="GET",
        path="/api/tools/stream",
        handler=stream_tool_calls,
        needs=SERVES,
        group="Pending calls",
        summary="The calls that an external tool server is to answer, live",
        query=ToolStreamQuery,
        answers={200: ResponseSpec(says="`connected`, then `tool.call` frames", media=SSE_MEDIA)},
    ),
)
