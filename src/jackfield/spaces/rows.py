"""Between spaces, members, messages and events and their rows, and how a visible call looks as a message.

Above: `transactions.py`. Below: the model. Pure.
"""

from typing import Any

import msgspec
from msgspec import Raw

from jackfield.model.call import Call, CallStatus
from jackfield.model.space import (
    LatestOfSpace,
    LiveStream,
    Member,
    Presence,
    ShownStatus,
    Space,
    SpaceEvent,
    SpaceMessage,
    SpaceRead,
    call_message_id,
)
from jackfield.store.scripts import Row

_encode = msgspec.json.Encoder().encode

HIDDEN = {"hidden": True}
"""In place of what a tool with sensitive output gave."""
HIDDEN_ERROR = "The tool failed. What it said is not shown here."
_OWN_ERRORS = frozenset({"timeout", "interrupted", "cancelled", "rejected", "expired"})
"""Codes of errors in the gateway's own words, which hold nothing of the tool's output."""


def space_from(row: Row) -> Space:
    return Space(
        id=row["id"],
        name=row["name"],
        description=row["description"],
        metadata=_raw(row["metadata"]),
        last_seq=row["last_seq"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def latest_from(row: Row) -> LatestOfSpace:
    return LatestOfSpace(
        members=row["members"],
        sender_name=row["sender_name"],
        content=row["content"],
        created_at=row["created_at"],
        tool=row["tool"],
    )


def member_from(row: Row) -> Member:
    return Member(
        space_id=row["space_id"],
        entity_id=row["entity_id"],
        kind=row["kind"],
        name=row["name"],
        joined_at=row["joined_at"],
    )


def read_from(row: Row) -> SpaceRead:
    return SpaceRead(
        entity_id=row["entity_id"],
        last_seq=row["last_seq"],
        last_message=row["last_message"],
        read_at=row["read_at"],
    )


def message_from(row: Row) -> SpaceMessage:
    return SpaceMessage(
        id=row["id"],
        space_id=row["space_id"],
        seq=row["seq"],
        entity_id=row["entity_id"],
        sender_name=row["sender_name"],
        sender_type=row["sender_type"],
        role=row["role"],
        content=row["content"],
        metadata=_raw(row["metadata"]),
        run_id=row["run_id"],
        created_at=row["created_at"],
        edited_at=row["edited_at"],
    )


def event_from(row: Row) -> SpaceEvent:
    return SpaceEvent(
        space_id=row["space_id"],
        seq=row["seq"],
        type=row["type"],
        data=_raw(row["data"]),
        created_at=row["created_at"],
    )


def presence_from(row: Row) -> Presence:
    return Presence(row["agent"], row["agent_name"], row["run_id"])


def live_from(row: Row) -> LiveStream:
    return LiveStream(
        stream_id=row["stream_id"],
        space_id=row["space_id"],
        gateway=row["gateway"],
        kind=row["kind"],
        state=row["state"],
        run_id=row["run_id"],
        agent=row["agent"],
        agent_name=row["agent_name"],
        tool=row["tool"],
        text=row["text"],
    )


class ShownCall(msgspec.Struct, frozen=True, kw_only=True):
    """What a space sees of a visible call: one message, whose state changes."""

    call_id: str
    tool: str
    run_id: str
    agent: str | None
    args: Raw
    status: ShownStatus
    result: Any = None
    error: str | None = None

    @property
    def event(self) -> dict[str, Any]:
        """The fields that each of its events has."""
        return {"streamId": self.call_id, "runId": self.run_id, "agentEntityId": self.agent, "toolName": self.tool}

    @property
    def values(self) -> dict[str, str]:
        """The columns of its message that change."""
        state = {"toolName": self.tool, "args": self.args, "result": self.result, "status": self.status}
        metadata = {"type": "tool_call", "toolCallId": self.call_id, **state, "runId": self.run_id}
        if self.error is not None:
            metadata["error"] = self.error
        content = json_text({"type": "tool_call", **state})
        return {"message_id": call_message_id(self.call_id), "content": content, "metadata": json_text(metadata)}


def shown_call(call: Call, status: ShownStatus) -> ShownCall:
    """A call that is not over, as its space sees it."""
    return ShownCall(
        call_id=call.id, tool=call.tool, run_id=call.run_id, agent=call.agent, args=call.arguments, status=status
    )


def shown_outcome(call: Call) -> ShownCall:
    """A call that is over, as its space sees it."""
    is_hidden = call.shown == "without_result"
    result: object = call.result
    if is_hidden and result is not None:
        result = HIDDEN
    if call.status is CallStatus.COMPLETED:
        return msgspec.structs.replace(shown_call(call, "complete"), result=result)
    said = call.error.message if call.error else f"The call is {call.status.value}."
    if is_hidden and call.error and call.error.code not in _OWN_ERRORS:
        said = HIDDEN_ERROR
    return msgspec.structs.replace(shown_call(call, "error"), result=result, error=said)


def json_text(value: object) -> str:
    return _encode(value).decode()


def _raw(text: str) -> Raw:
    return Raw(text.encode())
