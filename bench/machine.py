"""What the figures were measured on, and how quiet it was.

The calibration loop is always the same work. What it takes at different moments of a run says how much of a difference
between two figures is the machine's and not ours.
"""

import os
import platform
import sqlite3
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median

import msgspec

LOOPS = 4_000
REPEATS = 5
SYNCS = 20
_DOCUMENT = {"text": "so much work as one small answer", "numbers": list(range(20)), "nested": {"a": [1.5, None, True]}}


class Calibration:
    """Runs the loop now and then, and keeps how long it took."""

    def __init__(self) -> None:
        self._took_ms: list[float] = []

    def run(self) -> None:
        for _ in range(REPEATS):
            began = time.perf_counter()
            for _ in range(LOOPS):
                msgspec.json.decode(msgspec.json.encode(_DOCUMENT))
            self._took_ms.append((time.perf_counter() - began) * 1000)

    @property
    def sentence(self) -> str:
        middle, quickest, slowest = median(self._took_ms), min(self._took_ms), max(self._took_ms)
        return (
            f"the same loop took {middle:.1f} ms in the middle, {(quickest / middle - 1) * 100:+.0f} % at best and "
            f"{(slowest / middle - 1) * 100:+.0f} % at worst ({len(self._took_ms)} times)"
        )


def machine_sentence(folder: Path) -> str:
    """Cores, versions, what a sync of a small file costs here, and the load before the run."""
    return (
        f"{os.cpu_count()} cores ({_processor()}), {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, uvicorn {version('uvicorn')}, "
        f"Starlette {version('starlette')}, fsync {_sync_ms(folder):.2f} ms, load {os.getloadavg()[0]:.2f}"
    )


def _processor() -> str:
    """The model where Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _sync_ms(folder: Path) -> float:
    """What it takes to append 4 kB to a file and have it on disk, in the middle."""
    took: list[float] = []
    handle = os.open(folder / "sync", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        for _ in range(SYNCS):
            began = time.perf_counter()
            os.write(handle, b"\0" * 4096)
            os.fsync(handle)
            took.append((time.perf_counter() - began) * 1000)
    finally:
        os.close(handle)
    return median(took)
