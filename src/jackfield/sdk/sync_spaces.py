"""`client.spaces` of the blocking client: `spaces.py`, method for method, run on the loop's thread."""

from collections.abc import Generator, Mapping
from typing import Any

from jackfield.sdk.loop import LoopThread
from jackfield.sdk.space_types import SpaceEvent, SpaceInfo, SpaceMember, SpaceMessage, SpaceMessages, SpaceRead
from jackfield.sdk.spaces import Spaces


class SyncSpaces:
    """`Spaces`, blocking."""

    def __init__(self, spaces: Spaces, loop: LoopThread) -> None:
        self._spaces = spaces
        self._loop = loop

    def create(
        self,
        name: str | None = None,
        *,
        id: str | None = None,  # noqa: A002 - the field's name
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> SpaceInfo:
        """Make a space, under an id of your choice or the gateway's. Raises `Conflict` when the id is taken."""
        return self._loop.run(self._spaces.create(name, id=id, description=description, metadata=metadata))

    def list(self) -> tuple[SpaceInfo, ...]:
        """Every space that this key may see."""
        return self._loop.run(self._spaces.list())

    def get(self, space: str) -> SpaceInfo:
        """One space. Raises `SpaceNotFound`."""
        return self._loop.run(self._spaces.get(space))

    def update(
        self,
        space: str,
        *,
        name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> SpaceInfo:
        """Change what is given; `metadata` is replaced as a whole."""
        return self._loop.run(self._spaces.update(space, name=name, description=description, metadata=metadata))

    def delete(self, space: str) -> None:
        """Delete a space with all that was said in it."""
        self._loop.run(self._spaces.delete(space))

    def members(self, space: str) -> tuple[SpaceMember, ...]:
        """Who is in it, in the order they came."""
        return self._loop.run(self._spaces.members(space))

    def join(self, space: str, entity: str, *, kind: str | None = None, name: str | None = None) -> SpaceMember:
        """Make somebody a member: a `person`, or an `agent`. Known agents are known to be ones."""
        return self._loop.run(self._spaces.join(space, entity, kind=kind, name=name))

    def leave(self, space: str, entity: str) -> None:
        """Take somebody out of a space. Raises `NotFound` for one who is not in it."""
        self._loop.run(self._spaces.leave(space, entity))

    def messages(
        self, space: str, *, limit: int | None = None, after: int | None = None, before: int | None = None
    ) -> SpaceMessages:
        """Messages in their order: the first after number `after`, or else the newest, of those before `before`."""
        return self._loop.run(self._spaces.messages(space, limit=limit, after=after, before=before))

    def send(
        self,
        space: str,
        content: str,
        *,
        entity: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        id: str | None = None,  # noqa: A002 - the field's name
    ) -> SpaceMessage:
        """Say something, once. `entity` is for administrators: other keys speak as themselves."""
        return self._loop.run(self._spaces.send(space, content, entity=entity, metadata=metadata, id=id))

    def mark_read(
        self, space: str, *, seq: int | None = None, message: str | None = None, entity: str | None = None
    ) -> SpaceRead:
        """Say how far you have read: up to a number or a message, else all there is. It never becomes less."""
        return self._loop.run(self._spaces.mark_read(space, seq=seq, message=message, entity=entity))

    def follow(self, space: str, after: int | None = None) -> Generator[SpaceEvent, None, None]:
        """What happens in a space after number `after`, or from now on, across breaks, until the iteration is left."""
        return self._loop.iterate(self._spaces.follow(space, after))
