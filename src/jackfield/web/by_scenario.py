"""`POST /api/v1/tools/execute`: a call that names its scenario, as seed 004's consumers make it.

Above: `routes_shelf.py`. Below: the pipeline. The same call as `/{name}/execute` makes; the words around it differ.
"""

from typing import Annotated, Any

from msgspec import Meta, Raw, Struct

from jackfield.calls.requests import CallRequest
from jackfield.model.call import Call, CallStatus
from jackfield.model.ids import new_id
from jackfield.web.answers import Answer, Reply, encode, raw_json_reply
from jackfield.web.bodies import BodyReader
from jackfield.web.execute import answered
from jackfield.web.journeys import continue_journey
from jackfield.web.preferences import Chat, find_tool
from jackfield.web.records import execute_answer
from jackfield.web.visit import Visit


class ScenarioCallBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tool of which scenario, with what, and in which chat."""

    scenario: str
    tool_name: Annotated[str, Meta(min_length=1)]
    arguments: dict[str, Any] = {}
    chat_id: Chat | None = None


class ScenarioCallAnswer(Struct, frozen=True, kw_only=True):
    """What the call came to; a failure is one too, with its words in `error`."""

    success: bool
    call_id: str
    status: CallStatus
    result: Raw | None
    error: str | None
    execution_time_ms: float | None


_body = BodyReader(ScenarioCallBody)


async def execute_by_scenario(visit: Visit) -> Answer:
    """Call the tool and say what came of it."""
    body = await _body.read(visit)
    entry = find_tool(visit, visit.principal, body.scenario, body.tool_name)
    request = CallRequest(
        tool=entry.name,
        arguments=body.arguments,
        principal=visit.principal,
        chat_id=body.chat_id or None,
        within_ms=continue_journey(visit, entry.name),
        through_door=True,
        client_gone=visit.client_gone,
        takes_pending=True,
    )
    call_id = new_id("call")
    call = await visit.gateway.pipeline.call(request, call_id=call_id)
    return answered(visit, call, call_id, reply=_reply)


def _reply(call: Call) -> Reply:
    said = execute_answer(call)
    told = ScenarioCallAnswer(
        success=said.success,
        call_id=said.call_id,
        status=said.status,
        result=said.result,
        error=None if said.error is None else said.error.message,
        execution_time_ms=said.execution_time_ms,
    )
    return raw_json_reply(encode(told), status=200 if said.status.is_final else 202)
