"""Between a `Call` and its row. Above: `moves.py`. Below: the model."""

from typing import Any

import msgspec
from msgspec import Raw

from jackfield.model.call import Call, CallError, CallStatus, Decision, Delivery, Done, Failed, FirstReply
from jackfield.store.scripts import Row

_encode = msgspec.json.Encoder().encode


def call_from(row: Row) -> Call:
    """The call that a row of `calls` holds."""
    return Call(
        id=row["id"],
        run_id=row["run_id"],
        tool=row["tool"],
        source=row["source"],
        tool_version=row["tool_version"],
        arguments=_raw(row["arguments"]),
        principal=row["principal"],
        status=CallStatus(row["status"]),
        agent=row["agent"],
        space_id=row["space_id"],
        chat_id=row["chat_id"],
        cycle_id=row["cycle_id"],
        step=row["step"],
        idx=row["idx"],
        delivery=Delivery(row["delivery"]) if row["delivery"] else None,
        result=_raw(row["result"]) if row["result"] is not None else None,
        error=CallError(row["error_code"], row["error_message"]) if row["error_code"] else None,
        first_reply=FirstReply(row["first_reply"]) if row["first_reply"] else None,
        idempotent=bool(row["idempotent"]),
        attempt=row["attempt"],
        owner=row["owner"],
        waiter=row["waiter"],
        sent_at=row["sent_at"],
        deadline=row["deadline"],
        expires_at=row["expires_at"],
        timeout_ms=row["timeout_ms"],
        expires_in_ms=row["expires_in_ms"],
        offered_to=row["offered_to"],
        offers=row["offers"],
        answered_by=row["answered_by"],
        decision=Decision(row["decision"]) if row["decision"] else None,
        decided_by=row["decided_by"],
        decided_at=row["decided_at"],
        asked_arguments=_raw(row["asked_arguments"]) if row["asked_arguments"] is not None else None,
        shown=row["shown"],
        created_at=row["created_at"],
        finished_at=row["finished_at"],
        duration_ms=row["duration_ms"],
    )


def identity_values(call: Call) -> dict[str, Any]:
    """The columns that are written once, when the call is made."""
    return {
        "id": call.id,
        "run_id": call.run_id,
        "tool": call.tool,
        "source": call.source,
        "tool_version": call.tool_version,
        "arguments": bytes(call.arguments).decode(),
        "principal": call.principal,
        "agent": call.agent,
        "space_id": call.space_id,
        "chat_id": call.chat_id,
        "idempotent": int(call.idempotent),
        "owner": call.owner,
        "timeout_ms": call.timeout_ms,
        "expires_in_ms": call.expires_in_ms,
        "shown": call.shown,
    }


def outcome_values(outcome: Done | Failed) -> dict[str, Any]:
    """The columns that say how a call ended."""
    result = None if outcome.result is None else bytes(outcome.result).decode()
    if isinstance(outcome, Failed):
        return {"result": result, "error_code": outcome.code, "error_message": outcome.message}
    return {"result": result, "error_code": None, "error_message": None}


def inbox_data(call: Call) -> str:
    """What the `tool_result` event of a settled call tells its agent (contract §6)."""
    told = call.result
    if told is None:
        told = Raw(_encode({"error": call.error.message, "toolCallId": call.id} if call.error else None))
    data = {"toolCallId": call.id, "toolName": call.tool, "originRunId": call.run_id, "result": told}
    return _encode(data).decode()


def _raw(text: str) -> Raw:
    return Raw(text.encode())
