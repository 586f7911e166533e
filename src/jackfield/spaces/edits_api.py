"""Handlers that change messages: its author edits one, and its agents are told of it once more.

Above: the routes of spaces. Below: `edits.py`.
"""

from functools import partial

from jackfield.errors import Forbidden, NotFound
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Request
from jackfield.http.response import Response, json_response
from jackfield.http.routing import SEES_SPACES, SPEAKS, ResponseSpec, Route
from jackfield.model.principal import Principal
from jackfield.model.space import SpaceMessage
from jackfield.model.text import iso_time
from jackfield.spaces import edits
from jackfield.spaces import transactions as space_tx
from jackfield.spaces.permissions import AgentRights, agents_of, visible_space
from jackfield.spaces.records import EarlierText, EarlierTexts, EditBody, OneMessage, ToldAgain, message_record
from jackfield.store.base import Store

_edit = BodyReader(EditBody)


class EditApi:
    """Handlers of one message."""

    def __init__(self, *, store: Store, rights: AgentRights) -> None:
        self._store = store
        self._rights = rights

    async def edit_message(self, request: Request) -> Response:
        """Its author changes what a message says."""
        body = await _edit.read(request)
        message = await self._message(request)
        await self._rights.require_may_speak(request.principal, message.space_id)
        script = partial(
            edits.edit_message,
            message.space_id,
            message.id,
            author=_author(request.principal, message),
            content=body.content,
        )
        edited = await self._store.write(script)
        if edited is None:
            raise _no_such_message(message.id, message.space_id)
        return json_response(OneMessage(message=message_record(edited)))

    async def show_earlier(self, request: Request) -> Response:
        """What a message said before."""
        message = await self._message(request)
        found = await self._store.read(partial(edits.earlier_texts, message.id))
        shown = [EarlierText(content=one["content"], until=iso_time(one["until"])) for one in found]
        return json_response(EarlierTexts(earlier=shown))

    async def tell_again(self, request: Request) -> Response:
        """The agents in the space are told of a message once more, as if it had just been said."""
        message = await self._message(request)
        await self._rights.require_may_speak(request.principal, message.space_id)
        if not request.principal.is_admin and _author(request.principal, message) != message.entity_id:
            raise Forbidden(f"'{message.entity_id}' said this. Only they, or an administrator, have it answered again.")
        if message.sender_type != "person":
            raise Forbidden("Only what a person said is answered again. Say what the agents should do now.")
        told = await self._store.write(partial(edits.tell_again, message))
        return json_response(ToldAgain(agents=told))

    async def _message(self, request: Request) -> SpaceMessage:
        """The message that the path names, if the key may see its space."""
        space = await visible_space(self._store, request.principal, request.part("id"))
        message_id = request.part("messageId")
        message = await self._store.read(partial(space_tx.get_message, message_id))
        if message is None or message.space_id != space.id:
            raise _no_such_message(message_id, space.id)
        return message


def own_routes(*, store: Store, rights: AgentRights) -> tuple[Route, ...]:
    """The routes of one message, below the path of all spaces."""
    api = EditApi(store=store, rights=rights)
    return (
        Route(
            method="PATCH",
            path="/{id}/messages/{messageId}",
            handler=api.edit_message,
            scope=SPEAKS,
            tag="Spaces",
            summary="Edit a message of one's own",
            body=EditBody,
            responses={200: ResponseSpec(description="The message as it is now", type=OneMessage)},
            errors=(404, 409),
        ),
        Route(
            method="GET",
            path="/{id}/messages/{messageId}/earlier",
            handler=api.show_earlier,
            scope=SEES_SPACES,
            tag="Spaces",
            summary="What a message said before it was edited",
            responses={200: ResponseSpec(description="Its earlier texts, the oldest first", type=EarlierTexts)},
            errors=(404,),
        ),
        Route(
            method="POST",
            path="/{id}/messages/{messageId}/retry",
            handler=api.tell_again,
            scope=SPEAKS,
            tag="Spaces",
            summary="Have the agents answer a message once more",
            responses={200: ResponseSpec(description="Who is told again", type=ToldAgain)},
            errors=(404,),
        ),
    )


def _author(principal: Principal, message: SpaceMessage) -> str:
    """As whom this key edits: itself, or of the agents that it acts as the one that said it."""
    own = agents_of(principal)
    return message.entity_id if message.entity_id in own else (*own, principal.name)[0]


def _no_such_message(message_id: str, space_id: str) -> NotFound:
    return NotFound(f"There is no message '{message_id[:100]}' in space '{space_id}'.", param="messageId")
