"""What a service's responses mean for a call. Pure.

The execute endpoint of a gateway answers with `{"success", "status", "result", "error"}`; one that a template names
answers with the result itself.
"""

import math
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from jackfield.model.call import NULL, Done, Failed, done, on_one_line
from jackfield.model.redaction import cut
from jackfield.model.tool import AsyncBehavior, ProgressTracking, at_path
from jackfield.outgoing import OutgoingResponse
from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.protocol.large_results import LargeResult, ResultPage
from jackfield.sources.base import Begun, Look, Progress
from jackfield.sources.http import outcome_of

_PENDING = frozenset({"pending", "pending_approval", "pending_login", "waiting", "running"})
_MAX_TEXT = 2_000


class _Executed(Struct):
    """The answer of an execute endpoint."""

    success: bool | UnsetType = UNSET
    status: str | None = None
    call_id: str | None = None
    result: Raw = NULL
    error: Any = None


class _Record(Struct):
    """The part of a call's record that has its state."""

    status: str
    result: Raw = NULL
    error: Any = None


class _OneCall(Struct):
    call: _Record


class _Reference(Struct, omit_defaults=True):
    """Identifies work that was begun: a call of another gateway, or an id that the status tool takes."""

    call: str | None = None
    id: Any = None


def executed(response: OutgoingResponse, *, where: str) -> Done | Failed | Begun:
    """The outcome of a call of the execute endpoint at `where`."""
    if not _is_success(response.status):
        return refused(response, where=where)
    try:
        said = msgspec.json.decode(response.content, type=_Executed)
    except UNREADABLE:
        said = _Executed()
    if said.success is UNSET:
        return _outcome_of(response)
    if not said.success and said.status in _PENDING and said.call_id:
        return Begun(Raw(msgspec.json.encode(_Reference(call=said.call_id))))
    if said.success:
        return Done(on_one_line(said.result))
    return _failed(said.error, said.result, otherwise=f"The service at {where} failed and did not say why.")


def refused(response: OutgoingResponse, *, where: str) -> Failed:
    """A failed response: what the service says about it, or what the status most likely means."""
    try:
        said = msgspec.json.decode(response.content)
    except UNREADABLE:
        said = None
    error = said.get("error") if isinstance(said, dict) else None
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return Failed(_code(error.get("code")), cut(error["message"], _MAX_TEXT))
    if response.status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
        return Failed(
            "http_error",
            f"{where} answered {response.status}: the service has no such endpoint. "
            "Set the source's 'execution' to say how its tools are executed.",
        )
    message = said.get("message") if isinstance(said, dict) else None
    told = message if isinstance(message, str) else error if isinstance(error, str) else ""
    return Failed("http_error", f"{where} answered {response.status}{f': {cut(told, _MAX_TEXT)}' if told else '.'}")


def record_look(response: OutgoingResponse, *, where: str) -> Look:
    """The state of another gateway's call, by its record."""
    if not _is_success(response.status):
        return Look(outcome=refused(response, where=where))
    try:
        record = msgspec.json.decode(response.content, type=_OneCall).call
    except UNREADABLE as fault:
        return Look(outcome=Failed("bad_response", f"{where} answered with no record of a call: {fault}"))
    if record.status in _PENDING:
        return Look()
    if record.status == "completed":
        return Look(outcome=Done(on_one_line(record.result)))
    said = f"The call at {where} is {record.status}."
    return Look(outcome=_failed(record.error, record.result, otherwise=said))


def notice_in(result: Raw) -> LargeResult | None:
    """The notice that another gateway returns in place of a large result, if this is one."""
    if not bytes(result).startswith(b'{"large_result":true'):
        return None
    try:
        return msgspec.json.decode(result, type=LargeResult)
    except UNREADABLE:
        return None


def page_in(response: OutgoingResponse) -> ResultPage | None:
    """A page of a large result; None: the answer is none."""
    try:
        return msgspec.json.decode(response.content, type=ResultPage) if _is_success(response.status) else None
    except UNREADABLE:
        return None


def begun_of(result: Raw, behavior: AsyncBehavior, *, tool: str) -> Begun | Failed:
    """The work that a first result says was begun."""
    path = behavior.status_polling.operation_id_field
    found = at_path(msgspec.json.decode(result), path)
    if isinstance(found, (str, int, float)) and not isinstance(found, bool) and found != "":
        return Begun(Raw(msgspec.json.encode(_Reference(id=found))))
    return Failed(
        "bad_response",
        f"Tool '{tool}' was begun, but its answer has no id at '{path}', so nobody can follow it.",
        result,
    )


def call_in(reference: Raw) -> str | None:
    """The other gateway's call, if that is what the reference is."""
    return msgspec.json.decode(reference, type=_Reference).call


def id_in(reference: Raw) -> Any:
    return msgspec.json.decode(reference, type=_Reference).id


def look_of(result: Raw, behavior: AsyncBehavior) -> Look:
    """How work stands, by its status tool's response. A status that nobody names means that it goes on."""
    said = msgspec.json.decode(result)
    conditions = behavior.completion_conditions
    status = _text(at_path(said, conditions.status_field))
    if status in conditions.success_values:
        found = at_path(said, conditions.result_field)
        return Look(outcome=Done(result) if found is None else done(found))
    if status in conditions.failure_values:
        told = [at_path(said, path) for path in (conditions.error_field, conditions.error_details_field)]
        words = ": ".join(text for one in told if one is not None and (text := _text(one)))
        return Look(
            outcome=Failed("tool_error", cut(words, _MAX_TEXT) or f"It ended with the status '{status}'.", result)
        )
    return Look(progress=_progress(said, behavior.progress_tracking))


def _progress(said: Any, tracking: ProgressTracking | None) -> Progress | None:
    if tracking is None:
        return None
    share, step = _number(at_path(said, tracking.progress_field)), _number(at_path(said, tracking.current_step_field))
    total = None if share is not None else _number(at_path(said, tracking.total_steps_field))
    words = [at_path(said, path) for path in (tracking.phase_field, tracking.message_field)]
    message = ": ".join(_text(one) for one in words if one is not None)
    left = _number(at_path(said, tracking.estimated_remaining_field))
    if left is not None:
        message = f"{message} ({left:g} s left)".strip()
    amount = share if share is not None else step
    if amount is None and not message:
        return None
    return Progress(progress=amount or 0.0, total=total, message=cut(message, _MAX_TEXT) or None)


def _failed(error: Any, result: Raw, *, otherwise: str) -> Failed:
    shown = None if bytes(result) == b"null" else on_one_line(result)
    if isinstance(error, dict):
        message = error.get("message")
        return Failed(_code(error.get("code")), cut(str(message), _MAX_TEXT) if message else otherwise, shown)
    return Failed("tool_error", cut(error, _MAX_TEXT) if isinstance(error, str) and error else otherwise, shown)


def _outcome_of(response: OutgoingResponse) -> Done | Failed:
    outcome = outcome_of(response)
    assert isinstance(outcome, (Done, Failed))
    return outcome


def _is_success(status: int) -> bool:
    return HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES


def _code(said: Any) -> str:
    """A foreign error code, if it looks like one."""
    return said if isinstance(said, str) and said.isidentifier() and len(said) <= 64 else "tool_error"  # noqa: PLR2004 - a word's worth


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
