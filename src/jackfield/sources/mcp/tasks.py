"""Tasks of an MCP server: the work of a call that goes on there after its request was answered.

A server of 2026-07-28 answers `tools/call` with a task where the client declares the extension; one of 2025-11-25 where
the request asks for it, for tools that say so. From then on the call is pending and `calls/operations.py` looks after
it, by what is here. The reference of the work holds the task's id and nothing of this process.
Above: `source.py`. Below: `connection.py`.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from jackfield.model.call import Failed
from jackfield.model.redaction import cut
from jackfield.model.tool import Tool
from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, ErrorObject, RpcError
from jackfield.protocol.jsonrpc import encode as encode_json
from jackfield.protocol.mcp import MISSING_CAPABILITY, NEEDS_TASKS, TASKS
from jackfield.sources.base import Begun, Look, TaskUse
from jackfield.sources.client import ElicitAnswer, ElicitRequest
from jackfield.sources.foreign import cleaned
from jackfield.sources.mcp.capabilities import missing_capability
from jackfield.sources.mcp.connection import Connection
from jackfield.sources.mcp.core_questions import CoreQuestions
from jackfield.sources.mcp.handlers import Sample, ServerRequest, answer_requests, client_request
from jackfield.sources.mcp.handshake import Agreement
from jackfield.sources.mcp.input_required import InputRequest
from jackfield.sources.mcp.reading import failed_read
from jackfield.sources.mcp.transport import McpClientError

TASK_FAILED = "task_failed"
"""The code of a call whose task ended with an error of JSON-RPC, which is its result."""
LOST = "task_lost"
TTL_MS = 24 * 3600 * 1000
"""How long a server of 2025-11-25 is asked to keep a task."""
MAX_ID = 1_000
MAX_SAID = 2_000
MAX_QUESTIONS = 20
_OPEN = ("working", "input_required")

AS_TASK: dict[str, Any] = {"task": {"ttl": TTL_MS}}
"""What a request of 2025-11-25 has beside its parameters to be run as a task."""


class TaskLost(McpClientError):
    """A server does not know a task of 2025-11-25. It may be one of another gateway's session, which will ask again."""

    code = LOST


class TaskReference(Struct, frozen=True):
    """What finds a task again, at any gateway."""

    task: str
    core: bool = False
    """It is a task of 2025-11-25."""


class TaskState(Struct, frozen=True):
    """A task as a server tells of it, in either spelling."""

    task_id: str = msgspec.field(name="taskId")
    status: str
    message: str | None = msgspec.field(default=None, name="statusMessage")
    poll_ms: float | None = msgspec.field(default=None, name="pollIntervalMs")
    core_poll_ms: float | None = msgspec.field(default=None, name="pollInterval")
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET
    requests: dict[str, InputRequest] = msgspec.field(default_factory=dict, name="inputRequests")

    @property
    def pause(self) -> float | None:
        wanted = self.poll_ms if self.poll_ms is not None else self.core_poll_ms
        return None if wanted is None else wanted / 1000


class _Created(Struct):
    result_type: str = msgspec.field(default="complete", name="resultType")


class _CoreCreated(Struct):
    task: TaskState | None = None


def created_task(answer: Raw, *, is_modern: bool) -> Begun | None:
    """The task that a server answered a call with; None: it is the call's result. Raises `McpClientError`."""
    data = bytes(answer)
    if b'"task' not in data:
        return None
    try:
        if is_modern:
            if msgspec.json.decode(data, type=_Created).result_type != "task":
                return None
            state: TaskState | None = msgspec.json.decode(data, type=TaskState)
        else:
            state = msgspec.json.decode(data, type=_CoreCreated).task
    except UNREADABLE as fault:
        raise McpClientError(f"The server's task is not MCP's: {fault}.") from None
    if state is None:
        return None
    if not 0 < len(state.task_id) <= MAX_ID:
        raise McpClientError(f"The server's task has no id of 1 to {MAX_ID:,} characters.")
    return Begun(Raw(encode_json(TaskReference(state.task_id, core=not is_modern))))


def is_task_wanted(tool: Tool, use: TaskUse, agreement: Agreement, *, needs_task: bool) -> bool:
    """Whether a call asks for a task, or at 2026-07-28 lets the server make one."""
    is_modern = agreement.is_modern
    if use is TaskUse.NEVER or not (is_modern or _has_core_tasks(agreement)):
        return False
    if needs_task or tool.task_support == "required":
        return True
    return (is_modern or tool.task_support == "optional") and (use.is_followed or tool.metadata.long_running)


def _has_core_tasks(agreement: Agreement) -> bool:
    """Whether a server of 2025-11-25 runs tool calls as tasks at all, whatever its tools say."""
    found: Any = agreement.capabilities
    for key in ("tasks", "requests", "tools", "call"):
        found = found.get(key) if isinstance(found, dict) else None
    return isinstance(found, dict)


def is_refused_without_tasks(error: RpcError) -> bool:
    """Whether a server of 2026-07-28 refused a call because the client did not declare tasks."""
    if error.number != MISSING_CAPABILITY:
        return False
    required = error.data.get("requiredCapabilities") if isinstance(error.data, dict) else None
    extensions = required.get("extensions") if isinstance(required, dict) else None
    return isinstance(extensions, dict) and TASKS in extensions


def only_as_task(tool: Tool) -> Failed:
    """The outcome of a call that its caller cannot follow, though its tool runs only as a task."""
    said = f"it runs only as a task, so the client must declare the extension '{TASKS}'."
    return missing_capability(RpcError(MISSING_CAPABILITY, said, NEEDS_TASKS), tool.name)


async def look_at(
    connection: Connection, reference: Raw, *, sample: Sample | None, core_questions: CoreQuestions
) -> "Raw | Look":
    """How a task stands; the raw result of `tools/call` once it has one. Raises what the connection raises."""
    known = msgspec.json.decode(reference, type=TaskReference)
    try:
        state = _state(await connection.ask_task("tasks/get", known.task))
    except RpcError as error:
        if error.number not in (INVALID_PARAMS, METHOD_NOT_FOUND):
            raise
        if known.core:
            raise TaskLost(_lost(error).message) from None
        return Look(outcome=_lost(error))
    if known.core and state.status != "input_required":
        core_questions.end(known.task)
    if state.status == "completed" or (state.status == "failed" and known.core):
        return await _result(connection, known, state)
    if state.status == "failed":
        return Look(outcome=_failed(state.error))
    if state.status == "cancelled":
        return Look(outcome=Failed("cancelled", state.message or "The server cancelled the task."))
    if state.status not in _OPEN:
        raise McpClientError(f"The server's task has the status '{cut(state.status, 100)}', which MCP does not know.")
    questions = await _questions(connection, known, state, sample=sample) if state.requests else ()
    if known.core and state.status == "input_required":
        questions = await core_questions.of(connection, known.task)
    message = None if state.message is None else cut(cleaned(state.message), MAX_SAID)
    return Look(message=message, questions=questions, pause=state.pause)


async def cancel(connection: Connection, reference: Raw) -> None:
    """Have a task stopped. One that is over, or unknown by now, is none to stop."""
    known = msgspec.json.decode(reference, type=TaskReference)
    try:
        await connection.ask_task("tasks/cancel", known.task)
    except RpcError as error:
        if error.number != INVALID_PARAMS:
            raise


async def give_answers(
    connection: Connection, reference: Raw, answers: dict[str, ElicitAnswer], *, core_questions: CoreQuestions
) -> None:
    """Answers to a task's questions."""
    known = msgspec.json.decode(reference, type=TaskReference)
    if known.core:
        core_questions.answer(known.task, answers)
        return
    responses: dict[str, Any] = {}
    for key, answer in answers.items():
        content = answer.content if answer.action == "accept" else None
        responses[key] = {"action": answer.action} | ({} if content is None else {"content": content})
    await connection.ask_task("tasks/update", known.task, inputResponses=responses)


async def _result(connection: Connection, known: TaskReference, state: TaskState) -> "Raw | Look":
    if not known.core:
        if state.result is UNSET:
            return Look(outcome=Failed("bad_response", "The server's task is completed and has no result."))
        return state.result
    try:
        return await connection.ask_task("tasks/result", known.task)
    except RpcError as error:
        return Look(outcome=_broken(error))


async def _questions(
    connection: Connection, known: TaskReference, state: TaskState, *, sample: Sample | None
) -> tuple[ElicitRequest, ...]:
    """What a task asks of people. A model's answer is given at once, where the config lets the server have it."""
    asked: list[ElicitRequest] = []
    answered: dict[str, Any] = {}
    for key, request in list(state.requests.items())[:MAX_QUESTIONS]:
        wanted = ServerRequest(request.method, request.params, key)
        try:
            question = client_request(wanted)
            if isinstance(question, ElicitRequest):
                asked.append(msgspec.structs.replace(question, key=key))
            else:
                [answered[key]] = await answer_requests([wanted], ask=None, sample=sample)
        except RpcError as refusal:
            raise McpClientError(f"The task made a request that is not allowed. {refusal.message}") from None
    if answered:
        await connection.ask_task("tasks/update", known.task, inputResponses=answered)
    return tuple(asked)


def _state(answer: Raw) -> TaskState:
    try:
        msgspec.json.decode(answer)  # into Python values once, because only that validates every string and number
        return msgspec.json.decode(answer, type=TaskState)
    except UNREADABLE as fault:
        raise McpClientError(f"The server's task is not MCP's: {fault}.") from None


def _failed(error: Raw | UnsetType) -> Failed:
    try:
        fault = ErrorObject() if error is UNSET else msgspec.json.decode(error, type=ErrorObject)
    except UNREADABLE:
        fault = ErrorObject()
    return _broken(RpcError(fault.code or INTERNAL_ERROR, fault.message or "The task failed.", fault.data))


def _broken(error: RpcError) -> Failed:
    """An error of JSON-RPC that ended a task, kept whole."""
    message = cut(cleaned(error.message), MAX_SAID)
    return Failed(TASK_FAILED, f"The task failed with error {error.number}: {message}", failed_read(error).result)


def _lost(error: RpcError) -> Failed:
    said = cut(cleaned(error.message), MAX_SAID)
    return Failed(LOST, f"The server does not know the task any more, so its result is lost: {said}")
