"""Spaces: who is in one, what was said there, and the numbered line of what happened.

Every durable event of a space takes the space's next number, and a message carries the number of the event that first
told of it: messages therefore have gaps between their numbers, the line of events has none.
"""

from typing import Any, Literal

from msgspec import Raw, Struct

from jackfield.model.text import iso_time

EntityKind = Literal["person", "agent"]
SenderType = Literal["person", "agent", "system"]
Role = Literal["user", "assistant", "system"]
ShownStatus = Literal["running", "requires_action", "complete", "error"]

ROLES: dict[SenderType, Role] = {"person": "user", "agent": "assistant", "system": "system"}
SPACE_TOPIC = "space:"
"""Before a space's id: somebody has written into it."""
LIVE_TOPIC = "live:"
"""Before a space's id: something in it has been said a little further."""

DURABLE_EVENTS: dict[str, str] = {
    "space.message": "a message or a visible call was posted or changed",
    "space.updated": "the space's name, description or metadata changed",
    "member.joined": "somebody became a member",
    "member.left": "somebody is no member any more",
    "agent.active": "an agent began to work in the space",
    "agent.inactive": "an agent stopped working in the space",
    "tool.started": "a visible call began; `streamId` is its id",
    "tool.done": "it ended with a result",
    "tool.error": "it ended without one",
}
"""Events with a number, which a stream brings once each and in order."""

LONGEST_MESSAGE = 100_000
"""Characters of one message."""


class Space(Struct, frozen=True, kw_only=True):
    """A place where people and agents see the same things in the same order."""

    id: str
    name: str
    description: str
    metadata: Raw
    last_seq: int
    """The number of its newest event; 0: nothing has happened yet."""
    created_at: int
    updated_at: int


class LatestOfSpace(Struct, frozen=True, kw_only=True):
    """What a list says of a space."""

    members: int
    sender_name: str | None
    """Who said something last; None: nobody has said anything. The next two are of that message."""
    content: str | None
    """Its beginning."""
    created_at: int | None
    tool: str | None
    """Of the call that it shows."""


class Member(Struct, frozen=True, kw_only=True):
    """Somebody who is in a space."""

    space_id: str
    entity_id: str
    kind: EntityKind
    name: str
    joined_at: int


class SpaceRead(Struct, frozen=True, kw_only=True):
    """How far somebody has read a space."""

    entity_id: str
    last_seq: int
    """Everything up to this number."""
    last_message: str | None
    """The newest message among it."""
    read_at: int


class Sender(Struct, frozen=True):
    """Who says something."""

    entity_id: str
    name: str
    kind: SenderType


SYSTEM = Sender("jackfield", "Jackfield", "system")
"""The gateway itself, when it has to tell people something."""


class SpaceMessage(Struct, frozen=True, kw_only=True):
    """One thing that was said, or one visible call."""

    id: str
    space_id: str
    seq: int
    entity_id: str
    sender_name: str
    sender_type: SenderType
    role: Role
    content: str
    metadata: Raw
    run_id: str | None
    created_at: int
    edited_at: int | None = None


class SpaceEvent(Struct, frozen=True, kw_only=True):
    """One durable event. `data` is a JSON object with the event's own fields, without its type and number."""

    space_id: str
    seq: int
    type: str
    data: Raw
    created_at: int


class Presence(Struct, frozen=True):
    """An agent that is at work in a space just now."""

    agent: str
    agent_name: str
    run_id: str


class LiveStream(Struct, frozen=True, kw_only=True):
    """What is being said right now, as far as it has come. Known to other gateways only by its row."""

    stream_id: str
    space_id: str
    gateway: str
    kind: Literal["tool", "message"]
    state: Literal["open", "done", "failed"]
    run_id: str | None
    agent: str
    agent_name: str
    tool: str | None
    text: str


def message_fields(message: SpaceMessage) -> dict[str, Any]:
    """A message as programs outside read it: in lists, in `space.message` and in answers."""
    edited = {} if message.edited_at is None else {"editedAt": iso_time(message.edited_at)}
    return {
        "id": message.id,
        "spaceId": message.space_id,
        "smartSpaceId": message.space_id,
        "entityId": message.entity_id,
        "senderName": message.sender_name,
        "senderType": message.sender_type,
        "role": message.role,
        "content": message.content,
        "metadata": message.metadata,
        "seq": message.seq,
        "runId": message.run_id,
        "createdAt": iso_time(message.created_at),
        **edited,
    }


def call_message_id(call_id: str) -> str:
    """The id of the one message that shows a visible call."""
    return f"msg_{call_id}"
