"""All agents: the config's and those made over the API, as the store keeps them for every gateway.

Above: the scheduler, and the API, which creates and changes them. Below: the store.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterable
from functools import partial
from itertools import islice

import msgspec

from jackfield.agents import transactions as agent_tx
from jackfield.agents.cycle_transactions import abandon, cycles_of_agent
from jackfield.agents.types import Agent, servers_of
from jackfield.errors import AgentNotFound, BadRequest, ConfigError, Conflict
from jackfield.model.agent_state import KeptAgent
from jackfield.settings.types import AgentSettings, check_agent_id
from jackfield.spaces import transactions as space_tx
from jackfield.store import Store

log = logging.getLogger("jackfield.agents")

SHOWN_OF_SERVERS = ("name", "transport", "allowedTools", "allowed_tools")
AT_ONCE = 100
"""Writes that the store is given at a time."""


class AgentRegistry:
    """Every agent that this gateway knows."""

    def __init__(self, store: Store, configured: dict[str, AgentSettings]) -> None:
        self._store = store
        self._configured = configured
        self._agents: dict[str, Agent] = {}

    def get(self, agent_id: str) -> Agent | None:
        """The agent, if there is one and it is not switched off."""
        return self._agents.get(agent_id)

    def all(self) -> tuple[Agent, ...]:
        """Every agent that is not switched off."""
        return tuple(self._agents.values())

    async def look_up(self, agent_id: str) -> Agent | None:
        """The agent as it is kept now: another gateway may have made, changed or removed it, and nobody told us."""
        return self.update(agent_id, await self._store.read(partial(agent_tx.get_agent, agent_id)))

    def update(self, agent_id: str, kept: KeptAgent | None) -> Agent | None:
        """The agent by what the store has just said of it."""
        agent = None if kept is None else self._agent(kept)
        if agent is None:
            self._agents.pop(agent_id, None)
        else:
            self._agents[agent_id] = agent
        return agent

    async def apply(self, configured: dict[str, AgentSettings]) -> None:
        """Have these for the agents of the config. Where the store does not answer it raises, and they stay as before.

        A cycle that runs goes on as it began.
        """
        before, self._configured = self._configured, configured
        try:
            await self.open()
        except BaseException:
            self._configured = before
            raise

    async def open(self) -> None:
        """Write the config's agents and their spaces down, switch off those that it no longer has, and read all."""
        agents = [Agent(name, settings, is_configured=True) for name, settings in self._configured.items()]
        known = {kept.id: kept for kept in await self._store.read(agent_tx.list_agents)}
        await _together(
            self._store.write(
                partial(agent_tx.put_agent, agent.id, definition=_without_secrets(agent.settings), origin="config")
            )
            for agent in agents
            if not _is_kept(agent, known.get(agent.id))
        )
        await self._join(*agents)
        retired = await self._store.write(partial(agent_tx.retire_config_agents, besides=self._configured))
        for agent_id in retired:  # nobody would go on with its cycle, and it would be seen at work for ever
            for cycle in await self._store.read(partial(cycles_of_agent, agent_id, limit=1)):
                await self._store.write(
                    partial(abandon, cycle, reason="The config no longer has the agent.", backoff_ms=0)
                )
        if retired:
            log.warning("agents that the config no longer has sleep on: %s", ", ".join(retired))
        await self.load()

    async def load(self) -> None:
        """Read all agents anew."""
        self._agents = {
            kept.id: agent
            for kept in await self._store.read(agent_tx.list_agents)
            if (agent := self._agent(kept)) is not None
        }

    async def create(self, agent_id: str, settings: AgentSettings, *, owner: str) -> KeptAgent:
        """A new agent, with whose logins it calls."""
        if await self._store.read(partial(agent_tx.get_agent, agent_id)) is not None:
            raise Conflict(f"There is an agent '{agent_id}' already. Choose another id, or change that one.")
        return await self._put(agent_id, settings, owner=owner)

    async def change(self, agent_id: str, settings: AgentSettings) -> KeptAgent:
        """The agent as it is from now on."""
        self._refuse_configured(await self.kept(agent_id), "Change it there")
        return await self._put(agent_id, settings)

    async def remove(self, agent_id: str) -> None:
        """Forget an agent. A cycle that it is in is given up."""
        self._refuse_configured(await self.kept(agent_id), "Remove it there")
        await self._store.write(partial(agent_tx.remove_agent, agent_id))
        self._agents.pop(agent_id, None)

    async def kept(self, agent_id: str) -> KeptAgent:
        """The agent as the store has it."""
        kept = await self._store.read(partial(agent_tx.get_agent, agent_id))
        if kept is None:
            raise AgentNotFound(f"There is no agent '{agent_id[:100]}'. GET /api/agents lists them.")
        return kept

    async def _put(self, agent_id: str, settings: AgentSettings, *, owner: str | None = None) -> KeptAgent:
        agent = Agent(agent_id, settings)
        _check(agent)
        kept = await self._store.write(
            partial(agent_tx.put_agent, agent_id, definition=_written(settings), origin="api", owner=owner)
        )
        await self._join(agent)
        self._agents[agent_id] = msgspec.structs.replace(agent, owner=kept.owner)
        return kept

    async def _join(self, *agents: Agent) -> None:
        """Be members of the spaces that the settings name; one that does not exist is made."""
        for space_id in dict.fromkeys(space_id for agent in agents for space_id in agent.settings.spaces):
            await self._store.write(partial(space_tx.ensure_space, space_id, name=space_id))
            members = await self._store.read(partial(space_tx.members_of, space_id))
            there = {member.entity_id for member in members}
            await _together(
                self._store.write(
                    partial(space_tx.put_member, space_id, entity_id=agent.id, kind="agent", name=agent.name)
                )
                for agent in agents
                if space_id in agent.settings.spaces and agent.id not in there
            )

    def _agent(self, kept: KeptAgent) -> Agent | None:
        """Who it is, if it is switched on. One of the config is as the config says: the store has not all of it."""
        if not kept.enabled:
            return None
        if kept.origin == "config" and kept.id in self._configured:
            return Agent(kept.id, self._configured[kept.id], is_configured=True)
        try:
            return Agent(kept.id, settings_of(kept), is_configured=kept.origin == "config", owner=kept.owner)
        except msgspec.ValidationError as fault:
            log.warning("agent %s cannot be read and sleeps on: %s", kept.id, fault)
            return None

    def _refuse_configured(self, kept: KeptAgent, cure: str) -> None:
        if kept.origin == "config" and kept.id in self._configured:
            raise Conflict(f"Agent '{kept.id}' is in the config. {cure}.")


def settings_of(kept: KeptAgent) -> AgentSettings:
    """What is kept of an agent, as its settings."""
    return msgspec.json.decode(kept.definition, type=AgentSettings)


def _check(agent: Agent) -> None:
    """What is not allowed to somebody who is not the operator."""
    try:
        check_agent_id(agent.id, where="id")
        for space_id in agent.settings.spaces:
            check_agent_id(space_id, where="spaces")
        servers = servers_of(agent)
    except ConfigError as fault:
        raise BadRequest(str(fault)) from None
    started = [name for name, own in servers.items() if own.options.url is None]
    if started:
        said = f"The server '{started[0]}' would be started as a process."
        raise BadRequest(f"{said} Only the config may do that; give it a url.", param="mcp")


def _is_kept(agent: Agent, kept: KeptAgent | None) -> bool:
    """Whether the store has the config's agent just so."""
    if kept is None or not kept.enabled or kept.origin != "config":
        return False
    return kept.definition == _without_secrets(agent.settings)


async def _together(writes: Iterable[Awaitable[object]]) -> None:
    """Many writes, so many at once that the store can join them and none has to wait in vain."""
    waiting = iter(writes)
    while some := list(islice(waiting, AT_ONCE)):
        await asyncio.gather(*some)


def _written(settings: AgentSettings) -> str:
    return msgspec.json.encode(settings).decode()


def _without_secrets(settings: AgentSettings) -> str:
    """What the store is told of an agent of the config: of its servers only what anybody may see.

    What they are reached with has the operator's secrets in it, which belong into no database.
    """
    servers = settings.mcp.get("servers") or ()
    shown = [{key: server[key] for key in SHOWN_OF_SERVERS if key in server} for server in servers]
    return _written(msgspec.structs.replace(settings, mcp={"servers": shown} if shown else {}))
