"""`tools/call`: from a request to the pipeline and back, with progress, log messages and elicitation in between.

Above: `server.py`. Below: the pipeline. A refusal that a model can act on is a result with `isError`; only an unknown
tool is a protocol error.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from jackfield.calls.pipeline import Pipeline
from jackfield.calls.receipts import StreamedCall
from jackfield.calls.requests import CallRequest
from jackfield.calls.telemetry import continue_trace
from jackfield.catalog.catalog import Catalog
from jackfield.errors import AlreadyResolved, CallNotFound, Refused, ToolNotFound
from jackfield.http.response import encode
from jackfield.http.streams import until_done
from jackfield.mcp.exchange import McpExchange
from jackfield.mcp.headers import check_param_headers
from jackfield.mcp.results import call_result, refusal_result, stamped
from jackfield.mcp.sessions import Caller
from jackfield.model.call import Call, CallStatus
from jackfield.model.ids import new_id
from jackfield.model.principal import Principal
from jackfield.protocol.jsonrpc import (
    INVALID_PARAMS,
    RequestId,
    RpcError,
    RpcRequest,
    notification,
    object_param,
    request,
)
from jackfield.protocol.mcp import CANCELLED, LOG_LEVELS, MODERN, WITH_ELICITATION_MODES
from jackfield.sources.base import Elicit, ElicitAnswer, ElicitRequest, LogNote, Progress

log = logging.getLogger(__name__)

LOG_LEVEL = "io.modelcontextprotocol/logLevel"

CANCEL_PAUSE = 0.02
CANCEL_TRIES = 100
CREATE = "elicitation/create"
_CANCELLED = ElicitAnswer(action="cancel")


class _Said(Struct, frozen=True):
    """What a client sends back."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class Waiting(Struct, frozen=True, kw_only=True):
    """A call that waits for its client to come back."""

    exchange: McpExchange
    caller: str
    """The key that made it; no other may go on with it."""
    key: str
    """Under which the question stands; the answer stands under the same."""
    result: bytes
    """The question, as it was put."""
    answer: "asyncio.Future[ElicitAnswer]"


class Questions:
    """Elicitation. Questions of 2026-07-28 wait here until the client comes back."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}

    def asker(self, caller: Caller, exchange: McpExchange) -> Elicit | None:
        """How this client is asked; None when it cannot be."""
        able = caller.capabilities.get("elicitation")
        if not isinstance(able, dict):
            return None
        ask: Callable[[McpExchange, Caller, ElicitRequest], Any] = self._ask_by_result
        if not caller.is_modern:
            if caller.session is None or not caller.takes_events:
                return None
            ask = _ask_on_stream

        async def elicit(question: ElicitRequest) -> ElicitAnswer:
            if not _can_ask(question, able):
                return _CANCELLED
            answer: ElicitAnswer = await ask(exchange, caller, question)
            return answer

        return elicit

    def returned(self, asked: RpcRequest, caller: Caller) -> Waiting | None:
        """The call that a request goes on with; None for a request that begins one."""
        state = asked.params.get("requestState")
        if state is None:
            return None
        waiting = self._waiting.get(state) if isinstance(state, str) else None
        if waiting is None or waiting.caller != caller.principal.name or not _same(waiting.exchange.request, asked):
            raise RpcError(
                INVALID_PARAMS,
                "'params.requestState' names no call that waits here: it is over, was made at another gateway, or is "
                "another call's. Call the tool again without it.",
            )
        return waiting

    async def _ask_by_result(self, exchange: McpExchange, caller: Caller, question: ElicitRequest) -> ElicitAnswer:
        state, params = secrets.token_urlsafe(24), _params(question, MODERN)
        members = {"inputRequests": {question.key: {"method": CREATE, "params": params}}, "requestState": state}
        result = stamped(encode(members)[1:-1], revision=MODERN, kind="input_required")
        answer: asyncio.Future[ElicitAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[state] = Waiting(
            exchange=exchange, caller=caller.principal.name, key=question.key, result=result, answer=answer
        )
        exchange.give_interim(result)
        try:
            return await answer
        finally:
            del self._waiting[state]


def answer_in(asked: RpcRequest, key: str) -> ElicitAnswer | None:
    """The answer to this question, if the request carries it."""
    responses = asked.params.get("inputResponses")
    if not isinstance(responses, dict) or key not in responses:
        return None
    try:
        said = msgspec.convert(responses[key], _Said)
    except msgspec.ValidationError as fault:
        raise RpcError(INVALID_PARAMS, f"'params.inputResponses.{key}' is invalid: {fault}.") from None
    return ElicitAnswer(action=said.action, content=said.content)


async def _ask_on_stream(exchange: McpExchange, caller: Caller, question: ElicitRequest) -> ElicitAnswer:
    session = caller.session
    assert session is not None
    request_id: RequestId = f"jackfield-{secrets.token_hex(8)}"
    said: asyncio.Future[Raw | None] = asyncio.get_running_loop().create_future()
    session.asked[request_id] = said
    exchange.ask(request(request_id, CREATE, _params(question, caller.revision)), said)
    try:
        return _read(await said)
    finally:
        session.asked.pop(request_id, None)


def _read(result: Raw | None) -> ElicitAnswer:
    """A client that answers with an error, or with something else, has not answered."""
    if result is None:
        return _CANCELLED
    try:
        said = msgspec.json.decode(result, type=_Said)
    except msgspec.DecodeError:
        return _CANCELLED
    return ElicitAnswer(action=said.action, content=said.content)


def _can_ask(question: ElicitRequest, able: dict[str, Any]) -> bool:
    """Forms are the default; URLs need the declared capability."""
    return "url" in able if question.url is not None else "form" in able or "url" not in able


def _params(question: ElicitRequest, revision: str) -> dict[str, Any]:
    if question.url is not None:
        params: dict[str, Any] = {"mode": "url", "message": question.message, "url": question.url}
        return params if revision == MODERN else {**params, "elicitationId": secrets.token_hex(8)}
    schema = question.schema or {"type": "object", "properties": {}}
    params = {"message": question.message, "requestedSchema": schema}
    return {"mode": "form", **params} if revision in WITH_ELICITATION_MODES else params


def _same(first: RpcRequest, again: RpcRequest) -> bool:
    """Whether a request is the one that was asked back to: the same tool, the same arguments."""
    return all(first.params.get(key) == again.params.get(key) for key in ("name", "arguments", "uri"))


class ToolCalls:
    """Makes the calls of MCP clients."""

    def __init__(self, catalog: Catalog, pipeline: Pipeline, *, url: str) -> None:
        self._catalog = catalog
        self._pipeline = pipeline
        self._url = url
        self._questions = Questions()
        self._cancelling: set[asyncio.Task[None]] = set()

    async def call(self, name: str, request: RpcRequest, caller: Caller, exchange: McpExchange) -> bytes:
        """One call. Its result, also if it was refused, failed or is left pending."""
        waiting = self.returned(request, caller)
        if waiting is not None:
            return await resume(waiting, exchange)
        arguments = object_param(request.params, "arguments")
        try:
            entry = self._catalog.view(caller.principal).get(name)
        except ToolNotFound as refusal:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {refusal.message}") from None
        except Refused as refusal:
            return refusal_result(refusal, revision=caller.revision)
        in_meta = isinstance(request.meta.get("traceparent"), str)
        continue_trace(_trace_in(request.meta) if in_meta else caller.headers)
        if caller.is_modern:
            check_param_headers(entry, arguments, caller.headers)
        call_request = CallRequest(
            tool=entry.name,
            arguments=arguments,
            principal=caller.principal,
            over_http=True,
            elicit=self._questions.asker(caller, exchange),
        )
        try:
            call = await self._execute(call_request, exchange, caller)
        except Refused as refusal:
            return refusal_result(refusal, revision=caller.revision)
        if exchange.is_cancelled and call.status is CallStatus.CANCELLED:
            raise RpcError(CANCELLED, "Request cancelled")
        return call_result(call, entry, revision=caller.revision, url=self._url)

    async def read(self, call_request: CallRequest, request: RpcRequest, caller: Caller, exchange: McpExchange) -> Call:
        """Read a resource, or get a prompt: the call that came of it."""
        in_meta = isinstance(request.meta.get("traceparent"), str)
        continue_trace(_trace_in(request.meta) if in_meta else caller.headers)
        asking = msgspec.structs.replace(call_request, elicit=self._questions.asker(caller, exchange))
        return await self._execute(asking, exchange, caller)

    def returned(self, request: RpcRequest, caller: Caller) -> "Waiting | None":
        """The call that a request of 2026-07-28 goes on with; None for a request that begins one."""
        return self._questions.returned(request, caller) if caller.is_modern else None

    async def _execute(self, call_request: CallRequest, exchange: McpExchange, caller: Caller) -> Call:
        call_id = new_id("call")
        exchange.on_cancel = lambda: self._cancel(call_id, call_request.principal, exchange)
        streamed = exchange.receipt = StreamedCall(self._pipeline)
        if progress_token(exchange.request) is None and log_level(exchange.request, caller) is None:
            return await streamed.make(call_request, call_id=call_id)
        async with self._pipeline.events.follow(call_id) as events:
            call = asyncio.ensure_future(streamed.make(call_request, call_id=call_id))
            async for event in until_done(events, call):
                token = progress_token(exchange.latest)
                if event.progress is not None and token is not None and exchange.has_room:
                    exchange.send(progress_notification(token, event.progress))
                if event.log is not None and exchange.has_room and _is_wanted(event.log, exchange.latest, caller):
                    exchange.send(log_notification(event.log))
            return await call

    def _cancel(self, call_id: str, principal: Principal, exchange: McpExchange) -> None:
        task = asyncio.create_task(self._cancelled(call_id, principal, exchange))
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)

    async def _cancelled(self, call_id: str, principal: Principal, exchange: McpExchange) -> None:
        """Stop the call. It may have been asked for so lately that it is not on record yet."""
        for _ in range(CANCEL_TRIES):
            try:
                await self._pipeline.cancel(call_id, principal=principal)
            except CallNotFound:
                if exchange.outcome is not None:
                    return
                await asyncio.sleep(CANCEL_PAUSE)
            except AlreadyResolved:
                return
            except Refused as refusal:
                log.warning("call %s could not be cancelled for its client: %s", call_id, refusal)
                return
            else:
                return


async def resume(waiting: Waiting, exchange: McpExchange) -> bytes:
    """The client is back with an answer: resume the call; its result is this request's."""
    answer = answer_in(exchange.request, waiting.key)
    if answer is None:
        return waiting.result
    waiting.exchange.hand_over(exchange)
    if not waiting.answer.done():
        waiting.answer.set_result(answer)
    work = waiting.exchange.work
    assert work is not None
    settled = await asyncio.shield(work)
    if isinstance(settled, RpcError):
        raise settled
    return settled


def _trace_in(meta: Mapping[str, Any]) -> Mapping[bytes, bytes]:
    """The trace context that a message carries itself, as headers would."""
    named = {key: meta.get(key) for key in ("traceparent", "tracestate")}
    return {key.encode(): value.encode() for key, value in named.items() if isinstance(value, str)}


def progress_token(request: RpcRequest) -> RequestId | None:
    """The progress token, if the client wants progress."""
    token = request.meta.get("progressToken")
    return token if isinstance(token, (str, int)) and not isinstance(token, bool) else None


def log_level(request: RpcRequest, caller: Caller) -> str | None:
    """The lowest log level that the client asked for; None: no log messages."""
    if caller.is_modern:
        level = request.meta.get(LOG_LEVEL)
        return level if level in LOG_LEVELS else None
    return None if caller.session is None else caller.session.log_level


def _is_wanted(note: LogNote, request: RpcRequest, caller: Caller) -> bool:
    least = log_level(request, caller)
    return least is not None and LOG_LEVELS.index(note.level) >= LOG_LEVELS.index(least)


def log_notification(note: LogNote) -> bytes:
    params: dict[str, object] = {"level": note.level, "data": note.message}
    if note.logger is not None:
        params["logger"] = note.logger
    return notification("notifications/message", params)


def progress_notification(token: RequestId, progress: Progress) -> bytes:
    params: dict[str, object] = {"progressToken": token, "progress": progress.progress}
    if progress.total is not None:
        params["total"] = progress.total
    if progress.message is not None:
        params["message"] = progress.message
    return notification("notifications/progress", params)
