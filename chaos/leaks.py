"""What must not be left when a storm is over: open files, processes, connections, and rows of work that nobody does."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import Struct

from chaos.processes import StormGateway, descendants, left_in, open_files, words_of
from chaos.stores import SharedPostgres, SqliteFile
from stress.report import Report

MORE_FILES = 24
"""Open files beyond those after the warm-up: idle connections of pools, not one for each fault."""
MORE_PROCESSES = 2
CONNECTIONS = 10
"""Of one gateway process to PostgreSQL: four writers, four readers, the listener, and one that is being made."""
GONE_WITHIN = 15.0

OPEN_ROWS = {
    "calls that are not over": "SELECT count(*) FROM calls WHERE finished_at IS NULL",
    "calls that are over without a delivery": """
        SELECT count(*) FROM calls WHERE finished_at IS NOT NULL AND delivery IS NULL AND agent IS NOT NULL
        AND status <> 'refused'""",
    "runs that are not over": "SELECT count(*) FROM runs WHERE finished_at IS NULL",
    "responses that are not over": "SELECT count(*) FROM responses WHERE status IN ('queued', 'in_progress')",
    "events that an agent has taken and nobody lives": "SELECT count(*) FROM inbox WHERE status = 'processing'",
    "streams that are still live": "SELECT count(*) FROM live_streams WHERE state = 'open'",
    "agents that are still at work in a space": "SELECT count(*) FROM presence",
    "operations that are still followed": "SELECT count(*) FROM operations",
    "calls that wait for a login": "SELECT count(*) FROM login_joins",
}
LIVING = "SELECT count(*) FROM gateways WHERE dead = 0"


class Footprint(Struct, frozen=True, kw_only=True):
    """What one gateway has open."""

    files: int
    processes: int
    """Below it, and of those that serve calls how many."""
    serving: int


def footprint(gateway: StormGateway) -> Footprint:
    serving = gateway.serving
    return Footprint(
        files=sum(open_files(pid) for pid in serving), processes=len(descendants(gateway.pid)), serving=len(serving)
    )


async def judge_footprints(
    report: Report, gateways: Sequence[StormGateway], before: Sequence[Footprint], store: SqliteFile | SharedPostgres
) -> None:
    """Against those after the warm-up, within the time that idle things need to go."""
    for number, (gateway, was) in enumerate(zip(gateways, before, strict=True)):
        now = await _comes_down(gateway, was)
        report.seen["open files of gateways, in the end"] += now.files
        report.expect(
            now.files <= was.files + MORE_FILES * now.serving,
            f"gateway {number} has {now.files} open files, {was.files} after the warm-up",
        )
        report.expect(
            now.processes <= was.processes + MORE_PROCESSES,
            f"gateway {number} has {now.processes} processes, {was.processes} after the warm-up: "
            + "; ".join(words_of(pid)[-90:] for pid in descendants(gateway.pid)),
        )
    most = CONNECTIONS * sum(was.serving for was in before)
    if isinstance(store, SharedPostgres):
        open_now = await asyncio.to_thread(store.connections)
        report.seen["connections to PostgreSQL, in the end"] = open_now
        report.expect(open_now <= most, f"{open_now} connections to PostgreSQL, {most} are the most")
        idle = await asyncio.to_thread(store.idle_in_transaction)
        report.expect(idle == 0, f"{idle} connections are idle in a transaction")


async def _comes_down(gateway: StormGateway, was: Footprint) -> Footprint:
    now = footprint(gateway)
    for _ in range(round(GONE_WITHIN / 0.5)):
        if now.files <= was.files + MORE_FILES and now.processes <= was.processes + MORE_PROCESSES:
            break
        await asyncio.sleep(0.5)
        now = footprint(gateway)
    return now


async def open_rows(count: Callable[[str], Awaitable[int]]) -> dict[str, int]:
    """What is not over, by its name, where it is not nothing."""
    found = {name: await count(query) for name, query in OPEN_ROWS.items()}
    return {name: number for name, number in found.items() if number}


async def judge_nothing_left(report: Report, folder: Path, store: SqliteFile | SharedPostgres) -> None:
    """When every gateway was asked to end: no process, and no connection."""
    left = left_in(folder)
    for _ in range(round(GONE_WITHIN / 0.5)):
        if not left:
            break
        await asyncio.sleep(0.5)
        left = left_in(folder)
    report.expect(not left, f"processes were left: {left}")
    if isinstance(store, SharedPostgres):
        still = await asyncio.to_thread(store.connections)
        report.expect(still == 0, f"{still} connections to PostgreSQL were left")
