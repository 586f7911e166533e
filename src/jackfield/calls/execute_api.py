"""`POST /api/v1/tools/{name}/execute`: one call, as JSON or as a stream of its events.

Below: the pipeline. This path must be fast: one decode, one call, one encode, and the result passes as the bytes it
came in.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from jackfield.calls.pipeline import Pipeline
from jackfield.calls.receipts import OwedAnswer, StreamedCall, is_owed
from jackfield.calls.records import ExecuteAnswer, event_record, execute_answer
from jackfield.calls.requests import CallRequest, request_digest
from jackfield.calls.telemetry import continue_trace_context
from jackfield.catalog.catalog import Catalog
from jackfield.catalog.preferences_api import Chat, find_tool
from jackfield.errors import BadRequest, Refused
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Name, Request
from jackfield.http.response import BytesResponse, Response, encode, raw_json_response
from jackfield.http.routing import HeaderParameter, ResponseSpec, Route
from jackfield.http.sse import EventMessage, EventStream
from jackfield.http.streams import until_done
from jackfield.model.call import Call, CallStatus
from jackfield.model.ids import new_id
from jackfield.model.principal import Principal, Scope
from jackfield.spaces.permissions import AgentRights
from jackfield.store.gateways import Cluster

MAX_KEY = 255
IdempotencyKey = Annotated[str, Meta(min_length=1, max_length=MAX_KEY, pattern="^[!-~]+$")]
_CALL_ID = {"X-Call-Id": "The call's id"}


class ExecuteBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of the call, and whose it is."""

    arguments: dict[str, Any] = {}
    agent: Name | None = None
    space_id: Name | None = None
    run_id: Name | None = None
    chat_id: Name | None = None
    replay_of: Annotated[Name, Meta(description="The call on record that is made again with this one")] | None = None


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
    login_url: str | UnsetType = UNSET
    """For `pending_login`: where to log in so that the call can run."""


_body = BodyReader(ExecuteBody, required=False)
_NO_BODY = ExecuteBody()
_scenario_body = BodyReader(ScenarioCallBody)


class ExecuteApi:
    """Handlers that call tools."""

    def __init__(self, pipeline: Pipeline, *, catalog: Catalog, cluster: Cluster, rights: AgentRights) -> None:
        self._pipeline = pipeline
        self._catalog = catalog
        self._cluster = cluster
        self._rights = rights

    async def execute(self, request: Request) -> Response:
        """Call the tool and say what came of it."""
        tool, body = request.part("name"), _NO_BODY
        try:
            body = await _body.read(request)
            wanted = await self._wanted(request, tool, body)
        except Refused as refusal:
            await self._refused(tool, body.arguments, refusal, request.principal)
            raise
        accept = request.headers.get(b"accept")
        if accept is not None and wants_events(accept):
            return await self._stream(request, wanted)
        call_id = new_id("call")
        call = await self._pipeline.call(wanted, call_id=call_id)
        answer = self._answer(call, wanted)
        headers = ((b"x-call-id", call.id.encode()),)
        response = raw_json_response(encode(answer), status=200 if answer.status.is_final else 202, headers=headers)
        return response if call.waiter is None else self._owed(response, call, call_id)

    async def _wanted(self, request: Request, tool: str, body: ExecuteBody) -> CallRequest:
        """The call that the request asks for. Raises where it may not ask for it so."""
        if body.agent is not None and body.agent not in request.principal.named("agent"):
            # what comes of the call may go to the agent's inbox, and wake it
            self._rights.require_may_act(
                request.principal, [body.agent], what=f"call tools in the name of '{body.agent}'"
            )
        if body.space_id is not None:  # where a visible call is a message like any other
            await self._rights.require_may_speak(request.principal, body.space_id)
        if body.replay_of is not None:
            await self._pipeline.require_visible(body.replay_of, request.principal)
        wanted = CallRequest(
            tool=tool,
            arguments=body.arguments,
            principal=request.principal,
            agent=body.agent,
            space_id=body.space_id,
            chat_id=body.chat_id,
            run_id=body.run_id,
            replay_of=body.replay_of,
            within_ms=continue_trace_context(request.headers, cluster_id=self._cluster.id, tool=tool),
            over_http=True,
            client_gone=request.client_gone,
            takes_pending=True,
        )
        if (key := request.headers.get(b"idempotency-key")) is not None:
            wanted = msgspec.structs.replace(wanted, idempotency_key=_checked_key(key), digest=_digest(tool, body))
        return wanted

    async def refuse(self, request: Request, refusal: Refused) -> None:
        """A key may not call tools at all, or is switched off: its attempt goes on record, without what it sent."""
        tool = request.scope["path_params"].get("name", "(unknown)")
        await self._refused(tool, {}, refusal, request.principal)

    async def _refused(self, tool: str, arguments: dict[str, Any], refusal: Refused, principal: Principal) -> None:
        """Put on record what was refused before it came to a call."""
        await self._pipeline.refused(CallRequest(tool=tool, arguments=arguments, principal=principal), refusal)

    async def execute_by_scenario(self, request: Request) -> Response:
        """Call the tool and say what came of it."""
        body = await _scenario_body.read(request)
        try:
            entry = find_tool(self._catalog.view(request.principal), body.scenario, body.tool_name)
        except Refused as refusal:
            await self._refused(body.tool_name, body.arguments, refusal, request.principal)
            raise
        wanted = CallRequest(
            tool=entry.name,
            arguments=body.arguments,
            principal=request.principal,
            chat_id=body.chat_id or None,
            within_ms=continue_trace_context(request.headers, cluster_id=self._cluster.id, tool=entry.name),
            over_http=True,
            client_gone=request.client_gone,
            takes_pending=True,
        )
        call_id = new_id("call")
        call = await self._pipeline.call(wanted, call_id=call_id)
        answer = self._answer(call, wanted)
        told = ScenarioCallAnswer(
            success=answer.success,
            call_id=answer.call_id,
            status=answer.status,
            result=answer.result,
            error=None if answer.error is None else answer.error.message,
            execution_time_ms=answer.execution_time_ms,
            login_url=answer.login_url,
        )
        response = raw_json_response(encode(told), status=200 if answer.status.is_final else 202)
        return self._owed(response, call, call_id)

    def _answer(self, call: Call, wanted: CallRequest) -> ExecuteAnswer:
        if call.status is not CallStatus.PENDING_LOGIN:
            return execute_answer(call)
        return execute_answer(call, login_url=self._pipeline.login_url(call, principal=wanted.principal))

    def _owed(self, response: BytesResponse, call: Call, call_id: str) -> Response:
        """The response; the store learns whether it arrived, where it must."""
        return OwedAnswer(response, call, self._pipeline) if is_owed(call, call_id) else response

    async def _stream(self, request: Request, wanted: CallRequest) -> Response:
        """The call's events, then its answer. What is refused before the first event is an ordinary error."""
        messages = self._messages(request, wanted, new_id("call"))
        first = await anext(messages)
        headers = ((b"x-call-id", first.data.call_id.encode()),)  # a repeat answers with the call of the first request
        return EventStream(messages, first=first, streams=request.streams, headers=headers)

    async def _messages(self, request: Request, wanted: CallRequest, call_id: str) -> AsyncGenerator[EventMessage]:
        streamed = StreamedCall(self._pipeline)
        try:
            async with self._pipeline.events.follow(call_id) as events:
                call = request.streams.keep(streamed.make(wanted, call_id=call_id), name=f"Call {call_id}")
                async for event in until_done(events, call):
                    yield EventMessage(event=event.type, data=event_record(event))
            answer = self._answer(await asyncio.shield(call), wanted)
            yield EventMessage(event="call.result", data=answer, on_sent=streamed.sent)
        finally:
            await streamed.end()


def wants_events(accept: bytes | None) -> bool:
    """Whether a stream is asked for; of a client that takes both, what it names first."""
    if accept is None or b"event-stream" not in accept:
        return False
    stream, json = (accept.find(media) for media in (b"text/event-stream", b"application/json"))
    return stream >= 0 and not 0 <= json < stream


def _checked_key(header: bytes) -> str:
    key = header.decode("latin-1")
    if not 1 <= len(key) <= MAX_KEY or any(not "!" <= character <= "~" for character in key):
        raise BadRequest(
            f"The Idempotency-Key must have 1 to {MAX_KEY} visible ASCII characters. A UUID is a good one.",
            param="Idempotency-Key",
        )
    return key


def _digest(tool: str, body: ExecuteBody) -> str:
    whose = {"agent": body.agent, "space_id": body.space_id, "run_id": body.run_id, "chat_id": body.chat_id}
    return request_digest(tool, body.arguments, **whose)


def routes(pipeline: Pipeline, *, catalog: Catalog, cluster: Cluster, rights: AgentRights) -> list[Route]:
    """Every route that calls a tool."""
    api = ExecuteApi(pipeline, catalog=catalog, cluster=cluster, rights=rights)
    return [
        Route(
            method="POST",
            path="/api/v1/tools/{name}/execute",
            path_takes_slashes=True,
            handler=api.execute,
            scope=Scope.CALL,
            for_sessions=True,
            on_refused=api.refuse,
            tag="Tools",
            summary="Call a tool",
            headers=(
                HeaderParameter(
                    name="Idempotency-Key",
                    description="The same key with the same body is the same call for 24 hours; "
                    "with another body it is refused",
                    type=IdempotencyKey,
                ),
            ),
            body=ExecuteBody,
            body_is_optional=True,
            responses={
                200: ResponseSpec(
                    description="The call is settled: completed, or failed, which is a result too. With `Accept: "
                    "text/event-stream` the call's events, then `call.result` with the same object",
                    type=ExecuteAnswer,
                    streams=True,
                    headers=_CALL_ID,
                ),
                202: ResponseSpec(
                    description="Somebody else has to answer or approve first, or to log in (`login_url`)",
                    type=ExecuteAnswer,
                    headers=_CALL_ID,
                ),
            },
            errors=(404, 409, 429),
        ),
        Route(
            method="POST",
            path="/api/v1/tools/execute",
            handler=api.execute_by_scenario,
            scope=Scope.CALL,
            on_refused=api.refuse,
            tag="Tools",
            summary="Call a tool by its scenario and name",
            body=ScenarioCallBody,
            responses={
                200: ResponseSpec(description="The call is settled; a failed one too", type=ScenarioCallAnswer),
                202: ResponseSpec(
                    description="Somebody else has to answer or approve first, or to log in (`login_url`)",
                    type=ScenarioCallAnswer,
                ),
            },
            errors=(404, 409, 429),
        ),
    ]
