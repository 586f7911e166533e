"""Gateways that are changed again and again under load: no call fails that does not use what changed, no unchanged
source is connected anew, and neither memory nor descriptors grow. What changes them: `reloads.py`, `source_changes.py`.
"""

import asyncio
import itertools
import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
from msgspec import Struct

from stress.processes import KEY, Victim
from stress.report import Report, progress_of

SERVER = Path(__file__).with_name("upstream_server.py")
CALLERS = 64
PAUSE_SECONDS = 0.02
CALL_SECONDS = 60.0
SETTLE_SECONDS = 30
FIRST_PART = 0.2
"""Of all changes: what a gateway keeps for good is there after these, so that what comes on top is a leak."""
MORE_DESCRIPTORS = 8
MORE_MEMORY = 32 * 2**20
STEADY = 'def steady(n: int) -> int:\n    """Give it back."""\n    return n\n'
CHANGING = 'def changing_{0}() -> str:\n    """Say {0}."""\n    return "{0}"\n'
CONFIG = f"""
[sources.steady]
kind = "files"
path = "steady.py"

[sources.kept]
kind = "mcp"
command = ["{sys.executable}", "{SERVER}", "stdio", "kept.pid"]
prefix = "kept_"

[[tools]]
name = "beside"
description = "Give the arguments back."
inputSchema = {{ type = "object" }}
executionType = "internal"
visible = true
"""
UNCHANGED = ("steady", "kept", "internal")
FILES = {"steady.py": STEADY, "a.py": CHANGING.format("a"), "b.py": CHANGING.format("b")}


class Footprint(Struct, frozen=True):
    """What a process has taken of the machine."""

    descriptors: int
    memory: int


async def change_under_load(sides: Sequence["Side"], report: Report, *, seed: int, changes: int) -> None:
    """So many changes, at all gateways together."""
    async with AsyncExitStack() as stack:
        for side in sides:
            stack.push_async_callback(side.close)
        await asyncio.gather(*(side.begin() for side in sides))
        first = max(len(sides), int(changes * FIRST_PART))
        before = await _load_and_change(sides, report, first, random.Random(seed))
        after = await _load_and_change(sides, report, changes - first, random.Random(seed + 1), before=before)
        for number, (side, old, new) in enumerate(zip(sides, before, after, strict=True)):
            await side.check_unchanged()
            grown = new.memory - old.memory
            report.seen[f"KiB more at gateway {number}"] = grown // 1024
            report.seen[f"descriptors more at gateway {number}"] = new.descriptors - old.descriptors
            report.expect(grown <= MORE_MEMORY, f"gateway {number} took {grown:,} more bytes")
            more = new.descriptors - old.descriptors
            report.expect(more <= MORE_DESCRIPTORS, f"gateway {number} has {more} more descriptors")


async def _load_and_change(
    sides: Sequence["Side"],
    report: Report,
    changes: int,
    chance: random.Random,
    *,
    before: Sequence[Footprint] | None = None,
) -> list[Footprint]:
    """Callers at every gateway while all of them are changed; what each has taken when the callers are gone."""
    over = asyncio.Event()
    each = CALLERS // len(sides)
    async with asyncio.TaskGroup() as callers:
        for side in sides:
            for _ in range(each):
                callers.create_task(side.call_on(over))
            callers.create_task(side.call_what_changes(over))
        tell, done = progress_of(report, changes), itertools.count(1)
        try:
            async with asyncio.TaskGroup() as changing:
                for side in sides:
                    own = random.Random(chance.random())
                    changing.create_task(side.change_on(changes // len(sides), own, lambda: tell(next(done))))
        finally:
            over.set()
    most = [None] * len(sides) if before is None else [one.descriptors + MORE_DESCRIPTORS for one in before]
    return [await side.settled(at_most=limit) for side, limit in zip(sides, most, strict=True)]


class Side(ABC):
    """One gateway, those who call it and whoever changes it."""

    changing_tools: tuple[str, ...] = ("changing_a", "changing_b")
    """Tools that come and go."""

    def __init__(self, victim: Victim, folder: Path, report: Report) -> None:
        self.victim = victim
        self.folder = folder
        self.report = report
        limits = httpx2.Limits(max_connections=CALLERS + 8, max_keepalive_connections=0)
        self.client = httpx2.AsyncClient(
            base_url=victim.url, headers={"x-api-key": KEY}, timeout=CALL_SECONDS, limits=limits
        )
        self._numbers = itertools.count()
        self._since: dict[str, Any] = {}
        self._kept_pid = ""

    async def begin(self) -> None:
        """Wait until everything is there, and note how it is."""
        async with asyncio.timeout(CALL_SECONDS):
            while not await self._called("kept_echo", {"token": "1"}, "1"):  # noqa: ASYNC110 - the gateway tells nobody
                await asyncio.sleep(PAUSE_SECONDS)
        self._since = await self._sources()
        self._kept_pid = (self.folder / "kept.pid").read_text(encoding="utf-8")

    async def close(self) -> None:
        await self.client.aclose()

    async def check_unchanged(self) -> None:
        found = await self._sources()
        for name in UNCHANGED:
            said = f"source {name} was connected anew: {self._since.get(name)}, then {found.get(name)}"
            self.report.expect(found.get(name) == self._since.get(name), said)
        pid = (self.folder / "kept.pid").read_text(encoding="utf-8")
        self.report.expect(pid == self._kept_pid, "the server over stdio was started again")

    async def call_on(self, over: asyncio.Event) -> None:
        """One call after the other, of what no change concerns."""
        while not over.is_set():
            n = next(self._numbers)
            tool, arguments, result = (
                ("steady", {"n": n}, n),
                ("kept_echo", {"token": str(n)}, str(n)),
                ("beside", {"n": n}, {"success": True, "args": {"n": n}}),
            )[n % 3]
            await self._expect(tool, arguments, result)
            await asyncio.sleep(PAUSE_SECONDS)

    async def call_what_changes(self, over: asyncio.Event) -> None:
        """Calls of a tool that comes and goes: whatever becomes of them, they are answered."""
        while not over.is_set():
            for name in self.changing_tools:
                response = await self.client.post(f"/api/v1/tools/{name}/execute", json={"arguments": {}})
                is_clear = response.status_code in (200, 404, 502, 503)
                self.report.seen[f"changing {response.status_code}"] += 1
                self.report.expect(is_clear, f"{name} was answered {response.status_code}: {response.text[:200]}")
            await asyncio.sleep(PAUSE_SECONDS)

    @abstractmethod
    async def change_on(self, count: int, chance: random.Random, tell: Callable[[], None]) -> None:
        """Change the gateway so often; `tell` after each."""

    async def settled(self, *, at_most: int | None) -> Footprint:
        """What the gateway has taken, when its connections are closed."""
        now = footprint(self.victim.pid)
        for _ in range(SETTLE_SECONDS):
            last = now
            await asyncio.sleep(1)
            now = footprint(self.victim.pid)
            if now.descriptors == last.descriptors and (at_most is None or now.descriptors <= at_most):
                break
        return now

    async def _expect(self, tool: str, arguments: dict[str, Any], result: Any) -> None:
        response = await self.client.post(f"/api/v1/tools/{tool}/execute", json={"arguments": arguments})
        is_right = response.status_code == 200 and response.json().get("result") == result
        self.report.seen["calls"] += 1
        self.report.expect(is_right, f"{tool} {arguments} was answered {response.status_code}: {response.text[:200]}")

    async def _called(self, tool: str, arguments: dict[str, Any], result: Any) -> bool:
        response = await self.client.post(f"/api/v1/tools/{tool}/execute", json={"arguments": arguments})
        return bool(response.status_code == 200 and response.json().get("result") == result)

    async def _sources(self) -> dict[str, Any]:
        """Since when each source is as it is."""
        found = (await self.client.get("/api/v1/sources")).json()["sources"]
        return {source["name"]: (source["status"], source["since"]) for source in found}


def footprint(pid: int) -> Footprint:
    """Of a process on Linux."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    kilobytes = next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]
    return Footprint(descriptors=len(list(Path(f"/proc/{pid}/fd").iterdir())), memory=int(kilobytes) * 1024)
