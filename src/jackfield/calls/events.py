"""What happens to calls, live, for whoever follows. Nothing here is durable; the records are in the store.

Above: the doors that stream. Below: the pipeline, which tells and never waits for a follower.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct

from jackfield.model.call import Call, CallStatus
from jackfield.sources.base import Progress

BACKLOG = 1_000
"""Events that one follower may be behind; a slower one misses the oldest."""

STARTED = "call.started"
PROGRESS = "call.progress"
SETTLED = "call.settled"
PENDING = "call.pending"
APPROVED = "call.approved"


class CallEvent(Struct, frozen=True, kw_only=True):
    """One thing that happened to one call."""

    type: str
    call_id: str
    run_id: str
    tool: str
    source: str
    principal: str
    for_others: bool
    """Somebody outside is or was asked, to answer the call or to allow it."""
    agent: str | None
    status: CallStatus
    progress: Progress | None = None
    duration_ms: float | None = None
    error: str | None = None
    at: int
    """Milliseconds since 1970, by this gateway's clock: for people to read, not to compare."""


class CallEvents:
    """Fans events out to followers of one call or of all."""

    def __init__(self) -> None:
        self._followers: dict[str | None, set[asyncio.Queue[CallEvent]]] = {}

    @asynccontextmanager
    async def follow(self, call_id: str | None) -> AsyncIterator[AsyncIterator[CallEvent]]:
        """Events of one call, or of all (None), from now on."""
        queue: asyncio.Queue[CallEvent] = asyncio.Queue(BACKLOG)
        self._followers.setdefault(call_id, set()).add(queue)
        try:
            yield _drain(queue)
        finally:
            queues = self._followers[call_id]
            queues.discard(queue)
            if not queues:
                del self._followers[call_id]

    def tell(self, kind: str, call: Call, *, at: int, progress: Progress | None = None) -> None:
        if not self._followers:
            return
        queues = [*self._followers.get(call.id, ()), *self._followers.get(None, ())]
        if not queues:
            return
        event = event_of(kind, call, at=at, progress=progress)
        for queue in queues:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(event)


def event_of(kind: str, call: Call, *, at: int, progress: Progress | None = None) -> CallEvent:
    return CallEvent(
        type=kind,
        call_id=call.id,
        run_id=call.run_id,
        tool=call.tool,
        source=call.source,
        principal=call.principal,
        for_others=call.for_others,
        agent=call.agent,
        status=call.status,
        progress=progress,
        duration_ms=call.duration_ms,
        error=call.error.message if call.error else None,
        at=at,
    )


async def _drain(queue: asyncio.Queue[CallEvent]) -> AsyncIterator[CallEvent]:
    while True:
        yield await queue.get()
