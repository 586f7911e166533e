"""Approvals of pending calls, sent in the request that continues a response.

Above: the engine. Below: `calls/answers.py` and the pipeline. The first decision wins, whoever made it; the response
continues with that.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from msgspec import UNSET, Struct

from jackfield.calls import transactions as call_tx
from jackfield.calls.answers import Answers
from jackfield.calls.pipeline import Pipeline
from jackfield.catalog.catalog import Catalog
from jackfield.errors import BadRequest, Conflict, Expired, Forbidden, Refused
from jackfield.model.call import Call, CallStatus
from jackfield.model.items import Item, McpApprovalRequest, McpApprovalResponse, McpCall
from jackfield.model.principal import Principal, Scope
from jackfield.runs import events
from jackfield.runs.outputs import latest_output, with_whole_result
from jackfield.runs.step import mcp_item_id, record_id
from jackfield.store import Store

SPARE_SECONDS = 30.0
"""Grace beyond the call's own deadline."""


class Verdict(Struct, frozen=True, kw_only=True):
    """A request to allow a call, what was answered, and the call."""

    request: McpApprovalRequest
    response: McpApprovalResponse
    call: Call


class Approvals:
    """Applies verdicts."""

    def __init__(self, *, store: Store, catalog: Catalog, pipeline: Pipeline, answers: Answers) -> None:
        self._store = store
        self._catalog = catalog
        self._pipeline = pipeline
        self._answers = answers

    async def read(self, history: Sequence[Item], given: Sequence[Item], *, principal: Principal) -> list[Verdict]:
        """The verdicts that are new in a request. Raises for one that this key may not give, or that comes too late.

        A client that sends the whole conversation each time repeats old ones, with the calls that followed them.
        """
        items = (*history, *given)
        asked = {item.id: item for item in items if isinstance(item, McpApprovalRequest)}
        ran = {item.approval_request_id for item in items if isinstance(item, McpCall)}
        verdicts = []
        for response in (item for item in given if isinstance(item, McpApprovalResponse)):
            if response.approval_request_id in ran:
                continue
            request = asked[response.approval_request_id]
            call = await self._store.read(partial(call_tx.get_call, record_id(request.id)))
            if call is None or (call.principal != principal.name and not principal.is_admin):
                said = f"There is no call behind the approval request '{request.id}'. It may have been pruned."
                raise BadRequest(said, param="input")
            if response.approve and call.status is CallStatus.PENDING_APPROVAL:
                self._answers.entry_as_asked(call)
            self._require_right(call, principal)
            verdicts.append(Verdict(request=request, response=response, call=call))
        return verdicts

    def _require_right(self, call: Call, principal: Principal) -> None:
        """What only the request wanted to be asked about, its own key may allow; the rest needs the right to answer."""
        entry = self._catalog.entry(call.tool, source=call.source)
        guarded = entry is None or self._pipeline.needs_approval(entry, principal=principal, chat_id=call.chat_id)
        if guarded and not principal.may(Scope.ANSWER):
            raise Forbidden(
                f"Key '{principal.name}' may not allow calls of '{call.tool}'. Use a key with the scope 'answer'."
            )

    async def act_on(self, verdict: Verdict, *, index: int, principal: Principal, emit: events.Emit) -> McpCall | None:
        """Decide the call and, if it may run, emit its items. None: rejected."""
        call = await self._decided(verdict, principal)
        if call.status in (CallStatus.REJECTED, CallStatus.EXPIRED, CallStatus.CANCELLED):
            return None
        return await self._shown(verdict, call, index=index, principal=principal, emit=emit)

    async def _decided(self, verdict: Verdict, principal: Principal) -> Call:
        call_id = verdict.call.id
        try:
            if verdict.response.approve:
                return await self._answers.approve(call_id, principal=principal)
            return await self._answers.reject(call_id, principal=principal, reason=verdict.response.reason)
        except (Conflict, Expired):
            call = await self._store.read(partial(call_tx.get_call, call_id)) or verdict.call
            if call.status is CallStatus.PENDING_APPROVAL:
                raise  # undecided: the tool is no longer the one that was approved
            return call

    async def _shown(
        self, verdict: Verdict, call: Call, *, index: int, principal: Principal, emit: events.Emit
    ) -> McpCall:
        item = McpCall(
            id=mcp_item_id(call.id),
            server_label=verdict.request.server_label,
            name=verdict.request.name,
            arguments=verdict.request.arguments,
            status="in_progress",
            approval_request_id=verdict.request.id,
        )
        emit(events.RunItemAdded(index, item))
        emit(events.ToolRunning(index))
        ended = await with_whole_result(self._store, await self._ended(call, principal))
        done = shown_call(item, ended, login_url=self._pipeline.login_url(ended, principal=principal))
        emit(events.RunItemDone(index, done))
        return done

    async def _ended(self, call: Call, principal: Principal) -> Call:
        """Wait for the call to end, unless it is pending. Cancelling the wait cancels the call."""
        if call.status is not CallStatus.RUNNING:
            return call
        try:
            seconds = call.timeout_ms / 1000 + SPARE_SECONDS
            return await self._pipeline.wait(call.id, seconds=seconds, or_login=True)
        except asyncio.CancelledError:
            with suppress(Refused):
                await asyncio.shield(self._pipeline.cancel(call.id, principal=principal))
            raise


def shown_call(item: McpCall, call: Call, *, login_url: str | None = None) -> McpCall:
    """The item of a call as the call is by now."""
    output = latest_output(call, login_url=login_url)
    return McpCall(
        id=item.id,
        server_label=item.server_label,
        name=item.name,
        arguments=bytes(call.arguments).decode(),
        output=None if output.error is not None else output.text,
        error=output.error,
        status=output.status,
        approval_request_id=item.approval_request_id,
        images=len(output.images) or UNSET,
    )
