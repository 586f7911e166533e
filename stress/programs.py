"""kill -9 in the middle of programs that call tools: each comes to the end of a calm run, with every call made once.

Real gateway processes, one on SQLite or two on PostgreSQL with one killed at a time. Programs of thirty calls, in loops
and in parallel, with two approvals, run side by side; a person approves at any gateway. A program is given up when
gateways die on it three times without a step, so none is killed a fourth time.
"""

import asyncio
import random
from collections import Counter
from contextlib import aclosing
from pathlib import Path
from typing import Any

from stress.mortals import Mortal, kind_of, mortals
from stress.people import People, comes_true, records
from stress.processes import Project
from stress.report import Report, progress_of

AT_ONCE = 4
LIFE_SECONDS = (0.0, 1.0)
"""How long a gateway lives on after it came back, at least and at most; then it is killed."""

CONFIG = """\
[programs]
enabled = true

[sources.local]
kind = "files"
path = "tools/*.py"
tools.look_up.metadata = { idempotent = true }
tools.charge.metadata = { requires_approval = true }
"""
TOOLS = '''\
"""Tools that write down that they started, and take a moment."""

import asyncio
import os
from pathlib import Path

STARTS = Path(os.environ["STRESS_STARTS"])


async def _work(key: str, value: int) -> int:
    with STARTS.open("a") as file:
        file.write(f"{key}\\n")
    await asyncio.sleep(0.01 * (value % 4))
    return value + 1


async def look_up(key: str, value: int) -> int:
    """May be repeated."""
    return await _work(key, value)


async def write(key: str, value: int) -> int:
    """Not to be repeated."""
    return await _work(key, value)


async def charge(key: str, value: int) -> int:
    """Not to be repeated, and only with a person's consent."""
    return await _work(key, value)
'''
PROGRAM = """\
import random, time, uuid

async def once(tool, key, value):
    try:
        return await tool(key=key, value=value)
    except ToolFailed as failure:
        if failure.code != "interrupted":
            raise
        print("not known:", key)
        return value + 1

async def again(key, value):
    while True:
        try:
            return await tools.look_up(key=key, value=value)
        except ToolFailed as failure:
            if failure.code != "interrupted":
                raise

before = [random.random(), time.time(), str(uuid.uuid4())]
value = number
for n in range(8):
    value = await again(f"look-{number}-{n}", value)
value = await once(tools.charge, f"charge-{number}-a", value)
found = await asyncio.gather(*(again(f"side-{number}-{n}", value + n) for n in range(8)),
                             *(once(tools.write, f"write-{number}-{n}", value + n) for n in range(4)))
value = await once(tools.charge, f"charge-{number}-b", sum(found))
for n in range(8):
    value = await once(tools.write, f"last-{number}-{n}", value)
return [value, found]
"""
PROJECT = Project(CONFIG, {"tools/work.py": TOOLS})
# What a program that loses its gateway now might not survive.
AT_THEIR_LAST = """
SELECT count(*) FROM runs LEFT JOIN gateways ON gateways.id = runs.owner WHERE runs.kind = 'program'
    AND runs.status = 'open' AND runs.tries + CASE WHEN gateways.id IS NULL OR gateways.dead = 1
    OR gateways.alive_until = 0 THEN 1 ELSE 0 END > 2
"""
TAKEN_OVER = "SELECT coalesce(sum(epoch - 1), 0) FROM runs WHERE kind = 'program'"
INTERRUPTED = "SELECT count(*) FROM calls WHERE tool <> 'run_program' AND error_code = 'interrupted'"
REPEATED = "SELECT count(*) FROM calls WHERE tool = 'look_up' AND attempt > 1"
INNER = "SELECT count(*) FROM calls WHERE tool <> 'run_program'"


def calm_end(number: int) -> list[Any]:
    """What a program returns when nobody dies."""
    value = number + 9
    found = [value + n + 1 for n in (*range(8), *range(4))]
    return [sum(found) + 9, found]


async def kill_in_programs(store_url: str, folder: Path, *, kills: int, seed: int, gateways: int = 1) -> Report:
    report = Report(part=f"kill -9 in programs, {gateways} gateway(s) on {kind_of(store_url)}", seed=seed)
    tell, chance = progress_of(report, kills), random.Random(seed)
    async with mortals(store_url, folder, count=gateways, project=PROJECT) as running, records(store_url) as count:
        people = ProgramPeople(running, chance)

        async def safe() -> bool:
            return not await count(AT_THEIR_LAST)

        stop, over = asyncio.Event(), asyncio.Event()
        async with aclosing(people), asyncio.TaskGroup() as group:
            approving = group.create_task(people.approve(until=over))
            await people.run(0)
            report.expect(people.ends[0] == calm_end(0), f"the calm run ended with {people.ends[0]}")
            working = [group.create_task(people.work(until=stop)) for _ in range(AT_ONCE)]
            for done in range(kills):
                await asyncio.sleep(chance.uniform(*LIFE_SECONDS))
                await comes_true(safe)
                await chance.choice(running).die_and_return()
                tell(done + 1)
            stop.set()
            await asyncio.wait(working)
            over.set()
            await approving
        report.seen["kills"] = kills
        for what, query in (("taken on again", TAKEN_OVER), ("inner calls", INNER), ("repeated look-ups", REPEATED)):
            report.seen[what] = await count(query)
        report.seen["inner calls interrupted"] = await count(INTERRUPTED)
    _judge(report, people.ends, folder / "starts")
    return report


class ProgramPeople(People):
    """Who has programs run, and who approves their calls."""

    def __init__(self, running: list[Mortal], chance: random.Random) -> None:
        super().__init__(running, chance)
        self.ends: dict[int, Any] = {}
        """What became of each program: its result, or something else that is not one."""

    async def work(self, *, until: asyncio.Event) -> None:
        while not until.is_set():
            await self.run(len(self.ends))

    async def run(self, number: int) -> None:
        """From the call to its end."""
        self.ends[number] = "no end"
        body = {"arguments": {"code": f"number = {number}\n{PROGRAM}"}}
        headers = {"Idempotency-Key": f"program-{number}"}

        call_id = ""

        async def is_made() -> bool:
            """The same request again is the same call."""
            nonlocal call_id
            answer = await self.ask("POST", "/api/v1/tools/run_program/execute", json=body, headers=headers)
            call_id = "" if answer is None else answer.json()["call_id"]
            return bool(call_id)

        async def is_over() -> bool:
            answer = await self.ask("GET", f"/api/v1/calls/{call_id}")
            if answer is None or (call := answer.json()["call"])["finished_at"] is None:
                return False
            self.ends[number] = call["result"] if call["status"] == "completed" else call["error"]
            return True

        await comes_true(is_made)
        await comes_true(is_over)


def _judge(report: Report, ends: dict[int, Any], file: Path) -> None:
    starts = Counter(file.read_text(encoding="utf-8").split())
    report.seen["programs"] = len(ends)
    for number, end in ends.items():
        report.expect(end == calm_end(number), f"program {number} ended with {end}")
    for key, count in starts.items():
        if not key.startswith(("look-", "side-")):
            report.expect(count == 1, f"{key} was executed {count} times")
    report.seen["effects of calls that may not be repeated"] = sum(
        not key.startswith(("look-", "side-")) for key in starts
    )
