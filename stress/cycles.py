"""kill -9 between an agent's inbox and its commit: every event is processed once, and nothing is said or done twice.

Real gateway processes, one on SQLite or two on PostgreSQL with one killed at a time. Each agent is given one task after
the other, so that whenever a gateway dies some of them are in the middle of a cycle. On PostgreSQL the lease of a
gateway that was killed is ended at once, or nobody would be in a cycle any more when the next one dies.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from stress.cycle_evidence import gather, judge
from stress.load import HEADERS
from stress.mortals import kind_of, mortals
from stress.processes import Project
from stress.report import Report, progress_of

AGENTS = tuple(f"a{number}" for number in range(8))
LIFE_SECONDS = (0.0, 0.4)
"""How long a gateway lives on, at least and at most, after some tasks were ended; then it is killed."""
PROGRESS_WITHIN = 20.0
LOOK_SECONDS = 0.1
TASK_WITHIN = 300.0
"""A cycle that was given up comes again after a minute, if that is given up too after two more."""

CONFIG = """\
[models.mind]
provider = "scripted"
script = "mind.toml"

[sources.local]
kind = "files"
path = "tools/*.py"
tools.work_again.metadata = { idempotent = true }

""" + "".join(f'[agents.{name}]\nmodel = "mind"\nspaces = ["room_{name}"]\n' for name in AGENTS)
SCRIPT = r"""
[[turns]]
when = { user = 'Cycle Failed', asked = '"task (?P<n>\d+)"', instructions = 'agent id: (?P<me>\w+)' }
calls = [
  { tool = "enter_space", arguments = { spaceId = "room_{me}" } },
  { tool = "send_message", arguments = { text = "gave up {n}" } },
]
[[turns]]
when = { user = '"task (?P<n>\d+)"', instructions = 'agent id: (?P<me>\w+)' }
wait = 0.05
calls = [
  { tool = "set_goals", arguments = { goals = [{ description = "task {n}" }] } },
  { tool = "set_memories", arguments = { memories = [{ key = "task {n}", value = "begun" }] } },
  { tool = "enter_space", arguments = { spaceId = "room_{me}" } },
  { tool = "send_message", arguments = { text = "began {n}" } },
  { tool = "work", arguments = { task = "{me}-{n}" } },
  { tool = "work_again", arguments = { task = "{me}-{n}" } },
]
[[turns]]
when = { result = "work_again", asked = '"task (?P<n>\d+)"' }
wait = 0.05
calls = [{ tool = "send_message", arguments = { text = "done {n}" } }]
[[turns]]
when = { result = "send_message" }
wait = 0.05
say = "That is over."
"""
TOOLS = '''\
"""Tools that write down that they started, and take a moment."""

import asyncio
import os
from pathlib import Path

STARTS = Path(os.environ["STRESS_STARTS"])


async def _work(name: str, task: str) -> str:
    with STARTS.open("a") as file:
        file.write(f"{name}-{task}\\n")
    await asyncio.sleep(0.05 * (len(STARTS.read_text()) % 5))
    return task


async def work(task: str) -> str:
    """Take a moment; not to be repeated."""
    return await _work("work", task)


async def work_again(task: str) -> str:
    """Take a moment; may be repeated."""
    return await _work("work_again", task)
'''
PROJECT = Project(CONFIG, {"mind.toml": SCRIPT, "tools/work.py": TOOLS})


async def kill_in_cycles(store_url: str, folder: Path, *, kills: int, seed: int, gateways: int = 1) -> Report:
    report = Report(part=f"kill -9 between inbox and commit, {gateways} gateway(s) on {kind_of(store_url)}", seed=seed)
    tell = progress_of(report, kills)
    chance = random.Random(seed)
    async with mortals(store_url, folder, count=gateways, project=PROJECT) as running:
        tasks = Tasks([mortal.victim.url for mortal in running], chance)
        stop = asyncio.Event()
        async with aclosing(tasks), asyncio.TaskGroup() as group:
            for agent in AGENTS:
                group.create_task(tasks.give(agent, until=stop))
            for done in range(kills):
                await tasks.progress(chance.randint(1, len(AGENTS)))
                await asyncio.sleep(chance.uniform(*LIFE_SECONDS))
                await chance.choice(running).die_and_return()
                tell(done + 1)
            stop.set()
    report.seen["kills"] = kills
    report.violations += tasks.stuck
    judge(report, await gather(store_url, folder, AGENTS), given=tasks.given, starts=folder / "starts")
    return report


class Tasks:
    """People who give each agent one task after the other, at whichever gateway answers."""

    def __init__(self, urls: Sequence[str], chance: random.Random) -> None:
        self.given: dict[str, int] = {}
        """How many tasks each agent was given."""
        self.stuck: list[str] = []
        self._ended = asyncio.Semaphore(0)
        self._chance = chance
        self._clients = [httpx2.AsyncClient(base_url=url, headers=HEADERS, timeout=10) for url in urls]

    async def aclose(self) -> None:
        for client in self._clients:
            await client.aclose()

    async def give(self, agent: str, *, until: asyncio.Event) -> None:
        """One task after the other; all are over when this ends, or it is noted which is not."""
        self.given[agent] = 0
        while not until.is_set():
            number = self.given[agent] + 1
            if not await _comes_true(partial(self._is_said, agent, number)):
                self.stuck.append(f"{agent} could not be told of task {number} within {TASK_WITHIN:g} s")
                return
            self.given[agent] = number
            if not await _comes_true(partial(self._is_idle, agent)):
                self.stuck.append(f"{agent} did not end task {number} within {TASK_WITHIN:g} s")
                return
            self._ended.release()

    async def progress(self, tasks: int) -> None:
        """Until so many more tasks are over, or nothing goes on."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PROGRESS_WITHIN):
                for _ in range(tasks):
                    await self._ended.acquire()

    async def _is_said(self, agent: str, number: int) -> bool:
        """Whether the task is acknowledged; the same id is the same message."""
        body = {"id": f"task-{agent}-{number}", "entityId": "eve", "content": f"task {number}"}
        return await self._ask("POST", f"/api/spaces/room_{agent}/messages", json=body) is not None

    async def _is_idle(self, agent: str) -> bool:
        """Whether all its events are in committed cycles."""
        for status in ("pending", "processing", "pending"):  # an event may go either way meanwhile
            answer = await self._ask("GET", f"/api/agents/{agent}/inbox?status={status}")
            if answer is None or answer.json()["events"]:
                return False
        return True

    async def _ask(self, method: str, path: str, **more: Any) -> httpx2.Response | None:
        """None: that gateway is gone for the moment."""
        try:
            answer = await self._chance.choice(self._clients).request(method, path, **more)
        except httpx2.TransportError:
            return None
        return answer if answer.is_success else None


async def _comes_true(ask: Callable[[], Awaitable[bool]]) -> bool:
    end = time.monotonic() + TASK_WITHIN
    while not await ask():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(LOOK_SECONDS)
    return True
