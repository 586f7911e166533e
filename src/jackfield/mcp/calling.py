"""`tools/call`: from a request to the pipeline and back, with what happens meanwhile told to the client.

Above: `methods.py`. Below: the pipeline, the one road of every call. A refusal that a model can do something about is a
result that says so; only a tool that is not there is an error of the protocol.
"""

import asyncio
import logging
from collections.abc import Mapping

from jackfield.calls.pipeline import Pipeline
from jackfield.calls.receipts import StreamedCall
from jackfield.calls.requests import CallRequest
from jackfield.calls.telemetry import continue_trace
from jackfield.catalog.catalog import Catalog
from jackfield.errors import AlreadyResolved, CallNotFound, Refused, ToolNotFound
from jackfield.http.streams import until_done
from jackfield.mcp.elicitation import Questions, Waiting, answer_in
from jackfield.mcp.exchange import McpExchange
from jackfield.mcp.param_headers import check_param_headers
from jackfield.mcp.results import call_result, refusal_result
from jackfield.mcp.sessions import Caller
from jackfield.model.call import Call, CallStatus
from jackfield.model.ids import new_id
from jackfield.model.principal import Principal
from jackfield.protocol.jsonrpc import INVALID_PARAMS, RequestId, RpcError, RpcRequest, notification, object_param
from jackfield.protocol.mcp import CANCELLED, LOG_LEVELS
from jackfield.sources.base import LogNote, Progress

log = logging.getLogger(__name__)

LOG_LEVEL = "io.modelcontextprotocol/logLevel"

CANCEL_PAUSE = 0.02
CANCEL_TRIES = 100


class Calling:
    """Makes the calls of MCP clients."""

    def __init__(self, catalog: Catalog, pipeline: Pipeline, *, url: str) -> None:
        self._catalog = catalog
        self._pipeline = pipeline
        self._url = url
        self._questions = Questions()
        self._cancelling: set[asyncio.Task[None]] = set()

    async def call(self, name: str, request: RpcRequest, caller: Caller, exchange: McpExchange) -> bytes:
        """One call. Its result, also if it was refused, failed or is left pending."""
        waiting = self._questions.returned(request, caller) if caller.is_modern else None
        if waiting is not None:
            return await _gone_on_with(waiting, exchange)
        arguments = object_param(request.params, "arguments")
        try:
            entry = self._catalog.view(caller.principal).get(name)
        except ToolNotFound as refusal:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {refusal.message}") from None
        except Refused as refusal:
            return refusal_result(refusal, revision=caller.revision)
        continue_trace(_trace(request, caller))
        if caller.is_modern:
            check_param_headers(entry, arguments, caller.headers)
        call_request = CallRequest(
            tool=entry.name,
            arguments=arguments,
            principal=caller.principal,
            through_door=True,
            elicit=self._questions.asker(caller, exchange),
        )
        try:
            call = await self._made(call_request, exchange, caller)
        except Refused as refusal:
            return refusal_result(refusal, revision=caller.revision)
        if exchange.is_called_off and call.status is CallStatus.CANCELLED:
            raise RpcError(CANCELLED, "Request cancelled")
        return call_result(call, entry, revision=caller.revision, url=self._url)

    async def _made(self, call_request: CallRequest, exchange: McpExchange, caller: Caller) -> Call:
        call_id = new_id("call")
        exchange.call_off = lambda: self._cancel(call_id, call_request.principal, exchange)
        streamed = exchange.receipt = StreamedCall(self._pipeline)
        if progress_token(exchange.request) is None and log_level(exchange.request, caller) is None:
            return await streamed.make(call_request, call_id=call_id)
        async with self._pipeline.events.follow(call_id) as events:
            call = asyncio.ensure_future(streamed.make(call_request, call_id=call_id))
            async for event in until_done(events, call):
                token = progress_token(exchange.latest)
                if event.progress is not None and token is not None and exchange.has_room:
                    exchange.say(progress_notification(token, event.progress))
                if event.log is not None and exchange.has_room and _is_wanted(event.log, exchange.latest, caller):
                    exchange.say(log_notification(event.log))
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
                if exchange.settled is not None:
                    return
                await asyncio.sleep(CANCEL_PAUSE)
            except AlreadyResolved:
                return
            except Refused as refusal:
                log.warning("call %s could not be cancelled for its client: %s", call_id, refusal)
                return
            else:
                return


async def _gone_on_with(waiting: Waiting, exchange: McpExchange) -> bytes:
    """The client is back with what the person said: the call goes on, and its end is this request's."""
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


def _trace(request: RpcRequest, caller: Caller) -> Mapping[bytes, bytes]:
    """The trace that the call belongs to, by the message itself, else by the headers it came with."""
    told = {key: request.meta.get(key) for key in ("traceparent", "tracestate")}
    named = {key.encode(): value.encode() for key, value in told.items() if isinstance(value, str)}
    return named if b"traceparent" in named else caller.headers


def progress_token(request: RpcRequest) -> RequestId | None:
    """What the client wants progress to be told under; None: it wants none."""
    token = request.meta.get("progressToken")
    return token if isinstance(token, (str, int)) and not isinstance(token, bool) else None


def log_level(request: RpcRequest, caller: Caller) -> str | None:
    """From which level on the client wants to hear what a tool's server says; None: it did not ask to."""
    if caller.is_modern:
        level = request.meta.get(LOG_LEVEL)
        return level if level in LOG_LEVELS else None
    return None if caller.session is None else caller.session.log_level


def _is_wanted(note: LogNote, request: RpcRequest, caller: Caller) -> bool:
    least = log_level(request, caller)
    return least is not None and LOG_LEVELS.index(note.level) >= LOG_LEVELS.index(least)


def log_notification(note: LogNote) -> bytes:
    told: dict[str, object] = {"level": note.level, "data": note.message}
    if note.logger is not None:
        told["logger"] = note.logger
    return notification("notifications/message", told)


def progress_notification(token: RequestId, progress: Progress) -> bytes:
    told: dict[str, object] = {"progressToken": token, "progress": progress.progress}
    if progress.total is not None:
        told["total"] = progress.total
    if progress.message is not None:
        told["message"] = progress.message
    return notification("notifications/progress", told)
