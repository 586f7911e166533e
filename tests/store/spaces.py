"""Spaces to put into a store, with people and agents in them, and what is seen there."""

from functools import partial
from typing import Any

import msgspec

from jackfield.model.space import Sender, SpaceMessage
from jackfield.spaces import transactions as space_tx
from jackfield.store import Store
from tests.store.cycles import known

HUSAM = Sender("husam", "Husam", "person")
ADA = Sender("ada", "Ada", "agent")


async def a_space(store: Store, space_id: str = "lobby", *, agents: tuple[str, ...] = ("ada",)) -> str:
    """A space with one person and these agents in it."""
    await store.write(partial(space_tx.create_space, space_id, name=space_id.title()))
    await store.write(partial(space_tx.put_member, space_id, entity_id="husam", kind="person", name="Husam"))
    for agent in agents:
        await known(store, agent)
        await store.write(partial(space_tx.put_member, space_id, entity_id=agent, kind="agent", name=agent.title()))
    return space_id


async def said(store: Store, content: str, *, space_id: str = "lobby", **more: Any) -> SpaceMessage:
    """What a person has just said."""
    values: dict[str, Any] = {"sender": HUSAM, "content": content}
    message = await store.write(partial(space_tx.post_message, space_id, **(values | more)))
    assert message is not None
    return message


async def told(store: Store, space_id: str = "lobby", *, besides: tuple[str, ...] = ("member.joined",)) -> list[Any]:
    """The types and data of a space's events. Their numbers are 1, 2, 3 and so on, which is checked here."""
    events = await store.read(partial(space_tx.events_after, space_id, 0, 1_000))
    assert [event.seq for event in events] == [*range(1, len(events) + 1)]
    assert await store.read(partial(space_tx.last_seq, space_id)) == len(events)
    return [(event.type, msgspec.json.decode(event.data)) for event in events if event.type not in besides]


async def kinds(store: Store, space_id: str = "lobby") -> list[str]:
    """The types of a space's events, but for who joined."""
    return [kind for kind, _ in await told(store, space_id)]


def metadata_of(message: SpaceMessage) -> Any:
    return msgspec.json.decode(message.metadata)
