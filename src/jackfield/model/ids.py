"""Names for new things: sortable by time, unguessable enough not to collide, readable by their prefix."""

import os
import secrets
import time
from random import Random

_random = Random()  # noqa: S311 - seeded by the system; an id need not be a secret, only its own
os.register_at_fork(after_in_child=_random.seed)  # two processes that begin alike must not name things alike


def new_id(prefix: str) -> str:
    """`call_0199…`: 48 bits of milliseconds, then 64 random bits, so that new rows land at an index's end."""
    return f"{prefix}_{time.time_ns() // 1_000_000:012x}{_random.getrandbits(64):016x}"


def secret_of(gateway_id: str) -> str:
    """`gw_0199….kJ3…`: an unguessable name for something that one gateway has in its memory, which says which one."""
    return f"{gateway_id}.{secrets.token_urlsafe(24)}"


def owner_of(name: str) -> str | None:
    """The gateway that has what this names; None: it does not say."""
    owner, dot, _ = name.partition(".")
    return owner if dot and owner.startswith("gw_") and owner[3:].isalnum() else None
