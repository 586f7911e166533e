"""Waiting for somebody else's answer, inline: subscribed before the row exists, woken by the store, never polling.

The deadline is the row's; this side counts only durations from the monotonic clock, and when they are over asks the
store to flip the call. The store decides; a waiter never says "timed out" unless the row does.
Above: the pipeline. Below: the store and its bus.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from jackfield.calls import transactions as call_tx
from jackfield.calls.messages import timed_out
from jackfield.calls.transactions import Moved, Started
from jackfield.errors import CallNotFound
from jackfield.model.call import Call, CallStatus, Delivery, Done, Failed, FirstReply, Pending
from jackfield.store import Store

EARLY_SECONDS = 0.02
"""A flip that came a moment too early by the database's clock is tried again after this."""
OVERDUE_SECONDS = 1.0
"""How often one looks after a call that runs elsewhere and is late: its end is the executor's or the sweeper's."""


async def start_and_wait(
    store: Store,
    call_id: str,
    *,
    start: Callable[[], asyncio.Future[Started]],
    on_start: Callable[[Call], None],
    on_flip: Callable[[Moved], None],
) -> Started:
    """T1 by `start`, then the call as it is when its slot is decided. An earlier call comes back as it is."""
    with store.bus.listen(call_id) as written:
        started = await start()
        if not started.fresh or started.call is None:
            return started
        on_start(started.call)
        decided = started.call
        if slot_of(decided) is None:
            decided = await _until_decided(store, decided, written, on_flip=on_flip)
        return Started(decided, fresh=True)


async def wait_for_slot(store: Store, call_id: str, *, on_flip: Callable[[Moved], None]) -> Call:
    """The call when its slot is decided, for whoever takes up a wait that another began."""
    with store.bus.listen(call_id) as written:
        call = await _read(store, call_id)
        if slot_of(call):
            return call
        age_ms = await store.now_ms() - call.created_at
        return await _until_decided(store, call, written, on_flip=on_flip, waited=age_ms / 1000)


async def wait_until_final(store: Store, call_id: str, *, seconds: float, or_login: bool = False) -> Call:
    """The call when it is over, or as it is after `seconds`; with `or_login` also when it waits for a login."""
    deadline = time.monotonic() + seconds
    with store.bus.listen(call_id) as written:
        while True:
            call = await _read(store, call_id)
            left = deadline - time.monotonic()
            if call.status.is_final or left <= 0 or (or_login and call.status is CallStatus.PENDING_LOGIN):
                return call
            await _sleep(written, left)


async def _until_decided(
    store: Store, call: Call, written: asyncio.Event, *, on_flip: Callable[[Moved], None], waited: float = 0.0
) -> Call:
    """The call when its slot is decided; somebody has `waited` for it already, in seconds."""
    began = time.monotonic() - waited
    while True:
        left = _allowed_seconds(call) - (time.monotonic() - began)
        if left > 0 and not await _sleep(written, left):
            continue
        moved = await store.write(partial(call_tx.flip, call.id)) if left <= 0 else None
        if moved is not None:
            on_flip(moved)
        now = moved.call if moved is not None else await _read(store, call.id)
        if now is None:
            raise CallNotFound(f"The record of call '{call.id}' is gone.", param="id")
        if slot_of(now):
            return now
        if moved is not None and not _extended(call, now):
            await _sleep(written, EARLY_SECONDS if now.status is CallStatus.WAITING else OVERDUE_SECONDS)
        call = now


def _allowed_seconds(call: Call) -> float:
    """How long this call may wait in all, by its row; progress may have extended it."""
    assert call.deadline is not None
    return (call.deadline - call.created_at) / 1000


def _extended(before: Call, now: Call) -> bool:
    return before.deadline != now.deadline


async def _sleep(written: asyncio.Event, seconds: float) -> bool:
    """True when woken, False when the time was over."""
    try:
        async with asyncio.timeout(seconds):
            await written.wait()
    except TimeoutError:
        return False
    written.clear()
    return True


async def _read(store: Store, call_id: str) -> Call:
    call = await store.read(partial(call_tx.get_call, call_id))
    if call is None:
        raise CallNotFound(f"There is no call '{call_id}'.", param="id")
    return call


class Slot(Struct, frozen=True):
    """The answer to whoever made the call; `status` is the word the API uses for it."""

    status: CallStatus
    outcome: Done | Failed | Pending


def slot_of(call: Call) -> Slot | None:
    """What the call returns, or None while that is undecided."""
    if call.delivery is Delivery.INBOX:
        return _first_reply(call)
    if call.delivery is Delivery.INLINE and call.status.is_final:
        outcome = call.outcome
        return Slot(call.status, outcome)
    return None


def _first_reply(call: Call) -> Slot:
    """The outcome goes to the inbox; the slot says only that, or that nobody answered in time."""
    if call.first_reply is FirstReply.TIMEOUT:
        return Slot(CallStatus.FAILED, timed_out(call.id, call.timeout_ms))
    if call.first_reply is None:
        # Settled inline for a caller that had gone, then given to the inbox: reading is not delivery.
        return Slot(call.status, call.outcome)
    status = call.status if call.status in _FOR_A_PERSON else CallStatus.PENDING
    return Slot(status, Pending(status))


_FOR_A_PERSON = frozenset({CallStatus.PENDING_APPROVAL, CallStatus.PENDING_LOGIN})
