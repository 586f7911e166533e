"""The frames of a space's stream, each encoded once for all who follow.

Durable events carry their number, which is the frame's `id:`; what is in flight has a stream and an offset instead.
`type` is in the data, and there is no `event:` line, as clients of seed 003's era read it.
Above: the feed and `flight.py`. Below: `model/`. Pure.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from jackfield.model.space import Presence, SpaceEvent
from jackfield.protocol.sse import encode_event

_encode = msgspec.json.Encoder().encode


class ActiveAgent(Struct, frozen=True, kw_only=True, rename="camel"):
    """An agent that is at work in the space."""

    agent_entity_id: str
    agent_name: str
    run_id: str


class SpaceConnected(Struct, frozen=True, kw_only=True, rename="camel"):
    """The first frame: from here on nothing is missed."""

    type: Literal["connected"] = "connected"
    smart_space_id: str
    space_id: str
    last_seq: int
    """What is numbered up to here has happened; what was asked for of it follows first."""
    active_agents: list[ActiveAgent]
    streams: list[str]
    """What is in flight. What a client knows to be in flight and is not here is over."""


class ToolStreaming(Struct, frozen=True, kw_only=True, rename="camel"):
    """A piece of a visible call's arguments, and what they come to so far."""

    type: Literal["tool.streaming"] = "tool.streaming"
    stream_id: str
    run_id: str | None
    agent_entity_id: str
    tool_name: str
    offset: int
    delta: str
    partial_args: Any


class MessageStreaming(Struct, frozen=True, kw_only=True, rename="camel"):
    """A piece of a message that is being said."""

    type: Literal["space.message.streaming"] = "space.message.streaming"
    stream_id: str
    run_id: str | None
    agent_entity_id: str
    phase: Literal["start", "delta", "done"]
    offset: int
    delta: str
    text: str | UnsetType = UNSET
    """All of it so far; left out of plain pieces."""


class MessageFailed(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message that was being said will not be."""

    type: Literal["space.message.failed"] = "space.message.failed"
    stream_id: str


Passing = ToolStreaming | MessageStreaming | MessageFailed


def connected(
    space_id: str, *, last_seq: int, after: int, present: Sequence[Presence], streams: Sequence[str]
) -> bytes:
    """Its id is where the client's stream goes on, so that one that breaks at once misses nothing either."""
    data = SpaceConnected(
        smart_space_id=space_id,
        space_id=space_id,
        last_seq=last_seq,
        active_agents=[
            ActiveAgent(agent_entity_id=one.agent, agent_name=one.agent_name, run_id=one.run_id) for one in present
        ],
        streams=[*streams],
    )
    return encode_event(_encode(data), id=str(after))


def durable(event: SpaceEvent) -> bytes:
    """An event of the store: its fields behind its type and number."""
    head = b'{"type":%s,"seq":%d' % (_encode(event.type), event.seq)
    fields = bytes(event.data).strip()[1:].lstrip()
    return encode_event(head + (fields if fields == b"}" else b"," + fields), id=str(event.seq))


def passing(data: Passing) -> bytes:
    """Something that no replay brings again."""
    return encode_event(_encode(data))
