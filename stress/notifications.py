"""kill -9 of gateways that deliver notifications to targets that fail half the time: each target is told of everything
that is on record, in order, and what it is told twice has the same `webhook-id`.

Real gateway processes, one on SQLite or two on PostgreSQL, and a real receiver that checks every signature by the
reference library of Standard Webhooks. Callers make calls that wait for an answer; every call is told to every target.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path

import httpx2
from msgspec import Struct, field
from standardwebhooks.webhooks import WebhookVerificationError

from stress.evidence import pages
from stress.load import HEADERS
from stress.processes import Project, Victim, victims
from stress.report import Report, progress_of
from tests.notify.receiver import NO_ANSWER, SECRET, Received, Receiver, receiving

CALLERS = 4
FAILURES = (500, 502, 503, 429, 408, NO_ANSWER)
"""How a target fails; without an answer it has the message all the same."""
IN_A_ROW = 6
"""Failures of one message at most, so that the pauses between attempts stay short."""
AHEAD = 20
"""Calls that a caller makes before the targets have been told of them."""
PROGRESS_WITHIN = 10.0
"""A gateway is killed after so many seconds even if nothing is received, as while all targets are a dead gateway's."""
STUCK_SECONDS = 90.0
"""After the killing; a dead gateway's targets are taken over within 20 s, and the longest pause takes 13 s."""
PAUSE = 0.02
TOOL = """\
[server]
public_url = "https://gateway.example"

[[tools]]
name = "job"
description = "Answered from outside, some time."
executionType = "external"
isAsync = true
inputSchema = { type = "object" }
"""
TARGET = """
[notify.{name}]
kind = "webhook"
url = "{url}/{name}"
secret = "{secret}"
on = ["call.pending"]
"""


class Made(Struct, kw_only=True):
    """The calls that one caller knows of, in its order."""

    acknowledged: list[str] = field(default_factory=list)
    unsure: int = 0
    """Requests that were not answered: on record, or not."""


class Faults:
    """Half of all attempts fail. What is received is checked here, while its timestamp is new."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._in_a_row: dict[str, int] = {}
        self.taken: set[str] = set()
        """Ids of messages that were answered with success."""
        self.forged: list[str] = []
        """Ids of those whose signature is wrong."""

    def check(self, attempt: Received) -> None:
        """By the reference library."""
        try:
            attempt.verify()
        except WebhookVerificationError as fault:
            self.forged.append(f"{attempt.id}: {fault}")

    def answer(self, _path: str, headers: dict[str, str]) -> int:
        """What an attempt is answered with."""
        message = headers.get("webhook-id", "")
        failed = self._in_a_row.get(message, 0)
        if failed >= IN_A_ROW or self._chance.random() < 0.5:
            self.taken.add(message)
            return 204
        self._in_a_row[message] = failed + 1
        return self._chance.choice(FAILURES)


async def kill_while_notifying(
    store_url: str, folder: Path, *, seed: int, gateways: int, calls: int, targets: int, kills: int
) -> Report:
    """So many calls, each told to so many targets, and so many kills of a gateway meanwhile."""
    report = Report(part=f"notifications of {gateways} gateway(s) on {store_url.partition(':')[0]}", seed=seed)
    chance = random.Random(seed)
    names = [f"target{number}" for number in range(targets)]
    with receiving() as receiver:
        faults = Faults(random.Random(seed + 1))
        receiver.answer, receiver.check = faults.answer, faults.check
        config = TOOL + "".join(TARGET.format(name=name, url=receiver.url, secret=SECRET) for name in names)
        async with victims(folder, store_url, count=gateways, project=Project(config, {})) as running:
            made = [Made() for _ in range(CALLERS)]
            callers = [
                asyncio.create_task(_call(running, faults, one, numbers=range(number, calls, CALLERS), targets=targets))
                for number, one in enumerate(made)
            ]
            tell = progress_of(report, kills)
            for done in range(kills):
                left = max(0, 2 * calls * targets - len(receiver.attempts)) // (kills - done)
                await _until_received(receiver, chance.randint(0, 2 * left))
                await chance.choice(running).kill_and_start()
                tell(done + 1)
            await asyncio.gather(*callers)
            await _until_told(running[0], receiver)
            report.seen["kills"] = sum(len(victim.killed_at) for victim in running)
            async with httpx2.AsyncClient(base_url=running[0].url, headers=HEADERS, timeout=60) as client:
                on_record = {record["id"] async for record in pages(client, "/api/v1/calls", "calls")}
                statuses = [one["status"] async for one in pages(client, "/api/v1/notifications", "notifications")]
    report.expect(len(statuses) == len(on_record) * targets, f"{len(statuses)} notifications of {len(on_record)} calls")
    undelivered = len(statuses) - statuses.count("delivered")
    report.expect(undelivered == 0, f"{undelivered} notifications are not delivered on record")
    for name in names:
        _judge(report, [one for one in receiver.attempts if one.path == f"/{name}"], made, on_record, target=name)
    report.violations += faults.forged
    _count(report, receiver.attempts, made)
    return report


async def _call(running: Sequence[Victim], faults: Faults, made: Made, *, numbers: range, targets: int) -> None:
    """One call after the other, at each gateway in turn, and not too far ahead of the targets."""
    for number in numbers:
        while len(made.acknowledged) - AHEAD > len(faults.taken) // (targets * CALLERS):  # noqa: ASYNC110 - as below
            await asyncio.sleep(PAUSE)
        while (call_id := await _called(running[number % len(running)], number)) is None:
            made.unsure += 1
            await asyncio.sleep(PAUSE)
        made.acknowledged.append(call_id)


async def _called(victim: Victim, number: int) -> str | None:
    """The call's id; None: the gateway is dead, or died before it answered."""
    try:
        async with httpx2.AsyncClient(base_url=victim.url, headers=HEADERS, timeout=60) as client:
            answer = await client.post("/api/v1/tools/job/execute", json={"arguments": {"n": number}})
    except httpx2.HTTPError:
        return None
    return str(answer.json()["call_id"]) if answer.status_code == httpx2.codes.ACCEPTED else None


async def _until_received(receiver: Receiver, more: int) -> None:
    """Until the receiver has had so many more attempts."""
    wanted, end = len(receiver.attempts) + more, time.monotonic() + PROGRESS_WITHIN
    while len(receiver.attempts) < wanted and time.monotonic() < end:  # noqa: ASYNC110 - threads receive
        await asyncio.sleep(0.005)


async def _until_told(victim: Victim, receiver: Receiver) -> None:
    """Until nothing waits to be delivered, or nothing is received any more."""
    seen, since = -1, time.monotonic()
    async with httpx2.AsyncClient(base_url=victim.url, headers=HEADERS, timeout=60) as client:
        while time.monotonic() - since < STUCK_SECONDS:
            answer = (await client.get("/api/v1/notifications/targets")).raise_for_status()
            if not any(target["waiting"] for target in answer.json()["targets"]):
                return
            if len(receiver.attempts) != seen:
                seen, since = len(receiver.attempts), time.monotonic()
            await asyncio.sleep(0.2)


def _judge(
    report: Report, attempts: Sequence[Received], made: Sequence[Made], on_record: set[str], *, target: str
) -> None:
    """One target: all of it, in order, and each event by one id and one body."""
    known: dict[str, tuple[str, bytes]] = {}
    first_taken: dict[str, int] = {}
    for attempt in attempts:
        call_id = attempt.content["data"]["call_id"]
        before = known.setdefault(call_id, (attempt.id, attempt.body))
        report.expect(attempt.id == before[0], f"{target}: {call_id} came as {attempt.id} and as {before[0]}")
        report.expect(attempt.body == before[1], f"{target}: {attempt.id} came with two bodies")
        if attempt.is_taken:
            first_taken.setdefault(call_id, len(first_taken))
    report.expect(len({one for one, _ in known.values()}) == len(known), f"{target}: two calls with one webhook-id")
    lost, invented = on_record - first_taken.keys(), first_taken.keys() - on_record
    report.expect(not lost, f"{target}: never told of {len(lost)} calls, {sorted(lost)[:3]}")
    report.expect(not invented, f"{target}: told of {len(invented)} calls that are not on record")
    for one in made:
        order = [first_taken.get(call_id, -1) for call_id in one.acknowledged]
        report.expect(-1 not in order, f"{target}: never told of a call that was acknowledged")
        report.expect(order == sorted(order), f"{target}: not told in order")


def _count(report: Report, attempts: Sequence[Received], made: Sequence[Made]) -> None:
    taken = [attempt for attempt in attempts if attempt.is_taken]
    report.seen["calls acknowledged"] = sum(len(one.acknowledged) for one in made)
    report.seen["calls repeated"] = sum(one.unsure for one in made)
    report.seen["attempts"] = len(attempts)
    report.seen["notifications"] = len({attempt.id for attempt in taken})
    report.seen["told again"] = len(taken) - report.seen["notifications"]
