"""The HTTP API of spaces: spaces and members, messages, the stream, read positions.

Above: the URL map. Below: the space service and the transactions of spaces.
"""

from functools import partial
from typing import Any

import msgspec

from jackfield.errors import BadRequest, Conflict, NotFound
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Request
from jackfield.http.response import Response, json_response
from jackfield.http.routing import SEES_SPACES, SPEAKS, SSE_MEDIA, HeaderParameter, ResponseSpec, Route
from jackfield.http.sse import EventStream
from jackfield.model.ids import new_id
from jackfield.model.principal import Scope
from jackfield.model.space import SYSTEM, Sender, Space, SpaceMessage
from jackfield.settings.types import AgentSettings
from jackfield.spaces import exchanges
from jackfield.spaces import transactions as space_tx
from jackfield.spaces.edits_api import own_routes
from jackfield.spaces.permissions import AgentRights, agents_of, kind_of, no_such_space, speaker, visible_space, voice
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
    ReadRecord,
    SpaceBody,
    SpaceChange,
    SpaceList,
    SpaceStreamQuery,
    Success,
    check_metadata,
    listed_space,
    member_record,
    message_record,
    read_record,
    space_record,
)
from jackfield.spaces.service import SpaceService
from jackfield.store.base import Store

_OWN = "/api/spaces"
_ALIAS = "/api/smart-spaces"
_space = BodyReader(SpaceBody)
_change = BodyReader(SpaceChange)
_member = BodyReader(MemberBody)
PING_EVERY = 30.0
MAX_EXCHANGES = AgentSettings().max_exchanges
"""For agents that post over HTTP; those that run here have their own limit."""
TOOL_CALL = "tool_call"
LONGEST_NUMBER = 16
_message = BodyReader(MessageBody)
_read = BodyReader(ReadBody, required=False)


class SpaceApi:
    """Handlers of `/api/spaces`."""

    def __init__(self, spaces: SpaceService, *, store: Store, rights: AgentRights) -> None:
        self._spaces = spaces
        self._store = store
        self._rights = rights

    async def list_spaces(self, request: Request) -> Response:
        """Every space; for an agent's key those that it is in."""
        store, agents = self._store, agents_of(request.principal)
        if agents:
            found = {
                space.id: space for agent in agents for space in await store.read(partial(space_tx.spaces_of, agent))
            }
            shown = [found[space_id] for space_id in sorted(found)]
        else:
            shown = await store.read(space_tx.list_spaces)
        shown = [space for space in shown if request.principal.reaches_space(space.id)]
        latest = await store.read(partial(space_tx.latest_of_spaces, [space.id for space in shown]))
        return json_response(SpaceList(spaces=[listed_space(space, latest.get(space.id)) for space in shown]))

    async def create_space(self, request: Request) -> Response:
        """A new space."""
        body = await _space.read(request)
        check_metadata(body.metadata)
        space_id = body.id or new_id("space")
        space = await self._store.write(
            partial(
                space_tx.create_space,
                space_id,
                name=body.name or space_id,
                description=body.description,
                metadata=body.metadata,
            )
        )
        return json_response(OneSpace(space=space_record(space)), status=201)

    async def show_space(self, request: Request) -> Response:
        """One space."""
        return json_response(OneSpace(space=space_record(await self._space(request))))

    async def change_space(self, request: Request) -> Response:
        """Another name, description or metadata."""
        body = await _change.read(request)
        check_metadata(body.metadata)
        space_id = request.part("id")
        space = await self._store.write(
            partial(
                space_tx.update_space, space_id, name=body.name, description=body.description, metadata=body.metadata
            )
        )
        if space is None:
            raise no_such_space(space_id)
        return json_response(OneSpace(space=space_record(space)))

    async def delete_space(self, request: Request) -> Response:
        """A space is gone, with all that was said in it."""
        space_id = request.part("id")
        if not await self._store.write(partial(space_tx.delete_space, space_id)):
            raise no_such_space(space_id)
        return json_response(Success())

    async def list_members(self, request: Request) -> Response:
        """Who is in the space."""
        space = await self._space(request)
        store = self._store
        members = await store.read(partial(space_tx.members_of, space.id))
        reads = await store.read(partial(space_tx.reads_in, space.id))
        shown = [member_record(member, reads.get(member.entity_id)) for member in members]
        return json_response(MemberList(members=shown))

    async def add_member(self, request: Request) -> Response:
        """Somebody joins; one who is there already gets the name and kind that are given."""
        body = await _member.read(request)
        store, space_id = self._store, request.part("id")
        kind = body.kind or await kind_of(store, body.entity_id)
        member = await store.write(
            partial(
                space_tx.put_member, space_id, entity_id=body.entity_id, kind=kind, name=body.name or body.entity_id
            )
        )
        if member is None:
            raise no_such_space(space_id)
        read = (await store.read(partial(space_tx.reads_in, space_id))).get(member.entity_id)
        return json_response(OneMember(member=member_record(member, read)), status=201)

    async def remove_member(self, request: Request) -> Response:
        """Somebody is taken out of the space."""
        space, entity = await self._space(request), request.part("entityId")
        if not await self._store.write(partial(space_tx.remove_member, space.id, entity)):
            raise NotFound(f"'{entity[:100]}' is not a member of space '{space.id}'.", param="entityId")
        return json_response(Success())

    async def list_messages(self, request: Request) -> Response:
        """Messages in their order."""
        wanted = request.query(MessagesQuery)
        space = await self._space(request)  # first, so that nothing lies between `lastSeq` and what is listed
        messages = await self._store.read(
            partial(
                space_tx.messages,
                space.id,
                limit=wanted.limit,
                after_seq=wanted.after_seq,
                before_seq=wanted.before_seq,
            )
        )
        shown = [message_record(message) for message in messages]
        return json_response(MessageList(messages=shown, last_seq=space.last_seq))

    async def post_message(self, request: Request) -> Response:
        """Say something. Who says something in a space is a member of it from then on."""
        body = await _message.read(request)
        check_metadata(body.metadata)
        space = await self._space(request)
        await self._check_what_it_claims(body.metadata)
        await self._rights.require_may_speak(request.principal, space.id)
        sender = await speaker(self._store, request.principal, space, entity=body.entity_id)
        hops = await self._exchanges(space, sender) if sender.kind == "agent" else 0
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
        message = await self._store.write(script)
        if message is None:
            raise no_such_space(space.id)
        _check_same(message, space, sender, body.content)
        if hops > MAX_EXCHANGES:
            await self._tell_people(space, sender)
        return json_response(OneMessage(message=message_record(message)), status=201)

    async def follow_space(self, request: Request) -> Response:
        """The stream of a space: from now on, or after the number that the client has seen."""
        after = _begins_after(request)
        space = await self._space(request)
        frames = self._spaces.follow(space.id, after=after, agents=agents_of(request.principal))
        return EventStream(frames, streams=request.streams, ping_every=PING_EVERY)

    async def mark_read(self, request: Request) -> Response:
        """Keep how far somebody has read, for themselves and for who looks at the members."""
        body = await _read.read(request)
        space = await self._space(request)
        who = voice(request.principal, body.entity_id)
        seq = body.last_seen_seq if body.last_seen_seq is not None else body.seq
        message_id = body.last_seen_message_id or body.message_id
        if message_id is not None:
            message = await self._store.read(partial(space_tx.get_message, message_id))
            if message is None or message.space_id != space.id:
                raise NotFound(f"There is no message '{message_id[:100]}' in space '{space.id}'.", param="messageId")
            seq = message.seq
        read = await self._store.write(partial(space_tx.mark_read, space.id, who, seq=seq))
        if read is None:
            raise no_such_space(space.id)
        return json_response(read_record(read))

    async def _space(self, request: Request) -> Space:
        """The space that the path names, if this key may see it."""
        return await visible_space(self._store, request.principal, request.part("id"))

    async def _exchanges(self, space: Space, sender: Sender) -> int:
        """How many messages of agents, this one included, answer each other without a person."""
        store = self._store
        latest = await store.read(partial(space_tx.messages, space.id, limit=exchanges.LOOKED_AT))
        answers = exchanges.answers_before(latest, sender=sender.entity_id, now=await store.now_ms())
        return answers + 1 if answers else 0

    async def _tell_people(self, space: Space, sender: Sender) -> None:
        store = self._store
        if exchanges.is_told(await store.read(partial(space_tx.messages, space.id, limit=exchanges.LOOKED_AT))):
            return
        text, metadata = exchanges.notice(sender.entity_id, most=MAX_EXCHANGES)
        post = partial(space_tx.post_message, space.id, sender=SYSTEM, content=text)
        await store.write(partial(post, metadata=metadata, wakes_agents=False))

    async def _check_what_it_claims(self, metadata: dict[str, Any]) -> None:
        """A visible call is there to be seen: nobody replies to it, and nobody but the gateway shows one."""
        if metadata.get("type") == TOOL_CALL:
            raise BadRequest(
                "Only the gateway shows calls. Choose another 'type' for the metadata.", param="metadata.type"
            )
        named = metadata.get("replyTo")
        message_id = named.get("messageId") if isinstance(named, dict) else named
        if not isinstance(message_id, str) or "\x00" in message_id:
            return
        message = await self._store.read(partial(space_tx.get_message, message_id))
        if message is not None and msgspec.json.decode(message.metadata).get("type") == TOOL_CALL:
            raise BadRequest(
                "This message shows a tool's call, which cannot be replied to. Say it without 'replyTo'.",
                param="metadata.replyTo",
            )


def _begins_after(request: Request) -> int | None:
    """What the client has seen: a browser that connects again says so in a header and repeats the query."""
    asked = request.query(SpaceStreamQuery).after_seq
    said = request.header(b"last-event-id")
    if not said:
        return asked
    if not (said.isascii() and said.isdigit() and len(said) <= LONGEST_NUMBER):
        raise BadRequest("The header Last-Event-ID is not an event id. Send the last 'id' of the stream.")
    return int(said)


def _check_same(message: SpaceMessage, space: Space, sender: Sender, content: str) -> None:
    """An id that was used for something else is not a retry."""
    if (message.space_id, message.entity_id, message.content) != (space.id, sender.entity_id, content):
        raise Conflict(f"The id '{message.id}' belongs to another message. Send another id, or none.", param="id")


def routes(spaces: SpaceService, *, store: Store, rights: AgentRights) -> list[Route]:
    """Every route of spaces, under their own path and under the one that clients of seed 003's era know."""
    api = SpaceApi(spaces, store=store, rights=rights)
    own = (
        Route(
            method="GET",
            path="",
            handler=api.list_spaces,
            scope=SEES_SPACES,
            tag="Spaces",
            summary="Every space that the key may see",
            responses={200: ResponseSpec(description="The spaces, by id", type=SpaceList)},
        ),
        Route(
            method="POST",
            path="",
            handler=api.create_space,
            scope=Scope.ADMIN,
            tag="Spaces",
            summary="Make a space",
            body=SpaceBody,
            responses={201: ResponseSpec(description="The space", type=OneSpace)},
            errors=(409,),
        ),
        Route(
            method="GET",
            path="/{id}",
            handler=api.show_space,
            scope=SEES_SPACES,
            tag="Spaces",
            summary="One space",
            responses={200: ResponseSpec(description="The space", type=OneSpace)},
            errors=(404,),
        ),
        Route(
            method="PATCH",
            path="/{id}",
            handler=api.change_space,
            scope=Scope.ADMIN,
            tag="Spaces",
            summary="Change a space's name, description or metadata",
            body=SpaceChange,
            responses={200: ResponseSpec(description="The space as it is now", type=OneSpace)},
            errors=(404,),
        ),
        Route(
            method="DELETE",
            path="/{id}",
            handler=api.delete_space,
            scope=Scope.ADMIN,
            tag="Spaces",
            summary="Delete a space with all that was said in it",
            responses={200: ResponseSpec(description="It is gone", type=Success)},
            errors=(404,),
        ),
        Route(
            method="GET",
            path="/{id}/members",
            handler=api.list_members,
            scope=SEES_SPACES,
            tag="Spaces",
            summary="Who is in a space",
            responses={200: ResponseSpec(description="The members in the order they came", type=MemberList)},
            errors=(404,),
        ),
        Route(
            method="POST",
            path="/{id}/members",
            handler=api.add_member,
            scope=Scope.ADMIN,
            tag="Spaces",
            summary="Make somebody a member",
            body=MemberBody,
            responses={201: ResponseSpec(description="The member", type=OneMember)},
            errors=(404,),
        ),
        Route(
            method="DELETE",
            path="/{id}/members/{entityId}",
            handler=api.remove_member,
            scope=Scope.ADMIN,
            tag="Spaces",
            summary="Take a member out of a space",
            responses={200: ResponseSpec(description="It is none any more", type=Success)},
            errors=(404,),
        ),
        Route(
            method="GET",
            path="/{id}/messages",
            handler=api.list_messages,
            scope=SEES_SPACES,
            tag="Spaces",
            summary="What was said in a space",
            query=MessagesQuery,
            responses={200: ResponseSpec(description="Messages in their order", type=MessageList)},
            errors=(404,),
        ),
        Route(
            method="POST",
            path="/{id}/messages",
            handler=api.post_message,
            scope=SPEAKS,
            tag="Spaces",
            summary="Say something in a space",
            body=MessageBody,
            responses={201: ResponseSpec(description="The message", type=OneMessage)},
            errors=(404, 409),
        ),
        Route(
            method="GET",
            path="/{id}/stream",
            handler=api.follow_space,
            scope=SEES_SPACES,
            tag="Spaces",
            summary="What happens in a space, live",
            query=SpaceStreamQuery,
            headers=(
                HeaderParameter(name="Last-Event-ID", description="The last id that you have seen: what came after it"),
            ),
            responses={
                200: ResponseSpec(
                    description="`connected`, what came since, what is in flight, then all that happens; "
                    "`type` is in the data",
                    media=SSE_MEDIA,
                )
            },
            errors=(400, 404),
        ),
        Route(
            method="PATCH",
            path="/{id}/read",
            handler=api.mark_read,
            scope=SEES_SPACES,
            tag="Spaces",
            summary="Keep how far you have read",
            body=ReadBody,
            responses={200: ResponseSpec(description="How far that is now", type=ReadRecord)},
            errors=(404,),
        ),
        *own_routes(store=store, rights=rights),
    )
    both: list[Route] = []
    for route in own:
        both.append(msgspec.structs.replace(route, path=_OWN + route.path))
        alias = f"{route.handler.__name__}_alias"
        both.append(msgspec.structs.replace(route, path=_ALIAS + route.path, operation=alias))
    return both
