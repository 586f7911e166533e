"""kill -9 at random points under a load of calls and answers: nothing acknowledged is lost, doubled or stuck.

Real gateway processes, one on SQLite or two on PostgreSQL with one killed at a time; real HTTP. When the killing is
over, everything has to come to its end by itself within what the protocol promises.
"""

import asyncio
import random
import time
from pathlib import Path

import httpx2

from stress.evidence import Evidence, gather, judge, judge_arrival
from stress.load import HEADERS, Ledger, Load
from stress.processes import victims
from stress.report import Report, progress_of

LIFE_SECONDS = (0.15, 1.2)
"""How long a gateway lives under load before it is killed, at least and at most."""
AT_A_MOMENT = 0.7
"""The share of kills that come right after something happened to a call; the others come at any time."""
SETTLES_WITHIN = 45.0
"""A dead gateway's lease is over after 15 s, then the sweepers do the rest."""


async def kill_under_load(store_url: str, folder: Path, *, kills: int, seed: int, gateways: int = 1) -> Report:
    report = Report(part=f"kill -9 of {gateways} gateway(s) on {store_url.partition(':')[0]}", seed=seed)
    tell = progress_of(report, kills)
    chance, ledger = random.Random(seed), Ledger()
    stop, quiet = asyncio.Event(), asyncio.Event()
    async with victims(folder, store_url, count=gateways) as running:
        load = Load(running, ledger, chance)
        loading = asyncio.create_task(load.run(stop, quiet))
        for done in range(kills):
            await asyncio.sleep(chance.uniform(*LIFE_SECONDS))
            if chance.random() < AT_A_MOMENT:
                await load.moments.next(chance.choice(load.moments.KINDS), within=1)
                await asyncio.sleep(chance.choice((0, 0, 0.001, 0.003)))
            await chance.choice(running).kill_and_start()
            tell(done + 1)
        stop.set()
        async with httpx2.AsyncClient(base_url=running[0].url, headers=HEADERS, timeout=30) as client:
            found = await _when_settled(client, ledger)
        quiet.set()
        await loading
        report.seen["kills"] = sum(len(victim.killed_at) for victim in running)
        judge(report, ledger, found, victims=running, starts=folder / "starts")
    return report


async def _when_settled(client: httpx2.AsyncClient, ledger: Ledger) -> Evidence:
    """What there is to see when nothing changes any more, or when it should not."""
    end = time.monotonic() + SETTLES_WITHIN
    while True:
        found = await gather(client)
        if _is_settled(found, ledger) or time.monotonic() > end:
            return found
        await asyncio.sleep(1)


def _is_settled(found: Evidence, ledger: Ledger) -> bool:
    """Whether every call is over and every outcome that is not with its caller is in the inbox."""
    draft = Report(part="draft", seed=0)
    judge_arrival(draft, ledger, found)
    return not draft.violations
