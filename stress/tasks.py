"""kill -9 at random points of MCP tasks that wait for approval: each ends once, with the result that the record holds.

Real gateway processes, one on SQLite or two on PostgreSQL. A client makes each task over `/mcp`, a person approves or
rejects it over HTTP, the client polls it: each at any gateway, and again where a gateway died before it answered. Tasks
come in groups, and each group loses a gateway somewhere between its first call and its last end.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
from msgspec import Struct

from stress.processes import KEY, Project, Victim, victims
from stress.report import Report, progress_of

GROUP = 4
LIFE_SECONDS = 1.0
"""Within so long from a group's start its tasks are made and decided, and a gateway is killed."""
SETTLES_WITHIN = 60.0
"""A dead gateway's lease is over after 15 s, then the others take over."""
PAUSE = 0.05
REJECTED = 0.2
REPEATABLE = 0.3
"""The shares of tasks that are rejected, and whose tool may be run again."""
MOST_STARTS = {"charge": 1, "look_up": 3}
FINAL = ("completed", "failed", "cancelled")
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}
CONFIG = """\
[sources.local]
kind = "files"
path = "tools/*.py"
tools.charge.metadata = { requires_approval = true }
tools.look_up.metadata = { requires_approval = true, idempotent = true }
"""
TOOLS = '''\
"""Tools that write down that they started, and take a moment."""

import asyncio
import os
from pathlib import Path

STARTS = Path(os.environ["STRESS_STARTS"])


async def _work(n: int) -> dict:
    with STARTS.open("a") as file:
        file.write(f"{n}\\n")
    await asyncio.sleep(0.03 * (n % 10))
    return {"n": n}


async def charge(n: int) -> dict:
    """Not to be repeated."""
    return await _work(n)


async def look_up(n: int) -> dict:
    """May be repeated."""
    return await _work(n)
'''
PROJECT = Project(CONFIG, {"tools/work.py": TOOLS})


class Life(Struct, kw_only=True):
    """One task, as its client and the person saw it."""

    n: int
    tool: str
    is_approved: bool
    task_id: str = ""
    end: dict[str, Any] = {}
    """The task as it was when it was first seen to be over."""


async def kill_with_tasks(store_url: str, folder: Path, *, tasks: int, seed: int, gateways: int = 1) -> Report:
    report = Report(part=f"tasks under kill -9, {gateways} gateway(s) on {store_url.partition(':')[0]}", seed=seed)
    tell, chance = progress_of(report, tasks), random.Random(seed)
    lives = [
        Life(
            n=n,
            tool="look_up" if chance.random() < REPEATABLE else "charge",
            is_approved=chance.random() >= REJECTED,
        )
        for n in range(1, tasks + 1)
    ]
    async with victims(folder, store_url, count=gateways, project=PROJECT) as running:
        people = People(running, chance)
        async with asyncio.TaskGroup() as group:
            for start in range(0, tasks, GROUP):
                for life in lives[start : start + GROUP]:
                    group.create_task(people.live(life))
                await asyncio.sleep(chance.uniform(0, LIFE_SECONDS))
                await chance.choice(running).kill_and_start()
                tell(start + GROUP)
        report.seen["kills"] = sum(len(victim.killed_at) for victim in running)
        await _judge(report, lives, people, _starts(folder / "starts"))
    await people.close()
    return report


class People:
    """Who makes tasks, decides and looks after them, at whichever gateway is there."""

    def __init__(self, running: list[Victim], chance: random.Random) -> None:
        self._chance = chance
        headers = {"x-api-key": KEY}
        self._clients = [httpx2.AsyncClient(base_url=victim.url, headers=headers, timeout=20) for victim in running]

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()

    async def live(self, life: Life) -> None:
        """From the call to the end that the client sees."""
        await asyncio.sleep(self._chance.uniform(0, LIFE_SECONDS / 3))
        params = {"name": life.tool, "arguments": {"n": life.n}}
        # A call that was cut off may be on record, unseen: it waits, and nobody decides it.
        made = await self._until_answered(lambda: self._mcp("tools/call", params, name=life.tool))
        life.task_id = made["result"]["taskId"]
        await asyncio.sleep(self._chance.uniform(0, LIFE_SECONDS / 2))
        word = "approve" if life.is_approved else "reject"
        await self._until_answered(lambda: self._post(f"/api/v1/calls/{life.task_id}/{word}"))
        until = time.monotonic() + SETTLES_WITHIN
        while not life.end and time.monotonic() < until:
            task = await self.task(life.task_id)
            if task["status"] in FINAL:
                life.end = task
            await asyncio.sleep(PAUSE)

    async def task(self, task_id: str) -> dict[str, Any]:
        params = {"taskId": task_id}
        answer = await self._until_answered(lambda: self._mcp("tasks/get", params, name=task_id))
        result: dict[str, Any] = answer["result"]
        return result

    async def record(self, task_id: str) -> dict[str, Any]:
        answer = await self._until_answered(lambda: self._get(f"/api/v1/calls/{task_id}"))
        record: dict[str, Any] = answer["call"]
        return record

    async def _until_answered(self, ask: Callable[[], Awaitable[httpx2.Response]]) -> Any:
        until = time.monotonic() + SETTLES_WITHIN
        while True:
            try:
                answer = await ask()
            except httpx2.TransportError:
                if time.monotonic() > until:
                    raise
            else:
                if answer.status_code in (200, 409):  # 409: decided, and its answer was lost
                    return answer.json()
                if answer.status_code != 503 or time.monotonic() > until:
                    answer.raise_for_status()
            await asyncio.sleep(PAUSE)

    async def _mcp(self, method: str, params: dict[str, Any], *, name: str) -> httpx2.Response:
        headers = {"mcp-protocol-version": VERSION, "mcp-method": method, "mcp-name": name}
        headers["accept"] = "application/json, text/event-stream"
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
        return await self._any().post("/mcp", json=body, headers=headers)

    async def _post(self, path: str) -> httpx2.Response:
        return await self._any().post(path, json={})

    async def _get(self, path: str) -> httpx2.Response:
        return await self._any().get(path)

    def _any(self) -> httpx2.AsyncClient:
        return self._chance.choice(self._clients)


def _starts(file: Path) -> Counter[str]:
    """How often each tool began, by its argument."""
    return Counter(file.read_text(encoding="utf-8").split() if file.exists() else ())


async def _judge(report: Report, lives: list[Life], people: People, starts: Counter[str]) -> None:
    for life in lives:
        if not life.end:
            report.violations.append(f"task {life.n} did not end: {await people.task(life.task_id)}")
            continue
        record, again = await people.record(life.task_id), await people.task(life.task_id)
        status, begun = record["status"], starts[str(life.n)]
        report.seen[f"{life.tool} {status}"] += 1
        report.expect(again == life.end, f"task {life.n} ended twice: {life.end}, then {again}")
        report.expect(life.end["status"] == "completed", f"task {life.n} is {life.end['status']}")
        report.expect(record["id"] == life.task_id, f"task {life.n} is another call's")
        _judge_result(report, life, record)
        if status == "rejected":
            report.expect(not life.is_approved and begun == 0, f"task {life.n} was rejected and began {begun} times")
        elif status == "completed":
            report.expect(1 <= begun <= MOST_STARTS[life.tool], f"task {life.n} is completed and began {begun} times")
        else:
            code, attempts = (record["error"] or {}).get("code"), record["attempt"]
            report.expect(code == "interrupted", f"task {life.n} failed as {code}")
            was_tried = begun <= attempts == MOST_STARTS[life.tool]
            report.expect(was_tried, f"task {life.n} was interrupted in attempt {attempts}, after {begun} starts")


def _judge_result(report: Report, life: Life, record: dict[str, Any]) -> None:
    """The task's result is the record's."""
    result = life.end.get("result", {})
    is_error = record["status"] != "completed"
    told = result.get("structuredContent")
    report.expect(bool(result.get("isError")) is is_error, f"task {life.n}: isError is not what the record says")
    report.expect(told == record["result"], f"task {life.n} has {told}, its record {record['result']}")
    if not is_error:
        report.expect(told == {"n": life.n}, f"task {life.n} has another's result: {told}")
