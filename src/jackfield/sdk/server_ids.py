"""Stable ids of tool servers, in files of the user's state folder, one for each process slot.

A restarted program takes the id of the one before, so that the gateway offers it the calls that were left. Processes
that run side by side each lock a file, so none takes another's id. Where no file can be written the id is a new one,
and the gateway gives the remaining calls to the next server after a while.
"""

import hashlib
import json
import logging
import os
import re
import secrets
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl

MOST_SLOTS = 1_000
_ID = re.compile(r"sdk-[0-9a-f]{16}")
_log = logging.getLogger("jackfield.sdk")


@contextmanager
def server_id(url: str, tools: Iterable[str], *, source: str | None) -> Iterator[str]:
    """The id of a server of these tools at that gateway, locked for the duration of the block."""
    identity = json.dumps([url, sorted(tools), source])
    name = hashlib.sha256(identity.encode()).hexdigest()[:16]
    locked = _take_slot(state_folder(), name)
    try:
        yield _new_id() if locked is None else _read_id(locked)
    finally:
        if locked is not None:
            os.close(locked)


def state_folder() -> Path:
    """`$XDG_STATE_HOME/jackfield/servers`, by default in `~/.local/state`."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111 - never raises
    return Path(base) / "jackfield" / "servers"


def _take_slot(folder: Path, name: str) -> int | None:
    """The first file that no other process has locked, open and locked. None: no file can be written."""
    if sys.platform == "win32":
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for slot in range(MOST_SLOTS):
            locked = os.open(folder / f"{name}.{slot}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(locked)
            except OSError:
                os.close(locked)
                raise
            else:
                return locked
    except OSError as fault:
        _log.info("The id of this tool server cannot be stored, so it changes with every restart: %s", fault)
    return None


def _read_id(locked: int) -> str:
    kept = os.pread(locked, 64, 0).decode(errors="replace").strip()
    if _ID.fullmatch(kept):
        return kept
    fresh = _new_id()
    os.ftruncate(locked, 0)
    os.pwrite(locked, f"{fresh}\n".encode(), 0)
    return fresh


def _new_id() -> str:
    return f"sdk-{secrets.token_hex(8)}"
