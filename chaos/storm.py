"""One storm, from the first process to the verdict."""

import asyncio
import logging
import random
import shutil
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from pathlib import Path

import httpx2
from msgspec import Struct

from chaos import leaks
from chaos.checker import Records, judge, judge_logs
from chaos.clients import Clients
from chaos.ledger import Ledger
from chaos.plan import Fault, plan
from chaos.scene import Scene
from chaos.stores import SharedPostgres, SqliteFile, a_store
from stress.cycle_evidence import gather as gather_cycles
from stress.cycle_evidence import judge as judge_cycles
from stress.cycles import AGENTS, Tasks
from stress.load import HEADERS
from stress.people import records as records_of
from stress.report import Report, progress_of
from stress.stores import a_folder

log = logging.getLogger("chaos")

LOOK_EVERY = 8.0
"""Seconds between two readings of all records while the storm goes on."""
QUIET_WITHIN = 150.0
"""Everything must have come to its end so long after the storm: a lease is 15 s, a cycle may be tried again."""
WORKS_AGAIN_WITHIN = 30.0


class Storm(Struct, frozen=True, kw_only=True):
    """How large it is."""

    seed: int
    seconds: float = 180.0
    store: str = "sqlite"
    gateways: int = 1
    workers: int = 1
    only: tuple[str, ...] = ()
    """The faults, all that can be had here if empty."""
    is_bare: bool = False
    """No wrong clock, no slow disk and no logins, so that all of it starts quickly."""
    evidence: Path | None = None
    """Where logs and databases are kept if something was wrong."""

    @property
    def name(self) -> str:
        many = f", {self.gateways} gateway(s)" + (f" of {self.workers} workers" if self.workers > 1 else "")
        return f"storm of {self.seconds:g} s on {self.store}{many}"

    async def run(self) -> Report:
        report = Report(part=self.name, seed=self.seed)
        with a_folder() as folder:
            folder.chmod(0o755)  # the database's user reads what slows its disk
            async with a_store(self.store, folder, is_bare=self.is_bare) as store:
                await self._run(folder, store, report)
                await leaks.judge_nothing_left(report, folder, store)
                async with records_of(store.direct_url) as count:
                    living = await count(leaks.LIVING)
                report.expect(living == 0, f"{living} gateways live according to the database, and none does")
                if report.violations and self.evidence is not None:
                    report.violations += await asyncio.to_thread(keep, folder, self.evidence, report)
        return report

    async def _run(self, folder: Path, store: SqliteFile | SharedPostgres, report: Report) -> None:
        async with Scene.of(
            folder, store, gateways=self.gateways, workers=self.workers, has_logins=not self.is_bare
        ) as scene:
            chosen = plan(self.seed, seconds=self.seconds, counts=scene.counts, can=self.only or scene.can)
            ledger, chance = Ledger(), random.Random(self.seed)
            clients = Clients([gateway.url for gateway in scene.gateways], ledger, chance, logins=scene.logins)
            async with aclosing(clients):
                given = await _weather(scene, clients, chosen, report, seconds=self.seconds, chance=chance)
            await _judge(scene, ledger, report)
            for number, gateway in enumerate(scene.gateways):
                began = time.monotonic()
                with suppress(AssertionError):
                    code = await asyncio.to_thread(gateway.end)
                    report.expect(code == 0, f"gateway {number} ended with {code}")
                took = time.monotonic() - began
                report.expect(took < 12, f"gateway {number} took {took:.1f} s to end")
            if scene.logins is not None:
                await scene.logins.judge(report)
            judge_logs(report, folder)
            cycles = await gather_cycles(store.direct_url, folder, AGENTS)
            judge_cycles(report, cycles, given=given, starts=scene.starts)


async def _weather(
    scene: Scene, clients: Clients, chosen: tuple[Fault, ...], report: Report, *, seconds: float, chance: random.Random
) -> dict[str, int]:
    """Everything that happens until all is quiet again; how many tasks each agent was given."""
    tasks = Tasks([gateway.url for gateway in scene.gateways], chance)
    records, stop, over = Records(), asyncio.Event(), asyncio.Event()
    tell = progress_of(report, round(seconds))
    async with aclosing(tasks), asyncio.TaskGroup() as group:
        group.create_task(clients.approve(over))
        for number in (*range(len(scene.gateways)), *range(len(scene.gateways))):
            with clients.only(number):
                await _works(clients, report, f"at gateway {number} before the storm")
        before = [leaks.footprint(gateway) for gateway in scene.gateways]
        giving = [group.create_task(tasks.give(agent, until=stop)) for agent in AGENTS]
        loading = group.create_task(clients.run(stop))
        looking = group.create_task(_look(scene, records, over))
        began = time.monotonic()
        async with asyncio.TaskGroup() as storm:
            for fault in chosen:
                await asyncio.sleep(max(0.0, began + fault.at - time.monotonic()))
                storm.create_task(_act(scene, clients, fault, report))
                tell(round(time.monotonic() - began))
            await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))
        log.info("the storm is over")
        await scene.heal()
        stop.set()
        log.info("all is mended")
        await asyncio.wait([loading, *giving])
        log.info("everybody has what they asked for")
        async with records_of(scene.store.direct_url) as count:
            await until_quiet(count, report)
        log.info("all is quiet")
        for number in range(len(scene.gateways)):
            with clients.only(number):
                await _works(clients, report, f"at gateway {number} after the storm")
        async with records_of(scene.store.direct_url) as count:
            await until_quiet(count, report)
        over.set()
        await looking
        report.expect(await asyncio.to_thread(scene.end_programs), "a tool server or a caller did not end by itself")
    await clients.aclose()
    await leaks.judge_footprints(report, scene.gateways, before, scene.store)
    report.violations += tasks.stuck + records.changed
    report.seen["readings of all records"] = records.reads
    return tasks.given


async def _act(scene: Scene, clients: Clients, fault: Fault, report: Report) -> None:
    log.info("%s", fault)
    if fault.what == "clients hung up":
        report.seen["requests that clients hung up on"] += clients.hang_up(0.2 + 0.6 * fault.strength)
        is_done = True
    else:
        is_done = await scene.act(fault)
    report.seen[f"injected: {fault.what}" if is_done else "left out, as one before took longer"] += 1


async def _works(clients: Clients, report: Report, when: str) -> None:
    """One of each kind comes to its end soon."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(WORKS_AGAIN_WITHIN):
            await clients.each_kind()
    except TimeoutError:
        report.violations.append(f"{when}, one call of each kind was not over within {WORKS_AGAIN_WITHIN:g} s")
    report.seen[f"seconds for one of each, {when}"] = round(time.monotonic() - began)


async def _look(scene: Scene, records: Records, over: asyncio.Event) -> None:
    """Read all records again and again, at any gateway that answers."""
    while not over.is_set():
        for gateway in scene.gateways:
            with suppress(httpx2.HTTPError, KeyError):
                async with httpx2.AsyncClient(base_url=gateway.url, headers=HEADERS, timeout=20) as client:
                    await records.read(client)
        with suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), LOOK_EVERY)


async def until_quiet(count: Callable[[str], Awaitable[int]], report: Report) -> None:
    """Until nothing is left to be done."""
    until = time.monotonic() + QUIET_WITHIN
    while left := await leaks.open_rows(count):
        if time.monotonic() > until:
            report.violations += [f"{number} {what}, long after the storm" for what, number in left.items()]
            return
        await asyncio.sleep(0.5)


async def _judge(scene: Scene, ledger: Ledger, report: Report) -> None:
    """What every gateway says in the end, which has to be the same, against what was told."""
    last = Records()
    found = {}
    for gateway in scene.gateways:
        async with httpx2.AsyncClient(base_url=gateway.url, headers=HEADERS, timeout=30) as client:
            found = await last.read(client)
            for response_id, told in ledger.responses.items():
                answer = await client.get(f"/v1/responses/{response_id}")
                now = answer.json()
                if told:
                    report.expect(now == told, f"{response_id} was {told['status']} and is another one now: {now}")
                    report.seen[f"responses {told['status']}"] += gateway is scene.gateways[0]
    report.violations += last.changed
    judge(report, ledger, found, scene.starts, scene.told)


def keep(folder: Path, evidence: Path, report: Report) -> list[str]:
    """Copy what tells how it came about; lines of logs that name what the violations name."""
    shutil.rmtree(evidence, ignore_errors=True)
    evidence.mkdir(parents=True)
    for file in (
        *folder.glob("gw*/gateway.log"),
        *folder.glob("*.log"),
        folder / "starts",
        *folder.glob("disk/chaos.db*"),
    ):
        if file.exists():
            shutil.copy(file, evidence / f"{file.parent.name}-{file.name}")
    (evidence / "report").write_text(report.summary + "\n" + "\n".join(report.violations), encoding="utf-8")
    return [f"logs and databases are in {evidence}"]
