"""Names for new things: sortable by time, unguessable enough not to collide, readable by their prefix."""

import os
import time


def new_id(prefix: str) -> str:
    """`call_0199…`: 48 bits of milliseconds, then 64 random bits, so that new rows land at an index's end."""
    return f"{prefix}_{time.time_ns() // 1_000_000:012x}{os.urandom(8).hex()}"
