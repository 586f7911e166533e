"""What must be true after the killing: the ledger against the records and the inboxes."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import httpx2
from msgspec import Struct

from stress.load import AGENTS, GONE, Ledger
from stress.processes import Victim
from stress.report import Report

FINAL = frozenset({"completed", "failed", "rejected", "expired", "cancelled"})
DIED_WITHIN = 0.25
"""A gateway that sent the last byte and died before it could say so did so within this, in seconds; mostly 7 ms."""
MOST_ATTEMPTS = 3


class Evidence(Struct, frozen=True, kw_only=True):
    """Everything that the database has to say, read through the doors."""

    records: dict[str, dict[str, Any]]
    events: dict[str, list[Any]]
    """Call → what each `tr:` event of it tells the agent."""


async def gather(client: httpx2.AsyncClient) -> Evidence:
    agents = [f"{kind}{number}" for kind in ("agent-", GONE) for number in range(AGENTS)]
    records = [record async for record in pages(client, "/api/v1/calls", "calls")]
    events: dict[str, list[Any]] = {}
    for agent in agents:
        async for event in pages(client, f"/api/agents/{agent}/inbox", "events"):
            events.setdefault(event["eventId"].removeprefix("tr:"), []).append(event["data"]["result"])
    return Evidence(records={record["id"]: record for record in records}, events=events)


async def pages(client: httpx2.AsyncClient, path: str, noun: str) -> Any:
    """Every item of a list, page by page."""
    cursor: str | None = None
    for _ in itertools.count():
        params = {"limit": "500"} | ({"cursor": cursor} if cursor else {})
        page = (await client.get(path, params=params)).raise_for_status().json()
        for item in page[noun]:
            yield item
        cursor = page["next_cursor"]
        if cursor is None:
            return


def judge(report: Report, ledger: Ledger, found: Evidence, *, victims: Sequence[Victim], starts: Path) -> None:
    """Note every violation: lost, stuck, doubled, wrong."""
    report.violations += ledger.violations
    report.seen.update(ledger.seen)
    judge_arrival(report, ledger, found)
    _judge_doubles(report, ledger, found, victims)
    strangers = [call_id for call_id in found.events if call_id not in found.records]
    report.expect(not strangers, f"events of calls that are not on record: {strangers[:5]}")
    _judge_starts(report, found, starts)


def judge_arrival(report: Report, ledger: Ledger, found: Evidence) -> None:
    """Whether everything has come to its end and to its agent; what is on its way still counts against it."""
    _judge_acknowledged(report, ledger, found)
    for record in found.records.values():
        _judge_delivery(report, ledger, found, record)


def _judge_acknowledged(report: Report, ledger: Ledger, found: Evidence) -> None:
    """A 200 means that it is on disk."""
    for call_id, result in (ledger.acknowledged | ledger.unsure).items():
        record = found.records.get(call_id)
        kept = None if record is None else (record["status"], record["result"])
        report.expect(kept == ("completed", result), f"{call_id}: {result} was taken, the record has {kept}")


def _judge_delivery(report: Report, ledger: Ledger, found: Evidence, record: dict[str, Any]) -> None:
    call_id, status, delivery = record["id"], record["status"], record["delivery"]
    if status not in FINAL:
        report.violations.append(f"{call_id}: stuck in {status} ({record['tool']}, attempt {record['attempt']})")
        return
    receipt, by_inbox = ledger.received.get(call_id), call_id in found.events
    report.seen[f"{status} {delivery}"] += 1
    if record["error"] is not None and record["error"]["code"] == "interrupted":
        report.seen["interrupted"] += 1
    if receipt is not None:
        told = receipt.answer["status"], receipt.answer["result"]
        report.expect(told == (status, record["result"]), f"{call_id}: its caller was told {told}")
    if delivery == "inbox":
        report.expect(by_inbox, f"{call_id}: {status}, for the inbox, and not there")
    elif not record["agent"].startswith(GONE):
        report.expect(receipt is not None, f"{call_id}: {status} inline, and its caller never got it")


def _judge_doubles(report: Report, ledger: Ledger, found: Evidence, victims: Sequence[Victim]) -> None:
    """One event a call, and none beside an inline answer, unless its gateway died after the last byte."""
    for call_id, told in found.events.items():
        record, receipt = found.records.get(call_id), ledger.received.get(call_id)
        report.expect(len(told) == 1, f"{call_id}: {len(told)} events in the inbox")
        report.expect(record is None or told[0] == _told(record), f"{call_id}: the inbox tells {told}")
        if receipt is not None:
            died = any(abs(at - receipt.at) < DIED_WITHIN for at in victims[receipt.victim].killed_at)
            report.seen["both ways, by a gateway that died after the last byte"] += died
            report.expect(died, f"{call_id}: delivered both ways, and its gateway lived")


def _told(record: dict[str, Any]) -> Any:
    """What the agent's event should say of this record."""
    error = record["error"]
    if record["result"] is None and error is not None:
        return {"error": error["message"], "toolCallId": record["id"]}
    return record["result"]


def _judge_starts(report: Report, found: Evidence, starts: Path) -> None:
    """What may not run twice was started once; what may, no more often than its attempts say."""
    started = Counter(_lines(starts))
    for record in found.records.values():
        if record["tool"] in {"work", "work_again"}:
            times = started[str(record["arguments"]["n"])]
            most = 1 if record["tool"] == "work" else MOST_ATTEMPTS
            report.expect(times <= most, f"{record['id']}: {record['tool']} was started {times} times")
            report.seen["started again"] += max(0, times - 1)


def _lines(path: Path) -> Iterable[str]:
    return path.read_text(encoding="utf-8").split() if path.exists() else ()
