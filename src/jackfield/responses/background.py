"""Responses in the background: how many are at work here, and which are taken up next.

Taken up are those of dead gateways, those that wait for their turn, and those that waited for somebody and were
answered: such a one is in nobody's hand, and when the last of its calls is answered the gateway that is first goes on
with it. Above: `service.py`. Below: `run.py` and `transactions.py`.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.errors import Refused, Unavailable
from jackfield.model.ids import new_id
from jackfield.responses import transactions as response_tx
from jackfield.responses import wire
from jackfield.responses.journal import resumption
from jackfield.responses.position import position_after
from jackfield.responses.resource import INTERRUPTED, decode_resource
from jackfield.responses.run import RunningResponse
from jackfield.responses.storage import chunk_of, ending_of, frames_in, resource_as_json
from jackfield.responses.transactions import EventChunk, StoredResponse, TakenResponse
from jackfield.responses.wire import Frame
from jackfield.responses.writer import EventWriter
from jackfield.runs import transactions as run_tx
from jackfield.runs.events import Ended, EndStatus, RunError, RunStarted
from jackfield.store import Store
from jackfield.store.scripts import READY_TOPIC, Script

log = logging.getLogger(__name__)

TRIES = 3
"""How often a response is taken over without having come to its next step, before it has failed."""
TAKEN_AT_ONCE = 50
READY = READY_TOPIC + "response"


class TakenUp(Struct, frozen=True):
    """A response that was taken in hand, with its stream so far."""

    response: TakenResponse
    frames: tuple[Frame, ...]


class BackgroundResponses:
    """Takes responses up, as many as may be at work here."""

    def __init__(
        self,
        *,
        store: Store,
        gateway_id: str,
        keep: Callable[..., "asyncio.Task[Any]"],
        go_on: Callable[[TakenUp], Awaitable[RunningResponse]],
        cancel_calls: Callable[[str], Awaitable[None]],
        is_closing: Callable[[], bool],
        sources_listed: asyncio.Event,
        most: int,
    ) -> None:
        """`go_on` starts a response again from its journal, or raises where it must not.

        None is taken up until `sources_listed`: its model would be told that its tools do not exist.
        """
        self._store = store
        self._gateway_id = gateway_id
        self._keep = keep
        self._go_on = go_on
        self._cancel_calls = cancel_calls
        self._is_closing = is_closing
        self._sources_listed = sources_listed
        self.most = most
        """Responses that may be at work here at once."""
        self._in_hand: set[str] = set()
        self._waiting: dict[str, TakenResponse] = {}
        """Taken over while the store was away again: they go on when it is back."""
        self._unwritten: dict[str, Callable[[], Script[Any]]] = {}
        """Ends that could not be written while the store was away, or that anybody may go on; by response."""
        self._looking: asyncio.Task[Any] | None = None
        self._is_called = False
        self._claiming = asyncio.Lock()
        self._has_given_room = False
        """A place is free for those that wait for their turn, who have not been looked for since."""
        store.bus.watch(READY, lambda _: self.look_soon())

    @property
    def has_room(self) -> bool:
        return len(self._in_hand) < self.most

    @property
    def takes_new(self) -> bool:
        """Whether one that begins now may be at work at once: those that wait for their turn come first."""
        return self.has_room and not self._has_given_room

    @contextmanager
    def place(self) -> Iterator[None]:
        """Keep a place for a response while it begins."""
        name = new_id("place")
        self._in_hand.add(name)
        try:
            yield
        finally:
            self._let_go(name)

    def hold(self, run: RunningResponse) -> None:
        """A response is at work here, until its task is over."""
        self._in_hand.add(run.id)
        run.task.add_done_callback(lambda _: self._let_go(run.id))

    def write_later(self, response_id: str, script: Callable[[], Script[Any]]) -> None:
        """The store was away: how a response ended, or that whoever has room goes on with it, is written then."""
        self._unwritten[response_id] = script

    def _let_go(self, response_id: str) -> None:
        was_full = not self.has_room
        self._in_hand.discard(response_id)
        if was_full:
            self._has_given_room = True
            self.look_soon()

    def look_soon(self) -> None:
        """Look for what can be taken up, without waiting for the next round."""
        self._is_called = True
        if self._looking is None and not self._is_closing():
            self._looking = self._keep(self._look(), name="responses to take up")
            self._looking.add_done_callback(self._looked)

    def _looked(self, task: "asyncio.Task[Any]") -> None:
        self._looking = None
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.warning("responses could not be taken up, it is tried again: %r", fault)
        elif self._is_called and not task.cancelled():
            self.look_soon()

    async def _look(self) -> None:
        self._is_called = False
        await self._claim()

    async def sweep(self) -> None:
        """Go on with responses of dead gateways, and with those that can be claimed."""
        for response_id, script in tuple(self._unwritten.items()):
            await self._store.write(script)
            del self._unwritten[response_id]
        if not self._sources_listed.is_set():
            return
        for taken in tuple(self._waiting.values()):
            del self._waiting[taken.run.id]
            self._begin(taken)
        for orphan in await self._store.read(partial(run_tx.orphaned_runs, "response", limit=TAKEN_AT_ONCE)):
            mine = await self._store.write(partial(response_tx.take_over, orphan, owner=self._gateway_id))
            if mine is not None:
                self._begin(mine)
        await self._claim()

    async def _claim(self) -> None:
        """Of those that wait for their turn or were answered, in a fair order."""
        async with self._claiming:
            while self._sources_listed.is_set() and self.has_room and not self._is_closing():
                room = self.most - len(self._in_hand)
                found = await self._store.read(partial(run_tx.runs_to_claim, "response", limit=room))
                for response_id in found:
                    taken = await self._store.write(partial(response_tx.claim, response_id, owner=self._gateway_id))
                    if taken is not None:
                        self._begin(taken)
                if not found:
                    self._has_given_room = False
                    return

    def _begin(self, taken: TakenResponse) -> None:
        response_id = taken.run.id
        self._in_hand.add(response_id)
        starting = self._keep(self._start(taken), name=f"Response {response_id} is taken up")
        starting.add_done_callback(lambda _: self._started(response_id, starting))

    def _started(self, response_id: str, starting: "asyncio.Task[RunningResponse | None]") -> None:
        run = None if starting.cancelled() or starting.exception() is not None else starting.result()
        if run is None:
            self._let_go(response_id)
        else:
            self.hold(run)

    async def _start(self, taken: TakenResponse) -> RunningResponse | None:
        """The response as it goes on here, unless it has come to its end."""
        try:
            return await self._started_again(taken)
        except Unavailable as fault:
            log.warning("response %s goes on when the store is back: %s", taken.run.id, fault)
            self._waiting[taken.run.id] = taken
            return None

    async def _started_again(self, taken: TakenResponse) -> RunningResponse | None:
        run, stored = taken.run, taken.stored
        if stored.is_finished:
            ended = partial(run_tx.end, run, status="failed" if stored.status == "failed" else "done")
            await self._store.write(ended)
            return None
        if stored.stop_wanted or run.stop_wanted:
            await self.end(taken, "cancelled")
            return None
        if run.tries > TRIES or run.request is None or not stored.is_background:
            await self.end(taken, "failed", error=INTERRUPTED)
            return None
        try:
            going = await self._go_on(TakenUp(taken, frames_of(taken)))
        except Unavailable:
            raise
        except Refused as fault:
            await self.end(taken, "failed", error=RunError(fault.code, fault.message))
            return None
        except Exception:
            log.exception("response %s cannot go on", run.id)
            await self.end(taken, "failed", error=INTERRUPTED)
            return None
        if run.tries > 1:
            log.warning("response %s goes on here; its gateway is gone", run.id)
        return going

    async def end(self, taken: TakenResponse, status: EndStatus, *, error: RunError | None = None) -> bool:
        """End a response that is in hand and not at work. False: another gateway has it by now."""
        frames = frames_of(taken)
        states = resumption(taken.steps, frames).states
        writer = EventWriter(decode_resource(taken.stored.resource), now=now, position=position_after(frames))
        begun = [] if frames else writer.take(RunStarted())
        last = writer.take(Ended(status=status, error=error, usage=states[-1].usage if states else None))
        ending = ending_of(writer.resource, begun, last)
        reason = None if error is None else error.message
        ended = await self._store.write(partial(response_tx.settle_journaled, taken.run, ending, reason=reason))
        if ended and status == "cancelled":
            await self._cancel_calls(taken.run.id)
        return ended

    async def end_waiting(self, response_id: str, status: EndStatus) -> bool:
        """End a response that nobody has in hand. False: somebody has."""
        taken = await self._store.write(partial(response_tx.seize, response_id, owner=self._gateway_id))
        return taken is not None and await self.end(taken, status)

    async def end_orphan(self, response_id: str) -> bool:
        """Fail a response that was made for a waiting client by a gateway that is dead. False: it has no journal."""
        run = await self._store.read(partial(run_tx.get_run, response_id))
        if run is None:
            return False
        if run.status != "open":
            return True
        taken = await self._store.write(partial(response_tx.take_over, run, owner=self._gateway_id))
        if taken is not None:
            await self.end(taken, "failed", error=INTERRUPTED)
        return True  # where another gateway was first, that one ends it


def frames_of(taken: TakenResponse) -> tuple[Frame, ...]:
    return tuple(frame for chunk in taken.chunks for frame in frames_in(chunk))


def reopened(stored: StoredResponse, last: EventChunk) -> tuple[str, EventChunk]:
    """The resource of a response that failed and goes on, and what stands in its stream in place of its end.

    The numbers stay: whoever has read the end reads on behind it, and who comes later finds no end before the end.
    """
    resource = msgspec.structs.replace(
        decode_resource(stored.resource),
        status="in_progress",
        completed_at=None,
        usage=None,
        error=None,
        background=True,
    )
    frames = [
        wire.InProgress(sequence_number=number, response=resource).frame for number in range(last.first, last.last + 1)
    ]
    chunk = chunk_of(frames)
    assert chunk is not None
    return resource_as_json(resource), chunk


def now() -> int:
    return int(time.time())
