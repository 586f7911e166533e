"""Programs whose gateway is killed at any moment go on at the next one, and come to the end of a calm run."""

import asyncio
import random
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.requirement import requirement
from tests.stories import killable
from tests.stories.killable import KillableGateway
from tests.waiting import eventually_async

KILLS = 4
PROGRAM = """
import random

async def charge(amount):
    try:
        return await tools.charge(amount=amount)
    except ToolFailed as failure:
        if failure.code != "interrupted":
            raise
        return amount

total, seen = 0, []
for n in range(10):
    total = await tools.add(a=total, b=n)
first = await charge(total)
seen.append(random.randrange(1000))
sums = await asyncio.gather(*(tools.add(a=n, b=first) for n in range(10)))
second = await charge(sum(sums) + 1)
for n in range(10):
    total = await tools.add(a=total, b=second)
return [total, first, sums, second]
"""
EXPECTED = [45 + 10 * 496, 45, [45 + n for n in range(10)], 496]


@pytest.fixture
async def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KillableGateway]:
    config = killable.CONFIG.replace("[store]", "[programs]\nenabled = true\n\n[store]", 1).replace(
        "tools.charge.metadata", "tools.add.metadata = { idempotent = true }\ntools.charge.metadata"
    )
    monkeypatch.setattr(killable, "CONFIG", config)
    made = KillableGateway(tmp_path / "gw", store_url=f"sqlite:{tmp_path / 'j.db'}", starts=tmp_path / "starts")
    await made.start()
    try:
        yield made
    finally:
        await made.close()


@requirement("PROG-KILLED")
async def test_a_program_killed_again_and_again_ends_as_in_a_calm_run(gateway: KillableGateway) -> None:
    chance = random.Random(7)
    execute = "/api/v1/tools/run_program/execute"
    headers = {"Idempotency-Key": "the-one"}
    asking = asyncio.create_task(gateway.ask("POST", execute, json={"arguments": {"code": PROGRAM}}, headers=headers))

    async def program() -> dict[str, Any] | None:
        found = (await gateway.ask("GET", "/api/v1/calls", params={"tool": "run_program"})).json()["calls"]
        return found[0] if found else None

    async def has_gone_on(calls: int) -> bool:
        await approve_all(gateway)
        return await inner_calls(gateway) > calls or (await gateway.record(call["id"]))["finished_at"] is not None

    call = await eventually_async(program)
    for _ in range(KILLS):
        seen = await inner_calls(gateway)
        await eventually_async(partial(has_gone_on, seen + chance.randrange(6)), within=60)
        gateway.kill()
        await asyncio.gather(asking, return_exceptions=True)
        await gateway.start()
    ended = await eventually_async(lambda: over(gateway, call["id"]), within=60)
    assert ended["status"] == "completed", ended["error"]
    assert ended["result"] == EXPECTED
    assert max(gateway.starts["charge-45"], gateway.starts["charge-496"]) == 1, "each at most once"


async def inner_calls(gateway: KillableGateway) -> int:
    found = (await gateway.ask("GET", "/api/v1/calls", params={"limit": 100})).json()["calls"]
    return len(found) - 1


async def over(gateway: KillableGateway, call_id: str) -> dict[str, Any] | None:
    await approve_all(gateway)
    call = await gateway.record(call_id)
    return call if call["finished_at"] else None


async def approve_all(gateway: KillableGateway) -> None:
    asked = (await gateway.ask("GET", "/api/v1/calls", params={"status": "pending_approval"})).json()["calls"]
    for call in asked:
        await gateway.ask("POST", f"/api/v1/calls/{call['id']}/approve", json={})
