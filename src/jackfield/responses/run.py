"""One running response: the engine's task, its event stream to clients, and its storage.

Above: `service.py` and `api.py`. Below: the engine, the writer, the store and ASGI. The terminal event is sent after
the response is persisted, so a client that has read it can continue from it at once. Each event is one write; nothing
is looked up between events. A client that disconnects stops a response that runs for it alone.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NoReturn, Protocol, TypeVar

import msgspec
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from jackfield.errors import JackfieldError, Unavailable
from jackfield.http.response import part
from jackfield.http.sse import EVENT_HEADERS, PING, PING_EVERY
from jackfield.http.streams import Streams
from jackfield.model.items import ClientCall, Item
from jackfield.model.principal import Principal
from jackfield.model.response_request import CreateResponse
from jackfield.responses.input import opened
from jackfield.responses.journal import JournalWriter, Resumption, told_items
from jackfield.responses.position import position_after
from jackfield.responses.resource import INTERRUPTED, ResponseResource
from jackfield.responses.storage import ResponseWriter
from jackfield.responses.wire import DONE, Frame
from jackfield.responses.writer import EventWriter, StreamPosition
from jackfield.runs.events import Emit, Ended, LoopEvent, Parked, RunError, RunStarted
from jackfield.runs.loop import Diverged, Past
from jackfield.runs.state import LoopJournal
from jackfield.runs.tool_executor import goes_on_later
from jackfield.runs.transactions import Fenced
from jackfield.store.scripts import Script

log = logging.getLogger(__name__)

T = TypeVar("T")
NOT_KEPT = RunError("store_unavailable", "The response could not be kept, so it cannot be continued. Ask again later.")
CRASHED = RunError("internal_error", "Something went wrong inside the gateway while it was making this response.")
ENDS_WITHIN = 2.0
"""Seconds that a stopping server gives a response to say how it ended."""


class ResumedRun(Struct, frozen=True, kw_only=True):
    """A response that goes on: what is on record of it."""

    past: Past
    output: tuple[Item, ...]
    """The items that were done."""
    next_index: int
    """The next free place, for one without a step on record."""


class Responder(Protocol):
    """Runs requests (`engine.py`)."""

    async def respond(
        self,
        request: CreateResponse,
        *,
        response_id: str,
        principal: Principal,
        history: tuple[Item, ...],
        emit: Emit,
        journal: LoopJournal | None = None,
        resumed: ResumedRun | None = None,
    ) -> None:
        """Raise to refuse, before `RunStarted`; otherwise emit every event, `Ended` or `Parked` last."""

    async def check(self, request: CreateResponse, *, principal: Principal, history: tuple[Item, ...]) -> None:
        """Refuse as `respond` does."""

    async def measure(self, request: CreateResponse, *, principal: Principal, history: tuple[Item, ...]) -> int:
        """About how many tokens the model would read. Refuses as `respond` does."""

    async def with_resources(
        self, request: CreateResponse, *, response_id: str, principal: Principal
    ) -> CreateResponse:
        """The request with what the resources hold that its input names. Refuses as `respond` does."""


class ResponseListener(Protocol):
    """Receives the frames of a running response."""

    def put(self, frames: list[Frame]) -> None: ...

    def close(self) -> None: ...


class RunningResponse:
    """A running response. `begun` is done once the engine accepted the request."""

    def __init__(
        self,
        request: CreateResponse,
        resource: ResponseResource,
        *,
        principal: Principal,
        history: tuple[Item, ...],
        storage: ResponseWriter,
        resumption: Resumption | None = None,
    ) -> None:
        self._resumption = resumption
        self._journal = storage if isinstance(storage, JournalWriter) else None
        if self._journal is not None:
            self._journal.lost = self._lose
        self.request = request
        self.principal = principal
        self.history = history
        self._asked = msgspec.structs.replace(request, input=opened(request.input))
        self._history_for_model = opened(history)
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.over = asyncio.Event()
        self._queued = resource
        names = request.event_names or "openai"
        self._make_writer = partial(EventWriter, now=storage.now, names=names, include=request.include)
        self._writer = self._make_writer(resource, position=None if resumption is None else resumption.position)
        self._retold = deque(() if resumption is None else resumption.told)
        """Events of a step that is asked for again: as long as it is the same, they are not told again."""
        self._storage = storage
        self._listeners: list[ResponseListener] = []
        self._held_back: list[Frame] | None = None
        """What listeners are told as soon as the response is on record: its id can be used from then on."""
        self._ended: Ended | Parked | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._is_ending = False
        self._is_unkept = False

    @property
    def id(self) -> str:
        return self._writer.resource.id

    @property
    def task(self) -> "asyncio.Task[None]":
        assert self._task is not None
        return self._task

    @property
    def has_ended(self) -> bool:
        """Whether it has come to its end, and that is persisted; else it may go on elsewhere."""
        return self.over.is_set() and self._writer.is_over

    @property
    def unwritten(self) -> Callable[[], Script[Any]] | None:
        """What is to be written when the store, which was away, is back."""
        return self._journal.unwritten if self._is_unkept and self._journal is not None else None

    @property
    def resource(self) -> ResponseResource:
        """The response with its output so far."""
        return self._writer.snapshot

    def listen(self, listener: ResponseListener) -> None:
        """Add a listener; it gets the events from now on."""
        self._listeners.append(listener)

    @property
    def conversation(self) -> tuple[Item, ...]:
        """The conversation up to now, for a continuation."""
        return (*self.history, *self.request.input, *(item for item in self.resource.output if is_whole(item)))

    def start(self, engine: Responder, keep: Callable[..., "asyncio.Task[Any]"]) -> None:
        """Start the task; `keep` owns it."""
        self._task = keep(self._make(engine), name=f"Response {self.id}")

    async def queued(self) -> ResponseResource:
        """The queued response, once it is persisted."""
        await self._storage.on_disk()
        return self._queued

    def cancel(self) -> None:
        """Stop the model and its tools. The output so far is kept."""
        self._is_stopped = True
        if self._journal is not None:
            self._journal.is_stopped = True
        if not self._is_ending:
            self.task.cancel()

    def interrupt(self) -> None:
        """The gateway stops."""
        if not self._is_ending:
            self.task.cancel()

    async def _make(self, engine: Responder) -> None:
        try:
            ended = await self._engine_ends(engine)
            self._is_ending = True
            if isinstance(ended, Parked):
                await to_its_end(self._park())
            elif ended is not None:
                await to_its_end(self._finish(ended))
            elif self._journal is not None:
                await to_its_end(self._journal.leave())
        except Fenced:
            log.info("response %s is another gateway's now, nothing more is written for it here", self.id)
        except Unavailable as fault:
            if not self.begun.done():
                raise
            self._leave(fault)
        finally:
            self.over.set()
            self._release()
            for listener in self._listeners:
                listener.close()

    def _leave(self, fault: Exception) -> None:
        log.warning("response %s goes on when the store is back: %s", self.id, fault)
        self._is_unkept = True

    async def _park(self) -> None:
        assert self._journal is not None
        if not await self._journal.park():
            await self._finish(Ended(status="cancelled"))

    async def _engine_ends(self, engine: Responder) -> Ended | Parked | None:
        """How the run ended; None: it goes on at another gateway. A refusal before `RunStarted` is raised."""
        try:
            await engine.respond(
                self._asked,
                response_id=self.id,
                principal=self.principal,
                history=self._history_for_model,
                emit=self._take,
                journal=self._journal,
                resumed=self._resumed(),
            )
        except asyncio.CancelledError:
            if not self.begun.done():
                raise
            if self._is_stopped and not isinstance(self._ended, Ended):
                return Ended(status="cancelled")
            if self._ended is None and self._journal is not None and self._journal.in_background:
                return None
            return self._ended or Ended(status="failed", error=INTERRUPTED)
        except Fenced:
            return None
        except Exception as fault:
            if not self.begun.done():
                raise
            return self._broken_off(fault)
        if not self.begun.done():
            raise RuntimeError(f"The engine said nothing about response {self.id}.")
        return self._ended or Ended(status="failed", error=CRASHED)

    def _broken_off(self, fault: Exception) -> Ended | None:
        if self._journal is not None and self._journal.in_background and goes_on_later(fault):
            self._leave(fault)
            return None
        log.error("response %s failed", self.id, exc_info=fault)
        error = RunError(fault.code, fault.message) if isinstance(fault, JackfieldError) else CRASHED
        return Ended(status="failed", error=error)

    def _take(self, event: LoopEvent) -> None:
        """What the engine calls with each event."""
        if isinstance(event, Ended | Parked):
            self._ended = event  # sent once it is persisted
            return
        if self._resumption is not None and self._was_told(event, self._resumption.position):
            return
        frames = self._writer.take(event)
        if isinstance(event, RunStarted) and not self.begun.done():
            self._held_back = []
            written = self._storage.begin(self._writer.resource)
            self.begun.set_result(None)
            if written is None:
                self._release()
            else:
                written.add_done_callback(self._release)
        self._tell(self._unsaid(frames) if self._retold else frames)

    def _was_told(self, event: LoopEvent, position: StreamPosition) -> bool:
        if isinstance(event, RunStarted):
            return position.next > 0 and self._writer.resource.status != "queued"
        return not isinstance(event, Ended | Parked) and event.index in position.done

    def _tell(self, frames: list[Frame]) -> None:
        self._storage.put(frames)
        if self._held_back is not None:
            self._held_back += frames
            return
        for listener in self._listeners:
            listener.put(frames)

    def _release(self, _: object = None) -> None:
        frames, self._held_back = self._held_back, None
        for listener in self._listeners if frames else ():
            listener.put(frames or [])

    def _lose(self) -> None:
        """Another gateway has it: stop without a word."""
        if not self._is_ending:
            self.task.cancel()

    def _resumed(self) -> ResumedRun | None:
        """What the engine has to know to go on; what was begun before the first step is cut off."""
        resumption = self._resumption
        if resumption is None:
            return None
        self.begun.set_result(None)
        position = resumption.position
        if not resumption.states:
            self._tell(self._writer.cut_off())
        output = tuple(item for _, item in sorted(position.done.items()))
        past = Past(resumption.states, told_items(resumption), self._check_retold, position.places)
        return ResumedRun(past=past, output=output, next_index=position.next_index)

    def _unsaid(self, frames: list[Frame]) -> list[Frame]:
        """Of what is told now, what was not told before. Raises `Diverged` where it is something else."""
        for place, frame in enumerate(frames):
            if not self._retold:
                return frames[place:]
            if self._retold.popleft().data != frame.data:
                self._diverge()
        return []

    def _check_retold(self) -> None:
        if self._retold:
            self._diverge()

    def _diverge(self) -> NoReturn:
        """Cut off what was told of a step that is now another one."""
        assert self._resumption is not None
        self._retold.clear()
        position = position_after(self._resumption.frames)
        self._writer = self._make_writer(self._writer.resource, position=position)
        self._tell(self._writer.cut_off())
        raise Diverged(position.next_index)

    async def _finish(self, ended: Ended) -> None:
        try:
            await self._storage.on_disk()
        except Exception:
            log.exception("response %s could not be kept", self.id)
            ended = Ended(status="failed", error=NOT_KEPT, usage=ended.usage)
        last = self._writer.take(ended)
        try:
            await self._storage.end(self._writer.resource, last)
        except Fenced:
            raise
        except Exception:
            log.exception("the end of response %s could not be kept", self.id)
            self._is_unkept = True
        self.over.set()
        self._release()
        for listener in self._listeners:
            listener.put(last)


def is_whole(item: Item) -> bool:
    """False for a client call cut off in its arguments: the client never got it."""
    return not isinstance(item, ClientCall) or item.status == "completed"


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end even if the waiting task is cancelled."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            log.debug("Told to stop while something was being finished; it is finished first.")
    return task.result()


class FrameQueue:
    """Frames for one client, not sent yet."""

    __slots__ = ("_frames", "_waiter", "is_closed")

    def __init__(self) -> None:
        self._frames: deque[Frame] = deque()
        self._waiter: asyncio.Future[bool] | None = None
        self.is_closed = False

    def put(self, frames: list[Frame]) -> None:
        self._frames.extend(frames)
        self.wake()

    def close(self) -> None:
        self.is_closed = True
        self.wake()

    def wake(self, *_: object) -> None:
        self._settle(True)  # noqa: FBT003 - what a future is set to

    def take(self) -> Frame | None:
        return self._frames.popleft() if self._frames else None

    async def wait(self, seconds: float) -> bool:
        """Wait for a frame or a wake-up; False on timeout."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiter = waiter
        timer = loop.call_later(seconds, self._settle, False)  # noqa: FBT003 - what a future is set to
        try:
            return await waiter
        finally:
            timer.cancel()

    def _settle(self, was_woken: bool) -> None:  # noqa: FBT001 - what a future is set to
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(was_woken)


class ResponseStream:
    """Streams a running response, which runs for this client alone."""

    def __init__(
        self,
        run: RunningResponse,
        reader: FrameQueue,
        *,
        gone: "asyncio.Task[None]",
        streams: Streams,
    ) -> None:
        self._run = run
        self._reader = reader
        self._gone = gone
        self._streams = streams

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        self._gone.add_done_callback(self._reader.wake)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": list(EVENT_HEADERS)})
            if await self._send_all(send):
                await send(part(DONE))
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._run.cancel()
            await self._streams.release(self._gone)

    async def _send_all(self, send: Send) -> bool:
        """True when the last event was sent, False when the client disconnected."""
        reader, gone = self._reader, self._gone
        while not gone.done() or gone.cancelled():
            if (frame := reader.take()) is not None:
                await send(part(frame.as_sse))
            elif reader.is_closed:
                return True
            elif gone.done():
                if not await self._ended_with_the_server():
                    return False
            elif not await reader.wait(PING_EVERY):
                await send(part(PING))
        return False

    async def _ended_with_the_server(self) -> bool:
        """On shutdown the end is still sent."""
        self._run.interrupt()
        await asyncio.wait((self._run.task,), timeout=ENDS_WITHIN)
        return self._reader.is_closed
