"""`jackfield agents`: who there is, asleep or awake, and what each did last; with a name, one agent's cycles.

Above: `main.py`. Below: the SDK.
"""

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime

from jackfield.cli.pending import moment, span
from jackfield.cli.reach import gateway
from jackfield.cli.show import columns, harmless, put, put_json
from jackfield.cli.usage import add_gateway_arguments
from jackfield.sdk import AgentInfo, CycleInfo

DESCRIPTION = "List the agents: asleep or awake, in which spaces, and their last cycle. With NAME: its last cycles."
EXAMPLES = """\
  jackfield agents
  jackfield agents concierge
  jackfield agents --json | jq '.agents[].id'"""
SHOWN = 20


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="an agent's id")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_gateway_arguments(parser)


def run(options: Namespace) -> int:
    asyncio.run(_one(options) if options.name else _all(options))
    return 0


async def _all(options: Namespace) -> None:
    async with gateway(options) as client:
        agents = await client.agents.list()
    if options.json:
        put_json({"agents": agents})
        return
    for line in agent_lines(agents, now=datetime.now(UTC)):
        put(line)


async def _one(options: Namespace) -> None:
    async with gateway(options) as client:
        agent = await client.agents.get(options.name)
        page = await client.agents.cycles(agent.id, limit=SHOWN)
    if options.json:
        put_json({"agent": agent, "cycles": page.cycles})
        return
    now = datetime.now(UTC)
    for line in [*agent_lines([agent], now=now), "", *cycle_lines(page.cycles, now=now)]:
        put(line)


def agent_lines(agents: Sequence[AgentInfo], *, now: datetime) -> list[str]:
    """One line an agent."""
    if not agents:
        return ["There is no agent. [agents.NAME] in the config makes one, or POST /api/agents."]
    rows = [
        (
            harmless(agent.id),
            agent.status if agent.enabled else "switched off",
            harmless(", ".join(agent.spaces)),
            _cycle(agent.last_cycle, now=now),
            harmless(_came_to(agent.last_cycle)),
        )
        for agent in agents
    ]
    return columns(rows, styles=("bold", "cyan", "", "dim"))


def cycle_lines(cycles: Sequence[CycleInfo], *, now: datetime) -> list[str]:
    """One line a cycle, newest first."""
    if not cycles:
        return ["It has not woken yet."]
    rows = [(_cycle(cycle, now=now), cycle.status, cycle.id, harmless(_came_to(cycle))) for cycle in cycles]
    return columns(rows, styles=("bold", "cyan", "dim"))


def _cycle(cycle: CycleInfo | None, *, now: datetime) -> str:
    if cycle is None:
        return "never woke"
    ended = moment(cycle.finished_at)
    return f"cycle {cycle.number}, {f'{span(now - ended)} ago' if ended else 'now'}"


def _came_to(cycle: CycleInfo | None) -> str:
    return "" if cycle is None else " ".join((cycle.reason or cycle.summary or "").split())
