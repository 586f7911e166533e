"""Spaces as they are kept. None says that there is no such space.

Above: spaces, agents, web. Below: `space_moves.py`. Whoever writes into a space wakes `space:<id>` at every gateway.
"""

import asyncio
import builtins
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from jackfield.errors import BadRequest, Conflict
from jackfield.model.cycle import Cycle
from jackfield.model.ids import new_id
from jackfield.model.space import (
    LIVE_TOPIC,
    SPACE_TOPIC,
    EntityKind,
    LiveStream,
    Member,
    Presence,
    Sender,
    Space,
    SpaceEvent,
    SpaceMessage,
    SpaceRead,
)
from jackfield.store import moves, space_moves
from jackfield.store.access import Read, Write
from jackfield.store.moves import Script
from jackfield.store.space_rows import (
    event_from,
    json_text,
    live_from,
    member_from,
    presence_from,
    read_from,
    space_from,
)

OWN_IDS = "msg_"
MESSAGES_KEPT = 200
"""A space's newest messages, which stay however old they are."""


class Spaces:
    """The part of a store that spaces are in."""

    def __init__(self, write: Write, read: Read) -> None:
        self._write = write
        self._read = read

    async def create(
        self,
        space_id: str | None = None,
        *,
        name: str,
        description: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> Space:
        """A new space, under an id of its own or the one that is asked for; `Conflict` if that is taken."""
        values = {"space_id": space_id or new_id("space"), "name": name, "description": description}
        script = partial(moves.one, "insert_space", **values, metadata=json_text(metadata or {}))
        row = await self._write(script)
        if row is None:
            raise Conflict(f"There is a space '{space_id}' already. Choose another id, or change that one.", param="id")
        return space_from(row)

    async def ensure(self, space_id: str, *, name: str) -> None:
        """There is a space with this id; one that was there stays as it is."""
        values = {"space_id": space_id, "name": name, "description": "", "metadata": "{}"}
        await self._write(partial(moves.one, "insert_space", **values))

    async def get(self, space_id: str) -> Space | None:
        return await self._read(partial(space_moves.get_space, space_id))

    async def list(self, *, member: str | None = None) -> builtins.list[Space]:
        """All spaces, or those that somebody is in, by id."""
        if member is not None:
            return await self._read(partial(space_moves.spaces_of, member))
        rows = await self._read(partial(moves.run, "all_spaces"))
        return [space_from(row) for row in rows]

    async def update(
        self,
        space_id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Space | None:
        """Change what is given; the rest stays."""
        changes = {"name": name, "description": description}
        changes["metadata"] = None if metadata is None else json_text(metadata)
        return await self._write(partial(space_moves.update_space, space_id, changes))

    async def delete(self, space_id: str) -> bool:
        """Forget a space with all that was said in it. False: there was none."""
        return await self._write(partial(space_moves.delete_space, space_id), wakes=SPACE_TOPIC + space_id)

    async def put_member(self, space_id: str, *, entity_id: str, kind: EntityKind, name: str) -> Member | None:
        """Somebody joins, or is known by another name from now on."""
        return await self._write(partial(space_moves.put_member, space_id, entity_id=entity_id, kind=kind, name=name))

    async def remove_member(self, space_id: str, entity_id: str) -> bool:
        """Somebody leaves for good. False: was not there."""
        return await self._write(partial(space_moves.remove_member, space_id, entity_id=entity_id))

    async def members(self, space_id: str) -> builtins.list[Member]:
        """Who is in a space, in the order they came."""
        return await self._read(partial(space_moves.members_of, space_id))

    async def mark_read(self, space_id: str, entity_id: str, *, seq: int | None) -> SpaceRead | None:
        """Somebody has read all up to number `seq`, or all there is; never less than before. None: no such space."""
        return await self._write(partial(space_moves.mark_read, space_id, entity_id=entity_id, seq=seq))

    async def reads(self, space_id: str) -> dict[str, SpaceRead]:
        """How far everybody has read, who ever said so."""
        rows = await self._read(partial(moves.run, "space_reads_of", space_id=space_id))
        return {row["entity_id"]: read_from(row) for row in rows}

    async def members_around(
        self, space_ids: Iterable[str], *, besides: str, most: int
    ) -> dict[str, builtins.list[Member]]:
        """The first members of each of these spaces, but for one, by space."""
        values = {"ids": json_text([*space_ids]), "besides": besides, "most": most}
        around: dict[str, builtins.list[Member]] = {}
        for row in await self._read(partial(moves.run, "members_around", **values)):
            around.setdefault(row["space_id"], []).append(member_from(row))
        return around

    async def get_member(self, space_id: str, entity_id: str) -> Member | None:
        """None: not there, or no such space."""
        return await self._read(partial(space_moves.get_member, space_id, entity_id))

    async def post(
        self,
        space_id: str,
        *,
        sender: Sender,
        content: str,
        message_id: str | None = None,
        **more: Any,
    ) -> SpaceMessage | None:
        """Say something; `more` as in `space_moves.post`. The same message id again is the same message."""
        if message_id is not None and message_id.startswith(OWN_IDS):  # an agent's message, still being written
            raise BadRequest(f"Message ids that begin with '{OWN_IDS}' are made here. Choose another.", param="id")
        script = partial(space_moves.post, message_id or new_id("msg"), space_id=space_id, sender=sender)
        return await self._write(partial(script, content=content, **more))

    async def messages(
        self, space_id: str, *, limit: int = 50, after_seq: int | None = None, before_seq: int | None = None
    ) -> builtins.list[SpaceMessage]:
        """In their order: the first after `after_seq`, or else the newest, of those before `before_seq`."""
        script = partial(space_moves.messages, space_id, limit=limit, after_seq=after_seq, before_seq=before_seq)
        return await self._read(script)

    async def get_message(self, message_id: str) -> SpaceMessage | None:
        return await self._read(partial(space_moves.get_message, message_id))

    async def add_event(self, space_id: str, type: str, data: Mapping[str, Any]) -> int | None:  # noqa: A002 - the field
        """One durable event; its number."""
        return await self._write(partial(space_moves.add_event, space_id, type, data))

    async def events(self, space_id: str, after: int, limit: int) -> builtins.list[SpaceEvent]:
        """The events that follow number `after`, in their order."""
        values = {"space_id": space_id, "after_seq": after, "limit": limit}
        rows = await self._read(partial(moves.run, "space_events_after", **values))
        return [event_from(row) for row in rows]

    async def last_seq(self, space_id: str) -> int | None:
        """The number of the space's newest event."""
        space = await self.get(space_id)
        return None if space is None else space.last_seq

    async def present(self, space_id: str) -> builtins.list[Presence]:
        """The agents that are at work there, who came first first."""
        rows = await self._read(partial(moves.run, "presence_in_space", space_id=space_id))
        return [presence_from(row) for row in rows]

    def begin_showing(
        self, cycle: Cycle, *, call_id: str, space_id: str, tool: str, agent_name: str
    ) -> asyncio.Future[bool]:
        """The cycle's model has begun to write a visible call. False: fenced, and nothing was written."""
        values = {"call_id": call_id, "space_id": space_id, "tool": tool, "agent_name": agent_name}
        return self._write(partial(space_moves.begin_showing, cycle, **values))

    async def drop_unshown(self, cycle: Cycle) -> bool:
        """The model failed: nothing comes of the calls that it had begun to write. False: fenced."""
        return await self._write(partial(_drop_unshown, cycle))

    async def put_live(self, stream: LiveStream) -> None:
        """How far a stream has come, for the other gateways."""
        values = {name: getattr(stream, name) for name in stream.__struct_fields__}
        await self._write(partial(moves.run, "put_live", **values), wakes=LIVE_TOPIC + stream.space_id)

    async def drop_live(self, stream_id: str) -> None:
        """Nobody has to know of the stream any more."""
        await self._write(partial(moves.run, "drop_live", stream_id=stream_id))

    async def live_in(self, space_id: str) -> builtins.list[LiveStream]:
        """What is being said there at gateways that are alive."""
        rows = await self._read(partial(moves.run, "live_in_space", space_id=space_id))
        return [live_from(row) for row in rows]

    async def prune(self, *, before: int, limit: int) -> int:
        """Forget one small step of what was said by then; how much went, of events or messages the more."""
        events = await self._write(partial(moves.run, "prune_space_events", before=before, limit=limit))
        values = {"before": before, "limit": limit, "kept": MESSAGES_KEPT}
        messages = await self._write(partial(moves.run, "prune_space_messages", **values))
        await self._write(partial(moves.run, "prune_live_streams", limit=limit))
        return max(len(events), len(messages))


def _drop_unshown(cycle: Cycle) -> Script[bool]:
    if not (yield "hold_cycle", {"cycle_id": cycle.id, "epoch": cycle.epoch}):
        return False
    yield from space_moves.drop_unshown(cycle)
    return True
