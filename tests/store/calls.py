"""Calls to put into a store."""

from typing import Any

import msgspec
from msgspec import Raw

from jackfield.model.call import Call, CallStatus, Delivery, FirstReply
from jackfield.model.ids import new_id


def a_call(**fields: Any) -> Call:
    """A running call of nobody in particular, with `fields` instead of the defaults."""
    usual: dict[str, Any] = {
        "id": new_id("call"),
        "run_id": new_id("run"),
        "tool": "echo",
        "source": "local",
        "tool_version": "v1",
        "arguments": Raw(b'{"text":"hi"}'),
        "principal": "ops",
        "status": CallStatus.RUNNING,
        "attempt": 1,
        "owner": "gw_a",
    }
    return Call(**(usual | fields))


def a_waiting_call(**fields: Any) -> Call:
    return a_call(**({"status": CallStatus.WAITING, "attempt": 0, "owner": None} | fields))


def a_pending_call(**fields: Any) -> Call:
    usual: dict[str, Any] = {
        "status": CallStatus.PENDING,
        "attempt": 0,
        "owner": None,
        "delivery": Delivery.INBOX,
        "first_reply": FirstReply.PENDING,
    }
    return a_call(**(usual | fields))


def a_call_for_approval(**fields: Any) -> Call:
    return a_pending_call(**({"status": CallStatus.PENDING_APPROVAL} | fields))


def decoded(raw: Raw | None) -> Any:
    """The value that a stored result holds."""
    assert raw is not None
    return msgspec.json.decode(raw)
