"""How spaces, members and messages look on the wire, and what is sent about them.

Above: `spaces.py`, `space_members.py`, `space_messages.py`. Below: `model/space.py`. Pure.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from jackfield.errors import BadRequest
from jackfield.http.request import Name
from jackfield.model.space import (
    LONGEST_MESSAGE,
    EntityKind,
    LatestOfSpace,
    Member,
    Role,
    SenderType,
    Space,
    SpaceMessage,
    SpaceRead,
)
from jackfield.model.text import Time, iso_time

SpaceId = Annotated[
    str,
    Meta(
        pattern="^(?!\\.{1,2}(?![\\s\\S]))[A-Za-z0-9_.-]{1,64}(?![\\s\\S])",
        description="Letters, digits, '_', '.' and '-', but not '.' and '..', which paths use for something else",
    ),
]
SpaceName = Annotated[str, Meta(min_length=1, max_length=200)]
JsonObject = Annotated[Raw, Meta(extra_json_schema={"type": "object"})]
Seq = Annotated[int, Meta(ge=0, le=2**53)]
MOST_METADATA = 64 * 1024
"""Bytes of metadata as JSON. It is told to all who follow, and read again with every page."""


class SpaceRecord(Struct, frozen=True, kw_only=True, rename="camel"):
    """A space. `lastSeq` is the number of its newest event."""

    id: str
    name: str
    description: str
    metadata: JsonObject
    last_seq: int
    created_at: Time
    updated_at: Time


class LatestMessage(Struct, frozen=True, kw_only=True, rename="camel"):
    """What was said last in a space."""

    sender_name: str
    content: str
    """The first 300 characters."""
    tool_name: str | None
    """Of a visible call."""
    created_at: Time


class ListedSpace(SpaceRecord, frozen=True, kw_only=True, rename="camel"):
    """A space in the list of all."""

    members: int
    last_message: LatestMessage | None


class OneSpace(Struct, frozen=True, kw_only=True):
    """A space in its envelope."""

    space: SpaceRecord


class SpaceList(Struct, frozen=True, kw_only=True):
    """Every space that the key may see."""

    spaces: list[ListedSpace]


class SpaceBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new space. Without an id it gets one; without a name it is called like its id."""

    id: SpaceId | None = None
    name: SpaceName | None = None
    description: Annotated[str, Meta(max_length=10_000)] = ""
    metadata: dict[str, Any] = {}


class SpaceChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be another; the rest stays. `metadata` is replaced as a whole."""

    name: SpaceName | None = None
    description: Annotated[str, Meta(max_length=10_000)] | None = None
    metadata: dict[str, Any] | None = None


class MemberRecord(Struct, frozen=True, kw_only=True, rename="camel"):
    """Somebody in a space."""

    space_id: str
    entity_id: str
    kind: EntityKind
    name: str
    joined_at: Time
    last_seen_seq: int | None
    """All up to this number it has read, by its own word; null: it never said."""
    last_seen_message_id: str | None
    last_seen_at: Time | None


class OneMember(Struct, frozen=True, kw_only=True):
    """A member in its envelope."""

    member: MemberRecord


class MemberList(Struct, frozen=True, kw_only=True):
    """Who is in a space, in the order they came."""

    members: list[MemberRecord]


class MemberBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Who joins. Without a kind, a known agent is an agent and anybody else a person."""

    entity_id: Name
    kind: EntityKind | None = None
    name: SpaceName | None = None


class ReadBody(Struct, frozen=True, kw_only=True, rename="camel"):
    """Up to where: a number, or a message; without either, all there is. Other fields are ignored."""

    entity_id: Name | None = None
    """Who has read; for other keys than an administrator's: themselves."""
    last_seen_seq: Seq | None = None
    seq: Seq | None = None
    last_seen_message_id: Name | None = None
    message_id: Name | None = None


class ReadRecord(Struct, frozen=True, kw_only=True, rename="camel"):
    """It is kept how far they have read, which never becomes less."""

    success: Literal[True] = True
    entity_id: str
    last_seen_seq: int
    last_seen_message_id: str | None
    last_seen_at: Time


class MessageRecord(Struct, frozen=True, kw_only=True, rename="camel"):
    """One message, or one visible call: then `metadata.type` is `tool_call`."""

    id: str
    space_id: str
    smart_space_id: str
    entity_id: str
    sender_name: str
    sender_type: SenderType
    role: Role
    content: str
    metadata: JsonObject
    seq: int
    run_id: str | None
    created_at: Time
    edited_at: Time | UnsetType = UNSET
    """When its author changed it last; left out where nobody has."""


class OneMessage(Struct, frozen=True, kw_only=True):
    """A message in its envelope."""

    message: MessageRecord


class MessageList(Struct, frozen=True, kw_only=True, rename="camel"):
    """Messages in their order. A stream that begins after `lastSeq` misses none that is not here."""

    messages: list[MessageRecord]
    last_seq: int


class MessageBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What is said. The same `id` again is the same message, so that it can be sent again when the answer got lost."""

    content: Annotated[str, Meta(min_length=1, max_length=LONGEST_MESSAGE)]
    entity_id: Name | None = None
    """Who says it; for other keys than an administrator's: themselves."""
    metadata: dict[str, Any] = {}
    id: (
        Annotated[
            str,
            Meta(
                pattern="^(?!msg_)[A-Za-z0-9_.-]{1,128}(?![\\s\\S])",
                description="Your own; those with 'msg_' are made here",
            ),
        ]
        | None
    ) = None


class EditBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a message says from now on."""

    content: Annotated[str, Meta(min_length=1, max_length=LONGEST_MESSAGE)]


class EarlierText(Struct, frozen=True, kw_only=True):
    """What a message said before."""

    content: str
    until: Time


class EarlierTexts(Struct, frozen=True, kw_only=True):
    """What a message said before it was edited, the oldest first."""

    earlier: list[EarlierText]


class ToldAgain(Struct, frozen=True, kw_only=True):
    """The agents that find the message in their inboxes once more."""

    success: Literal[True] = True
    agents: list[str]


class MessagesQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Which messages: the first after `afterSeq`, or else the newest, of those before `beforeSeq`."""

    limit: Annotated[int, Meta(ge=1, le=200, description="How many messages at most")] = 50
    after_seq: Seq | None = None
    before_seq: Seq | None = None


class SpaceStreamQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Where to begin; the header `Last-Event-ID` counts more. Without either, now."""

    after_seq: Seq | None = None


class Success(Struct, frozen=True, kw_only=True):
    """It is done."""

    success: Literal[True] = True


def check_metadata(metadata: dict[str, Any] | None) -> None:
    """Raise `BadRequest` for more than is sensible to tell everybody."""
    if metadata and len(msgspec.json.encode(metadata)) > MOST_METADATA:
        raise BadRequest(f"The metadata has more than {MOST_METADATA:,} bytes as JSON. Send less.", param="metadata")


def space_record(space: Space) -> SpaceRecord:
    return SpaceRecord(
        id=space.id,
        name=space.name,
        description=space.description,
        metadata=space.metadata,
        last_seq=space.last_seq,
        created_at=iso_time(space.created_at),
        updated_at=iso_time(space.updated_at),
    )


def listed_space(space: Space, latest: LatestOfSpace | None) -> ListedSpace:
    record = space_record(space)
    said = None
    if latest is not None and latest.created_at is not None:
        said = LatestMessage(
            sender_name=latest.sender_name or "",
            content=latest.content or "",
            tool_name=latest.tool,
            created_at=iso_time(latest.created_at),
        )
    return ListedSpace(
        **{name: getattr(record, name) for name in SpaceRecord.__struct_fields__},
        members=0 if latest is None else latest.members,
        last_message=said,
    )


def member_record(member: Member, read: SpaceRead | None = None) -> MemberRecord:
    return MemberRecord(
        space_id=member.space_id,
        entity_id=member.entity_id,
        kind=member.kind,
        name=member.name,
        joined_at=iso_time(member.joined_at),
        last_seen_seq=None if read is None else read.last_seq,
        last_seen_message_id=None if read is None else read.last_message,
        last_seen_at=None if read is None else iso_time(read.read_at),
    )


def read_record(read: SpaceRead) -> ReadRecord:
    return ReadRecord(
        entity_id=read.entity_id,
        last_seen_seq=read.last_seq,
        last_seen_message_id=read.last_message,
        last_seen_at=iso_time(read.read_at),
    )


def message_record(message: SpaceMessage) -> MessageRecord:
    return MessageRecord(
        id=message.id,
        space_id=message.space_id,
        smart_space_id=message.space_id,
        entity_id=message.entity_id,
        sender_name=message.sender_name,
        sender_type=message.sender_type,
        role=message.role,
        content=message.content,
        metadata=message.metadata,
        seq=message.seq,
        run_id=message.run_id,
        created_at=iso_time(message.created_at),
        edited_at=UNSET if message.edited_at is None else iso_time(message.edited_at),
    )
