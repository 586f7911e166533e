"""`client.agents` and `client.runs` of the blocking client: method for method, run on the loop's thread."""

from collections.abc import Generator, Iterable, Mapping
from typing import Any

from jackfield.sdk.agent_types import AgentInfo, CyclePage, Goal, Memory, Plan, RunEvent, RunInfo, RunPage
from jackfield.sdk.agents import Agents
from jackfield.sdk.loop import LoopThread
from jackfield.sdk.runs import Runs
from jackfield.sdk.types import InboxPage, Triggered


class SyncAgents:
    """`Agents`, blocking."""

    def __init__(self, agents: Agents, loop: LoopThread) -> None:
        self._agents = agents
        self._loop = loop

    def list(self) -> tuple[AgentInfo, ...]:
        """Every agent that this key may see."""
        return self._loop.run(self._agents.list())

    def get(self, name: str) -> AgentInfo:
        """One agent. Raises `AgentNotFound`."""
        return self._loop.run(self._agents.get(name))

    def create(self, id: str | None = None, **settings: Any) -> AgentInfo:  # noqa: A002 - the field's name
        """Make an agent, with settings as in the config. Raises `Conflict` when the id is taken."""
        return self._loop.run(self._agents.create(id, **settings))

    def update(self, name: str, **settings: Any) -> AgentInfo:
        """Change what is given, from its next cycle on. Raises `Conflict` for an agent of the config."""
        return self._loop.run(self._agents.update(name, **settings))

    def delete(self, name: str) -> None:
        """Delete an agent with all that it has in mind. Raises `Conflict` for an agent of the config."""
        self._loop.run(self._agents.delete(name))

    def trigger(self, name: str, service: str, payload: Any = None) -> Triggered:
        """Put an event of `service` into the agent's inbox; `payload` is anything that JSON holds."""
        return self._loop.run(self._agents.trigger(name, service, payload))

    def inbox(
        self, name: str, status: str | None = None, *, limit: int | None = None, cursor: str | None = None
    ) -> InboxPage:
        """Events in the order they came: all of them, or those that are `pending`, `processing` or `processed`."""
        return self._loop.run(self._agents.inbox(name, status, limit=limit, cursor=cursor))

    def cycles(self, name: str, *, limit: int | None = None, cursor: str | None = None) -> CyclePage:
        """What the agent did each time it woke, newest first."""
        return self._loop.run(self._agents.cycles(name, limit=limit, cursor=cursor))

    def memories(self, name: str) -> tuple[Memory, ...]:
        """What the agent remembers, by key."""
        return self._loop.run(self._agents.memories(name))

    def set_memories(self, name: str, memories: Mapping[str, str]) -> tuple[Memory, ...]:
        """Make it remember these, by key, and nothing else."""
        return self._loop.run(self._agents.set_memories(name, memories))

    def goals(self, name: str) -> tuple[Goal, ...]:
        """What the agent wants, the most important first."""
        return self._loop.run(self._agents.goals(name))

    def set_goals(self, name: str, goals: Iterable[Goal]) -> tuple[Goal, ...]:
        """Give it these goals and no others; those with an id stay the same ones."""
        return self._loop.run(self._agents.set_goals(name, goals))

    def plans(self, name: str) -> tuple[Plan, ...]:
        """What the agent will be told later, the oldest plan first."""
        return self._loop.run(self._agents.plans(name))

    def set_plans(self, name: str, plans: Iterable[Plan]) -> tuple[Plan, ...]:
        """Give it these plans and no others; those with an id stay the same ones, and due when they were."""
        return self._loop.run(self._agents.set_plans(name, plans))


class SyncRuns:
    """`Runs`, blocking."""

    def __init__(self, runs: Runs, loop: LoopThread) -> None:
        self._runs = runs
        self._loop = loop

    def list(self, *, agent: str | None = None, limit: int | None = None, cursor: str | None = None) -> RunPage:
        """One page of cycles and responses, newest first; with `agent`, its cycles alone."""
        return self._loop.run(self._runs.list(agent=agent, limit=limit, cursor=cursor))

    def get(self, run_id: str) -> RunInfo:
        """One run with all that is on record of it. Raises `RunNotFound`."""
        return self._loop.run(self._runs.get(run_id))

    def stream(self, run_id: str) -> Generator[RunEvent, None, None]:
        """What happened to the run's calls and what happens, each once, across breaks; its end is the last event."""
        return self._loop.iterate(self._runs.stream(run_id))
