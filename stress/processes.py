"""Gateway processes that can be killed and started again on the same database."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from tests.harness.process import START_WITHIN, RunningGateway, free_port, start_gateway

KEY = "key-of-the-stress-run"
DEADLINE_MS = 600

CONFIG = f"""\
[sources.local]
kind = "files"
path = "tools/*.py"
tools.work_again.metadata = {{ idempotent = true }}

[[tools]]
name = "job"
description = "Answered from outside, waited for."
executionType = "external"
visible = false
timeout = {DEADLINE_MS}
inputSchema = {{ type = "object" }}

[[tools]]
name = "job_later"
description = "Answered from outside, some time."
executionType = "external"
visible = false
isAsync = true
inputSchema = {{ type = "object" }}
metadata = {{ idempotent = true }}
"""
TOOLS = '''\
"""Tools that write down that they started, and take a moment."""

import asyncio
import os
from pathlib import Path

STARTS = Path(os.environ["STRESS_STARTS"])


def _begin(n: int) -> None:
    with STARTS.open("a") as file:
        file.write(f"{n}\\n")


async def work(n: int) -> dict:
    """Take a moment; not to be repeated."""
    _begin(n)
    await asyncio.sleep(0.02 * (n % 10))
    return {"n": n}


async def work_again(n: int) -> dict:
    """Take a moment; may be repeated."""
    _begin(n)
    await asyncio.sleep(0.02 * (n % 10))
    return {"n": n}
'''


class Project(Struct, frozen=True):
    """What a gateway serves."""

    config: str
    files: dict[str, str]
    env: dict[str, str] = {}


CALLS = Project(CONFIG, {"tools/work.py": TOOLS})


class Victim:
    """One gateway process, always the same address, killed and started again."""

    STARTS_WITHIN = START_WITHIN

    def __init__(
        self,
        folder: Path,
        *,
        store_url: str,
        starts: Path,
        project: Project = CALLS,
        port: int | None = None,
        args: tuple[str, ...] = (),
    ) -> None:
        self._folder = folder
        self._project = project
        self._args = args
        self._env = {
            "JACKFIELD_STORE": store_url,
            "JACKFIELD_ADMIN_KEY": KEY,
            "JACKFIELD_PORT": str(port or free_port()),
            "STRESS_STARTS": str(starts),
            **project.env,
        }
        self._running: RunningGateway | None = None
        self.killed_at: list[float] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._env['JACKFIELD_PORT']}"

    @property
    def pid(self) -> int:
        assert self._running is not None
        return self._running.process.pid

    async def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._running = await asyncio.to_thread(
            start_gateway,
            self._folder,
            self._project.config,
            env=self._env,
            files=self._project.files,
            args=self._args,
            within=self.STARTS_WITHIN,
        )

    async def kill_and_start(self) -> None:
        await self.kill()
        await self.start()

    async def kill(self) -> None:
        assert self._running is not None
        self._running.process.kill()
        self.killed_at.append(time.monotonic())
        await asyncio.to_thread(self._running.kill)  # until it is gone

    def stop(self) -> None:
        if self._running is not None:
            self._running.kill()


@asynccontextmanager
async def victims(
    folder: Path, store_url: str, *, count: int, project: Project = CALLS, first_port: int | None = None
) -> AsyncIterator[list[Victim]]:
    """So many gateways on one database. A SQLite file takes one. `first_port` is that of the first."""
    starts = folder / "starts"
    started = [
        Victim(folder / f"gw{n}", store_url=store_url, starts=starts, project=project, port=None if n else first_port)
        for n in range(count)
    ]
    try:
        await asyncio.gather(*(victim.start() for victim in started))
        yield started
    finally:
        for victim in started:
            victim.stop()
