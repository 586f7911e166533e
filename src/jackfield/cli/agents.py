"""`jackfield agents` and `spaces`: agents with their cycles, spaces with their members."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from jackfield.cli.options import GATEWAY, JSON, argument, command
from jackfield.cli.output import duration, escape, print_either, table, timestamp
from jackfield.cli.target import connect
from jackfield.sdk import AgentInfo, CycleInfo, SpaceInfo, SpaceMember

CYCLES_SHOWN = 20


@command(
    "List the agents: status, spaces and last cycle. With NAME, list an agent's last cycles.",
    argument("name", nargs="?", help="an agent's id"),
    JSON,
    *GATEWAY,
    examples="""\
  jackfield agents
  jackfield agents concierge
  jackfield agents --json | jq '.agents[].id'""",
)
async def agents(options: Namespace) -> int:
    now = datetime.now(UTC)
    async with connect(options) as client:
        if not options.name:
            listed = await client.agents.list()
            print_either(options, {"agents": listed}, agent_lines(listed, now=now))
            return 0
        agent = await client.agents.get(options.name)
        page = await client.agents.cycles(agent.id, limit=CYCLES_SHOWN)
    lines = [*agent_lines([agent], now=now), "", *cycle_lines(page.cycles, now=now)]
    print_either(options, {"agent": agent, "cycles": page.cycles}, lines)
    return 0


def agent_lines(agents: Sequence[AgentInfo], *, now: datetime) -> list[str]:
    if not agents:
        return ["No agents. Add [agents.NAME] to the config, or POST /api/agents."]
    rows = [
        (
            escape(agent.id),
            agent.status if agent.enabled else "disabled",
            escape(", ".join(agent.spaces)),
            "-" if agent.last_cycle is None else str(agent.last_cycle.number),
            _finished(agent.last_cycle, now=now),
            _summary(agent.last_cycle),
        )
        for agent in agents
    ]
    header = ("ID", "STATUS", "SPACES", "CYCLE", "FINISHED", "SUMMARY")
    return table(rows, header=header, styles=("bold", "cyan", "", "", "dim"))


def cycle_lines(cycles: Sequence[CycleInfo], *, now: datetime) -> list[str]:
    """One line a cycle, newest first."""
    if not cycles:
        return ["No cycles yet."]
    rows = [(str(cycle.number), cycle.status, _finished(cycle, now=now), cycle.id, _summary(cycle)) for cycle in cycles]
    return table(rows, header=("CYCLE", "STATUS", "FINISHED", "RUN", "SUMMARY"), styles=("bold", "cyan", "dim", "dim"))


def _finished(cycle: CycleInfo | None, *, now: datetime) -> str:
    finished = None if cycle is None else timestamp(cycle.finished_at)
    return "-" if finished is None else f"{duration(now - finished)} ago"


def _summary(cycle: CycleInfo | None) -> str:
    return "" if cycle is None else escape(" ".join((cycle.reason or cycle.summary or "").split()))


@command(
    "List the spaces and their members.",
    JSON,
    *GATEWAY,
    examples="""\
  jackfield spaces
  jackfield chat lobby                   (join one)
  jackfield spaces --json""",
)
async def spaces(options: Namespace) -> int:
    async with connect(options) as client:
        listed = await client.spaces.list()
        members = {space.id: await client.spaces.members(space.id) for space in listed}
    print_either(options, {"spaces": listed, "members": members}, space_lines(listed, members))
    return 0


def space_lines(spaces: Sequence[SpaceInfo], members: Mapping[str, Sequence[SpaceMember]]) -> list[str]:
    if not spaces:
        return ["No spaces. Add 'spaces' to an agent in the config, or POST /api/spaces."]
    rows = [
        (
            escape(space.id),
            escape(space.name),
            escape(", ".join(f"{member.name} ({member.kind})" for member in members[space.id]) or "-"),
        )
        for space in spaces
    ]
    return table(rows, header=("ID", "NAME", "MEMBERS"), styles=("bold",))
