"""Two results for one call at once, over HTTP and through two gateways where there can be two: one 200, one 409.

The record, and the agent's inbox or its caller, have the result that got the 200.
"""

import asyncio
import random
from pathlib import Path
from typing import Any

import httpx2

from stress.load import HEADERS
from stress.processes import Victim, victims
from stress.report import Report, progress_of

AT_ONCE = 8


async def submit_twice(store_url: str, folder: Path, *, pairs: int, seed: int, gateways: int = 1) -> Report:
    report = Report(part=f"two results at once, {gateways} gateway(s) on {store_url.partition(':')[0]}", seed=seed)
    tell = progress_of(report, pairs)
    chance, left = random.Random(seed), iter(range(pairs))
    async with victims(folder, store_url, count=gateways) as running:
        clients = [_client(victim) for victim in (running * 2)[:2]]

        async def worker() -> None:
            for number in left:
                sides = chance.sample((0, 1), 2)
                await _one_pair(report, clients, number, sides=sides, waited_for=chance.random() < 0.5)
                tell(number)

        try:
            await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
        finally:
            for client in clients:
                await client.aclose()
    return report


def _client(victim: Victim) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=victim.url, headers=HEADERS, timeout=30)


async def _one_pair(
    report: Report, clients: list[httpx2.AsyncClient], number: int, *, sides: list[int], waited_for: bool
) -> None:
    """`sides` is the order in which the two submit."""
    agent, tool = f"double-{number}", "job" if waited_for else "job_later"
    path, body = f"/api/v1/tools/{tool}/execute", {"arguments": {"n": number}, "agent": agent}
    calling = asyncio.create_task(clients[0].post(path, json=body))
    call = await _on_record(clients[0], agent)
    answers = await asyncio.gather(*(_submit(clients[side], call, side) for side in sides))
    caller = (await calling).json()
    taken = [side for side, answer in zip(sides, answers, strict=True) if answer.status_code == 200]
    codes = sorted(answer.status_code for answer in answers)
    report.seen[f"taken at gateway {taken[0]}" if taken else "not taken"] += 1
    report.expect(codes == [200, 409], f"{call['id']}: the answers were {codes}")
    refused = next((answer for answer in answers if answer.status_code == 409), None)
    code = None if refused is None else refused.json()["error"]["code"]
    report.expect(code == "already_resolved", f"{call['id']}: the second was told {code}")
    record = (await clients[1].get(f"/api/v1/calls/{call['id']}")).json()["call"]
    report.expect(record["result"] in [{"side": side} for side in taken], f"{call['id']}: kept {record['result']}")
    events = (await clients[1].get(f"/api/agents/{agent}/inbox")).json()["events"]
    told = [event["data"]["result"] for event in events]
    told += [caller["result"]] if caller["status"] == "completed" else []
    report.expect(told == [record["result"]], f"{call['id']}: the agent was told {told}")


async def _on_record(client: httpx2.AsyncClient, agent: str) -> dict[str, Any]:
    """The agent's one call, as soon as it is there."""
    async with asyncio.timeout(30):
        while True:
            page = (await client.get("/api/v1/calls", params={"agent": agent})).json()
            if page["calls"]:
                call: dict[str, Any] = page["calls"][0]
                return call
            await asyncio.sleep(0.005)


async def _submit(client: httpx2.AsyncClient, call: dict[str, Any], side: int) -> httpx2.Response:
    body = {"callId": call["id"], "result": {"side": side}}
    return await client.post(f"/api/runs/{call['run_id']}/tool-results", json=body)
