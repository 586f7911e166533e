"""Spaces and their members: made, changed and deleted by administrators, read by whoever may.

Above: `routes_spaces.py`. Below: the store. What is said in a space is in `space_messages.py`.
"""

from functools import partial
from typing import Any

import msgspec

from jackfield.agents.permissions import require_may_speak
from jackfield.errors import BadRequest, Conflict, NotFound
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Request
from jackfield.http.response import Response, json_response
from jackfield.http.sse import EventStream
from jackfield.model.ids import new_id
from jackfield.model.space import SYSTEM, Sender, Space, SpaceMessage
from jackfield.settings.agents import AgentSettings
from jackfield.spaces import exchanges
from jackfield.spaces import transactions as space_tx
from jackfield.spaces.permissions import agents_of, kind_of, no_such_space, space_in, speaker, voice
from jackfield.spaces.records import (
    MemberBody,
    MemberList,
    MessageBody,
    MessageList,
    MessagesQuery,
    OneMember,
    OneMessage,
    OneSpace,
    ReadBody,
    SpaceBody,
    SpaceChange,
    SpaceList,
    SpaceStreamQuery,
    Success,
    check_metadata,
    member_record,
    message_record,
    read_record,
    space_record,
)

_space = BodyReader(SpaceBody)
_change = BodyReader(SpaceChange)
_member = BodyReader(MemberBody)


async def list_spaces(visit: Request) -> Response:
    """Every space; for an agent's key those that it is in."""
    store, agents = visit.gateway.store, agents_of(visit.principal)
    if agents:
        found = {space.id: space for agent in agents for space in await store.read(partial(space_tx.spaces_of, agent))}
        shown = [found[space_id] for space_id in sorted(found)]
    else:
        shown = await store.read(space_tx.list_spaces)
    return json_response(SpaceList(spaces=[space_record(space) for space in shown]))


async def create_space(visit: Request) -> Response:
    """A new space."""
    body = await _space.read(visit)
    check_metadata(body.metadata)
    space_id = body.id or new_id("space")
    space = await visit.gateway.store.write(
        partial(
            space_tx.create_space,
            space_id,
            name=body.name or space_id,
            description=body.description,
            metadata=body.metadata,
        )
    )
    return json_response(OneSpace(space=space_record(space)), status=201)


async def show_space(visit: Request) -> Response:
    """One space."""
    return json_response(OneSpace(space=space_record(await space_in(visit))))


async def change_space(visit: Request) -> Response:
    """Another name, description or metadata."""
    body = await _change.read(visit)
    check_metadata(body.metadata)
    space_id = visit.part("id")
    space = await visit.gateway.store.write(
        partial(space_tx.update_space, space_id, name=body.name, description=body.description, metadata=body.metadata)
    )
    if space is None:
        raise no_such_space(space_id)
    return json_response(OneSpace(space=space_record(space)))


async def delete_space(visit: Request) -> Response:
    """A space is gone, with all that was said in it."""
    space_id = visit.part("id")
    if not await visit.gateway.store.write(partial(space_tx.delete_space, space_id)):
        raise no_such_space(space_id)
    return json_response(Success())


async def list_members(visit: Request) -> Response:
    """Who is in the space."""
    space = await space_in(visit)
    store = visit.gateway.store
    members = await store.read(partial(space_tx.members_of, space.id))
    reads = await store.read(partial(space_tx.reads_in, space.id))
    shown = [member_record(member, reads.get(member.entity_id)) for member in members]
    return json_response(MemberList(members=shown))


async def add_member(visit: Request) -> Response:
    """Somebody joins; one who is there already gets the name and kind that are given."""
    body = await _member.read(visit)
    store, space_id = visit.gateway.store, visit.part("id")
    kind = body.kind or await kind_of(store, body.entity_id)
    member = await store.write(
        partial(space_tx.put_member, space_id, entity_id=body.entity_id, kind=kind, name=body.name or body.entity_id)
    )
    if member is None:
        raise no_such_space(space_id)
    read = (await store.read(partial(space_tx.reads_in, space_id))).get(member.entity_id)
    return json_response(OneMember(member=member_record(member, read)), status=201)


async def remove_member(visit: Request) -> Response:
    """Somebody is taken out of the space."""
    space, entity = await space_in(visit), visit.part("entityId")
    if not await visit.gateway.store.write(partial(space_tx.remove_member, space.id, entity)):
        raise NotFound(f"'{entity[:100]}' is no member of space '{space.id}'.", param="entityId")
    return json_response(Success())


PING_EVERY = 30.0
MAX_EXCHANGES = AgentSettings().max_exchanges
"""For agents that speak through this door: those that live here have a number of their own."""
TOOL_CALL = "tool_call"
LONGEST_NUMBER = 16
_message = BodyReader(MessageBody)
_read = BodyReader(ReadBody, required=False)


async def list_messages(visit: Request) -> Response:
    """Messages in their order."""
    wanted = visit.query(MessagesQuery)
    space = await space_in(visit)  # first, so that nothing lies between `lastSeq` and what is listed
    messages = await visit.gateway.store.read(
        partial(
            space_tx.messages, space.id, limit=wanted.limit, after_seq=wanted.after_seq, before_seq=wanted.before_seq
        )
    )
    shown = [message_record(message) for message in messages]
    return json_response(MessageList(messages=shown, last_seq=space.last_seq))


async def post_message(visit: Request) -> Response:
    """Say something. Who says something in a space is a member of it from then on."""
    body = await _message.read(visit)
    check_metadata(body.metadata)
    space = await space_in(visit)
    await _check_what_it_claims(visit, body.metadata)
    await require_may_speak(visit, space.id)
    sender = await speaker(visit, space, entity=body.entity_id)
    hops = await _exchanges(visit, space, sender) if sender.kind == "agent" else 0
    script = partial(
        space_tx.post_message,
        space.id,
        sender=sender,
        content=body.content,
        message_id=body.id,
        metadata=body.metadata,
        hops=hops,
        wakes_agents=hops <= MAX_EXCHANGES,
    )
    message = await visit.gateway.store.write(script)
    if message is None:
        raise no_such_space(space.id)
    _check_same(message, space, sender, body.content)
    if hops > MAX_EXCHANGES:
        await _tell_people(visit, space, sender)
    return json_response(OneMessage(message=message_record(message)), status=201)


async def _exchanges(visit: Request, space: Space, sender: Sender) -> int:
    """How many messages of agents, this one included, answer each other without a person."""
    store = visit.gateway.store
    latest = await store.read(partial(space_tx.messages, space.id, limit=exchanges.LOOKED_AT))
    answers = exchanges.answers_before(latest, sender=sender.entity_id, now=await store.now_ms())
    return answers + 1 if answers else 0


async def _tell_people(visit: Request, space: Space, sender: Sender) -> None:
    store = visit.gateway.store
    if exchanges.is_told(await store.read(partial(space_tx.messages, space.id, limit=exchanges.LOOKED_AT))):
        return
    text, metadata = exchanges.notice(sender.entity_id, most=MAX_EXCHANGES)
    post = partial(space_tx.post_message, space.id, sender=SYSTEM, content=text)
    await store.write(partial(post, metadata=metadata, wakes_agents=False))


async def follow_space(visit: Request) -> Response:
    """The stream of a space: from now on, or after the number that the client has seen."""
    after = _begins_after(visit)
    space = await space_in(visit)
    frames = visit.gateway.spaces.follow(space.id, after=after, agents=agents_of(visit.principal))
    return EventStream(frames, streams=visit.streams, ping_every=PING_EVERY)


async def mark_read(visit: Request) -> Response:
    """Keep how far somebody has read, for themselves and for who looks at the members."""
    body = await _read.read(visit)
    space = await space_in(visit)
    who = voice(visit.principal, body.entity_id)
    seq = body.last_seen_seq if body.last_seen_seq is not None else body.seq
    message_id = body.last_seen_message_id or body.message_id
    if message_id is not None:
        message = await visit.gateway.store.read(partial(space_tx.get_message, message_id))
        if message is None or message.space_id != space.id:
            raise NotFound(f"There is no message '{message_id[:100]}' in space '{space.id}'.", param="messageId")
        seq = message.seq
    read = await visit.gateway.store.write(partial(space_tx.mark_read, space.id, who, seq=seq))
    if read is None:
        raise no_such_space(space.id)
    return json_response(read_record(read))


def _begins_after(visit: Request) -> int | None:
    """What the client has seen: a browser that connects again says so in a header and repeats the query."""
    asked = visit.query(SpaceStreamQuery).after_seq
    said = visit.header(b"last-event-id")
    if not said:
        return asked
    if not (said.isascii() and said.isdigit() and len(said) <= LONGEST_NUMBER):
        raise BadRequest("The header Last-Event-ID is no number of an event. Send the last 'id' of the stream.")
    return int(said)


async def _check_what_it_claims(visit: Request, metadata: dict[str, Any]) -> None:
    """A visible call is there to be seen: nobody replies to it, and nobody but the gateway shows one."""
    if metadata.get("type") == TOOL_CALL:
        raise BadRequest("Only the gateway shows calls. Choose another 'type' for the metadata.", param="metadata.type")
    named = metadata.get("replyTo")
    message_id = named.get("messageId") if isinstance(named, dict) else named
    if not isinstance(message_id, str) or "\x00" in message_id:
        return
    message = await visit.gateway.store.read(partial(space_tx.get_message, message_id))
    if message is not None and msgspec.json.decode(message.metadata).get("type") == TOOL_CALL:
        raise BadRequest(
            "This message shows a tool's call, which cannot be replied to. Say it without 'replyTo'.",
            param="metadata.replyTo",
        )


def _check_same(message: SpaceMessage, space: Space, sender: Sender, content: str) -> None:
    """An id that was used for something else is not a retry."""
    if (message.space_id, message.entity_id, message.content) != (space.id, sender.entity_id, content):
        raise Conflict(f"The id '{message.id}' belongs to another message. Send another id, or none.", param="id")
