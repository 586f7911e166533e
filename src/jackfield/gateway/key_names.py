"""Keys and roles name groups, agents and spaces: they must exist when a key is made, and at the start.

Above: `gateway.py` and the URL map. Below: groups, agents and spaces. Globs may match what comes later.
"""

from functools import partial

from jackfield.agents.registry import AgentRegistry
from jackfield.agents.transactions import get_agent
from jackfield.catalog.groups import Groups
from jackfield.errors import ConfigError, NotFound
from jackfield.identity.transactions import KeyRights
from jackfield.settings import Settings
from jackfield.spaces.transactions import get_space
from jackfield.store import Store

_GLOB = frozenset("*?[")


class KeyNames:
    """What keys may name."""

    def __init__(self, settings: Settings, *, groups: Groups, agents: AgentRegistry, store: Store) -> None:
        self._settings = settings
        self._groups = groups
        self._agents = agents
        self._store = store

    def apply(self, settings: Settings) -> None:
        """Take the names of this config for known."""
        self._settings = settings

    async def check(self, rights: KeyRights) -> None:
        """Raise `NotFound` where a new key names something that there is not."""
        unknown = await self._unknown(rights.groups, rights.agents, rights.spaces)
        if unknown is not None:
            kind, name = unknown
            raise NotFound(
                f"There is no {kind} '{name[:100]}'. Correct the name, or create the {kind} first.", param=f"{kind}s"
            )

    async def check_config(self) -> None:
        """Raise `ConfigError` where a role or key of the config does. Groups of keys are checked when they are read."""
        for role, limits in self._settings.roles.items():
            unknown = await self._unknown(limits.groups_of_tools, limits.agents, limits.spaces)
            if unknown is not None:
                kind, name = unknown
                option = "groups_of_tools" if kind == "group" else f"{kind}s"
                raise ConfigError(
                    f"{self._settings.path}: auth.roles.{role}.{option} has the unknown {kind} '{name}'. "
                    f"Correct it, or remove it from the role."
                )
        for key, settings in self._settings.keys.items():
            unknown = await self._unknown(None, settings.agents, settings.spaces)
            if unknown is not None:
                kind, name = unknown
                raise ConfigError(
                    f"{self._settings.path}: auth.keys.{key}.{kind}s has the unknown {kind} '{name}'. "
                    f"Correct it, or remove it from the key."
                )

    async def _unknown(
        self, groups: tuple[str, ...] | None, agents: tuple[str, ...] | None, spaces: tuple[str, ...] | None
    ) -> tuple[str, str] | None:
        for name in groups or ():
            if self._groups.find(name) is None:
                return "group", name
        for name in agents or ():
            if not _GLOB & set(name) and not await self._is_agent(name):
                return "agent", name
        for name in spaces or ():
            if not _GLOB & set(name) and not await self._is_space(name):
                return "space", name
        return None

    async def _is_space(self, name: str) -> bool:
        """Whether there is such a space, or an agent's config has it made."""
        if any(name in agent.spaces for agent in self._settings.agents.values()):
            return True
        return await self._store.read(partial(get_space, name)) is not None

    async def _is_agent(self, name: str) -> bool:
        """Whether there is such an agent, or the config has it made."""
        if name in self._settings.agents or self._agents.get(name) is not None:
            return True
        return await self._store.read(partial(get_agent, name)) is not None
