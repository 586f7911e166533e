"""Part of the URL map: spaces, under their own name and under the one that clients of seed 003's era know.

Above: `routes.py`, which puts all parts in order. Below: the doors themselves.
"""

from collections.abc import Iterator

import msgspec

from jackfield.model.principal import Scope
from jackfield.web import space_messages, spaces
from jackfield.web import space_records as records
from jackfield.web.door import SSE_MEDIA, Body, Door, HeaderParameter
from jackfield.web.needs import SEES_SPACES, SPEAKS

_OWN = "/api/spaces"
_ALIAS = "/api/smart-spaces"

_DOORS = (
    Door(
        method="GET",
        path="",
        handler=spaces.list_spaces,
        needs=SEES_SPACES,
        group="Spaces",
        summary="Every space that the key may see",
        answers={200: Body(says="The spaces, by id", type=records.SpaceList)},
    ),
    Door(
        method="POST",
        path="",
        handler=spaces.create_space,
        needs=Scope.ADMIN,
        group="Spaces",
        summary="Make a space",
        body=records.SpaceBody,
        answers={201: Body(says="The space", type=records.OneSpace)},
        refusals=(409,),
    ),
    Door(
        method="GET",
        path="/{id}",
        handler=spaces.show_space,
        needs=SEES_SPACES,
        group="Spaces",
        summary="One space",
        answers={200: Body(says="The space", type=records.OneSpace)},
        refusals=(404,),
    ),
    Door(
        method="PATCH",
        path="/{id}",
        handler=spaces.change_space,
        needs=Scope.ADMIN,
        group="Spaces",
        summary="Change a space's name, description or metadata",
        body=records.SpaceChange,
        answers={200: Body(says="The space as it is now", type=records.OneSpace)},
        refusals=(404,),
    ),
    Door(
        method="DELETE",
        path="/{id}",
        handler=spaces.delete_space,
        needs=Scope.ADMIN,
        group="Spaces",
        summary="Delete a space with all that was said in it",
        answers={200: Body(says="It is gone", type=records.Success)},
        refusals=(404,),
    ),
    Door(
        method="GET",
        path="/{id}/members",
        handler=spaces.list_members,
        needs=SEES_SPACES,
        group="Spaces",
        summary="Who is in a space",
        answers={200: Body(says="The members in the order they came", type=records.MemberList)},
        refusals=(404,),
    ),
    Door(
        method="POST",
        path="/{id}/members",
        handler=spaces.add_member,
        needs=Scope.ADMIN,
        group="Spaces",
        summary="Make somebody a member",
        body=records.MemberBody,
        answers={201: Body(says="The member", type=records.OneMember)},
        refusals=(404,),
    ),
    Door(
        method="DELETE",
        path="/{id}/members/{entityId}",
        handler=spaces.remove_member,
        needs=Scope.ADMIN,
        group="Spaces",
        summary="Take a member out of a space",
        answers={200: Body(says="It is none any more", type=records.Success)},
        refusals=(404,),
    ),
    Door(
        method="GET",
        path="/{id}/messages",
        handler=space_messages.list_messages,
        needs=SEES_SPACES,
        group="Spaces",
        summary="What was said in a space",
        query=records.MessagesQuery,
        answers={200: Body(says="Messages in their order", type=records.MessageList)},
        refusals=(404,),
    ),
    Door(
        method="POST",
        path="/{id}/messages",
        handler=space_messages.post_message,
        needs=SPEAKS,
        group="Spaces",
        summary="Say something in a space",
        body=records.MessageBody,
        answers={201: Body(says="The message", type=records.OneMessage)},
        refusals=(404, 409),
    ),
    Door(
        method="GET",
        path="/{id}/stream",
        handler=space_messages.follow_space,
        needs=SEES_SPACES,
        group="Spaces",
        summary="What happens in a space, live",
        query=records.SpaceStreamQuery,
        headers=(HeaderParameter(name="Last-Event-ID", says="The last id that you have seen: what came after it"),),
        answers={
            200: Body(
                says="`connected`, what came since, what is in flight, then all that happens; `type` is in the data",
                media=SSE_MEDIA,
            )
        },
        refusals=(400, 404),
    ),
    Door(
        method="PATCH",
        path="/{id}/read",
        handler=space_messages.mark_read,
        needs=SEES_SPACES,
        group="Spaces",
        summary="Keep how far you have read",
        body=records.ReadBody,
        answers={200: Body(says="How far that is now", type=records.ReadRecord)},
        refusals=(404,),
    ),
)


def _both() -> Iterator[Door]:
    for door in _DOORS:
        name = door.handler.__name__
        yield msgspec.structs.replace(door, path=_OWN + door.path)
        yield msgspec.structs.replace(door, path=_ALIAS + door.path, operation=f"{name}_alias")


SPACE_DOORS: tuple[Door, ...] = tuple(_both())
