"""Who may see an agent, have it act, and change its state.

Keys with `read` see every agent; `agent:NAME` sees and changes that one alone; the rest is an administrator's. A key
that is limited to some tools has no agent act that uses others: what it may not do itself, nobody does for it.
Above: the handlers of agents, spaces and calls. Below: the store and the catalog.
"""

from collections.abc import Collection
from functools import partial

from jackfield.agents.registry import AgentRegistry
from jackfield.agents.types import Agent, servers_of, source_name
from jackfield.catalog.catalog import Catalog
from jackfield.errors import AgentNotFound, Forbidden
from jackfield.http.request import Request
from jackfield.model.agent_state import KeptAgent
from jackfield.model.principal import Principal
from jackfield.spaces import transactions as space_tx
from jackfield.spaces.permissions import agents_of
from jackfield.store import Store


class AgentPermissions:
    """What a key may have agents do: `spaces.permissions.AgentRights`."""

    def __init__(self, agents: AgentRegistry, catalog: Catalog, store: Store) -> None:
        self._agents = agents
        self._catalog = catalog
        self._store = store

    async def agent_in(self, request: Request) -> KeptAgent:
        """The agent that the path names, if this key may see it. Raises `AgentNotFound`."""
        agent_id, agents = request.part("id"), agents_of(request.principal)
        if agents and agent_id not in agents:
            raise Forbidden(f"Key '{request.principal.name}' is agent '{agents[0]}' and nobody else. Use another key.")
        if not request.principal.reaches_agent(agent_id):
            raise AgentNotFound(
                f"There is no agent '{agent_id[:100]}'. GET /api/agents lists those there are.", param="id"
            )
        return await self._agents.kept(agent_id)

    def require_may_act(self, principal: Principal, agents: Collection[str], *, what: str) -> None:
        """Raise `Forbidden` if one of these agents has tools that the key may not use. `what` is what it asked for."""
        outside = next((agent for agent in agents if not principal.reaches_agent(agent)), None)
        if outside is not None:
            raise Forbidden(f"Key '{principal.name}' may not {what}: it may have nothing to do with agent '{outside}'.")
        for agent_id in agents if principal.is_limited else ():
            agent = self._agents.get(agent_id)
            if agent is not None and not may_have_act(principal, agent, self._catalog):
                raise Forbidden(
                    f"Key '{principal.name}' may not {what}: agent '{agent_id}' has tools that the key may not use. "
                    f"Use another key, or add the agent's tools to auth.keys.{principal.name}."
                )

    async def require_may_speak(self, principal: Principal, space_id: str) -> None:
        """Raise `Forbidden` if what this key says in the space would reach an agent with tools it may not use."""
        if not principal.is_limited and principal.agents is None:
            return
        members = await self._store.read(partial(space_tx.members_of, space_id))
        agents = [member.entity_id for member in members if member.kind == "agent"]
        self.require_may_act(principal, agents, what=f"speak in space '{space_id}'")


def may_have_act(principal: Principal, agent: Agent, catalog: Catalog) -> bool:
    """Whether this key may use all tools, and read all resources and prompts, that the agent may now."""
    if not principal.is_limited:
        return True
    sight = catalog.visibility(principal)
    if not all(sight.covers(source_name(agent.id, server)) for server in servers_of(agent)):
        return False
    entries = (*catalog.view(agent.principal).entries, *catalog.prompts(agent.principal).entries)
    if not all(sight.is_within_limits(one.name, source=one.tool.source, foreign=one.tool.name) for one in entries):
        return False
    readable = catalog.resources(agent.principal)
    return all(sight.covers(source) or readable.is_within(sight, source) for source in readable.sources)
