"""What a service's answers mean for a call. Pure.

Above: `calling.py`, `work.py`. Below: nothing but the words of calls. A service with our execute endpoint answers with
`{"success", "status", "result", "error"}`; one that a template reaches answers with the result itself.
"""

import math
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from jackfield.model.behavior import AsyncBehavior, ProgressTracking, at_path
from jackfield.model.call import NULL, Done, Failed, done
from jackfield.model.redaction import cut
from jackfield.protocol.large_results import LargeResult, ResultPage
from jackfield.sources.base import Begun, Look, Progress
from jackfield.sources.http import outcome_of
from jackfield.sources.outgoing import OutgoingResponse

_WAITING = frozenset({"pending", "pending_approval", "waiting", "running"})
_LONGEST = 2_000


class _Executed(Struct):
    """The answer of an execute endpoint."""

    success: bool | UnsetType = UNSET
    status: str | None = None
    call_id: str | None = None
    result: Raw = NULL
    error: Any = None


class _Record(Struct):
    """The part of a call's record that says how it stands."""

    status: str
    result: Raw = NULL
    error: Any = None


class _OneCall(Struct):
    call: _Record


class _Reference(Struct, omit_defaults=True):
    """How begun work is found again: a call of another gateway's, or an id that its status tool takes."""

    call: str | None = None
    id: Any = None


def executed(answer: OutgoingResponse, *, where: str) -> Done | Failed | Begun:
    """What the execute endpoint at `where` came to."""
    if not _is_good(answer.status):
        return refused(answer, where=where)
    try:
        said = msgspec.json.decode(answer.content, type=_Executed)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        said = _Executed()
    if said.success is UNSET:
        return _result_of(answer)
    if not said.success and said.status in _WAITING and said.call_id:
        return Begun(Raw(msgspec.json.encode(_Reference(call=said.call_id))))
    if said.success:
        return Done(_one_line(said.result))
    return _failed(said.error, said.result, otherwise=f"The service at {where} failed and did not say why.")


def refused(answer: OutgoingResponse, *, where: str) -> Failed:
    """A status that is no success: what the service says about it, or what it most likely means."""
    try:
        said = msgspec.json.decode(answer.content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        said = None
    error = said.get("error") if isinstance(said, dict) else None
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return Failed(_code(error.get("code")), cut(error["message"], _LONGEST))
    if answer.status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
        return Failed(
            "http_error",
            f"{where} answered {answer.status}: the service has no such endpoint. "
            "Set the source's 'execution' to say how its tools are executed.",
        )
    message = said.get("message") if isinstance(said, dict) else None
    told = message if isinstance(message, str) else error if isinstance(error, str) else ""
    return Failed("http_error", f"{where} answered {answer.status}{f': {cut(told, _LONGEST)}' if told else '.'}")


def record_look(answer: OutgoingResponse, *, where: str) -> Look:
    """How another gateway's call stands, by its record."""
    if not _is_good(answer.status):
        return Look(outcome=refused(answer, where=where))
    try:
        record = msgspec.json.decode(answer.content, type=_OneCall).call
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        return Look(outcome=Failed("bad_response", f"{where} answered with no record of a call: {fault}"))
    if record.status in _WAITING:
        return Look()
    if record.status == "completed":
        return Look(outcome=Done(_one_line(record.result)))
    said = f"The call at {where} is {record.status}."
    return Look(outcome=_failed(record.error, record.result, otherwise=said))


def notice_in(result: Raw) -> LargeResult | None:
    """What another gateway tells in place of a large result, if this is that."""
    if not bytes(result).startswith(b'{"large_result":true'):
        return None
    try:
        return msgspec.json.decode(result, type=LargeResult)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def page_in(answer: OutgoingResponse) -> ResultPage | None:
    """A page of a large result; None: the answer is none."""
    try:
        return msgspec.json.decode(answer.content, type=ResultPage) if _is_good(answer.status) else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def begun_of(result: Raw, behavior: AsyncBehavior, *, tool: str) -> Begun | Failed:
    """The work that a first answer says was begun."""
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
    """How work stands, by its status tool's answer. A status that nobody names means that it goes on."""
    said = msgspec.json.decode(result)
    conditions = behavior.completion_conditions
    status = _word(at_path(said, conditions.status_field))
    if status in conditions.success_values:
        found = at_path(said, conditions.result_field)
        return Look(outcome=Done(result) if found is None else done(found))
    if status in conditions.failure_values:
        told = [at_path(said, path) for path in (conditions.error_field, conditions.error_details_field)]
        words = ": ".join(text for one in told if one is not None and (text := _word(one)))
        return Look(
            outcome=Failed("tool_error", cut(words, _LONGEST) or f"It ended with the status '{status}'.", result)
        )
    return Look(progress=_progress(said, behavior.progress_tracking))


def _progress(said: Any, tracking: ProgressTracking | None) -> Progress | None:
    if tracking is None:
        return None
    share, step = _number(at_path(said, tracking.progress_field)), _number(at_path(said, tracking.current_step_field))
    total = None if share is not None else _number(at_path(said, tracking.total_steps_field))
    words = [at_path(said, path) for path in (tracking.phase_field, tracking.message_field)]
    message = ": ".join(_word(one) for one in words if one is not None)
    left = _number(at_path(said, tracking.estimated_remaining_field))
    if left is not None:
        message = f"{message} ({left:g} s left)".strip()
    amount = share if share is not None else step
    if amount is None and not message:
        return None
    return Progress(progress=amount or 0.0, total=total, message=cut(message, _LONGEST) or None)


def _failed(error: Any, result: Raw, *, otherwise: str) -> Failed:
    shown = None if bytes(result) == b"null" else _one_line(result)
    if isinstance(error, dict):
        message = error.get("message")
        return Failed(_code(error.get("code")), cut(str(message), _LONGEST) if message else otherwise, shown)
    return Failed("tool_error", cut(error, _LONGEST) if isinstance(error, str) and error else otherwise, shown)


def _result_of(answer: OutgoingResponse) -> Done | Failed:
    outcome = outcome_of(answer)
    assert isinstance(outcome, (Done, Failed))
    return outcome


def _is_good(status: int) -> bool:
    return HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES


def _code(said: Any) -> str:
    """A foreign code in a place of ours: a word, or none of ours."""
    return said if isinstance(said, str) and said.isidentifier() and len(said) <= 64 else "tool_error"  # noqa: PLR2004 - a word's worth


def _word(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _one_line(result: Raw) -> Raw:
    """Results travel in formats where a line break ends the message."""
    content = bytes(result)
    return Raw(msgspec.json.format(content, indent=-1)) if b"\n" in content or b"\r" in content else Raw(content)
