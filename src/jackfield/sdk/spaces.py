"""`client.spaces`: spaces, where people and agents see the same messages in the same order."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import Any
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from jackfield.sdk.connection import ApiRequest, GatewayConnection, get, given, segment, send_json
from jackfield.sdk.types import time_of

_STREAM_ENDS = frozenset({"space.message", "space.message.failed", "tool.done", "tool.error"})


class SpaceInfo(Struct, frozen=True, kw_only=True, rename="camel"):
    """A space. `last_seq` is the number of its newest event: follow from there to miss nothing."""

    id: str
    name: str = ""
    description: str = ""
    metadata: dict[str, Any] = {}
    last_seq: int = 0
    created_at: str | None = None
    updated_at: str | None = None


class SpaceMember(Struct, frozen=True, kw_only=True, rename="camel"):
    """A member of a space; `kind` is `person` or `agent`."""

    entity_id: str
    kind: str = "person"
    name: str = ""
    joined_at: str | None = None
    last_seen_seq: int | None = None
    """It has read everything up to this number."""
    last_seen_message_id: str | None = None
    last_seen_at: str | None = None


class SpaceRead(Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a member has read."""

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
    def created(self) -> datetime | None:
        """`created_at` as a time with its zone."""
        return time_of(self.created_at)

    @property
    def call(self) -> dict[str, Any] | None:
        """The call of a visible call's message: `toolName`, `args`, `result`, `status` and more."""
        return self.metadata if self.metadata.get("type") == "tool_call" else None


class SpaceMessages(Struct, frozen=True, kw_only=True, rename="camel"):
    """Messages in order, and the number of the space's newest event, or of a later one."""

    messages: tuple[SpaceMessage, ...] = ()
    last_seq: int = 0


class ActiveAgent(Struct, frozen=True, kw_only=True, rename="camel"):
    """An agent that is active in a space."""

    agent_entity_id: str
    agent_name: str = ""
    run_id: str | None = None


class SpaceEvent(Struct, frozen=True, kw_only=True, rename="camel"):
    """An event of a space, or a part of a text that is being written there.

    Durable events have a `seq` and come once each, in order: `space.message`, `tool.started`, `tool.done`,
    `tool.error`, `agent.active`, `agent.inactive`, `member.joined`, `member.left`, `space.updated`. Partial ones
    (`space.message.streaming`, `tool.streaming`) have a `stream_id` and an `offset`, and `text` is everything so far.
    `connected` comes first and after each reconnect.
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
    """Of a partial message: `start`, `delta`, `done`."""
    offset: int | None = None
    """How many characters came before this part."""
    delta: str = ""
    text: str | None = None
    partial_args: Any = None
    """Of a partial call: its arguments as far as they can be parsed."""
    last_seq: int | None = None
    active_agents: tuple[ActiveAgent, ...] = ()
    streams: tuple[str, ...] = ()
    """Of `connected`: the streams in flight."""
    kind: str | None = None
    """Of `member.joined` and `member.left`: `person` or `agent`."""
    name: str | None = None
    """The member's; with `space.updated`, the space's."""
    description: str | None = None
    metadata: dict[str, Any] | None = None


class Spaces:
    """The spaces that this key may see."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def create(
        self,
        name: str | None = None,
        *,
        id: str | None = None,  # noqa: A002 - the field's name
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> SpaceInfo:
        """Create a space. The gateway chooses an id when none is given. Raises `Conflict` when the id is taken."""
        body = given({"id": id, "name": name, "description": description, "metadata": metadata})
        return await self._connection.fetch(send_json("POST", "/api/spaces", body), SpaceInfo, "space")

    async def list(self) -> tuple[SpaceInfo, ...]:
        """Every space that this key may see."""
        return await self._connection.fetch(get("/api/spaces"), tuple[SpaceInfo, ...], "spaces")

    async def get(self, space: str) -> SpaceInfo:
        """One space. Raises `SpaceNotFound`."""
        return await self._connection.fetch(get(_space_path(space)), SpaceInfo, "space")

    async def update(
        self,
        space: str,
        *,
        name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> SpaceInfo:
        """Change what is given; `metadata` is replaced as a whole."""
        body = given({"name": name, "description": description, "metadata": metadata})
        return await self._connection.fetch(send_json("PATCH", _space_path(space), body), SpaceInfo, "space")

    async def delete(self, space: str) -> None:
        """Delete a space with its messages."""
        await self._connection.send(ApiRequest(method="DELETE", path=_space_path(space)))

    async def members(self, space: str) -> tuple[SpaceMember, ...]:
        """The members, in the order they joined."""
        return await self._connection.fetch(get(f"{_space_path(space)}/members"), tuple[SpaceMember, ...], "members")

    async def join(self, space: str, entity: str, *, kind: str | None = None, name: str | None = None) -> SpaceMember:
        """Add a member: a `person` or an `agent`. The gateway knows the kind of its own agents."""
        body = given({"entityId": entity, "kind": kind, "name": name})
        request = send_json("POST", f"{_space_path(space)}/members", body)
        return await self._connection.fetch(request, SpaceMember, "member")

    async def leave(self, space: str, entity: str) -> None:
        """Remove a member. Raises `NotFound` for one who is not in the space."""
        path = f"{_space_path(space)}/members/{segment(entity)}"
        await self._connection.send(ApiRequest(method="DELETE", path=path))

    async def messages(
        self, space: str, *, limit: int | None = None, after: int | None = None, before: int | None = None
    ) -> SpaceMessages:
        """Messages in order: the first after number `after`, or else the newest, of those before `before`."""
        params = {"limit": limit, "afterSeq": after, "beforeSeq": before}
        return await self._connection.fetch(get(f"{_space_path(space)}/messages", params), SpaceMessages)

    async def send(
        self,
        space: str,
        content: str,
        *,
        entity: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        id: str | None = None,  # noqa: A002 - the field's name
    ) -> SpaceMessage:
        """Post a message, once, however often the request is retried; agents in the space find it in their inbox.

        `entity` is for administrators: other keys speak as themselves.
        """
        message_id = id or f"sent_{uuid4().hex}"
        body = given({"entityId": entity, "content": content, "metadata": metadata, "id": message_id})
        request = send_json("POST", f"{_space_path(space)}/messages", body, repeatable=True)
        return await self._connection.fetch(request, SpaceMessage, "message")

    async def mark_read(
        self, space: str, *, seq: int | None = None, message: str | None = None, entity: str | None = None
    ) -> SpaceRead:
        """Mark everything as read up to a number or a message, else all there is. The mark never moves back.

        `entity` is for administrators: other keys read as themselves.
        """
        body = given({"entityId": entity, "lastSeenSeq": seq, "lastSeenMessageId": message})
        return await self._connection.fetch(send_json("PATCH", f"{_space_path(space)}/read", body), SpaceRead)

    async def follow(self, space: str, after: int | None = None) -> AsyncGenerator[SpaceEvent, None]:
        """Events of a space after number `after`, or from now on, across reconnects, until the iteration is left.

        Durable events come once each and in order. Partial texts come too: `delta` is what is new, `text` everything
        so far. Raises `SpaceNotFound` when the space is deleted.
        """
        texts = PartialTexts()
        request = get(f"{_space_path(space)}/stream", {"afterSeq": after})
        last_seq = -1
        async with aclosing(self._connection.follow(request)) as events:
            async for raw in events:
                event = texts.merge(self._connection.decode(raw.data, SpaceEvent))
                if event is None or (event.seq is not None and event.seq <= last_seq):
                    continue
                last_seq = last_seq if event.seq is None else event.seq
                yield event


class PartialTexts:
    """The texts in flight in one space, by stream.

    After a reconnect the gateway sends them again from the beginning; a follower gets each part once.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def merge(self, event: SpaceEvent) -> SpaceEvent | None:
        """The event with the whole text so far and only its new part as `delta`; None when nothing is new."""
        if event.type == "connected":
            self._texts = {stream: text for stream, text in self._texts.items() if stream in event.streams}
        stream = event.stream_id
        if stream is None:
            return event
        if event.type in _STREAM_ENDS:
            self._texts.pop(stream, None)
            return event
        if event.offset is None:
            return event
        return self._merge_part(event, stream)

    def _merge_part(self, event: SpaceEvent, stream: str) -> SpaceEvent | None:
        known = self._texts.get(stream)
        if event.phase == "start" and known is not None:
            return None
        before = known or ""
        text = before[: event.offset] + event.delta
        if event.phase == "done":
            self._texts.pop(stream, None)
            text = event.text if event.text is not None else text
        else:
            self._texts[stream] = text
            if known is not None and text == known:
                return None
        if not text.startswith(before):
            return replace(event, text=text)
        return replace(event, text=text, offset=len(before), delta=text[len(before) :])


def _space_path(space: str) -> str:
    return f"/api/spaces/{segment(space)}"
