"""Mixed load at half of what the gateway can do, for long: memory, open files, latency and the log stay flat."""

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

from msgspec import Struct

from chaos.clients import KINDS, Clients
from chaos.ledger import Ledger
from chaos.processes import descendants, open_files
from chaos.scene import Scene
from chaos.stores import a_store
from chaos.storm import log
from stress.report import Report, progress_of
from stress.stores import a_folder

FULL_SECONDS = 15.0
"""How long it is measured how much can be done."""
LOOK_EVERY = 5.0
SETTLED_AFTER = 0.25
"""The share of the time after which nothing should grow any more: caches have filled, workers run."""
TIMED = "POST /api/v1/tools/write/execute"
"""The request whose latency is looked at: a plain tool."""
MEGABYTE = 1 << 20


class Bound(Struct, frozen=True):
    """How much more of something there may be in the end than when it had settled: by the fitted line."""

    share: float
    """Of its mean."""
    more: float
    """And in any case so much."""


BOUNDS = {
    "memory of gateways, MB": Bound(0.10, 12),
    "memory with workers, MB": Bound(0.10, 25),
    "open files": Bound(0.10, 8),
    "latency, p50 ms": Bound(0.35, 5),
    "latency, p95 ms": Bound(0.60, 25),
    "log of the database, MB": Bound(0.50, 32),
}
FILE = "database file in the gateway's memory, MB"
"""SQLite keeps pages of it, up to 64 MB for each of its connections: so much memory may grow with the file."""
MEMORY = frozenset({"memory of gateways, MB", "memory with workers, MB"})


class Samples:
    """What was measured when."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self.of: dict[str, list[float]] = {name: [] for name in (*BOUNDS, FILE)}

    def add(self, at: float, values: dict[str, float]) -> None:
        self.at.append(at)
        for name, value in values.items():
            self.of[name].append(value)

    def judge(self, report: Report, seconds: float) -> None:
        first = next((n for n, at in enumerate(self.at) if at >= seconds * SETTLED_AFTER), 0)
        lines = {name: _line(self.at[first:], values[first:]) for name, values in self.of.items()}
        took = self.at[-1] - self.at[first]
        for name, (slope, mean) in lines.items():
            grown = slope * took
            report.seen[f"{name}: mean"] = round(mean)
            report.seen[f"{name}: by the line more in the end"] = round(grown)
            if name in BOUNDS:
                most = BOUNDS[name].share * mean + BOUNDS[name].more
                most += max(0.0, lines[FILE][0] * took) if name in MEMORY else 0.0
                report.expect(grown <= most, f"{name} has grown by {grown:.1f}, from a mean of {mean:.1f}")


def _line(at: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """The slope of the line with the least squares, and the mean."""
    mean_at, mean = sum(at) / len(at), sum(values) / len(values)
    spread = sum((x - mean_at) ** 2 for x in at)
    together = sum((x - mean_at) * (y - mean) for x, y in zip(at, values, strict=True))
    return (together / spread if spread else 0.0), mean


async def soak(*, seed: int, seconds: float, store: str, gateways: int, workers: int) -> Report:
    report = Report(part=f"soak of {seconds:g} s on {store}, {gateways} gateway(s)", seed=seed)
    with a_folder() as folder:
        folder.chmod(0o755)
        async with (
            a_store(store, folder, is_bare=True) as used,
            Scene.of(folder, used, gateways=gateways, workers=workers, has_logins=False) as scene,
        ):
            await _run(scene, report, seed=seed, seconds=seconds)
    return report


async def _run(scene: Scene, report: Report, *, seed: int, seconds: float) -> None:
    urls, chance, ledger = [gateway.url for gateway in scene.gateways], random.Random(seed), Ledger()
    over, stop = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        hurried = Clients(urls, Ledger(), chance, pace=0)
        async with aclosing(hurried):
            deciding = group.create_task(hurried.approve(over))
            full = await _most(hurried)
            over.set()
            await deciding
        over.clear()
        report.seen["wishes a second, flat out"] = round(full)
        log.info("flat out %.1f a second", full)
        clients = Clients(urls, ledger, chance, every=sum(KINDS.values()) / (full / 2))
        async with aclosing(clients):
            deciding = group.create_task(clients.approve(over))
            loading = group.create_task(clients.run(stop))
            samples = await _sample(scene, ledger, report, seconds)
            stop.set()
            await loading
            over.set()
            await deciding
    report.seen["wishes"] = clients.done
    report.seen["wishes that took more than one request"] = sum(wish.asked > 1 for wish in ledger.wishes.values())
    report.violations += ledger.violations
    samples.judge(report, seconds)


async def _most(clients: Clients) -> float:
    """Wishes a second without a pause."""
    stop = asyncio.Event()
    loading = asyncio.create_task(clients.run(stop))
    await asyncio.sleep(FULL_SECONDS / 2)  # workers start, the models of schemas are made
    before = clients.done
    await asyncio.sleep(FULL_SECONDS)
    made = clients.done - before
    stop.set()
    await loading
    return max(1.0, made / FULL_SECONDS)


async def _sample(scene: Scene, ledger: Ledger, report: Report, seconds: float) -> Samples:
    samples, began = Samples(), time.monotonic()
    tell, seen = progress_of(report, round(seconds)), 0
    while (at := time.monotonic() - began) < seconds:
        await asyncio.sleep(LOOK_EVERY)
        tell(round(at))
        waits = ledger.waits[seen:]
        seen += len(waits)
        times = sorted(one.ended - one.began for one in waits if one.what == TIMED and one.end == "200")
        if times:
            samples.add(time.monotonic() - began, _now(scene, times))
            log.info("%5.0f s  %s", at, {name: round(values[-1], 1) for name, values in samples.of.items()})
    return samples


def _now(scene: Scene, times: Sequence[float]) -> dict[str, float]:
    serving = [pid for gateway in scene.gateways for pid in gateway.serving]
    everything = {pid for gateway in scene.gateways for pid in (gateway.pid, *descendants(gateway.pid))}
    return {
        "memory of gateways, MB": sum(map(_memory, serving)) / MEGABYTE,
        "memory with workers, MB": sum(map(_memory, everything)) / MEGABYTE,
        "open files": sum(map(open_files, serving)),
        "latency, p50 ms": 1000 * times[len(times) // 2],
        "latency, p95 ms": 1000 * times[int(len(times) * 0.95)],
        "log of the database, MB": scene.store.log_bytes() / MEGABYTE,
        FILE: scene.store.file_bytes() / MEGABYTE,
    }


def _memory(pid: int) -> int:
    """The memory that is the process's own: what forks share is not counted again."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    private = [line.split() for line in lines if line.startswith(("Private_Dirty", "Private_Clean"))]
    return 1024 * sum(int(words[1]) for words in private)
