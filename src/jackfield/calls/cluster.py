"""What happens to calls at other gateways on the same database: shown to who follows here, and obeyed.

A gateway tells the others what happened to which call, as `call.settled completed call_…`, and no more. One that
somebody follows reads the rows, many at a time, and shows the event as if it were its own. Nobody follows: nothing is
read. A tool whose call was settled elsewhere, as by who cancelled it there, is stopped.
The word may be ahead of the row, since a call that a gateway runs itself is written when it is over or has lasted
50 ms; then it is looked for again, for a moment. It may also be late: gateways are heard in no order among them, so
what is older than what was shown is dropped. Progress is in no row and stays at its gateway.
Above: the gateway, which runs this. Below: the store and its bus, `events.py`.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from jackfield.calls import transactions as call_tx
from jackfield.calls.events import BACKLOG, ORDER, SETTLED, STARTED, CallEvents, now_ms
from jackfield.model.call import Call, CallStatus
from jackfield.store import Store

log = logging.getLogger("jackfield.calls")

LOOK_AGAIN_SECONDS = 0.05
PATIENCE_SECONDS = 2.0
"""How long an event waits for its row. A call that was refused after it had begun never gets one."""
_STATUSES = {status.value: status for status in CallStatus}


class Heard(msgspec.Struct):
    """What happened to one call elsewhere, until its row has been read."""

    until: float
    """When it is given up, by the loop's clock."""
    events: list[tuple[str, CallStatus]] = msgspec.field(default_factory=list)


class RemoteCalls:
    """Hears of calls at other gateways."""

    def __init__(self, *, store: Store, events: CallEvents, on_settled: Callable[[str, CallStatus], None]) -> None:
        """`on_settled`: a call is over, and work on it that is done here may end."""
        self._store = store
        self._events = events
        self._on_settled = on_settled
        self._heard: dict[str, Heard] = {}
        self._wanted = asyncio.Event()
        store.bus.on_foreign(self._hear)

    async def follow(self) -> None:
        """Read and show what is heard, until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_SECONDS if self._heard else None):
                    await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._show()
            except Exception:
                log.exception("what happened to calls at other gateways could not be read")
                self._events.break_off()

    def _hear(self, topics: Sequence[str] | None) -> None:
        if topics is None:
            self._events.break_off()
            return
        for topic in topics:
            match topic.split(" "):
                case kind, status, call_id if kind in ORDER and status in _STATUSES:
                    self._hear_one(call_id, kind, _STATUSES[status])

    def _hear_one(self, call_id: str, kind: str, status: CallStatus) -> None:
        if kind == SETTLED and status.is_final:
            self._on_settled(call_id, status)
        if self._events.is_followed(call_id):
            self._note(call_id, kind, status)

    def _note(self, call_id: str, kind: str, status: CallStatus) -> None:
        heard = self._heard.get(call_id)
        if heard is None:
            heard = self._heard[call_id] = Heard(asyncio.get_running_loop().time() + PATIENCE_SECONDS)
            if len(self._heard) > BACKLOG:
                del self._heard[next(iter(self._heard))]
        heard.events.append((kind, status))
        self._wanted.set()

    async def _show(self) -> None:
        taken, self._heard = self._heard, {}
        if not taken:
            return
        calls = {call.id: call for call in await self._store.read(partial(call_tx.calls_among, taken))}
        now = asyncio.get_running_loop().time()
        for call_id, heard in taken.items():
            if call_id in calls:
                self._echo(calls[call_id], heard.events)
            elif now < heard.until:
                later = self._heard.pop(call_id, None)
                heard.events += later.events if later is not None else ()
                self._heard[call_id] = heard

    def _echo(self, call: Call, heard: list[tuple[str, CallStatus]]) -> None:
        """In the order in which they happen. A call may come to wait for a login whenever it runs, so only its row
        says whether it does now.
        """
        for kind, status in sorted(heard, key=_step):
            if status is not CallStatus.PENDING_LOGIN or call.status is status:
                self._events.echo(kind, as_it_was(call, status), at=now_ms())


def _step(event: tuple[str, CallStatus]) -> float:
    kind, status = event
    return ORDER[STARTED] + 0.5 if status is CallStatus.PENDING_LOGIN else ORDER[kind]


def as_it_was(call: Call, status: CallStatus) -> Call:
    """The call in the status that the event speaks of; its row may have moved on since."""
    if status.is_final or call.status is status:
        return call
    return msgspec.structs.replace(call, status=status, error=None, duration_ms=None)
