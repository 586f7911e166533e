"""What a tool server is known by when it comes back: an id in a file, one for each process slot.

A program that is started again takes the id that the one before had, so that the gateway offers it again what that
one left. Two that run side by side hold a lock on a file each, so neither takes the other's place. Where nothing can be
kept the id is a new one, and the gateway gives what is left to the next server after a while.
Above: `tools.py`. Below: the user's state folder.
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
    """The id of a server of these tools at that gateway, held as long as the block lasts."""
    told = json.dumps([url, sorted(tools), source])
    name = hashlib.sha256(told.encode()).hexdigest()[:16]
    held = _take_slot(state_folder(), name)
    try:
        yield _new_id() if held is None else _id_in(held)
    finally:
        if held is not None:
            os.close(held)


def state_folder() -> Path:
    """Where ids are kept: `$XDG_STATE_HOME/jackfield/servers`, by default in `~/.local/state`."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111 - never raises
    return Path(base) / "jackfield" / "servers"


def _take_slot(folder: Path, name: str) -> int | None:
    """The first file that no other process holds, open and locked. None: no file can be kept here."""
    if sys.platform == "win32":
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for slot in range(MOST_SLOTS):
            held = os.open(folder / f"{name}.{slot}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(held)
            except OSError:
                os.close(held)
                raise
            else:
                return held
    except OSError as fault:
        _log.info("The id of this tool server is kept nowhere, so a restart gets another: %s", fault)
    return None


def _id_in(held: int) -> str:
    kept = os.pread(held, 64, 0).decode(errors="replace").strip()
    if _ID.fullmatch(kept):
        return kept
    fresh = _new_id()
    os.ftruncate(held, 0)
    os.pwrite(held, f"{fresh}\n".encode(), 0)
    return fresh


def _new_id() -> str:
    return f"sdk-{secrets.token_hex(8)}"
