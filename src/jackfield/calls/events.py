"""What happens to calls, live, for whoever follows. Nothing here is durable; the records are in the store.

Above: the handlers that stream. Below: the pipeline, which tells and never waits for a follower; and `cluster.py`,
which tells what happens at other gateways on the same database.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from msgspec import Struct

from jackfield.model.call import Call, CallStatus, LoginWait
from jackfield.sources.base import LogNote, Progress

BACKLOG = 1_000
"""Events that one follower may be behind; a slower one misses the oldest."""

STARTED = "call.started"
"""A gateway or a tool server began to execute it."""
PROGRESS = "call.progress"
"""Its tool reported how far it is, in `progress`."""
LOG = "call.log"
"""Its tool logged something, in `log`."""
SETTLED = "call.settled"
"""It is over; `status` says how."""
PENDING = "call.pending"
"""It waits for an approval, a login or an answer; `status` says for which."""
APPROVED = "call.approved"
"""Somebody approved it."""
LOGGED_IN = "call.logged_in"
"""The login that it waited for was made."""
ORDER = {PENDING: 0, APPROVED: 1, LOGGED_IN: 1, STARTED: 2, SETTLED: 3}
"""What can be read off a call's row, so that other gateways need only its id to tell it too; as it happens."""
REMEMBERED = 10_000
"""Calls of which it is known how far they are, so that a late word from another gateway is known as late."""


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
    log: LogNote | None = None
    duration_ms: float | None = None
    error: str | None = None
    login: LoginWait | None = None
    """The login that it waits for, while it does."""
    at: int
    """Milliseconds since 1970, by this gateway's clock: for people to read, not to compare."""


Queue = asyncio.Queue[CallEvent | None]
"""What a follower has not taken yet; None ends it."""


class CallEvents:
    """Fans events out to followers of one call or of all."""

    def __init__(self, *, tell_others: Callable[[str], None] | None = None) -> None:
        """`tell_others` takes what followers at other gateways should hear of; None: there are no others."""
        self._tell_others = tell_others
        self._tell_siblings: Callable[[CallEvent], None] | None = None
        self._on_settled: Callable[[str, CallStatus], None] | None = None
        self._followers: dict[str | None, set[Queue]] = {}
        self._unbroken: set[Queue] = set()
        self._shown: dict[str, int] = {}
        """How far each call is by what was shown last."""

    @asynccontextmanager
    async def follow(self, call_id: str | None, *, unbroken: bool = False) -> AsyncIterator[AsyncIterator[CallEvent]]:
        """Events of one call, or of all (None), from now on. `unbroken` ones end when any may have been missed."""
        queue: Queue = asyncio.Queue(BACKLOG)
        self._followers.setdefault(call_id, set()).add(queue)
        if unbroken:
            self._unbroken.add(queue)
        try:
            yield _drain(queue)
        finally:
            self._unbroken.discard(queue)
            queues = self._followers.get(call_id, set())
            queues.discard(queue)
            if not queues:
                self._followers.pop(call_id, None)
            if not self._followers:
                self._shown.clear()

    def on_passing(self, tell: Callable[[CallEvent], None]) -> None:
        """From now on, `tell` is called with what happens here and is in no row, such as progress."""
        self._tell_siblings = tell

    def on_settled(self, hear: Callable[[str, CallStatus], None]) -> None:
        """From now on, `hear` is called with every call that is settled here."""
        self._on_settled = hear

    def tell(
        self,
        kind: str,
        call: Call,
        *,
        at: int | None = None,
        progress: Progress | None = None,
        log: LogNote | None = None,
    ) -> None:
        """Something happened here; now, unless `at` says when."""
        if self._tell_others is not None and kind in ORDER:
            self._tell_others(topic_of(kind, call))
        if self._on_settled is not None and kind == SETTLED:
            self._on_settled(call.id, call.status)
        if self._tell_siblings is not None and kind not in ORDER:
            self._tell_siblings(event_of(kind, call, at=now_ms() if at is None else at, progress=progress, log=log))
        if self._followers:
            self._show(kind, call, at=now_ms() if at is None else at, progress=progress, log=log)

    def echo(self, kind: str, call: Call, *, at: int) -> None:
        """Something happened at another gateway. What is older than what was shown of the call is left out."""
        is_news = ORDER[kind] >= self._shown.get(call.id, 0) or call.status is CallStatus.PENDING_LOGIN
        if self._followers and is_news:
            self._show(kind, call, at=at)

    def pass_on(self, event: CallEvent) -> None:
        """Show what another process of this gateway's port was told and is in no row."""
        for queue in (*self._followers.get(event.call_id, ()), *self._followers.get(None, ())):
            _put(queue, event)

    def _show(
        self, kind: str, call: Call, *, at: int, progress: Progress | None = None, log: LogNote | None = None
    ) -> None:
        if self._tell_others is not None and kind in ORDER:
            if self._shown.get(call.id) == ORDER[SETTLED]:
                return  # cancelled at one gateway, and then over at the one that ran it
            self._remember(call.id, ORDER[kind])
        queues = [*self._followers.get(call.id, ()), *self._followers.get(None, ())]
        if not queues:
            return
        event = event_of(kind, call, at=at, progress=progress, log=log)
        for queue in queues:
            if queue.full() and queue in self._unbroken:
                self._break_off(queue)
            else:
                _put(queue, event)

    def _remember(self, call_id: str, step: int) -> None:
        self._shown.pop(call_id, None)
        self._shown[call_id] = step
        if len(self._shown) > REMEMBERED:
            del self._shown[next(iter(self._shown))]

    def is_followed(self, call_id: str) -> bool:
        return None in self._followers or call_id in self._followers

    def break_off(self) -> None:
        """Events may have been missed: who must not miss any begins anew."""
        for queue in tuple(self._unbroken):
            self._break_off(queue)

    def _break_off(self, queue: Queue) -> None:
        """End it: what comes now is for nobody."""
        self._unbroken.discard(queue)
        for queues in self._followers.values():
            queues.discard(queue)
        _put(queue, None)


def topic_of(kind: str, call: Call) -> str:
    """What other gateways are told: ids and names, nothing of what the call is about."""
    return f"{kind} {call.status.value} {call.id}"


def event_of(
    kind: str, call: Call, *, at: int, progress: Progress | None = None, log: LogNote | None = None
) -> CallEvent:
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
        log=log,
        duration_ms=call.duration_ms,
        error=call.error.message if call.error else None,
        login=call.login if call.status is CallStatus.PENDING_LOGIN else None,
        at=at,
    )


def _put(queue: Queue, event: CallEvent | None) -> None:
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(event)


async def _drain(queue: Queue) -> AsyncIterator[CallEvent]:
    while (event := await queue.get()) is not None:
        yield event


def now_ms() -> int:
    return time.time_ns() // 1_000_000
