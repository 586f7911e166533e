"""A call that this gateway executes at this moment, and the one rule about its row.

A short call is written once, when it is over. A call that lasts, carries an idempotency key or is cancelled has its row
before that. Whoever begins to write it says so here first, so that nobody writes it a second time.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from jackfield.calls.telemetry import CallSpan
from jackfield.model.call import Call, Outcome
from jackfield.model.principal import Principal

CANCEL_SECONDS = 0.1
"""How long a stopped tool may take to tidy up before nobody waits for it any more."""


class Running:
    """One executing call. Used on the event loop only."""

    __slots__ = ("_began", "_waiter", "call", "depth", "is_cut_off", "principal", "span", "stopping", "task", "writing")

    def __init__(self, call: Call, *, principal: Principal, depth: int, recorded: bool) -> None:
        self.call = call
        self.principal = principal
        self.depth = depth
        """How many tools called tools to get here."""
        self.task: asyncio.Task[Outcome] | None = None
        self.is_cut_off = False
        """The tool was told to stop and did not: nobody waits for it any more."""
        self._waiter: asyncio.Future[None] | None = None
        self.span: CallSpan | None = None
        self.stopping = False
        """The gateway stops; a cut-off tool was interrupted, not cancelled by somebody."""
        self.writing: asyncio.Future[Any] | None = None
        """The write that makes, or made, this call's row."""
        if recorded:
            self.mark_recorded()
        self._began = time.perf_counter()

    @property
    def age_ms(self) -> float:
        return (time.perf_counter() - self._began) * 1000

    def mark_recorded(self) -> None:
        """The row is there."""
        self.writing = asyncio.get_running_loop().create_future()
        self.writing.set_result(None)

    def run(self, task: asyncio.Task[Outcome]) -> None:
        """This task is the tool at work."""
        self.task = task
        task.add_done_callback(self._release)

    async def ended(self, *, within: float) -> bool:
        """Wait until the tool has ended or was cut off, or `within` seconds are over; whether it has ended.

        One waiter at a time, with one timer: `asyncio.wait` does the same for three times the price, on every call.
        """
        assert self.task is not None
        if not (self.task.done() or self.is_cut_off):
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(max(0.0, within), self._release)
            try:
                await self._waiter
            finally:
                timer.cancel()
        return self.task.done()

    def _release(self, _: object = None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def stop(self) -> None:
        """Cancel the tool. One that will not listen is cut off a moment later."""
        if self.task is not None and self.task.cancel():
            asyncio.get_running_loop().call_later(CANCEL_SECONDS, self._cut_off)

    def _cut_off(self) -> None:
        self.is_cut_off = True
        self._release()

    async def write(self, row: Callable[[], asyncio.Future[Any]]) -> None:
        """Make the row, unless that is done or under way; either way it is there afterwards."""
        if self.writing is None:
            self.writing = row()
        await self.writing
