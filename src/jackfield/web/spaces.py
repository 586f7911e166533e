"""Spaces and their members: made, changed and deleted by administrators, read by whoever may.

Above: `routes_spaces.py`. Below: the store. What is said in a space is in `space_messages.py`.
"""

from jackfield.errors import NotFound
from jackfield.model.ids import new_id
from jackfield.web.answers import Answer, json_reply
from jackfield.web.bodies import BodyReader
from jackfield.web.space_records import (
    MemberBody,
    MemberList,
    OneMember,
    OneSpace,
    SpaceBody,
    SpaceChange,
    SpaceList,
    Success,
    check_metadata,
    member_record,
    space_record,
)
from jackfield.web.space_rights import agents_of, kind_of, no_such_space, space_in
from jackfield.web.visit import Visit

_space = BodyReader(SpaceBody)
_change = BodyReader(SpaceChange)
_member = BodyReader(MemberBody)


async def list_spaces(visit: Visit) -> Answer:
    """Every space; for an agent's key those that it is in."""
    spaces, agents = visit.gateway.store.spaces, agents_of(visit.principal)
    if agents:
        found = {space.id: space for agent in agents for space in await spaces.list(member=agent)}
        shown = [found[space_id] for space_id in sorted(found)]
    else:
        shown = await spaces.list()
    return json_reply(SpaceList(spaces=[space_record(space) for space in shown]))


async def create_space(visit: Visit) -> Answer:
    """A new space."""
    body = await _space.read(visit)
    check_metadata(body.metadata)
    space_id = body.id or new_id("space")
    space = await visit.gateway.store.spaces.create(
        space_id, name=body.name or space_id, description=body.description, metadata=body.metadata
    )
    return json_reply(OneSpace(space=space_record(space)), status=201)


async def show_space(visit: Visit) -> Answer:
    """One space."""
    return json_reply(OneSpace(space=space_record(await space_in(visit))))


async def change_space(visit: Visit) -> Answer:
    """Another name, description or metadata."""
    body = await _change.read(visit)
    check_metadata(body.metadata)
    space_id = visit.part("id")
    space = await visit.gateway.store.spaces.update(
        space_id, name=body.name, description=body.description, metadata=body.metadata
    )
    if space is None:
        raise no_such_space(space_id)
    return json_reply(OneSpace(space=space_record(space)))


async def delete_space(visit: Visit) -> Answer:
    """A space is gone, with all that was said in it."""
    space_id = visit.part("id")
    if not await visit.gateway.store.spaces.delete(space_id):
        raise no_such_space(space_id)
    return json_reply(Success())


async def list_members(visit: Visit) -> Answer:
    """Who is in the space."""
    space = await space_in(visit)
    spaces = visit.gateway.store.spaces
    members, reads = await spaces.members(space.id), await spaces.reads(space.id)
    shown = [member_record(member, reads.get(member.entity_id)) for member in members]
    return json_reply(MemberList(members=shown))


async def add_member(visit: Visit) -> Answer:
    """Somebody joins; one who is there already gets the name and kind that are given."""
    body = await _member.read(visit)
    store, space_id = visit.gateway.store, visit.part("id")
    kind = body.kind or await kind_of(store, body.entity_id)
    member = await store.spaces.put_member(
        space_id, entity_id=body.entity_id, kind=kind, name=body.name or body.entity_id
    )
    if member is None:
        raise no_such_space(space_id)
    read = (await store.spaces.reads(space_id)).get(member.entity_id)
    return json_reply(OneMember(member=member_record(member, read)), status=201)


async def remove_member(visit: Visit) -> Answer:
    """Somebody is taken out of the space."""
    space, entity = await space_in(visit), visit.part("entityId")
    if not await visit.gateway.store.spaces.remove_member(space.id, entity):
        raise NotFound(f"'{entity[:100]}' is no member of space '{space.id}'.", param="entityId")
    return json_reply(Success())
