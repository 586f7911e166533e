"""Floods of what is refused: the same call over and over, calls of invented names, sign-ins with a wrong key.

Real gateway processes, one on SQLite or two on PostgreSQL, asked over HTTP as fast as they answer. Nothing that is
refused may be missing from the counts, and the number of rows may depend on the minutes that it took, not on how often
somebody asked.
"""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from bench.load import Job, carry_out
from bench.subjects import http_request
from jackfield.calls.refusal_transactions import MOST_RECORDS
from stress.load import HEADERS
from stress.processes import Project, Victim, victims
from stress.report import Report

CONNECTIONS = 32
SECONDS = 900.0
COUNTED_WITHIN = 60.0
"""Repeats are written once a second; on a busy machine later."""
NAMES = 1_000
CONFIG = """\
[auth.keys.same]
key = "key-of-who-asks-the-same"

[auth.keys.inventor]
key = "key-of-who-invents-names"
"""


async def flood(store_url: str, folder: Path, *, seed: int, gateways: int, refusals: int) -> Report:
    """So many identical refusals; a tenth as many of invented names, and a tenth as many failed sign-ins."""
    report = Report(part=f"floods at {gateways} gateway(s) on {store_url.partition(':')[0]}", seed=seed)
    async with victims(folder, store_url, count=gateways, project=Project(CONFIG, {})) as running:
        same = [_call("nothing", key="key-of-who-asks-the-same")]
        invented = [_call(f"invented_{number}", key="key-of-who-invents-names") for number in range(NAMES)]
        wrong = [http_request("POST", "/api/login", headers={"Authorization": "Bearer wrong", "Content-Length": "0"})]
        async with httpx2.AsyncClient(base_url=running[0].url, headers=HEADERS, timeout=60) as client:
            for name, requests, count in (("same", same, refusals), ("inventor", invented, refusals // 10)):
                began = time.monotonic()
                statuses = await _ask(running, requests, count)
                report.expect(statuses == {"404": count}, f"{name}: calls of no tool were answered with {statuses}")
                records = await _counted(client, name, count)
                most = (1 if name == "same" else MOST_RECORDS) * gateways * _minutes(began)
                _judge(report, name, records, count=count, most=most)
                report.seen[f"{name}: refused a second"] = int(count / (time.monotonic() - began))
                entries = await _audited(client, action="call.refused", actor=name)
                report.expect(entries == len(records), f"{name}: {entries} audit entries of {len(records)} records")
            began = time.monotonic()
            statuses = await _ask(running, wrong, refusals // 10)
            report.expect(statuses.keys() <= {"401", "429"}, f"wrong keys were answered with {statuses}")
            entries, most = await _audited(client, action="login.failed"), gateways * _minutes(began)
            report.expect(1 <= entries <= most, f"{entries} entries of failed sign-ins from one address, not {most}")
            report.seen["failed sign-ins"], report.seen["failed sign-ins: audit entries"] = refusals // 10, entries
    return report


def _call(tool: str, *, key: str) -> str:
    headers = {"Authorization": f"Bearer {key}"}
    return http_request("POST", f"/api/v1/tools/{tool}/execute", body=b'{"arguments":{}}', headers=headers)


async def _ask(running: Sequence[Victim], requests: list[str], count: int) -> dict[str, int]:
    """The statuses of the answers, from all gateways at once."""
    shares = [count // len(running) + (number < count % len(running)) for number in range(len(running))]
    reports = await asyncio.gather(
        *(
            carry_out(
                Job(
                    port=int(victim.url.rpartition(":")[2]),
                    requests=requests,
                    connections=min(CONNECTIONS, share),
                    seconds=SECONDS,
                    most=share,
                )
            )
            for victim, share in zip(running, shares, strict=True)
        )
    )
    statuses: dict[str, int] = {}
    for one in reports:
        for status, number in one.statuses.items():
            statuses[status] = statuses.get(status, 0) + number
    return statuses


async def _counted(client: httpx2.AsyncClient, principal: str, count: int) -> list[dict[str, Any]]:
    """The records, once their counts add up, or when they should have long since."""
    end = time.monotonic() + COUNTED_WITHIN
    while True:
        answer = await client.get("/api/v1/calls/export", params={"status": "refused", "principal": principal})
        records = [msgspec.json.decode(line) for line in answer.raise_for_status().text.splitlines()]
        if sum(record["count"] for record in records) == count or time.monotonic() > end:
            return records
        await asyncio.sleep(0.2)


async def _audited(client: httpx2.AsyncClient, **filters: str) -> int:
    answer = await client.get("/api/v1/audit/export", params=filters)
    return len(answer.raise_for_status().text.splitlines())


def _judge(report: Report, name: str, records: list[dict[str, Any]], *, count: int, most: int) -> None:
    counted = sum(record["count"] for record in records)
    report.expect(counted == count, f"{name}: the records count {counted} of {count} refusals")
    report.expect(len(records) <= most, f"{name}: {len(records)} records, and {most} at most are right")
    report.seen[f"{name}: refused"], report.seen[f"{name}: records"] = counted, len(records)


def _minutes(since: float) -> int:
    """That have begun since then, as a bound on windows of a minute."""
    return 2 + int((time.monotonic() - since) / 60)
