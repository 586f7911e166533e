"""Part of the URL map: spaces, under their own name and under the one that clients of seed 003's era know.

Above: `routes.py`, which puts all parts in order. Below: the doors themselves.
"""

from collections.abc import Iterator

import msgspec

from jackfield.http.permissions import SEES_SPACES, SPEAKS
from jackfield.http.routing import SSE_MEDIA, HeaderParameter, ResponseSpec, Route
from jackfield.model.principal import Scope
from jackfield.spaces import records
from jackfield.spaces.api import (
    add_member,
    change_space,
    create_space,
    delete_space,
    follow_space,
    list_members,
    list_messages,
    list_spaces,
    mark_read,
    post_message,
    remove_member,
    show_space,
)

_OWN = "/api/spaces"
_ALIAS = "/api/smart-spaces"

_DOORS = (
    Route(
        method="GET",
        path="",
        handler=list_spaces,
        needs=SEES_SPACES,
        group="Spaces",
        summary="Every space that the key may see",
        answers={200: ResponseSpec(says="The spaces, by id", type=records.SpaceList)},
    ),
    Route(
        method="POST",
        path="",
        handler=create_space,
        needs=Scope.ADMIN,
        group="Spaces",
        summary="Make a space",
        body=records.SpaceBody,
        answers={201: ResponseSpec(says="The space", type=records.OneSpace)},
        refusals=(409,),
    ),
    Route(
        method="GET",
        path="/{id}",
        handler=show_space,
        needs=SEES_SPACES,
        group="Spaces",
        summary="One space",
        answers={200: ResponseSpec(says="The space", type=records.OneSpace)},
        refusals=(404,),
    ),
    Route(
        method="PATCH",
        path="/{id}",
        handler=change_space,
        needs=Scope.ADMIN,
        group="Spaces",
        summary="Change a space's name, description or metadata",
        body=records.SpaceChange,
        answers={200: ResponseSpec(says="The space as it is now", type=records.OneSpace)},
        refusals=(404,),
    ),
    Route(
        method="DELETE",
        path="/{id}",
        handler=delete_space,
        needs=Scope.ADMIN,
        group="Spaces",
        summary="Delete a space with all that was said in it",
        answers={200: ResponseSpec(says="It is gone", type=records.Success)},
        refusals=(404,),
    ),
    Route(
        method="GET",
        path="/{id}/members",
        handler=list_members,
        needs=SEES_SPACES,
        group="Spaces",
        summary="Who is in a space",
        answers={200: ResponseSpec(says="The members in the order they came", type=records.MemberList)},
        refusals=(404,),
    ),
    Route(
        method="POST",
        path="/{id}/members",
        handler=add_member,
        needs=Scope.ADMIN,
        group="Spaces",
        summary="Make somebody a member",
        body=records.MemberBody,
        answers={201: ResponseSpec(says="The member", type=records.OneMember)},
        refusals=(404,),
    ),
    Route(
        method="DELETE",
        path="/{id}/members/{entityId}",
        handler=remove_member,
        needs=Scope.ADMIN,
        group="Spaces",
        summary="Take a member out of a space",
        answers={200: ResponseSpec(says="It is none any more", type=records.Success)},
        refusals=(404,),
    ),
    Route(
        method="GET",
        path="/{id}/messages",
        handler=list_messages,
        needs=SEES_SPACES,
        group="Spaces",
        summary="What was said in a space",
        query=records.MessagesQuery,
        answers={200: ResponseSpec(says="Messages in their order", type=records.MessageList)},
        refusals=(404,),
    ),
    Route(
        method="POST",
        path="/{id}/messages",
        handler=post_message,
        needs=SPEAKS,
        group="Spaces",
        summary="Say something in a space",
        body=records.MessageBody,
        answers={201: ResponseSpec(says="The message", type=records.OneMessage)},
        refusals=(404, 409),
    ),
    Route(
        method="GET",
        path="/{id}/stream",
        handler=follow_space,
        needs=SEES_SPACES,
        group="Spaces",
        summary="What happens in a space, live",
        query=records.SpaceStreamQuery,
        headers=(HeaderParameter(name="Last-Event-ID", says="The last id that you have seen: what came after it"),),
        answers={
            200: ResponseSpec(
                says="`connected`, what came since, what is in flight, then all that happens; `type` is in the data",
                media=SSE_MEDIA,
            )
        },
        refusals=(400, 404),
    ),
    Route(
        method="PATCH",
        path="/{id}/read",
        handler=mark_read,
        needs=SEES_SPACES,
        group="Spaces",
        summary="Keep how far you have read",
        body=records.ReadBody,
        answers={200: ResponseSpec(says="How far that is now", type=records.ReadRecord)},
        refusals=(404,),
    ),
)


def _both() -> Iterator[Route]:
    for door in _DOORS:
        name = door.handler.__name__
        yield msgspec.structs.replace(door, path=_OWN + door.path)
        yield msgspec.structs.replace(door, path=_ALIAS + door.path, operation=f"{name}_alias")


SPACE_DOORS: tuple[Route, ...] = tuple(_both())
