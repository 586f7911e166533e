"""A files source whose files run in workers: real processes in real environments, made by uv."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

from tests import waiting
from tests.sources.toolbox import Toolbox

HEADER = """\
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""
PID = "import os\n\ndef pid() -> int:\n    return os.getpid()\n"


def worker_file(text: str, *, header: str = HEADER) -> str:
    """A tool file that asks for a process of its own."""
    return header + dedent(text)


@asynccontextmanager
async def worker_box(folder: Path, **options: Any) -> AsyncIterator[Toolbox]:
    """A toolbox whose workers are all gone afterwards."""
    box = Toolbox(folder, config={"units": "metric"}, secrets=["WEATHER_KEY", "UNSET_KEY"], **options)
    try:
        yield box
    finally:
        await box.source.close()
        await box.worker_host.close()


def is_alive(pid: int) -> bool:
    """Whether such a process runs; one that has ended and was not collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


until = waiting.eventually_async


def children() -> set[int]:
    """The processes that this one has started and that live."""
    return {
        int(child)
        for task in Path(f"/proc/{os.getpid()}/task").iterdir()
        for child in (task / "children").read_text(encoding="utf-8").split()
    }
