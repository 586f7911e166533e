"""Timers live in the store; every gateway looks once a second for those that are due, and one of them acts.

What a dead gateway left, what nobody answered, what nobody came for: each is one compare-and-set, so it does not matter
how many gateways try. Above: the gateway. Below: the store.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from jackfield.calls import events
from jackfield.calls import transactions as call_tx
from jackfield.calls.answers import Answers
from jackfield.calls.executor import Executor
from jackfield.calls.messages import expired, interrupted, timed_out
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.recovery import Recovery
from jackfield.calls.tool_servers import ToolServers
from jackfield.calls.transactions import Moved
from jackfield.calls.verification import Verification
from jackfield.model.call import Call, CallStatus
from jackfield.store import Store
from jackfield.store import gateways as gateway_tx
from jackfield.store.scripts import Script

log = logging.getLogger("jackfield.calls")

SWEEP_SECONDS = 1.0
STEP = 200


class Sweeper:
    """One round over everything that is due."""

    def __init__(
        self,
        *,
        store: Store,
        pipeline: Pipeline,
        executor: Executor,
        answers: Answers,
        servers: ToolServers,
        recovery: Recovery,
        verification: Verification,
        gateway_id: str,
    ) -> None:
        self._store = store
        self._pipeline = pipeline
        self._executor = executor
        self._answers = answers
        self._servers = servers
        self._recovery = recovery
        self._verification = verification
        self._gateway_id = gateway_id

    async def recover(self) -> int:
        """Take over what dead gateways ran; how many calls."""
        return await self._recovery.recover()

    async def sweep(self) -> None:
        """Flip, expire, time out, take over and give; in this order, so that what is decided first is told first.

        A step that fails is logged and tried again with the next round; the others do not wait for it.
        """
        steps: tuple[Callable[[], Awaitable[object]], ...] = (
            partial(self._each, "due_waits", self._run(call_tx.flip)),
            partial(self._each, "due_expiries", self._expire),
            partial(self._each, "overdue_calls", self._overdue),
            self._take_over,
            partial(self._each, "orphaned_waits", self._run(call_tx.abandon_wait)),
            self._answers.run_logged_in,
            self._answers.run_unclaimed,
            # That these are settled was told before.
            partial(self._each, "undelivered_calls", self._run(call_tx.give), tells=False),
            self._pipeline.write_receipts,
        )
        for step in steps:
            try:
                await step()
            except Exception:
                log.exception("a step of the sweeper failed")
        self._servers.look_again()

    async def wake_lost(self) -> None:
        """Wake the waiters whose wake-up was lost: one query for all that this gateway waits for."""
        bus = self._store.bus
        for call_id in await self._store.read(partial(call_tx.settled_among, bus.topics)):
            bus.publish(call_id)

    async def _take_over(self) -> None:
        buried = await self._store.write(partial(gateway_tx.bury_late, besides=self._gateway_id))
        if buried:
            log.warning("gateways that did not answer any more were declared dead: %s", ", ".join(buried))
        await self.recover()
        await self._servers.release()

    async def _each(self, query: str, act: Callable[[str], Awaitable[Moved]], *, tells: bool = True) -> None:
        """Act on all that a query finds, a step at a time. What cannot be done is logged and does not stop the rest."""
        while due := await self._store.read(partial(call_tx.ids_in, query, limit=STEP)):
            done = await asyncio.gather(*map(act, due), return_exceptions=True)
            moves = [moved for moved in done if isinstance(moved, Moved)]
            for fault in (fault for fault in done if isinstance(fault, Exception)):
                log.error("one of the %s could not be dealt with", query, exc_info=fault)
            for moved in moves:
                if tells and moved.moved and moved.call is not None:
                    self._tell(moved.call)
            if len(due) < STEP or not any(moved.moved for moved in moves):
                return

    def _run(self, script: Callable[[str], Script[Moved]]) -> Callable[[str], Awaitable[Moved]]:
        return lambda call_id: self._store.write(partial(script, call_id))

    async def _expire(self, call_id: str) -> Moved:
        return await self._store.write(partial(call_tx.settle_expired, call_id, expired(call_id)))

    async def _overdue(self, call_id: str) -> Moved:
        call = await self._store.read(partial(call_tx.get_call, call_id))
        if call is None:
            return Moved(None, moved=False)
        if call.may_be_verified:
            taken = await self._verification.take(call, "timeout", is_late=True)
            return Moved(taken or call, moved=taken is not None)
        outcome = interrupted(call_id) if call.verifying else timed_out(call_id, call.timeout_ms)
        return await self._store.write(partial(call_tx.settle_overdue, call_id, outcome))

    def _tell(self, call: Call) -> None:
        if call.status.is_final:
            self._executor.counters.count(call)
            self._executor.events.tell(events.SETTLED, call)
        elif call.status is not CallStatus.RUNNING:
            self._executor.events.tell(events.PENDING, call)
