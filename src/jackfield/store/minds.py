"""Agents as they are kept, and what they have in mind.

Above: agents, web. Below: `mind_moves.py`.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from jackfield.model.agent_state import AgentOrigin, Goal, GoalDraft, KeptAgent, Memory, Plan, PlanDraft, UnknownIds
from jackfield.store import mind_moves, moves
from jackfield.store.access import Read, Write


class Minds:
    """The part of a store that knows the agents."""

    def __init__(self, write: Write, read: Read) -> None:
        self._write = write
        self._read = read

    async def put_agent(
        self, agent_id: str, *, definition: str, origin: AgentOrigin, enabled: bool = True
    ) -> KeptAgent:
        """An agent as it is from now on. What it has in mind stays."""
        script = partial(mind_moves.put_agent, agent_id, definition=definition, origin=origin, enabled=enabled)
        return await self._write(script)

    async def get_agent(self, agent_id: str) -> KeptAgent | None:
        return await self._read(partial(mind_moves.get_agent, agent_id))

    async def list_agents(self) -> list[KeptAgent]:
        return await self._read(mind_moves.list_agents)

    async def remove_agent(self, agent_id: str) -> bool:
        """Forget an agent with all that it had in mind; it leaves its spaces. False: there was none."""
        return await self._write(partial(mind_moves.remove_agent, agent_id))

    async def retire_config_agents(self, *, besides: Iterable[str]) -> list[str]:
        """Switch off the agents that the config had and has no longer; who they are."""
        return await self._write(partial(mind_moves.retire_config_agents, [*besides]))

    async def memories(self, agent: str, *, keys: Iterable[str] | None = None) -> list[Memory]:
        """All of them, or those with these keys, by key."""
        return await self._read(partial(mind_moves.memories, agent, None if keys is None else [*keys]))

    async def set_memories(self, agent: str, pairs: Sequence[tuple[str, str]]) -> int:
        """Remember each value under its key; how many keys."""
        return await self._write(partial(mind_moves.set_memories, agent, pairs)) if pairs else 0

    async def replace_memories(self, agent: str, pairs: Sequence[tuple[str, str]]) -> int:
        """Remember these and nothing else."""
        return await self._write(partial(mind_moves.replace_memories, agent, pairs))

    async def delete_memories(self, agent: str, keys: Sequence[str]) -> int:
        """Forget; how many there were."""
        return await self._write(partial(mind_moves.delete_memories, agent, keys))

    async def goals(self, agent: str) -> list[Goal]:
        """The most important first."""
        return await self._read(partial(mind_moves.goals, agent))

    async def set_goals(self, agent: str, drafts: Sequence[GoalDraft]) -> list[Goal] | UnknownIds:
        """New goals, and changes to those that are named by their id."""
        return await self._write(partial(mind_moves.set_goals, agent, drafts))

    async def replace_goals(self, agent: str, drafts: Sequence[GoalDraft]) -> list[Goal] | UnknownIds:
        """These goals and no others."""
        return await self._write(partial(mind_moves.replace_goals, agent, drafts))

    async def delete_goals(self, agent: str, ids: Sequence[str]) -> int:
        """Give up; how many there were."""
        return await self._write(partial(mind_moves.delete_goals, agent, ids))

    async def plans(self, agent: str) -> list[Plan]:
        """The oldest first."""
        return await self._read(partial(mind_moves.plans, agent))

    async def set_plans(self, agent: str, drafts: Sequence[PlanDraft]) -> list[Plan] | UnknownIds:
        """New plans, and those that are named by their id as they shall be."""
        return await self._write(partial(mind_moves.set_plans, agent, drafts))

    async def replace_plans(self, agent: str, drafts: Sequence[PlanDraft]) -> list[Plan] | UnknownIds:
        """These plans and no others."""
        return await self._write(partial(mind_moves.replace_plans, agent, drafts))

    async def delete_plans(self, agent: str, ids: Sequence[str]) -> int:
        """Drop; how many there were."""
        return await self._write(partial(mind_moves.delete_plans, agent, ids))

    async def due_plans(self, *, limit: int = 500) -> list[Plan]:
        """Plans whose time has come, of agents that are there and switched on."""
        return await self._read(partial(mind_moves.due_plans, limit))

    async def next_plan_at(self) -> int | None:
        """When the next plan is due, perhaps long ago. None: none ever is."""
        row = await self._read(partial(moves.one, "next_plan"))
        return None if row is None or row["next_run_at"] is None else int(row["next_run_at"])

    async def fire_plan(self, plan: Plan, *, next_run_at: int | None) -> bool:
        """The plan's time has come: its agent is told, once. False: another gateway did it, or the plan has changed."""
        return await self._write(partial(mind_moves.fire_plan, plan, next_run_at=next_run_at))
