"""Tasks of revision 2025-11-25: `task` on `tools/call`, and `tasks/get`, `tasks/result`, `tasks/list`, `tasks/cancel`.

They are the same calls as the extension's, in that revision's spelling. There the client asks for a task, an error of
the tool is a failed task, and what a task asks is put to the client while it waits for the result.
Above: `server.py` and `tools_call.py`. Below: `tasks.py`.
"""

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from jackfield.calls.following import FollowedCall, followed_call
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.rows import CallFilter, call_page
from jackfield.errors import AlreadyResolved
from jackfield.http.response import encode
from jackfield.mcp.client_requests import request_client
from jackfield.mcp.exchange import McpExchange
from jackfield.mcp.sessions import Caller, McpSession
from jackfield.mcp.tasks import POLL_MS, Tasks, askable, elicitation, is_fault, is_task, protocol_fault, task_id
from jackfield.model.call import Call, CallStatus
from jackfield.model.tool import CallKind
from jackfield.protocol.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RpcError,
    RpcRequest,
    notification,
    text_param,
)
from jackfield.protocol.mcp import CANCELLED, ELICIT, RELATED_TASK, WITH_CORE_TASKS
from jackfield.store import Store

CAPABILITIES: dict[str, Any] = {"tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}
"""What a server with them declares."""
PAGE = 50
MOST_FOLLOWED = 1_000
"""Tasks and resources of which one session is told."""
STATUS = "notifications/tasks/status"
TASK_CHANGE = "task:"
"""What a change of a task is called on a session's stream."""


class CoreTasks:
    """The methods of that revision."""

    def __init__(self, tasks: Tasks, pipeline: Pipeline, store: Store) -> None:
        self._tasks = tasks
        self._pipeline = pipeline
        self._store = store

    async def created(self, call: Call, caller: Caller) -> bytes:
        """The result of a `tools/call` that was asked for as a task."""
        found = await self._tasks.find(call.id, caller.principal)
        task = self._task(found, caller.capabilities) | {"status": "working"}  # every task begins so
        if caller.session is not None:
            self._follow(call.id, caller.session)
        return encode({"task": task})

    def _follow(self, call_id: str, session: McpSession) -> None:
        """Tell the session of its task's changes, on its stream; the protocol lets us leave that out at any time."""
        if len(session.followed) < MOST_FOLLOWED:
            watching = ExitStack()
            watching.enter_context(self._tasks.watch((call_id,), lambda task: session.change(f"{TASK_CHANGE}{task}")))
            session.followed[f"{TASK_CHANGE}{call_id}"] = watching.close

    async def status(self, call_id: str, session: McpSession) -> bytes | None:
        """`notifications/tasks/status` of a session's task, as it is now; None: there is no such task any more."""
        found = await self._store.read(partial(followed_call, call_id))
        if found is None or found.call.status.is_final:
            end = session.followed.pop(f"{TASK_CHANGE}{call_id}", None)
            if end is not None:
                end()
        return None if found is None else notification(STATUS, self._task(found, session.capabilities))

    async def get(self, asked: RpcRequest, caller: Caller, _exchange: McpExchange) -> bytes:
        """`tasks/get`"""
        _check_revision(asked, caller)
        return encode(self._task(await self._tasks.find(task_id(asked), caller.principal), caller.capabilities))

    async def list(self, asked: RpcRequest, caller: Caller, _exchange: McpExchange) -> bytes:
        """`tasks/list`: every call of a tool is one, the newest first."""
        _check_revision(asked, caller)
        cursor = None if asked.params.get("cursor") is None else text_param(asked.params, "cursor")
        mine = CallFilter(principal=caller.principal.on_record, kind=CallKind.TOOL)
        page = await self._store.read(partial(call_page, mine, limit=PAGE, cursor=cursor))
        found = [await self._followed(call) for call in page.calls if is_task(call)]
        tasks = [self._task(one, caller.capabilities) for one in found]
        following = {} if page.next_cursor is None else {"nextCursor": page.next_cursor}
        return encode({"tasks": tasks, **following})

    async def _followed(self, call: Call) -> FollowedCall:
        """With what is beside its row: only a call that is pending asks or says something."""
        found = await self._store.read(partial(followed_call, call.id)) if call.status is CallStatus.PENDING else None
        return found or FollowedCall(call=call)

    async def cancel(self, asked: RpcRequest, caller: Caller, _exchange: McpExchange) -> bytes:
        """`tasks/cancel`: the task is cancelled when this is answered."""
        _check_revision(asked, caller)
        found = await self._tasks.find(task_id(asked), caller.principal)
        try:
            await self._pipeline.cancel(found.call.id, principal=caller.principal)
        except AlreadyResolved as refusal:
            raise RpcError(INVALID_PARAMS, f"The task cannot be cancelled. {refusal.message}") from None
        return encode(self._task(await self._tasks.find(found.call.id, caller.principal), caller.capabilities))

    async def result(self, asked: RpcRequest, caller: Caller, exchange: McpExchange) -> bytes:
        """`tasks/result`: what the call came to, when it is over. What it asks meanwhile is put to the client."""
        _check_revision(asked, caller)
        call = await self._until_final(task_id(asked), caller, exchange)
        if call.status is CallStatus.CANCELLED:
            raise RpcError(CANCELLED, "The task was cancelled.")
        if is_fault(call):
            fault = protocol_fault(call)
            raise RpcError(fault["code"], fault["message"], fault.get("data", msgspec.UNSET))
        told = msgspec.json.decode(self._tasks.result(call, revision=caller.revision), type=dict[str, Raw])
        meta = msgspec.json.decode(told.get("_meta", b"{}"), type=dict[str, Raw])
        return encode({**told, "_meta": {**meta, RELATED_TASK: {"taskId": call.id}}})

    async def _until_final(self, call_id: str, caller: Caller, exchange: McpExchange) -> Call:
        asking: dict[str, asyncio.Task[None]] = {}
        try:
            with self._store.bus.listen(call_id) as written:
                while True:
                    written.clear()
                    found = await self._tasks.find(call_id, caller.principal)
                    if found.call.status.is_final:
                        return found.call
                    for question in askable(found, caller.capabilities) if caller.takes_events else ():
                        if question.id not in asking:
                            asking[question.id] = asyncio.create_task(self._ask(question, found.call, caller, exchange))
                    await written.wait()
        finally:
            for task in asking.values():
                task.cancel()

    async def _ask(self, question: Call, call: Call, caller: Caller, exchange: McpExchange) -> None:
        """Put a question to the client; a client that answers with an error leaves it to others."""
        assert caller.session is not None
        params = elicitation(question) | {"_meta": {RELATED_TASK: {"taskId": call.id}}}
        if "url" in params:
            params["elicitationId"] = question.id
        response = await request_client(caller.session, exchange, ELICIT, params)
        try:
            if response is not None:
                answer = msgspec.json.decode(response.unwrap())
                await self._tasks.answer(question, answer, caller.principal)
        except (RpcError, msgspec.DecodeError):
            return

    def _task(self, found: FollowedCall, capabilities: Mapping[str, Any]) -> dict[str, Any]:
        task = self._tasks.base(found, capabilities)
        task["ttl"] = task.pop("ttlMs")
        task["pollInterval"] = task.pop("pollIntervalMs", POLL_MS)
        if task["status"] == "completed" and found.call.error is not None:
            task["status"] = "failed"
        return task


def _check_revision(asked: RpcRequest, caller: Caller) -> None:
    if caller.revision != WITH_CORE_TASKS:
        raise RpcError(METHOD_NOT_FOUND, f"There is no method '{asked.method}' at revision {caller.revision}.")
