"""What a gateway tells about spaces, as frozen objects; as in `types.py`, unknown fields are ignored.

Above: `spaces.py`. Below: nothing.
"""

from typing import Any

from msgspec import Struct


class SpaceInfo(Struct, frozen=True, kw_only=True, rename="camel"):
    """A space. `last_seq` is the number of its newest event: follow from there and miss nothing."""

    id: str
    name: str = ""
    description: str = ""
    metadata: dict[str, Any] = {}
    last_seq: int = 0
    created_at: str | None = None
    updated_at: str | None = None


class SpaceMember(Struct, frozen=True, kw_only=True, rename="camel"):
    """Somebody in a space; `kind` is `person` or `agent`."""

    entity_id: str
    kind: str = "person"
    name: str = ""
    joined_at: str | None = None
    last_seen_seq: int | None = None
    """All up to this number it has read, by its own word."""
    last_seen_message_id: str | None = None
    last_seen_at: str | None = None


class SpaceRead(Struct, frozen=True, kw_only=True, rename="camel"):
    """How far somebody has read a space."""

    entity_id: str
    last_seen_seq: int = 0
    last_seen_message_id: str | None = None
    last_seen_at: str | None = None


class SpaceMessage(Struct, frozen=True, kw_only=True, rename="camel"):
    """One message, or one visible call (see `call`)."""

    id: str
    seq: int = 0
    space_id: str = ""
    entity_id: str = ""
    sender_name: str = ""
    sender_type: str = ""
    role: str = ""
    content: str = ""
    metadata: dict[str, Any] = {}
    run_id: str | None = None
    created_at: str | None = None

    @property
    def call(self) -> dict[str, Any] | None:
        """What a visible call's message is about: `toolName`, `args`, `result`, `status` and more."""
        return self.metadata if self.metadata.get("type") == "tool_call" else None


class SpaceMessages(Struct, frozen=True, kw_only=True, rename="camel"):
    """Messages in their order, and the number up to which the space had got when they were read, at least."""

    messages: tuple[SpaceMessage, ...] = ()
    last_seq: int = 0


class ActiveAgent(Struct, frozen=True, kw_only=True, rename="camel"):
    """An agent that is at work in a space."""

    agent_entity_id: str
    agent_name: str = ""
    run_id: str | None = None


class SpaceEvent(Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that happened in a space, or a piece of what is being said there.

    Durable events have a `seq` and come once each, in order: `space.message`, `tool.started`, `tool.done`,
    `tool.error`, `agent.active`, `agent.inactive`, `member.joined`, `member.left`, `space.updated`. Pieces
    (`space.message.streaming`, `tool.streaming`) have a `stream_id` and an `offset`, and `text` is all there is so
    far. `connected` comes first and after each reconnect.
    """

    type: str
    seq: int | None = None
    stream_id: str | None = None
    run_id: str | None = None
    agent_entity_id: str | None = None
    agent_name: str | None = None
    entity_id: str | None = None
    tool_name: str | None = None
    message: SpaceMessage | None = None
    result: Any = None
    error: Any = None
    phase: str | None = None
    """Of a message's pieces: `start`, `delta`, `done`."""
    offset: int | None = None
    """How many characters came before this piece."""
    delta: str = ""
    text: str | None = None
    partial_args: Any = None
    """Of a call's pieces: its arguments as far as they can be read."""
    last_seq: int | None = None
    active_agents: tuple[ActiveAgent, ...] = ()
    streams: tuple[str, ...] = ()
    """Of `connected`: what is in flight."""
    kind: str | None = None
    """Of `member.joined` and `member.left`: `person` or `agent`."""
    name: str | None = None
    """The member's, or with `space.updated` the space's."""
    description: str | None = None
    metadata: dict[str, Any] | None = None
