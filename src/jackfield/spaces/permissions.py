"""Who may see a space, and as whom a key speaks there.

Keys with `read` see every space; `agent:NAME` acts as that agent, which has to be a member, also to read. Other keys
speak as themselves, an administrator's as anybody.
Above: the API of spaces. Below: the store.
"""

from collections.abc import Collection
from functools import partial
from typing import Protocol

from jackfield.errors import Forbidden, SpaceNotFound
from jackfield.model.principal import Principal
from jackfield.model.space import EntityKind, Sender, Space
from jackfield.spaces import transactions as space_tx
from jackfield.store.base import Store


class AgentRights(Protocol):
    """What a key may have agents do. Decided by `agents/permissions.py`; asked by whoever can wake an agent."""

    def require_may_act(self, principal: Principal, agents: Collection[str], *, what: str) -> None:
        """Raise `Forbidden` if one of these agents has tools that the key may not use."""

    async def require_may_speak(self, principal: Principal, space_id: str) -> None:
        """Raise `Forbidden` if a message of this key would reach an agent with tools that the key may not use."""


def agents_of(principal: Principal) -> tuple[str, ...]:
    """The agents that this key acts as and is limited to; none: it is a person's or a program's own."""
    return () if principal.is_admin else principal.named("agent")


async def visible_space(store: Store, principal: Principal, space_id: str) -> Space:
    """The space with this id, if this key may see it."""
    space = await store.read(partial(space_tx.get_space, space_id)) if principal.reaches_space(space_id) else None
    if space is None:
        raise no_such_space(space_id)
    agents = agents_of(principal)
    if agents and not any([await store.read(partial(space_tx.get_member, space.id, agent)) for agent in agents]):
        raise Forbidden(f"'{agents[0]}' is not a member of space '{space.id}'. An administrator can make it one.")
    return space


def no_such_space(space_id: str) -> SpaceNotFound:
    return SpaceNotFound(f"There is no space '{space_id[:100]}'. GET /api/spaces lists those there are.", param="id")


async def speaker(store: Store, principal: Principal, space: Space, *, entity: str | None) -> Sender:
    """Who says what this key sends: whoever it names, if it may speak for them."""
    who = voice(principal, entity)
    member = await store.read(partial(space_tx.get_member, space.id, who))
    if member is not None:
        kind, name = member.kind, member.name
    else:
        own = principal.title if who == principal.name else None
        kind, name = await kind_of(store, who), own or who
    if kind == "agent" and not principal.is_admin and who not in agents_of(principal):
        raise Forbidden(f"'{who}' is an agent. Only its own key ('agent:{who}') or an administrator's speaks for it.")
    if kind == "agent" and member is None and not principal.is_admin:
        raise Forbidden(f"'{who}' is not a member of space '{space.id}'. An administrator can make it one.")
    if member is None and kind == "person":
        await store.write(partial(space_tx.put_member, space.id, entity_id=who, kind="person", name=name))
    return Sender(who, name, kind)


async def kind_of(store: Store, entity: str) -> EntityKind:
    """Known agents are agents; anybody else is a person."""
    return await store.read(partial(space_tx.kind_of, entity))


def voice(principal: Principal, entity: str | None) -> str:
    """As whom a key acts in a space: whoever is named, if it may, else itself."""
    agents = agents_of(principal)
    own = agents or (principal.name,)
    if entity is None and len(own) > 1:
        raise Forbidden(f"Key '{principal.name}' acts as several agents. Say which one speaks in 'entityId'.")
    if entity is None or entity in own or principal.is_admin:
        return entity or own[0]
    raise Forbidden(f"Key '{principal.name}' speaks as '{own[0]}', not as '{entity[:100]}'. Leave 'entityId' out.")
