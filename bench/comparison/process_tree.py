"""What a process costs, with all that it started: processor time and memory, read from `/proc`."""

import os
from pathlib import Path

from msgspec import Struct

PROC = Path("/proc")
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE_KB = os.sysconf("SC_PAGE_SIZE") / 1024


class Cost(Struct, frozen=True, kw_only=True):
    """So far, and now."""

    cpu_seconds: float
    resident_mb: float


def cost_of(pid: int) -> Cost:
    """The sums over a process and its descendants. Pages that they share count for each of them."""
    stats = _stats()
    family, grows = {pid}, True
    while grows:
        more = {each for each, fields in stats.items() if int(fields[1]) in family} - family
        family, grows = family | more, bool(more)
    mine = [stats[each] for each in family if each in stats]
    return Cost(
        cpu_seconds=sum(int(fields[11]) + int(fields[12]) for fields in mine) / _TICK,
        resident_mb=sum(int(fields[21]) for fields in mine) * _PAGE_KB / 1024,
    )


def _stats() -> dict[int, list[str]]:
    """The fields of `/proc/PID/stat` after the name, by process."""
    found: dict[int, list[str]] = {}
    for folder in PROC.iterdir():
        if folder.name.isdecimal():
            try:
                found[int(folder.name)] = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            except OSError:
                continue  # it has ended meanwhile
    return found
