"""`client.spaces`: places where people and agents see the same things in the same order.

Above: the client. Below: `connection.py`, `streams.py` and `space_texts.py`.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, TypeVar
from uuid import uuid4

import msgspec
from msgspec import Struct

from jackfield.sdk.connection import Connection, Message, get, part
from jackfield.sdk.space_texts import SpaceTexts
from jackfield.sdk.space_types import SpaceEvent, SpaceInfo, SpaceMember, SpaceMessage, SpaceMessages, SpaceRead
from jackfield.sdk.streams import follow

T = TypeVar("T")


class _OneSpace(Struct, frozen=True):
    space: SpaceInfo


class _Spaces(Struct, frozen=True):
    spaces: tuple[SpaceInfo, ...]


class _OneMember(Struct, frozen=True):
    member: SpaceMember


class _Members(Struct, frozen=True):
    members: tuple[SpaceMember, ...]


class _OneMessage(Struct, frozen=True):
    message: SpaceMessage


class Spaces:
    """The spaces of the gateway that this key may see."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(
        self,
        name: str | None = None,
        *,
        id: str | None = None,  # noqa: A002 - the field's name
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> SpaceInfo:
        """Make a space, under an id of your choice or the gateway's. Raises `Conflict` when the id is taken."""
        body = {"id": id, "name": name, "description": description, "metadata": metadata}
        return (await self._ask(_send("POST", "/api/spaces", body), _OneSpace)).space

    async def list(self) -> tuple[SpaceInfo, ...]:
        """Every space that this key may see."""
        return (await self._ask(get("/api/spaces"), _Spaces)).spaces

    async def get(self, space: str) -> SpaceInfo:
        """One space. Raises `SpaceNotFound`."""
        return (await self._ask(get(_path_of(space)), _OneSpace)).space

    async def update(
        self,
        space: str,
        *,
        name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> SpaceInfo:
        """Change what is given; `metadata` is replaced as a whole."""
        body = {"name": name, "description": description, "metadata": metadata}
        return (await self._ask(_send("PATCH", _path_of(space), body), _OneSpace)).space

    async def delete(self, space: str) -> None:
        """Delete a space with all that was said in it."""
        await self._connection.ask(Message(method="DELETE", path=_path_of(space)))

    async def members(self, space: str) -> tuple[SpaceMember, ...]:
        """Who is in it, in the order they came."""
        return (await self._ask(get(f"{_path_of(space)}/members"), _Members)).members

    async def join(self, space: str, entity: str, *, kind: str | None = None, name: str | None = None) -> SpaceMember:
        """Make somebody a member: a `person`, or an `agent`. Known agents are known to be ones."""
        body = {"entityId": entity, "kind": kind, "name": name}
        return (await self._ask(_send("POST", f"{_path_of(space)}/members", body), _OneMember)).member

    async def leave(self, space: str, entity: str) -> None:
        """Take somebody out of a space. Raises `NotFound` for one who is not in it."""
        path = f"{_path_of(space)}/members/{part(entity)}"
        await self._connection.ask(Message(method="DELETE", path=path))

    async def messages(
        self, space: str, *, limit: int | None = None, after: int | None = None, before: int | None = None
    ) -> SpaceMessages:
        """Messages in their order: the first after number `after`, or else the newest, of those before `before`."""
        params = {"limit": limit, "afterSeq": after, "beforeSeq": before}
        return await self._ask(get(f"{_path_of(space)}/messages", params), SpaceMessages)

    async def send(
        self,
        space: str,
        content: str,
        *,
        entity: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        id: str | None = None,  # noqa: A002 - the field's name
    ) -> SpaceMessage:
        """Say something; agents in the space find it in their inbox. It is said once, however often it must be sent.

        `entity` is for administrators: other keys speak as themselves.
        """
        body = {"entityId": entity, "content": content, "metadata": metadata, "id": id or f"sent_{uuid4().hex}"}
        message = _send("POST", f"{_path_of(space)}/messages", body)
        return (await self._ask(msgspec.structs.replace(message, repeatable=True), _OneMessage)).message

    async def mark_read(
        self, space: str, *, seq: int | None = None, message: str | None = None, entity: str | None = None
    ) -> SpaceRead:
        """Say how far you have read: up to a number or a message, else all there is. It never becomes less.

        `entity` is for administrators: other keys read as themselves.
        """
        body = {"entityId": entity, "lastSeenSeq": seq, "lastSeenMessageId": message}
        return await self._ask(_send("PATCH", f"{_path_of(space)}/read", body), SpaceRead)

    async def follow(self, space: str, after: int | None = None) -> AsyncGenerator[SpaceEvent, None]:
        """What happens in a space after number `after`, or from now on, across breaks, until the iteration is left.

        Durable events come once each and in order. Pieces of texts in flight too: `delta` is what is new, `text` all
        there is so far. Raises `SpaceNotFound` when the space is deleted.
        """
        texts = SpaceTexts()
        message = get(f"{_path_of(space)}/stream", {"afterSeq": after})
        seen = -1
        async with aclosing(follow(self._connection, message)) as events:
            async for event in events:
                told = texts.take(self._connection.decode(event.data, SpaceEvent))
                if told is None or (told.seq is not None and told.seq <= seen):
                    continue
                seen = seen if told.seq is None else told.seq
                yield told

    async def _ask(self, message: Message, into: type[T]) -> T:
        response = await self._connection.ask(message)
        return self._connection.decode(response.content, into)


def _send(method: str, path: str, body: Mapping[str, Any]) -> Message:
    given = {name: value for name, value in body.items() if value is not None}
    return Message(method=method, path=path, body=msgspec.json.encode(given))


def _path_of(space: str) -> str:
    return f"/api/spaces/{part(space)}"
