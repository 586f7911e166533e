"""What a call brings along from where it was made: its trace, and the gateways it came through.

Above: the handlers read it from a request's headers; a source whose tools live behind another gateway sends it on. It
is in the task's context, so that whatever a call leads to has it too. Below: nothing.
"""

import re
from contextvars import ContextVar

from msgspec import Struct

VIA_HEADER = "jackfield-via"
"""The clusters that a call came through, the first one first, separated by commas."""
TIMEOUT_HEADER = "jackfield-timeout-ms"
"""How much of its time the call has left, in milliseconds: clocks differ between machines, durations do not."""
CALL_HEADER = "jackfield-call-id"
"""What the asking gateway calls it."""
CLUSTER_HEADER = "jackfield-house"
"""In a manifest's answer: the cluster that gives it. All gateways of one database are one cluster."""
CANCELS_HEADER = "jackfield-cancels"
"""In a manifest's answer, `true`: a running call is cancelled there by `POST /api/v1/calls/{id}/cancel`, with the id of
`jackfield-call-id`."""
MOST_HOPS = 8
"""Gateways that a call may come through, and a tool be passed on by."""


class IncomingTrace(Struct, frozen=True):
    """W3C's two headers as they came; nobody has checked them yet."""

    parent: str
    state: str | None


_PARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?", re.ASCII)


def trace_id() -> str | None:
    """The trace of the request that this task serves, if it named one as W3C spells it."""
    incoming = incoming_trace.get()
    if incoming is None or (parent := _PARENT.fullmatch(incoming.parent)) is None:
        return None
    return parent[1]


incoming_trace: ContextVar[IncomingTrace | None] = ContextVar("incoming_trace", default=None)
"""The trace of the request that this task serves."""
via: ContextVar[tuple[str, ...]] = ContextVar("via", default=())
"""The clusters that the call of this task came through before this one."""
