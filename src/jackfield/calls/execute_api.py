"""`POST /api/v1/tools/{name}/execute`: one call, as JSON or as a stream of its events.

Above: `routes.py`. Below: the pipeline. This is the road that must be fast: one decode, one call, one encode, and the
result passes as the bytes it came in.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from jackfield.agents.permissions import permissions_of
from jackfield.calls.receipts import OwedAnswer, StreamedCall, is_owed
from jackfield.calls.records import event_record, execute_answer
from jackfield.calls.requests import CallRequest
from jackfield.calls.trace_headers import continue_trace_context
from jackfield.catalog.preferences_api import Chat, find_tool
from jackfield.errors import BadRequest
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Name, Request
from jackfield.http.response import BytesResponse, Response, encode, raw_json_response
from jackfield.http.sse import EventMessage, EventStream
from jackfield.http.streams import until_done
from jackfield.model.call import Call, CallStatus
from jackfield.model.ids import new_id

MAX_KEY = 255
IdempotencyKey = Annotated[str, Meta(min_length=1, max_length=MAX_KEY, pattern="^[!-~]+$")]
_sorted = msgspec.json.Encoder(order="sorted").encode


class ExecuteBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of the call, and whose it is."""

    arguments: dict[str, Any] = {}
    agent: Name | None = None
    space_id: Name | None = None
    run_id: Name | None = None
    chat_id: Name | None = None


_body = BodyReader(ExecuteBody, required=False)


async def execute(visit: Request) -> Response:
    """Call the tool and say what came of it."""
    body = await _body.read(visit)
    tool = visit.part("name")
    if body.agent is not None and body.agent not in visit.principal.named("agent"):
        # what comes of the call may go to the agent's inbox, and wake it
        permissions_of(visit).require_may_act(
            visit.principal, [body.agent], what=f"call tools in the name of '{body.agent}'"
        )
    if body.space_id is not None:  # where a visible call is a message like any other
        await permissions_of(visit).require_may_speak(visit.principal, body.space_id)
    within_ms = continue_trace_context(visit, tool)
    request = CallRequest(
        tool=tool,
        arguments=body.arguments,
        principal=visit.principal,
        agent=body.agent,
        space_id=body.space_id,
        chat_id=body.chat_id,
        run_id=body.run_id,
        within_ms=within_ms,
        through_door=True,
        client_gone=visit.client_gone,
        takes_pending=True,
    )
    if (key := visit.headers.get(b"idempotency-key")) is not None:
        request = msgspec.structs.replace(
            request, idempotency_key=_checked_key(key), digest=_digest(request.tool, body)
        )
    if wants_events(visit.headers.get(b"accept")):
        return await _stream(visit, request)
    call_id = new_id("call")
    call = await visit.gateway.pipeline.call(request, call_id=call_id)
    return answered(visit, call, call_id, reply=_answer)


def answered(visit: Request, call: Call, call_id: str, *, reply: Callable[[Call], BytesResponse]) -> Response:
    """The answer to who made the call; the store learns whether it arrived, where it must."""
    answer = reply(call)
    return OwedAnswer(answer, call, visit.gateway.pipeline) if is_owed(call, call_id) else answer


def _answer(call: Call) -> BytesResponse:
    answer = execute_answer(call)
    return raw_json_response(
        encode(answer), status=200 if answer.status.is_final else 202, headers=((b"x-call-id", call.id.encode()),)
    )


def _checked_key(header: bytes) -> str:
    key = header.decode("latin-1")
    if not 1 <= len(key) <= MAX_KEY or any(not "!" <= character <= "~" for character in key):
        raise BadRequest(
            f"The Idempotency-Key must have 1 to {MAX_KEY} visible ASCII characters. A UUID is a good one.",
            param="Idempotency-Key",
        )
    return key


def _digest(tool: str, body: ExecuteBody) -> str:
    """The same for bodies that mean the same, however they are written."""
    return hashlib.sha256(_sorted((tool, body))).hexdigest()


def wants_events(accept: bytes | None) -> bool:
    """Whether a stream is asked for; of a client that takes both, what it names first."""
    if accept is None or b"event-stream" not in accept:
        return False
    stream, json = (accept.find(media) for media in (b"text/event-stream", b"application/json"))
    return stream >= 0 and not 0 <= json < stream


async def _stream(visit: Request, request: CallRequest) -> Response:
    """The call's events, then its answer. What is refused before the first event is an ordinary error."""
    messages = _messages(visit, request, new_id("call"))
    first = await anext(messages)
    headers = ((b"x-call-id", first.data.call_id.encode()),)  # a repeat answers with the call of the first request
    return EventStream(messages, first=first, streams=visit.streams, headers=headers)


async def _messages(visit: Request, request: CallRequest, call_id: str) -> AsyncGenerator[EventMessage]:
    pipeline = visit.gateway.pipeline
    streamed = StreamedCall(pipeline)
    try:
        async with pipeline.events.follow(call_id) as events:
            call = visit.streams.keep(streamed.make(request, call_id=call_id), name=f"Call {call_id}")
            async for event in until_done(events, call):
                yield EventMessage(event=event.type, data=event_record(event))
        answer = execute_answer(await asyncio.shield(call))
        yield EventMessage(event="call.result", data=answer, on_sent=streamed.sent)
    finally:
        await streamed.end()


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


_body_of_by_scenario = BodyReader(ScenarioCallBody)


async def execute_by_scenario(visit: Request) -> Response:
    """Call the tool and say what came of it."""
    body = await _body_of_by_scenario.read(visit)
    entry = find_tool(visit, visit.principal, body.scenario, body.tool_name)
    request = CallRequest(
        tool=entry.name,
        arguments=body.arguments,
        principal=visit.principal,
        chat_id=body.chat_id or None,
        within_ms=continue_trace_context(visit, entry.name),
        through_door=True,
        client_gone=visit.client_gone,
        takes_pending=True,
    )
    call_id = new_id("call")
    call = await visit.gateway.pipeline.call(request, call_id=call_id)
    return answered(visit, call, call_id, reply=_reply)


def _reply(call: Call) -> BytesResponse:
    said = execute_answer(call)
    told = ScenarioCallAnswer(
        success=said.success,
        call_id=said.call_id,
        status=said.status,
        result=said.result,
        error=None if said.error is None else said.error.message,
        execution_time_ms=said.execution_time_ms,
    )
    return raw_json_response(encode(told), status=200 if said.status.is_final else 202)
