"""A call that this gateway executes at this moment, and the one rule about its row.

A short call is written once, when it is over. A call that lasts, carries an idempotency key or is cancelled has its row
before that. Whoever begins to write it says so here first, so that nobody writes it a second time.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jackfield.calls.telemetry import CallSpan
from jackfield.calls.transactions import Moved
from jackfield.hooks.types import Reviewed
from jackfield.model.call import Call, Done, Failed, Outcome
from jackfield.model.principal import Principal
from jackfield.sources.base import Begun, InTransaction, TaskUse
from jackfield.sources.client import CallerClient
from jackfield.store.scripts import Script

if TYPE_CHECKING:
    from jackfield.calls.questions import OpenQuestions

ANSWER_SECONDS = 600.0
"""How long a person may take to answer a question that comes up while a tool runs."""
SettleWith = Callable[[Call, Done | Failed, Callable[..., Script[Moved]]], Awaitable[Moved]]
"""Writes how a call ended, by this script, perhaps together with what follows from it."""
CANCEL_SECONDS = 0.1
"""How long a stopped tool may take to tidy up before nobody waits for it any more."""


class Running:
    """One executing call. Used on the event loop only."""

    __slots__ = (
        "_began",
        "_held_ms",
        "_held_until",
        "_hold_began",
        "_holds",
        "_is_watched",
        "_waiter",
        "call",
        "came_back",
        "client",
        "config",
        "depth",
        "is_cut_off",
        "may_join",
        "parked",
        "principal",
        "questions",
        "reviewing",
        "settle_with",
        "span",
        "stopping",
        "takes_pending",
        "task",
        "tasks",
        "trace",
        "withheld",
        "writing",
    )

    def __init__(
        self,
        call: Call,
        *,
        principal: Principal,
        depth: int,
        recorded: bool,
        client: CallerClient | None = None,
        takes_pending: bool = False,
    ) -> None:
        self.call = call
        self.principal = principal
        self.depth = depth
        """How many tools called tools to get here."""
        self.client = client
        """The MCP client that made it, if one did. What that cannot answer is asked of whoever answers calls."""
        self.takes_pending = takes_pending
        self.tasks = TaskUse.REQUIRED
        self.settle_with: SettleWith | None = None
        self.may_join = False
        """Whether the same request again, while this waits for a login, is this call."""
        self.config: dict[str, Any] | None = None
        """Options that its request gives the tool."""
        self.questions: OpenQuestions | None = None
        """What was asked of whoever answers calls."""
        self.reviewing: asyncio.Task[Reviewed] | None = None
        """The hooks that look at its outcome."""
        self.came_back = False
        """The tool itself answered or failed, so that its outcome is for hooks to see."""
        self.withheld: Done | Failed | None = None
        """What one of them keeps from everybody but administrators."""
        self.trace = ""
        """Where the tool's own code failed."""
        self.parked: Call | None = None
        """The call as it is on record while it waits for an answer."""
        self.task: asyncio.Task[Outcome | InTransaction | Begun] | None = None
        self.is_cut_off = False
        """The tool was told to stop and did not: nobody waits for it any more."""
        self._is_watched = False
        """The end of the task wakes who waits for it."""
        self._waiter: asyncio.Future[None] | None = None
        self.span: CallSpan | None = None
        self.stopping = False
        """The gateway stops; a cut-off tool was interrupted, not cancelled by somebody."""
        self.writing: asyncio.Future[Any] | None = None
        """The write that makes, or made, this call's row."""
        if recorded:
            self.mark_recorded()
        self._began = time.perf_counter()
        self._held_ms = 0.0
        self._held_until = 0.0
        self._hold_began = 0.0
        self._holds = 0

    @property
    def age_ms(self) -> float:
        return (time.perf_counter() - self._began) * 1000

    @property
    def was_held(self) -> bool:
        """Something else than the tool takes or took time, which is not counted."""
        return self._held_until > 0

    @property
    def left_ms(self) -> float:
        """How much of its time the call has left; while it is held, the rest of that as well."""
        now = time.perf_counter()
        counted_until = self._hold_began if self._holds else now
        left = self.call.timeout_ms - ((counted_until - self._began) * 1000 - self._held_ms)
        return left + (self._held_until - now) * 1000 if self._holds else left

    @contextmanager
    def hold(self, most: float) -> Iterator[None]:
        """The deadline stands still in here, for at most so many seconds: an installation is not the tool's work."""
        now = time.perf_counter()
        if not self._holds:
            self._hold_began = now
        self._holds += 1
        self._held_until = max(self._held_until, now + most)
        self._release()
        try:
            yield
        finally:
            self._holds -= 1
            if not self._holds:
                self._held_ms += (min(time.perf_counter(), self._held_until) - self._hold_began) * 1000
            self._release()

    def failed_at(self, trace: str) -> None:
        self.trace = trace

    def park(self, call: Call) -> None:
        """It waits on record from now on, and whoever made it need not wait any more."""
        self.parked = call
        self._release()

    def resume(self, call: Call | None) -> None:
        """It runs again, as this; None: it was settled meanwhile, so the tool is stopped."""
        self.parked = None
        if call is None:
            self.stop()
        else:
            self.call = call

    def mark_recorded(self) -> None:
        """The row is there."""
        self.writing = asyncio.get_running_loop().create_future()
        self.writing.set_result(None)

    def run(self, task: asyncio.Task[Outcome | InTransaction | Begun]) -> None:
        """This task is the tool at work."""
        self.task = task

    async def ended(self, *, within: float) -> bool:
        """Wait until the tool has ended or was cut off, or `within` seconds are over; whether it has ended.

        One waiter at a time, with one timer: `asyncio.wait` does the same for three times the price, on every call.
        """
        task = self.task
        assert task is not None
        if not self._is_watched:
            await asyncio.sleep(0)  # the task's first turn: a tool that waits for nothing ends in it
            if task.done():
                return True
            self._is_watched = True
            task.add_done_callback(self._release)
        if not (task.done() or self.is_cut_off):
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(max(0.0, within), self._release)
            try:
                await self._waiter
            finally:
                timer.cancel()
        return task.done()

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
