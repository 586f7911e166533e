"""How often a gateway's database was written: counted in its files, not asked of the gateway.

In WAL mode with `synchronous=FULL` every commit ends in one frame that says so, and in one sync of the log. A log that
was started over while we counted cannot be compared; then there is no count.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from msgspec import Struct

_HEADER = 32
_FRAME_HEADER = 24


class Written(Struct, frozen=True, kw_only=True):
    """What was in the database at one moment."""

    calls: int
    commits: int
    log: bytes
    """Which log the commits were counted in."""


def written(database: Path) -> Written:
    """The rows of `calls`, and the commits in the log that is being written."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        calls = int(connection.execute("SELECT count(*) FROM calls").fetchone()[0])
    log = database.with_name(database.name + "-wal").read_bytes()
    return Written(calls=calls, commits=_commits(log), log=log[16:24])


def _commits(log: bytes) -> int:
    """Frames that end a transaction: those with a database size. Frames of an older log have another salt."""
    step = int.from_bytes(log[8:12]) + _FRAME_HEADER
    salt = log[16:24]
    frames = range(_HEADER, len(log) - step + 1, step)
    return sum(1 for at in frames if log[at + 8 : at + 16] == salt and any(log[at + 4 : at + 8]))
