"""Delivers to one target: in order, one at a time, again and again until it is taken or given up.

One gateway of a database delivers to a target; it holds the target while it lives. What it learns is on record before
the next message is sent, so that after a crash the one on its way is repeated and no other.
Above: `service.py`. Below: the scripts of the outbox.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from jackfield.errors import JackfieldError
from jackfield.notify import transactions as outbox_tx
from jackfield.notify.transactions import OUTBOX_TOPIC
from jackfield.notify.types import Notification, NotificationStatus, Target, Undelivered
from jackfield.protocol.backoff import RetryDelays, backoff
from jackfield.store import Store

log = logging.getLogger("jackfield.notify")

AT_ONCE = 100
CLAIM_SECONDS = 5.0
"""How often a gateway looks whether the one that delivers to a target is dead."""
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 300.0
LONGEST_ERROR = 500

Send = Callable[[Notification], Awaitable[None]]
"""Makes one attempt. Raises `Undelivered`."""


class Delivery:
    """One target and the task that delivers to it."""

    def __init__(self, target: Target, *, store: Store, gateway_id: str, send: Send) -> None:
        self._target = target
        self._store = store
        self._gateway_id = gateway_id
        self._send = send
        self._is_ours = False
        self._task = asyncio.create_task(self._run(), name=f"notify {target.name}")

    async def close(self) -> None:
        """Stop, and let another gateway deliver to the target."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if self._is_ours:
            self._is_ours = False
            with suppress(JackfieldError):
                await self._store.write(partial(outbox_tx.release_target, self._target.name, owner=self._gateway_id))

    async def _run(self) -> None:
        delays = RetryDelays(first=FIRST_PAUSE, longest=CLAIM_SECONDS)
        with self._store.bus.listen(OUTBOX_TOPIC + self._target.name) as woken:
            while True:
                woken.clear()
                try:
                    pause = await self._deliver_all() if await self._claimed() else CLAIM_SECONDS
                    delays.reset()
                except Exception:
                    log.exception("notifications for %s could not be delivered; it is tried again", self._target.name)
                    pause = delays.next()
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await woken.wait()

    async def _claimed(self) -> bool:
        if not self._is_ours:
            claim = partial(outbox_tx.claim_target, self._target.name, owner=self._gateway_id)
            self._is_ours = await self._store.write(claim)
        return self._is_ours

    async def _deliver_all(self) -> float | None:
        """Deliver what is due; how long to wait then, None: until there is more."""
        while self._is_ours:
            read = partial(outbox_tx.next_notifications, self._target.name, limit=AT_ONCE)
            waiting, now = await self._store.read(read)
            if not waiting:
                return None
            for notification in waiting:
                if notification.next_at > now:
                    return (notification.next_at - now) / 1000
                if not await self._deliver(notification):
                    break  # it is the first again, with a later time; or the target is not ours any more
        return CLAIM_SECONDS

    async def _deliver(self, notification: Notification) -> bool:
        """One attempt, on record afterwards. False: others have to wait for it."""
        try:
            await self._send(notification)
        except Undelivered as fault:
            return await self._note_undelivered(notification, fault)
        note = partial(outbox_tx.note_delivered, notification.id, owner=self._gateway_id)
        self._is_ours = await self._store.write(note)
        return self._is_ours

    async def _note_undelivered(self, notification: Notification, fault: Undelivered) -> bool:
        pause = max(fault.pause, backoff(notification.attempts, first=FIRST_PAUSE, longest=LONGEST_PAUSE))
        kept = await self._store.write(
            partial(
                outbox_tx.note_undelivered,
                notification.id,
                owner=self._gateway_id,
                error=str(fault)[:LONGEST_ERROR],
                is_refused=fault.is_refused,
                pause_ms=int(pause * 1000),
                give_up_ms=int(self._target.settings.give_up_after * 1000),
            )
        )
        if kept is None:
            self._is_ours = False
            return False
        if kept.status is not NotificationStatus.FAILED:
            return False
        log.warning(
            "notification %s for %s is given up after %d attempts: %s", kept.id, kept.target, kept.attempts, fault
        )
        return True
