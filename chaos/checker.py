"""What clients were told against what the store holds, and against what the tools wrote down themselves."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2

from chaos.clients import ANSWERED_WITHIN
from chaos.ledger import FINAL, Ledger, outcome_of
from chaos.project import AGAIN, MOST_STARTS, ONCE
from stress.evidence import pages
from stress.report import Report

AWAY = ("jackfield.errors.ConfigError: The database", "jackfield.errors.ConfigError: PostgreSQL")
"""Last lines of tracebacks of gateways that were started while their database was away."""
HELD_UP = 5.0
"""Seconds by which a busy machine may be late with anything."""


class Records:
    """Every final record that was ever read, and each that has changed since."""

    def __init__(self) -> None:
        self._first: dict[str, Any] = {}
        self.changed: list[str] = []
        self.reads = 0

    async def read(self, client: httpx2.AsyncClient) -> dict[str, dict[str, Any]]:
        """All calls, as this gateway has them now."""
        found = {call["id"]: call async for call in pages(client, "/api/v1/calls", "calls")}
        self.reads += 1
        for call_id, call in found.items():
            if call["status"] in FINAL:
                now = (*outcome_of(call), call["finished_at"])
                was = self._first.setdefault(call_id, now)
                if was != now:
                    self.changed.append(f"{call_id} ended as {was}, and then as {now}")
        self.changed += [f"{call_id} was final and is gone" for call_id in self._first.keys() - found.keys()]
        return found


def judge(report: Report, ledger: Ledger, records: dict[str, dict[str, Any]], starts: Path, told: Path) -> None:
    report.violations += ledger.violations
    report.seen.update(ledger.seen)
    begun = Counter(starts.read_text(encoding="utf-8").split() if starts.exists() else ())
    _judge_told(report, ledger, records)
    _judge_wishes(report, ledger, records, begun)
    _judge_decisions(report, ledger, records)
    _judge_starts(report, begun)
    _judge_waits(report, ledger)
    _judge_callers(report, told)
    for call in records.values():
        report.seen[f"calls {call['status']}"] += 1
        if call["error"] is not None:
            report.seen[f"error {call['error']['code']}"] += 1


def judge_logs(report: Report, folder: Path) -> None:
    """Tracebacks in what gateways said are faults of ours; what is only away has a sentence."""
    for file in sorted(folder.glob("gw*/gateway.log")):
        is_inside = False
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            if "Traceback (most recent call last)" in line:
                is_inside = True
            elif is_inside and line and not line.startswith((" ", "|", "+")):
                is_inside = False
                is_away = line.startswith(AWAY)
                report.seen["tracebacks about what was away"] += is_away
                report.expect(is_away, f"{file.parent.name} logged a traceback: {line[:200]}")


def _judge_told(report: Report, ledger: Ledger, records: dict[str, dict[str, Any]]) -> None:
    """Whatever anybody was told of the end of a call is what the record says, and all were told the same."""
    for call_id, outcomes in ledger.told.items():
        record = records.get(call_id)
        if record is None:
            report.violations.append(f"{call_id}: {outcomes[0]} was told, and there is no record")
            continue
        kept = outcome_of(record)
        for outcome in outcomes:
            report.expect(outcome == kept, f"{call_id} ({record['tool']}): {outcome} was told, the record has {kept}")
    for call_id, key in ledger.accepted.items():
        record = records.get(call_id)
        status = None if record is None else record["status"]
        report.expect(status in FINAL, f"{call_id} ({key}) was accepted and is {status or 'not on record'}")


def _judge_wishes(report: Report, ledger: Ledger, records: dict[str, dict[str, Any]], begun: Counter[str]) -> None:
    """What is completed was done, and its result is its own."""
    of_key: dict[str, dict[str, Any]] = {}
    for call in records.values():
        arguments = call["arguments"] or {}
        key = arguments.get("key") or arguments.get("token")
        if key and call["status"] == "completed":
            of_key[key] = call
            name = call["tool"].removesuffix("_echo")
            if name in ONCE | AGAIN:
                report.expect(begun[f"{name}:{key}"] > 0, f"{call['id']}: {key} is completed and never began")
            right = call["result"] in ({"key": key}, key, f"token of {key}")
            report.expect(right, f"{call['id']}: {key} came to {call['result']!r}")
    for token, text in ledger.mcp_answers.items():
        report.expect(token in of_key, f"{token} was answered with {text!r} over /mcp, and no call of it is completed")
    report.seen["wishes asked for again"] = sum(wish.asked > 1 for wish in ledger.wishes.values())
    report.seen["wishes"] = len(ledger.wishes)


def _judge_decisions(report: Report, ledger: Ledger, records: dict[str, dict[str, Any]]) -> None:
    for call_id, word in ledger.decided.items():
        status = records[call_id]["status"] if call_id in records else "not on record"
        is_rejected = status == "rejected"
        report.expect(is_rejected == (word == "reject"), f"{call_id}: {word} was taken, and it is {status}")


def _judge_starts(report: Report, begun: Counter[str]) -> None:
    """What may not run twice was begun once; what may, as often as there are attempts."""
    for line, times in begun.items():
        name = line.partition(":")[0]
        most = 1 if name in ONCE else MOST_STARTS
        if name in ONCE | AGAIN:
            report.expect(times <= most, f"{line} was begun {times} times")
            report.seen[f"starts of {name}"] += times
            report.seen["begun again"] += times - 1


def _judge_waits(report: Report, ledger: Ledger) -> None:
    for wait in ledger.waits:
        took = wait.ended - wait.began
        report.expect(
            took <= ANSWERED_WITHIN + HELD_UP,
            f"{wait.what} at gateway {wait.gateway} took {took:.1f} s and ended with {wait.end}",
        )
        report.expect(
            "Timeout" not in wait.end or wait.end == "ConnectTimeout",
            f"{wait.what} at gateway {wait.gateway} had no answer within {took:.0f} s",
        )
    times = sorted(wait.ended - wait.began for wait in ledger.waits if wait.end.startswith("2"))
    if times:
        report.seen["requests answered"] = len(times)
        report.seen["p50 ms"] = round(1000 * times[len(times) // 2])
        report.seen["p99 ms"] = round(1000 * times[int(len(times) * 0.99)])


def _judge_callers(report: Report, told: Path) -> None:
    """What agents said that had called a caller's tool."""
    for line in told.read_text(encoding="utf-8").splitlines() if told.exists() else ():
        key, said = json.loads(line)
        report.expect(said != "hung", f"the session of {key} hung")
        if said.startswith("failed:"):
            report.seen["sessions that failed"] += 1
        elif f"token of {key}" in said:
            report.seen["sessions whose agent used the caller's tool"] += 1
        else:
            report.seen["sessions whose agent was told of a failure"] += 1
