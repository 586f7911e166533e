"""kill -9 in the middle of responses: each comes to the end of a calm run, with every call made once.

Real gateway processes, one on SQLite or two on PostgreSQL with one killed at a time. Responses in the background call
tools, wait for approvals and for an answer from outside, and are streamed all the while, from any gateway, the stream
read on where it broke off. Others are made for a client that waits; when their gateway dies they are resumed by id. A
response is given up when gateways die on it three times without a step, so none is killed a fourth time.
"""

import asyncio
import json
import random
from collections import Counter
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx2

from stress.mortals import Mortal, kind_of, mortals
from stress.people import PAUSE, People, comes_true, records
from stress.processes import Project
from stress.report import Report, progress_of

AT_ONCE = 4
LIFE_SECONDS = (0.0, 1.0)
"""How long a gateway lives on after it came back, at least and at most; then it is killed."""
OVER = ("response.completed", "response.incomplete", "response.cancelled")
Json = dict[str, Any]

CONFIG = """\
[models.demo]
provider = "scripted"
script = "demo.toml"

[sources.local]
kind = "files"
path = "tools/*.py"
tools.look_up.metadata = { idempotent = true }
tools.charge.metadata = { requires_approval = true }
tools.charge_again.metadata = { requires_approval = true }

[[tools]]
name = "ask"
description = "Answered from outside."
executionType = "external"
visible = false
inputSchema = { type = "object" }
"""
SCRIPT = r"""
pace = 0.005
[[turns]]
when = { user = 'job (?P<n>\d+)' }
say = "I begin with job {n} and look things up first."
calls = [{ tool = "look_up", arguments = { key = "look-{n}-a" } },
         { tool = "write", arguments = { key = "once-{n}-a" } }]
[[turns]]
when = { result = "write", asked = 'job (?P<n>\d+) waits' }
think = "Somebody has to allow this, and somebody else knows more."
calls = [{ tool = "ask", arguments = { key = "{n}" } }, { tool = "look_up", arguments = { key = "look-{n}-b" } },
         { tool = "charge", arguments = { key = "once-{n}-b" } }]
[[turns]]
when = { result = "charge", asked = 'job (?P<n>\d+)' }
say = "It is allowed, so I go on with more of it."
calls = [{ tool = "write", arguments = { key = "once-{n}-c" } },
         { tool = "charge_again", arguments = { key = "once-{n}-d" } }]
[[turns]]
when = { result = "write", asked = 'job (?P<n>\d+) is' }
say = "Now the rest."
calls = [{ tool = "look_up", arguments = { key = "look-{n}-c" } },
         { tool = "finish", arguments = { key = "once-{n}-e" } }]
[otherwise]
say = "That was all there was to do, and it is done."
"""
TOOLS = '''\
"""Tools that write down that they started, and take a moment."""

import asyncio
import os
from pathlib import Path

STARTS = Path(os.environ["STRESS_STARTS"])


async def _work(key: str) -> str:
    with STARTS.open("a") as file:
        file.write(f"{key}\\n")
    await asyncio.sleep(0.02 * (len(key) % 4))
    return key


async def look_up(key: str) -> str:
    """May be repeated."""
    return await _work(key)


async def write(key: str) -> str:
    """Not to be repeated."""
    return await _work(key)


async def finish(key: str) -> str:
    """Not to be repeated."""
    return await _work(key)


async def charge(key: str) -> str:
    """Not to be repeated, and only with a person's consent."""
    return await _work(key)


async def charge_again(key: str) -> str:
    """Not to be repeated, and only with a person's consent."""
    return await _work(key)
'''
PROJECT = Project(CONFIG, {"tools/work.py": TOOLS, "demo.toml": SCRIPT})
WAITS, IS_WAITED_FOR = "job {n} waits", "job {n} is waited for"
# What a response that loses its gateway now might not survive.
AT_THEIR_LAST = """
SELECT count(*) FROM runs LEFT JOIN gateways ON gateways.id = runs.owner WHERE runs.kind = 'response'
    AND runs.status = 'open' AND runs.tries + CASE WHEN gateways.id IS NULL OR gateways.dead = 1
    OR gateways.alive_until = 0 THEN 1 ELSE 0 END > 2
"""
TAKEN_OVER = "SELECT coalesce(sum(epoch - 1), 0) FROM runs WHERE kind = 'response'"
INTERRUPTED = "SELECT count(*) FROM calls WHERE error_code = 'interrupted'"
REPEATED = "SELECT count(*) FROM calls WHERE tool = 'look_up' AND attempt > 1"


async def kill_in_responses(store_url: str, folder: Path, *, kills: int, seed: int, gateways: int = 1) -> Report:
    report = Report(part=f"kill -9 in responses, {gateways} gateway(s) on {kind_of(store_url)}", seed=seed)
    tell, chance = progress_of(report, kills), random.Random(seed)
    async with mortals(store_url, folder, count=gateways, project=PROJECT) as running, records(store_url) as count:
        people = ResponsePeople(running, chance, report)

        async def safe() -> bool:
            return not await count(AT_THEIR_LAST)

        stop, over = asyncio.Event(), asyncio.Event()
        async with aclosing(people), asyncio.TaskGroup() as group:
            helping = [group.create_task(people.approve(until=over)), group.create_task(people.answer(until=over))]
            calm = {kind: await people.run(0, kind) for kind in (WAITS, IS_WAITED_FOR)}
            working = [
                group.create_task(people.work(WAITS if n else IS_WAITED_FOR, until=stop)) for n in range(AT_ONCE)
            ]
            for done in range(kills):
                await asyncio.sleep(chance.uniform(*LIFE_SECONDS))
                await comes_true(safe)
                await chance.choice(running).die_and_return()
                tell(done + 1)
            stop.set()
            await asyncio.wait(working)
            over.set()
            await asyncio.wait(helping)
        report.seen["kills"] = kills
        for what, query in (("taken up again", TAKEN_OVER), ("interrupted calls", INTERRUPTED)):
            report.seen[what] = await count(query)
        report.seen["repeated look-ups"] = await count(REPEATED)
    _judge(report, people, calm, folder / "starts")
    return report


class ResponsePeople(People):
    """Who has responses made, reads their streams, approves their calls and answers them."""

    def __init__(self, running: list[Mortal], chance: random.Random, report: Report) -> None:
        super().__init__(running, chance)
        self.ends: dict[int, tuple[str, Json]] = {}
        """Each response as it ended, and of which kind it was."""
        self._report = report
        self._made = 0

    async def work(self, kind: str, *, until: asyncio.Event) -> None:
        while not until.is_set():
            self._made += 1
            await self.run(self._made, kind)

    async def run(self, number: int, kind: str) -> Json:
        """From the request to the end. A request that nobody answered may have made a response: it is left alone."""
        self.ends.pop(number, None)
        tools, read = [{"type": "jackfield:catalog"}], list[Json]()
        body = {"model": "demo", "input": kind.format(n=number), "tools": tools}
        if kind == WAITS:
            answer = await self.ask("POST", "/v1/responses", json=body | {"background": True})
            response_id = "" if answer is None else answer.json()["id"]
        else:
            response_id, read = await self._while_waiting(number, body)
        if not response_id or number in self.ends:
            await asyncio.sleep(PAUSE)
            return self.ends.get(number, (kind, {}))[1]
        told = read if _is_over(read) else await self._followed(response_id, number)
        stream = await self._stream(response_id) if kind == WAITS or not _is_over(read) else told
        self._check(number, told, stream)
        self.ends[number] = (kind, stream[-1]["response"] if _is_over(stream) else {})
        return self.ends[number][1]

    async def _while_waiting(self, number: int, body: Json) -> tuple[str, list[Json]]:
        """A response that is streamed to who asked for it; when that breaks off before its end it is resumed."""
        read: list[Json] = []
        try:
            async with self.client.stream("POST", "/v1/responses", json=body | {"stream": True}) as answer:
                await _take(answer, read)
        except httpx2.HTTPError:
            self._report.seen["broken off"] += 1
        if not read or _is_over(read):
            return (read[0]["response"]["id"] if read else ""), read
        response_id = read[0]["response"]["id"]

        async def is_resumed() -> bool:
            found = await self.ask("GET", f"/v1/responses/{response_id}")
            if found is None or found.json()["status"] == "in_progress":
                return found is not None and found.json()["background"]
            if found.json()["status"] != "failed":  # it had ended, and its gateway died before it said so
                self.ends[number] = (IS_WAITED_FOR, found.json())
                return True
            return await self.ask("POST", f"/api/runs/{response_id}/resume") is not None

        await comes_true(is_resumed)
        self._report.seen["resumed"] += number not in self.ends
        return response_id, []

    async def _followed(self, response_id: str, number: int) -> list[Json]:
        """Its stream to the end, read on where it broke off, at whichever gateway answers."""
        told: list[Json] = []

        async def is_over() -> bool:
            path = f"/v1/responses/{response_id}?stream=true&starting_after={len(told) - 1}"
            try:
                async with self.client.stream("GET", path) as answer:
                    await _take(answer, told)
            except httpx2.HTTPError:
                self._report.seen["streams read on"] += 1
            return _is_over(told) or await self._has_failed(response_id, told)

        await comes_true(is_over)
        self._report.expect(_is_over(told), f"the stream of response {number} did not end: {told[-1:]}")
        return told

    async def _has_failed(self, response_id: str, told: list[Json]) -> bool:
        """One that was resumed may fail again with its gateway only in ways that are wrong."""
        return bool(told) and told[-1]["type"] == "response.failed" and response_id != ""

    async def _stream(self, response_id: str) -> list[Json]:
        whole: list[Json] = []

        async def is_read() -> bool:
            whole.clear()
            try:
                async with self.client.stream("GET", f"/v1/responses/{response_id}?stream=true") as answer:
                    await _take(answer, whole)
            except httpx2.HTTPError:
                return False
            return bool(whole)

        await comes_true(is_read)
        return whole

    def _check(self, number: int, told: list[Json], stream: list[Json]) -> None:
        numbers = [event["sequence_number"] for event in told]
        self._report.expect(numbers == list(range(len(told))), f"the stream of {number} has gaps or repeats: {numbers}")
        self._report.expect(told == stream, f"the stream of {number} was another one when it was read again")

    async def answer(self, *, until: asyncio.Event) -> None:
        """What is asked from outside, after a moment."""
        while not until.is_set():
            await asyncio.sleep(self._chance.uniform(0, 4 * PAUSE))
            found = await self.ask("GET", "/api/v1/calls?status=pending&tool=ask")
            for call in [] if found is None else found.json()["calls"]:
                body = {"callId": call["id"], "result": call["arguments"]["key"]}
                await self.ask("POST", f"/api/runs/{call['run_id']}/tool-results", json=body)


async def _take(answer: httpx2.Response, into: list[Json]) -> None:
    async for line in answer.aiter_lines():
        if line.startswith("data: {"):
            into.append(json.loads(line.removeprefix("data: ")))  # noqa: PERF401 - what came before it broke off counts


def _is_over(stream: list[Json]) -> bool:
    return bool(stream) and stream[-1]["type"] in OVER


def _said(response: Json) -> list[str]:
    """The words of a response that were said whole, each once."""
    return [
        part["text"]
        for item in response.get("output", ())
        if item["type"] == "message" and item["status"] == "completed"
        for part in item["content"]
    ]


def _calls(response: Json) -> Counter[str]:
    return Counter(item["name"] for item in response.get("output", ()) if item["type"] == "mcp_call")


def _judge(report: Report, people: ResponsePeople, calm: dict[str, Json], file: Path) -> None:
    starts = Counter(file.read_text(encoding="utf-8").split())
    report.seen["responses"] = len(people.ends)
    for number, (kind, end) in people.ends.items():
        expected = [text.replace("job 0", f"job {number}") for text in _said(calm[kind])]
        report.expect(
            end.get("status") == "completed", f"response {number} ended as {end.get('status')} {end.get('error')}"
        )
        report.expect(_said(end) == expected, f"response {number} ({kind}) said {_said(end)}")
        report.expect(_calls(end) == _calls(calm[kind]), f"response {number} called {_calls(end)}")
    for key, count in starts.items():
        if key.startswith("once-"):
            report.expect(count == 1 or key.startswith("once-0-"), f"{key} was executed {count} times")
    report.seen["effects of calls that may not be repeated"] = sum(key.startswith("once-") for key in starts)
