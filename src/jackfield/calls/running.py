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


class Running:
    """One executing call. Used on the event loop only."""

    __slots__ = ("_began", "call", "depth", "principal", "span", "stopping", "task", "writing")

    def __init__(self, call: Call, *, principal: Principal, depth: int, recorded: bool) -> None:
        self.call = call
        self.principal = principal
        self.depth = depth
        """How many tools called tools to get here."""
        self.task: asyncio.Task[Outcome] | None = None
        self.span: CallSpan | None = None
        self.stopping = False
        """The gateway stops; a cut-off tool was interrupted, not cancelled by somebody."""
        self.writing: asyncio.Future[Any] | None = None
        """The write that makes, or made, this call's row."""
        if recorded:
            self.writing = asyncio.get_running_loop().create_future()
            self.writing.set_result(None)
        self._began = time.perf_counter()

    @property
    def age_ms(self) -> float:
        return (time.perf_counter() - self._began) * 1000

    async def write(self, row: Callable[[], asyncio.Future[Any]]) -> None:
        """Make the row, unless that is done or under way; either way it is there afterwards."""
        if self.writing is None:
            self.writing = row()
        await asyncio.shield(self.writing)
