"""What people and programs outside can be told of. Above: the transitions that cause it, `notify/`, which tells."""

from typing import Any, Literal, get_args

from msgspec import Struct

from jackfield.model.call import Call, CallStatus

EventType = Literal[
    "call.pending_approval",
    "call.pending",
    "call.pending_login",
    "call.failed",
    "source.down",
    "source.up",
    "tool.quarantined",
    "agent.failed",
]
EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)
WHEN: dict[EventType, str] = {
    "call.pending_approval": "a call waits for a person's approval",
    "call.pending": "a call waits for an answer: of a person, a tool server, a service",
    "call.pending_login": "a call waits for a login at its source",
    "call.failed": "a call failed",
    "source.down": "a source cannot be used",
    "source.up": "a source that was down can be used again",
    "tool.quarantined": "a foreign tool changed its definition and is held until somebody accepts it",
    "agent.failed": "a cycle of an agent was given up",
}
CALL_EVENTS: dict[CallStatus, EventType] = {
    CallStatus.PENDING_APPROVAL: "call.pending_approval",
    CallStatus.PENDING: "call.pending",
    CallStatus.PENDING_LOGIN: "call.pending_login",
    CallStatus.FAILED: "call.failed",
}
"""What is told when a call comes to a status."""


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened, with what targets are chosen by."""

    type: EventType
    tool: str | None = None
    source: str | None = None
    agent: str | None = None
    call: Call | None = None
    """The call that it is about, as the transition left it."""
    details: dict[str, Any] = {}
    """What else it is about, as JSON."""
    key: str | None = None
    """What several gateways may see happen has one key, and is told once."""


def event_of(call: Call) -> Event | None:
    """What is told of a call that has just come to its status; None: nothing."""
    type_ = CALL_EVENTS.get(call.status)
    if type_ is None:
        return None
    return Event(type=type_, tool=call.tool, source=call.source, agent=call.agent, call=call)
