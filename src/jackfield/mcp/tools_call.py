"""`tools/call`: from a request to the pipeline and back, with progress and log messages in between.

Above: `server.py`. Below: the pipeline, and `client_requests.py`. A refusal that a model can act on is a result with
`isError`; only an unknown tool is a protocol error.
"""

import asyncio
import logging

import msgspec
from msgspec import UNSET

from jackfield.calls.pipeline import Pipeline
from jackfield.calls.receipts import StreamedCall
from jackfield.calls.requests import CallRequest, request_digest
from jackfield.calls.telemetry import continue_trace
from jackfield.catalog.catalog import Catalog, Entry
from jackfield.errors import AlreadyResolved, CallNotFound, Refused, ToolNotFound
from jackfield.http.streams import until_done
from jackfield.mcp.client_requests import ClientRequests, InputRounds, raise_missing_capability, raise_url_required
from jackfield.mcp.core_tasks import CoreTasks
from jackfield.mcp.exchange import McpExchange
from jackfield.mcp.headers import check_param_headers
from jackfield.mcp.log_messages import is_wanted, log_notification
from jackfield.mcp.request_meta import idempotency_key, log_level, progress_token, trace_headers
from jackfield.mcp.results import call_result, outcome_result, refusal_result
from jackfield.mcp.sessions import Caller
from jackfield.mcp.tasks import Tasks, ask_before_task, raise_task_only
from jackfield.model.call import Call, CallStatus, Delivery
from jackfield.model.ids import new_id
from jackfield.model.principal import Principal
from jackfield.model.tool import CallKind
from jackfield.protocol.jsonrpc import (
    INVALID_PARAMS,
    RequestId,
    RpcError,
    RpcRequest,
    notification,
    object_param,
)
from jackfield.protocol.mcp import CANCELLED
from jackfield.sources.base import Progress, TaskUse
from jackfield.sources.client import CallerClient

log = logging.getLogger(__name__)

CANCEL_PAUSE = 0.02
CANCEL_TRIES = 100


class ToolCalls:
    """Makes the calls of MCP clients."""

    def __init__(
        self,
        catalog: Catalog,
        pipeline: Pipeline,
        *,
        client_requests: ClientRequests,
        tasks: Tasks,
        core_tasks: CoreTasks,
        url: str,
    ) -> None:
        self._catalog = catalog
        self._pipeline = pipeline
        self._client_requests = client_requests
        self._tasks = tasks
        self._core_tasks = core_tasks
        self._logins = tasks.logins
        self._url = url
        self._cancelling: set[asyncio.Task[None]] = set()

    async def call(self, name: str, request: RpcRequest, caller: Caller, exchange: McpExchange) -> bytes:
        """One call. Its result, also if it was refused, failed or is left pending."""
        rounds = self.returned(request, caller)
        if rounds is not None:
            return await rounds.resume(exchange)
        arguments = object_param(request.params, "arguments")
        try:
            entry = self._catalog.view(caller.principal).get(name)
        except Refused as refusal:
            await self.refused(name, arguments, refusal, caller)
            if isinstance(refusal, ToolNotFound):
                raise RpcError(INVALID_PARAMS, f"Unknown tool: {refusal.message}") from None
            return refusal_result(refusal, revision=caller.revision)
        continue_trace(trace_headers(request, caller))
        if caller.is_modern:
            check_param_headers(entry, arguments, caller.headers)
        use, client = self._tasks.use_of(request, caller), self._client_requests.client_of(caller, exchange)
        call_request = CallRequest(
            tool=entry.name,
            arguments=arguments,
            principal=caller.principal,
            over_http=True,
            client=client if not use.is_followed else ask_before_task(client, exchange),
            takes_pending=use.is_followed,
            tasks=use,
        )
        if (key := idempotency_key(request)) is not None:
            digest = request_digest(entry.name, arguments)
            call_request = msgspec.structs.replace(call_request, idempotency_key=key, digest=digest)
        try:
            call = await self._execute(call_request, exchange, caller)
        except Refused as refusal:
            if use is TaskUse.AT_ONCE:
                raise RpcError(INVALID_PARAMS, refusal.message, {"code": refusal.code}) from None
            return refusal_result(refusal, revision=caller.revision)
        if exchange.is_cancelled and call.status is CallStatus.CANCELLED:
            raise RpcError(CANCELLED, "Request cancelled")
        if call.status is CallStatus.PENDING_LOGIN and not use.is_followed:
            return await self._after_login(call, entry, caller, exchange, client)
        return await self._result(call, entry, caller, use)

    async def refused(
        self,
        name: str,
        arguments: dict[str, object],
        refusal: Refused,
        caller: Caller,
        *,
        kind: CallKind = CallKind.TOOL,
    ) -> None:
        """Put on record what was refused before it came to a call."""
        request = CallRequest(tool=name, arguments=arguments, principal=caller.principal, kind=kind)
        await self._pipeline.refused(request, refusal)

    async def _after_login(
        self, call: Call, entry: Entry, caller: Caller, exchange: McpExchange, client: CallerClient | None
    ) -> bytes:
        """The outcome, if the client's person logs in while it waits; else where to log in."""
        call = await self._logins.until_done(call, caller, exchange, client)
        if not call.status.is_final:
            return self._logins.result(call, entry.tool, caller)
        return await self._result(call, entry, caller, TaskUse.NEVER)

    async def _result(self, call: Call, entry: Entry, caller: Caller, use: TaskUse) -> bytes:
        if use is TaskUse.AT_ONCE:
            return await self._core_tasks.created(call, caller)
        if use.is_followed and not call.status.is_final:
            return await self._tasks.created(call, caller)
        if use.is_followed and call.delivery is Delivery.INBOX:  # a repeat of a call that was a task
            return outcome_result(call, entry.tool, revision=caller.revision)
        if call.error is not None:
            if caller.is_modern:
                raise_missing_capability(call)
            else:
                raise_task_only(call, caller)
                raise_url_required(call, caller)
        return call_result(call, entry, revision=caller.revision, url=self._url)

    async def read(self, call_request: CallRequest, request: RpcRequest, caller: Caller, exchange: McpExchange) -> Call:
        """Read a resource, or get a prompt: the call that came of it."""
        continue_trace(trace_headers(request, caller))
        asking = msgspec.structs.replace(call_request, client=self._client_requests.client_of(caller, exchange))
        return await self._execute(asking, exchange, caller)

    def returned(self, request: RpcRequest, caller: Caller) -> InputRounds | None:
        """The call that a request of 2026-07-28 brings answers to; None for a request that begins one."""
        return self._client_requests.returned(request, caller)

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
                if (
                    event.log is not None
                    and exchange.has_room
                    and is_wanted(event.log, log_level(exchange.latest, caller))
                ):
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


def progress_notification(token: RequestId, progress: Progress) -> bytes:
    params: dict[str, object] = {"progressToken": token, "progress": progress.progress}
    if progress.total is not None:
        params["total"] = progress.total
    if progress.message is not None:
        params["message"] = progress.message
    if progress.meta is not UNSET:
        params["_meta"] = progress.meta
    return notification("notifications/progress", params)
