"""The outcome of a call that its program is told of while it is written: with the step that the program takes then.

Nothing that follows from the outcome is on record, or begun, before it is. Above: `execution.py`. Below: the store.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from jackfield.calls.transactions import Moved
from jackfield.errors import Refused
from jackfield.model.call import Call, Done, Failed
from jackfield.programs import transactions as program_tx
from jackfield.programs.transactions import NextStep
from jackfield.store import Store
from jackfield.store.scripts import Script

HELD_SECONDS = 0.02
"""How long an outcome that the program was told of waits for the step that the program takes then."""


class ToldWrong(Exception):
    """The program was told of an outcome that did not come on record: it has to be run again from its journal."""


class Held(Struct, frozen=True, eq=False):
    """An outcome that the program is told of and that is not on record yet."""

    call: Call
    outcome: Done | Failed
    script: Callable[..., Script[Moved]]
    written: "asyncio.Future[Moved]"


class EarlyOutcome:
    """One outcome at a time, for one program."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.held: Held | None = None
        self._settling: asyncio.Future[Moved] | None = None
        """The write of an outcome that was held, and that no step went with."""

    def hold(self, call: Call, outcome: Done | Failed, script: Callable[..., Script[Moved]]) -> "asyncio.Future[Moved]":
        """Write how a call ended with the program's next step, or soon."""
        loop = asyncio.get_running_loop()
        self.held = held = Held(call, outcome, script, loop.create_future())
        loop.call_later(HELD_SECONDS, self._let_settle, held)
        return held.written

    def let_go(self) -> None:
        """No step will come."""
        if self.held is not None:
            self._let_settle(self.held)

    async def write_step(self, step: NextStep, *, answer: int) -> tuple[Call, ...] | None:
        """A step with the outcome that is held, or after the one that was. None: fenced. Raises `ToldWrong`.

        `answer`: the how manyth answer the program has just been told of.
        """
        held, self.held = self.held, None
        if held is None:
            await self.settle()
            return await self._store.write(partial(program_tx.take_step, step))
        known = replace(held.call, answer=answer)
        try:
            both = self._store.write(partial(program_tx.settle_and_take_step, held.script, known, step))
        except Refused as fault:
            held.written.set_exception(fault)
            raise
        both.add_done_callback(partial(_pass_on, held.written))
        moved, written = await both
        if not moved.moved:
            raise ToldWrong
        return written

    def _let_settle(self, held: Held) -> None:
        """Write an outcome by itself: the program takes its time, or asks for nothing more."""
        if self.held is held:
            self.held = None
            self._settling = asyncio.ensure_future(self._write(held.script))
            self._settling.add_done_callback(partial(_pass_on, held.written))

    async def _write(self, script: Callable[[], Script[Moved]]) -> Moved:
        """In a task: a store that takes no more writes says so to whoever waits, not to a timer."""
        return await self._store.write(script)

    async def settle(self) -> None:
        """All that the program was told is on record after this."""
        if self.held is not None:
            self._let_settle(self.held)
        settling, self._settling = self._settling, None
        if settling is not None and not (await settling).moved:
            raise ToldWrong


def _pass_on(written: "asyncio.Future[Moved]", done: "asyncio.Future[Any]") -> None:
    """What became of the write, for the executor that waits for it."""
    if written.done():
        return
    if done.cancelled():
        written.cancel()
    elif (fault := done.exception()) is not None:
        written.set_exception(fault)
    else:
        result = done.result()
        written.set_result(result if isinstance(result, Moved) else result[0])
