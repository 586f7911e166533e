"""Tasks (`io.modelcontextprotocol/tasks`): a call that waits, as a client that knows tasks follows it.

A task is the call: its id is the call's id and its state is read from the call's row, so nothing is stored twice, and
any gateway answers for it after any crash. The extension is of 2026-07-28; `core_tasks.py` has those of 2025-11-25.
Above: `server.py`, `tools_call.py` and `notifications.py`. Below: the pipeline, answers and the store.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from jackfield.calls.answers import Answers
from jackfield.calls.following import FollowedCall, followed_call
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.questions import is_question
from jackfield.calls.reading import server_error
from jackfield.catalog.catalog import Catalog
from jackfield.errors import AlreadyResolved, BadRequest, CallNotFound, Conflict, Expired
from jackfield.http.response import encode
from jackfield.mcp.exchange import McpExchange
from jackfield.mcp.logins import LoginPrompts, is_login, login_call_of
from jackfield.mcp.results import outcome_result, stamped
from jackfield.mcp.sessions import Caller
from jackfield.model.call import Call, CallStatus, Done
from jackfield.model.principal import Principal
from jackfield.model.text import iso_time
from jackfield.model.tool import CallKind, Tool
from jackfield.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RpcError,
    RpcRequest,
    notification,
    text_param,
)
from jackfield.protocol.mcp import ELICIT, MISSING_CAPABILITY, MODERN, NEEDS_TASKS, TASKS, WITH_CORE_TASKS
from jackfield.sources.base import TaskUse
from jackfield.sources.client import MISSING_CAPABILITY as MISSING_CALL
from jackfield.sources.client import CallerClient
from jackfield.sources.mcp.tasks import TASK_FAILED
from jackfield.store import Store

POLL_MS = 1_000
DAY_MS = 86_400_000
MAX_ID = 200
MAX_FOLLOWED = 1_000
"""Tasks that one subscription may name."""
STATUS = "notifications/tasks"
_WAITS_FOR = {
    CallStatus.PENDING_APPROVAL: "Waiting for approval.",
    CallStatus.PENDING_LOGIN: "Waiting for somebody to log in.",
    CallStatus.PENDING: "Waiting for the result.",
    CallStatus.WAITING: "Waiting for the result.",
    CallStatus.RUNNING: "Running.",
}


_MAY_LAST = frozenset({CallStatus.PENDING, CallStatus.PENDING_APPROVAL, CallStatus.PENDING_LOGIN})


def declares_tasks(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client of 2026-07-28 knows tasks."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, dict) and isinstance(extensions.get(TASKS), dict)


def needs_tasks(what: str) -> RpcError:
    """The refusal of what only a client that knows tasks may ask for."""
    message = f"{what} needs a client that declares the extension '{TASKS}' in its capabilities."
    return RpcError(MISSING_CAPABILITY, message, NEEDS_TASKS, status=400)


class Tasks:
    """The methods of the extension, and tasks as they are sent."""

    def __init__(
        self, *, store: Store, catalog: Catalog, pipeline: Pipeline, answers: Answers, keep_days: float
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._pipeline = pipeline
        self._answers = answers
        self.apply(keep_days)
        self.logins = LoginPrompts(pipeline)

    def apply(self, keep_days: float) -> None:
        """Tell clients from now on that tasks are kept for so long."""
        self._keep_ms = int(keep_days * DAY_MS)

    async def get(self, request: RpcRequest, caller: Caller, _exchange: McpExchange) -> bytes:
        """`tasks/get`"""
        require_tasks(request, caller)
        found = await self.find(task_id(request), caller.principal)
        return stamped(encode(self.detailed(found, caller.capabilities))[1:-1], revision=MODERN)

    async def update(self, request: RpcRequest, caller: Caller, _exchange: McpExchange) -> bytes:
        """`tasks/update`: answers to what the task asked. Keys that are not open are ignored, as the extension asks."""
        require_tasks(request, caller)
        responses = request.params.get("inputResponses")
        if not isinstance(responses, dict):
            raise RpcError(INVALID_PARAMS, "'params.inputResponses' must be an object: an answer for each key.")
        found = await self.find(task_id(request), caller.principal)
        for question in found.questions:
            if question.id in responses:
                await self.answer(question, responses[question.id], caller.principal)
        return stamped(b"", revision=MODERN)

    async def cancel(self, request: RpcRequest, caller: Caller, _exchange: McpExchange) -> bytes:
        """`tasks/cancel`: acknowledged whether or not the task was over already."""
        require_tasks(request, caller)
        found = await self.find(task_id(request), caller.principal)
        with suppress(AlreadyResolved):
            await self._pipeline.cancel(found.call.id, principal=caller.principal)
        return stamped(b"", revision=MODERN)

    def use_of(self, request: RpcRequest, caller: Caller) -> TaskUse:
        """Whether a call of this client may go on as a task. Before 2026-07-28 each request says so for itself."""
        if caller.is_modern:
            return TaskUse.PREFERRED if declares_tasks(caller.capabilities) else TaskUse.NEVER
        is_wanted = caller.revision == WITH_CORE_TASKS and isinstance(request.params.get("task"), dict)
        return TaskUse.AT_ONCE if is_wanted else TaskUse.NEVER

    async def created(self, call: Call, caller: Caller) -> bytes:
        """The result of a `tools/call` that goes on as a task. The call is on record by now."""
        found = await self._store.read(partial(followed_call, call.id)) or FollowedCall(call=call)
        found = self._with_login(found, caller.principal)
        task = self.base(found, caller.capabilities)
        if task["status"] not in ("working", "input_required"):  # over in between; `tasks/get` has its end
            task |= {"status": "working", "lastUpdatedAt": task["createdAt"]}
        return stamped(encode(task)[1:-1], revision=MODERN, kind="task")

    async def find(self, call_id: str, principal: Principal) -> FollowedCall:
        """The principal's own task. Another's is as if it did not exist."""
        found = await self._store.read(partial(followed_call, call_id)) if len(call_id) <= MAX_ID else None
        if found is None or found.call.principal != principal.on_record or not is_task(found.call):
            raise RpcError(
                INVALID_PARAMS, f"There is no task '{call_id[:MAX_ID]}'. It is another's, or no longer on record."
            )
        if found.call.login is not None and found.call.status.is_final:
            await self._pipeline.collected(found.call)
        return self._with_login(found, principal)

    def _with_login(self, found: FollowedCall, principal: Principal) -> FollowedCall:
        """With the login that it waits for as a question, where that is the principal's to make and not begun."""
        question = self.logins.question_of(found.call, principal)
        if question is None or not self.logins.is_open(question):
            return found
        return msgspec.structs.replace(found, questions=(question,))

    async def answer(self, question: Call, response: Any, principal: Principal) -> None:
        """Answer a question of the principal's own call, in the shape of MCP's elicitation."""
        if not isinstance(response, dict):
            raise RpcError(INVALID_PARAMS, f"'params.inputResponses.{question.id}' must be an object with an action.")
        if is_login(question):
            await self._answer_login(question, response, principal)
            return
        said = {key: response[key] for key in ("action", "content") if response.get(key) is not None}
        try:
            await self._answers.submit(question.id, Done(Raw(encode(said))), principal=principal, as_caller=True)
        except BadRequest as fault:
            raise RpcError(INVALID_PARAMS, fault.message) from None
        except (AlreadyResolved, CallNotFound, Conflict, Expired):
            return  # somebody else answered it first

    async def _answer_login(self, question: Call, response: dict[str, Any], principal: Principal) -> None:
        """Whoever opens the link logs in there; whoever does not want to gives the call up."""
        if response.get("action") == "accept":
            self.logins.note_opened(question)
            return
        call_id = login_call_of(question)
        with suppress(AlreadyResolved, CallNotFound, Conflict, Expired):
            await self._answers.reject(
                call_id, principal=principal, reason="The person behind the call did not log in."
            )

    def base(self, found: FollowedCall, capabilities: Mapping[str, Any]) -> dict[str, Any]:
        """The task without what belongs to its status."""
        call, asks = found.call, bool(askable(found, capabilities))
        task: dict[str, Any] = {"taskId": call.id, "status": status_of(call, asks=asks)}
        if (message := _message(found, asks=asks)) is not None:
            task["statusMessage"] = message
        task |= {"createdAt": iso_time(call.created_at), "lastUpdatedAt": iso_time(found.updated_at)}
        return task | {"ttlMs": self.ttl_ms(call), "pollIntervalMs": POLL_MS}

    def detailed(self, found: FollowedCall, capabilities: Mapping[str, Any]) -> dict[str, Any]:
        """The task with its result, its error or its questions."""
        task, call = self.base(found, capabilities), found.call
        match task["status"]:
            case "input_required":
                task["inputRequests"] = {
                    question.id: {"method": ELICIT, "params": elicitation(question)}
                    for question in askable(found, capabilities)
                }
            case "completed":
                task["result"] = Raw(self.result(call, revision=MODERN))
            case "failed":
                task["error"] = protocol_fault(call)
        return task

    def result(self, call: Call, *, revision: str) -> bytes:
        """What `tools/call` would have returned for a call that is over."""
        entry = self._catalog.known(call.tool)
        is_its = entry is not None and entry.tool.source == call.source  # the name may be another's by now
        tool = entry.tool if entry is not None and is_its else Tool(source=call.source, name=call.tool)
        return outcome_result(call, tool, revision=revision)

    def ttl_ms(self, call: Call) -> int | None:
        """How long after its creation it can be asked for at least; None: for ever, as far as it goes."""
        if call.status.is_final:
            return self._keep_ms
        if call.status in _MAY_LAST and call.expires_at is None:
            return None
        return max(self._keep_ms, (call.expires_at or call.created_at) - call.created_at)

    @contextmanager
    def watch(self, ids: tuple[str, ...], changed: Callable[[str], None]) -> Iterator[None]:
        """While the block runs, `changed` is called with the id of a task about which something was written."""
        with ExitStack() as listening:
            for call_id in ids:
                event = _Told(partial(changed, call_id))
                listening.enter_context(self._store.bus.listen(call_id, event=event))
            yield

    async def news(self, call_id: str, caller: Caller, seen: dict[str, Any], *, meta: dict[str, Any]) -> bytes | None:
        """`notifications/tasks`, if the task is not as it was `seen` last. That it works is no news at first."""
        found = await self._store.read(partial(followed_call, call_id))
        if found is None:
            return None
        task = self.detailed(self._with_login(found, caller.principal), caller.capabilities)
        state = _state(task)
        is_news = state != seen[call_id] if call_id in seen else task["status"] != "working"
        seen[call_id] = state
        return notification(STATUS, {**task, "_meta": meta}) if is_news else None

    async def followable(self, wanted: Any, caller: Caller) -> tuple[str, ...]:
        """The tasks of a subscription that the caller may follow. Raises `RpcError` for a client without tasks."""
        if not declares_tasks(caller.capabilities):
            raise needs_tasks("Following tasks")
        if not isinstance(wanted, list) or not all(isinstance(one, str) for one in wanted):
            raise RpcError(INVALID_PARAMS, "'params.notifications.taskIds' must be a list of task ids.")
        if len(wanted) > MAX_FOLLOWED:
            raise RpcError(INVALID_PARAMS, f"One subscription follows up to {MAX_FOLLOWED} tasks. Open another.")
        found = []
        for call_id in dict.fromkeys(wanted):
            with suppress(RpcError):
                found.append((await self.find(call_id, caller.principal)).call.id)
        return tuple(found)


def ask_before_task(client: CallerClient | None, exchange: McpExchange) -> CallerClient | None:
    """A client that follows tasks, as its call is given it: what its server answered the call with is passed on as
    long as the request is open. Any other question makes the call a task that needs input.
    """
    if client is None:
        return None
    return msgspec.structs.replace(client, is_waiting=lambda: exchange.work is not None and not exchange.work.done())


def raise_task_only(call: Call, caller: Caller) -> None:
    """Before 2026-07-28, a call that can only be a task and was not asked for as one."""
    if call.error is None or call.error.code != MISSING_CALL:
        return
    error = server_error(call.result)
    if error is None or error.data != NEEDS_TASKS:
        return
    if caller.revision == WITH_CORE_TASKS:
        raise RpcError(
            METHOD_NOT_FOUND, f"{call.error.message} At {caller.revision}, send 'params.task' with the call."
        )
    raise RpcError(MISSING_CAPABILITY, call.error.message, NEEDS_TASKS)


def require_tasks(request: RpcRequest, caller: Caller) -> None:
    if not declares_tasks(caller.capabilities):
        raise needs_tasks(request.method)


def task_id(request: RpcRequest) -> str:
    return text_param(request.params, "taskId")


def status_of(call: Call, *, asks: bool) -> str:
    """A call's status in the words of tasks. An error that is the tool's outcome is a completed task."""
    if call.status is CallStatus.CANCELLED:
        return "cancelled"
    if call.status.is_final:
        return "failed" if is_fault(call) else "completed"
    return "input_required" if asks else "working"


def askable(found: FollowedCall, capabilities: Mapping[str, Any]) -> tuple[Call, ...]:
    """The open questions that this client can put to its person. People answer the others elsewhere."""
    able = capabilities.get("elicitation")
    if not isinstance(able, dict):
        return ()
    takes_forms = "form" in able or "url" not in able
    return tuple(
        question
        for question in found.questions
        if ("url" in able if "url" in msgspec.json.decode(question.arguments) else takes_forms)
    )


def elicitation(question: Call) -> dict[str, Any]:
    """A question on record as the parameters of `elicitation/create`."""
    asked = msgspec.json.decode(question.arguments)
    if "url" in asked:
        return {"mode": "url", "message": asked["message"], "url": asked["url"]}
    schema = asked.get("schema") or {"type": "object", "properties": {}}
    return {"mode": "form", "message": asked["message"], "requestedSchema": schema}


def protocol_fault(call: Call) -> dict[str, Any]:
    """The JSON-RPC error that ended a call."""
    if (error := server_error(call.result)) is not None:
        return {"code": error.code, "message": error.message} | ({} if error.data is UNSET else {"data": error.data})
    message = "The call failed." if call.error is None else call.error.message
    return {"code": INTERNAL_ERROR, "message": message}


def is_task(call: Call) -> bool:
    """Whether a call is one that a client may follow: reads and gets are none, nor is what a call asks."""
    return call.kind is CallKind.TOOL and not is_question(call)


def is_fault(call: Call) -> bool:
    """Whether an error of JSON-RPC ended the call, and not the tool's own."""
    return call.error is not None and call.error.code == TASK_FAILED


def _message(found: FollowedCall, *, asks: bool) -> str | None:
    call, operation = found.call, found.operation
    if call.status.is_final:
        return None if call.error is None else call.error.message
    if asks:
        return "Waiting for input."
    if found.questions and is_login(found.questions[0]):
        return f"Waiting for a login: {msgspec.json.decode(found.questions[0].arguments)['url']}"
    if found.questions:
        return "Waiting for somebody to answer a question."
    if operation is not None and operation.said:
        return operation.said
    return _WAITS_FOR[call.status]


class _Told(asyncio.Event):
    """Tells at once what is set."""

    def __init__(self, tell: Callable[[], None]) -> None:
        super().__init__()
        self._tell = tell

    def set(self) -> None:
        self._tell()


def _state(task: dict[str, Any]) -> dict[str, Any]:
    """What makes a change of a task one that is told."""
    return {key: task.get(key) for key in ("status", "statusMessage")} | {
        "inputRequests": sorted(task.get("inputRequests", ()))
    }
