"""How a call, its answer and its events look on the wire.

Above: the handlers. Below: `model/call.py` and the pipeline's events. Pure.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from jackfield.calls.events import CallEvent
from jackfield.calls.messages import waiting
from jackfield.calls.timeline import Moment
from jackfield.calls.waiting import Slot, slot_of
from jackfield.model.call import (
    Call,
    CallError,
    CallStatus,
    Decision,
    Delivery,
    Done,
    Failed,
    FirstReply,
    HookNote,
    LoginWait,
)
from jackfield.model.text import Time, iso_time
from jackfield.model.tool import CallKind
from jackfield.sources.base import LogNote, Progress

BRIEF = 1_000
"""Bytes that an argument's or result's JSON may have in a brief record."""
_EMPTY = Raw(b"{}")


class ExecuteAnswer(Struct, frozen=True, kw_only=True):
    """What a call came to, or that somebody else still has to answer."""

    success: bool
    call_id: str
    run_id: str
    status: CallStatus
    result: Raw | None
    error: CallError | None
    execution_time_ms: float | None
    login_url: str | UnsetType = UNSET
    """For `pending_login`: where to log in so that the call can run; for who may."""


class LoginRecord(Struct, frozen=True, kw_only=True):
    """The login that a call waits for."""

    source: str
    principal: str | None
    """Whose; null: one for all, which an administrator makes."""
    scopes: tuple[str, ...]


class CallRecord(Struct, frozen=True, kw_only=True):
    """One call as the gateway keeps it."""

    id: str
    call_id: str
    run_id: str
    tool: str
    source: str
    tool_version: str
    kind: CallKind
    arguments: Annotated[Raw, Meta(extra_json_schema={"type": "object"})]
    asked_arguments: Annotated[Raw, Meta(extra_json_schema={"type": "object"})]
    """What was asked for; a hook or an approval may have put other `arguments` in its place."""
    principal: str
    agent: str | None
    space_id: str | None
    chat_id: str | None
    status: CallStatus
    delivery: Delivery | None
    result: Raw | None
    error: CallError | None
    attempt: int
    count: int
    """Of a `refused` call: how often the same principal made it and was refused in the same way, within a minute."""
    created_at: Time
    finished_at: Time | None
    """Of a `refused` call: when it was made last."""
    deadline: Time | None
    expires_at: Time | None
    execution_time_ms: float | None
    decision: Decision | None
    """What became of it, if a person had to allow it: `approved`, `rejected`, or `expired` when nobody did in time."""
    decided_by: str | None
    """The key that allowed or refused it; `signed link` for whoever held its approval url."""
    decided_at: Time | None
    answered_by: str | None
    """The key whose answer is the result, where somebody else gave it; `callback` for whoever held its url."""
    verified_by: str | None
    """The call that settled it, where nobody knew whether it took effect: that of the tool named by `verify`."""
    callback_url: str | None
    """Where its result can be posted without a key, once; for keys that may answer it, while it can be answered."""
    approval_url: str | None = None
    """Where it can be allowed or refused without a key, once; for keys that may, while it waits for that."""
    answer_schema: dict[str, Any] | None = None
    """What its result has to be, where the tool says so; for keys that may answer it, while it can be answered."""
    tool_call_id: str = field(name="toolCallId")
    """From here on: fields from above under seed 003's names."""
    agent_entity_id: str | None = field(name="agentEntityId")
    seed_run_id: str = field(name="runId")
    tool_name: str = field(name="toolName")
    args: Annotated[Raw, Meta(extra_json_schema={"type": "object"})]
    seed_expires_at: Time | None = field(name="expiresAt")

    trace: str | None = None
    """For administrators, in the record of one call: where in a tool file it failed."""
    waits_for: Literal["question"] | None = None
    """`question`: its tool asked something. The question is a call of its own in the same run; its answer, not the
    result, is what somebody has to give."""
    hooks: tuple[HookNote, ...] = ()
    """What hooks did to it, in their order. Where one withheld the result, `result` has it for administrators only,
    in the record of one call."""
    login: LoginRecord | None = None
    """While it is `pending_login`: the login that it waits for."""
    login_url: str | None = None
    """Where to make that login; for who may. It holds no secret: the browser has to be signed in."""
    trace_id: str | None = None
    """The trace (W3C) that the call is part of, where its caller named one or the gateway sends spans."""
    replay_of: str | None = None
    """The call that was made again with this one."""
    left_out: tuple[str, ...] | UnsetType = UNSET
    """With `brief`: which of `arguments` and `result` are longer than that and left out here."""
    timeline: tuple[Moment, ...] | UnsetType = UNSET
    """In the record of one call: what happened to it, in its order."""


class OneCall(Struct, frozen=True, kw_only=True):
    """A call in its envelope."""

    call: CallRecord


class CallPage(Struct, frozen=True, kw_only=True):
    """Calls, newest first. `next_cursor` is where the next page begins; null: this was the last."""

    calls: list[CallRecord]
    next_cursor: str | None


class CallEventRecord(Struct, frozen=True, kw_only=True):
    """Something that happened to a call."""

    type: str
    call_id: str
    run_id: str
    tool: str
    agent: str | None
    status: CallStatus
    at: Time
    progress: Progress | None
    log: LogNote | None
    """What the tool's server said, for `call.log`."""
    execution_time_ms: float | None
    login: LoginRecord | UnsetType = UNSET
    """For `pending_login`: the login that it waits for."""
    login_url: str | UnsetType = UNSET
    """Where to make it; for who may."""


def execute_answer(call: Call, *, login_url: str | None = None) -> ExecuteAnswer:
    """The answer to whoever made the call: its slot."""
    if call.delivery is Delivery.INLINE and call.duration_ms is not None:  # the same as below, for the busiest path
        return ExecuteAnswer(
            success=call.status is CallStatus.COMPLETED,
            call_id=call.id,
            run_id=call.run_id,
            status=call.status,
            result=call.result,
            error=call.error,
            execution_time_ms=round(call.duration_ms, 3),
        )
    slot = slot_of(call)
    match slot:
        case Slot(status, Done(result)):
            return _answer(call, status, result, None)
        case Slot(status, Failed(code, message, result)):
            return _answer(call, status, result, CallError(code, message))
        case _:
            status = slot.status if slot is not None else _undecided(call)
            answer = _answer(call, status, waiting(call, status, login_url=login_url), None)
            return answer if login_url is None else msgspec.structs.replace(answer, login_url=login_url)


def _undecided(call: Call) -> CallStatus:
    """The word for a call whose caller is answered before it is decided where the outcome goes."""
    return call.status if call.status is CallStatus.PENDING_LOGIN else CallStatus.PENDING


def _answer(call: Call, status: CallStatus, result: Raw | None, error: CallError | None) -> ExecuteAnswer:
    return ExecuteAnswer(
        success=status is CallStatus.COMPLETED,
        call_id=call.id,
        run_id=call.run_id,
        status=status,
        result=result,
        error=error,
        execution_time_ms=_took(call, until=_end_of_wait(call)) if status.is_final else None,
    )


def call_record(call: Call, *, callback_url: str | None = None) -> CallRecord:
    expires_at = _maybe_time(call.expires_at)
    return CallRecord(
        id=call.id,
        call_id=call.id,
        run_id=call.run_id,
        tool=call.tool,
        source=call.source,
        tool_version=call.tool_version,
        kind=call.kind,
        arguments=call.arguments,
        asked_arguments=call.arguments if call.asked_arguments is None else call.asked_arguments,
        principal=call.principal,
        agent=call.agent,
        space_id=call.space_id,
        chat_id=call.chat_id,
        status=call.status,
        delivery=call.delivery,
        result=call.result,
        error=call.error,
        attempt=call.attempt,
        count=call.count,
        created_at=iso_time(call.created_at),
        finished_at=_maybe_time(call.finished_at),
        deadline=_maybe_time(call.deadline),
        expires_at=expires_at,
        execution_time_ms=_took(call, until=call.finished_at),
        decision=call.decision,
        decided_by=call.decided_by,
        decided_at=_maybe_time(call.decided_at),
        answered_by=call.answered_by,
        verified_by=call.verified_by,
        callback_url=callback_url,
        tool_call_id=call.id,
        agent_entity_id=call.agent,
        seed_run_id=call.run_id,
        tool_name=call.tool,
        args=call.arguments,
        seed_expires_at=expires_at,
        hooks=call.hooks,
        trace_id=call.trace_id,
        replay_of=call.replay_of,
        login=_login(call.login) if call.status is CallStatus.PENDING_LOGIN and call.login is not None else None,
    )


def brief(record: CallRecord) -> CallRecord:
    """The record as a list shows it: without what is long."""
    left_out = [name for name in ("arguments", "asked_arguments", "result") if _is_long(getattr(record, name))]
    kept: dict[str, Any] = dict.fromkeys(left_out, _EMPTY)
    if "arguments" in kept:
        kept["args"] = _EMPTY
    if "result" in kept:
        kept["result"] = None
    return msgspec.structs.replace(record, **kept, left_out=tuple(left_out))


def _is_long(value: Raw | None) -> bool:
    return value is not None and len(bytes(value)) > BRIEF


def shown_outcome(withheld: Done | Failed) -> Raw:
    """What a hook withheld, as administrators see it: the result, or the error in an object."""
    if withheld.result is not None:
        return withheld.result
    assert isinstance(withheld, Failed)
    return Raw(msgspec.json.encode({"error": {"code": withheld.code, "message": withheld.message}}))


def _login(login: LoginWait) -> LoginRecord:
    return LoginRecord(source=login.source, principal=login.principal, scopes=login.scopes)


def event_record(event: CallEvent, *, login_url: str | None = None) -> CallEventRecord:
    return CallEventRecord(
        type=event.type,
        call_id=event.call_id,
        run_id=event.run_id,
        tool=event.tool,
        agent=event.agent,
        status=event.status,
        at=iso_time(event.at),
        progress=event.progress,
        log=event.log,
        execution_time_ms=_rounded(event.duration_ms),
        login=UNSET if event.login is None else _login(event.login),
        login_url=UNSET if login_url is None else login_url,
    )


def _maybe_time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else iso_time(milliseconds)


def _end_of_wait(call: Call) -> int | None:
    """When whoever made the call was answered, by the database's clock."""
    return call.deadline if call.first_reply is FirstReply.TIMEOUT else call.finished_at


def _took(call: Call, *, until: int | None) -> float | None:
    """How long the tool ran here, or how long somebody else took to answer."""
    if call.duration_ms is not None or until is None or call.status is CallStatus.REFUSED:
        return _rounded(call.duration_ms)
    return float(until - call.created_at)


def _rounded(milliseconds: float | None) -> float | None:
    """To the microsecond; what is behind that is noise."""
    return None if milliseconds is None else round(milliseconds, 3)
