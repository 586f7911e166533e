"""Persists a response: its row at the start, the events of a background response as they come, its end.

Above: `run.py` and `service.py`. Below: `transactions.py`. Tokens never wait for the disk; the terminal event does.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from jackfield.errors import Unavailable
from jackfield.http.response import encode
from jackfield.model.items import Item, Usage, encode_items
from jackfield.model.response_request import CreateResponse
from jackfield.responses import transactions as response_tx
from jackfield.responses.resource import INTERRUPTED, ResponseResource, decode_resource
from jackfield.responses.transactions import Ending, EventChunk, StoredResponse
from jackfield.responses.wire import Frame
from jackfield.responses.writer import EventWriter, StreamPosition
from jackfield.runs.events import Ended
from jackfield.runs.transactions import Fenced, Tokens
from jackfield.store import Store

log = logging.getLogger(__name__)
T = TypeVar("T")

EVENTS_EVERY = 0.05
"""Seconds between two writes of a stream: the most that readers elsewhere lag behind."""


TRY_AGAIN_AFTER = (0.1, 0.5, 2.0)
"""Seconds between attempts to write the end of a response."""
ITEM_DONE = "response.output_item.done"


class Owner(Struct, frozen=True, kw_only=True):
    """Whose response it is, and which gateway makes it."""

    principal: str
    gateway: str


class ResponseWriter(Protocol):
    """Where a response is persisted. `now` is in whole seconds."""

    now: Callable[[], int]

    def begin(self, resource: ResponseResource) -> "asyncio.Future[Any] | None":
        """Done once the response is on record; None: it never will be."""

    async def on_disk(self) -> None: ...

    def put(self, frames: list[Frame]) -> None: ...

    async def end(self, resource: ResponseResource, last: list[Frame]) -> None: ...


class UnstoredWriter:
    """For `store: false`: nothing is stored."""

    def __init__(self, now: Callable[[], int]) -> None:
        self.now = now

    def begin(self, resource: ResponseResource) -> "asyncio.Future[Any] | None": ...

    async def on_disk(self) -> None: ...

    def put(self, frames: list[Frame]) -> None: ...

    async def end(self, resource: ResponseResource, last: list[Frame]) -> None: ...


class ResponseRow:
    """The row of a response."""

    def __init__(self, request: CreateResponse, *, owner: Owner, now: Callable[[], int]) -> None:
        self.now = now
        self.request = request
        self.owner = owner

    def stored(self, resource: ResponseResource) -> StoredResponse:
        return StoredResponse(
            id=resource.id,
            principal=self.owner.principal,
            status=resource.status,
            previous_id=resource.previous_response_id,
            resource=resource_as_json(resource),
            input=items_as_json(self.request.input),
            owner=self.owner.gateway,
            is_background=self.request.background,
        )


class RowWriter:
    """Persists a response, and every event of a background response."""

    def __init__(self, store: Store, row: ResponseRow) -> None:
        self.now = row.now
        self._store = store
        self._row = row
        self._added: asyncio.Future[None] | None = None
        self._log: FrameLog | None = None

    def begin(self, resource: ResponseResource) -> "asyncio.Future[Any]":
        added = self._added = self._store.write(partial(response_tx.add_response, self._row.stored(resource)))
        if self._row.request.background:

            async def append(frames: list[Frame]) -> None:
                await asyncio.wait((added,))
                chunk = chunk_of(frames)
                if chunk is not None:
                    await self._store.write(partial(response_tx.append_events, resource.id, chunk))

            self._log = FrameLog(resource.id, append)
        return added

    async def on_disk(self) -> None:
        """Wait until the response's row is persisted."""
        if self._added is not None:
            await asyncio.shield(self._added)

    def put(self, frames: list[Frame]) -> None:
        if self._log is not None:
            self._log.put(frames)

    async def end(self, resource: ResponseResource, last: list[Frame]) -> None:
        rest = None if self._log is None else chunk_of([*await self._log.close(), *last])
        if not await retried(resource.id, partial(settle, self._store, resource, last_events=rest)):
            log.warning("response %s was deleted, or ended by another gateway, before its end", resource.id)


async def retried(response_id: str, write: Callable[[], Awaitable[bool]]) -> bool:
    """Write the end of a response, though the store may be away for a moment."""
    for pause in TRY_AGAIN_AFTER:
        try:
            return await write()
        except Unavailable as fault:
            log.warning("the end of response %s is written later: %s", response_id, fault)
            await asyncio.sleep(pause)
    return await write()


class FrameLog:
    """Writes a stream's events, many at once: as soon as so many wait."""

    def __init__(self, name: str, append: Callable[[list[Frame]], Awaitable[None]], *, at_least: int = 1) -> None:
        self.name = name
        self._append = append
        self._at_least = at_least
        self._waiting: list[Frame] = []
        self._filled = asyncio.Event()
        self._lock = asyncio.Lock()
        self._closing = asyncio.Event()
        self._writing: asyncio.Future[None] | None = None

    def put(self, frames: list[Frame]) -> None:
        self._waiting += frames
        if len(self._waiting) < self._at_least:
            return
        self._filled.set()
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write())

    async def close(self) -> list[Frame]:
        """Stop writing and return what is left."""
        self._closing.set()
        self._filled.set()
        if self._writing is not None:
            await asyncio.wait((self._writing,))
        rest, self._waiting = self._waiting, []
        return rest

    async def with_rest(self, write: Callable[[list[Frame]], Awaitable[T]]) -> T:
        """Give what is not written yet to `write`, which writes it with something else, or raises."""
        async with self._lock:
            frames, self._waiting = self._waiting, []
            try:
                return await write(frames)
            except BaseException:
                self._waiting = frames + self._waiting
                raise

    async def _write(self) -> None:
        while not self._closing.is_set():
            self._filled.clear()
            try:
                await self.with_rest(self._append)
            except Unavailable as fault:
                log.warning("the stream of response %s is written later: %s", self.name, fault)
            except Fenced:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(EVENTS_EVERY):
                    await self._closing.wait()
            await self._filled.wait()


async def settle(store: Store, resource: ResponseResource, *, last_events: EventChunk | None) -> bool:
    """Persist the final response; False if it was settled before."""
    script = partial(response_tx.settle_response, resource.id, **ended_values(resource), last_events=last_events)
    return await store.write(script)


def ended_values(resource: ResponseResource) -> dict[str, str]:
    return {
        "status": resource.status,
        "resource": resource_as_json(resource),
        "output": items_as_json(resource.output),
    }


def ending_of(resource: ResponseResource, *parts: Sequence[Frame], forgets_events: bool = False) -> Ending:
    """What is written when a response has ended, with what is not written yet of its stream."""
    chunks = tuple(chunk for part in parts if (chunk := chunk_of(part)) is not None)
    tokens = None if resource.usage is None else tokens_of(resource.usage)
    return Ending(**ended_values(resource), chunks=chunks, forgets_events=forgets_events, tokens=tokens)


def tokens_of(usage: Usage | None) -> Tokens:
    return Tokens() if usage is None else Tokens(input=usage.input_tokens, output=usage.output_tokens)


def chunk_of(frames: Sequence[Frame]) -> EventChunk | None:
    if not frames:
        return None
    lines = b"\n".join(frame.data for frame in frames).decode()
    return EventChunk(frames[0].sequence_number, frames[-1].sequence_number, lines)


def items_as_json(items: Sequence[Item]) -> str:
    return encode_items(items).decode()


def resource_as_json(resource: ResponseResource) -> str:
    """As a response's row holds it: the output has a column of its own."""
    return encode(msgspec.structs.replace(resource, output=())).decode()


class _Typed(Struct, frozen=True):
    type: str


class _Done(Struct, frozen=True):
    output_index: int | UnsetType = UNSET
    item: Item | UnsetType = UNSET


_decode_type = msgspec.json.Decoder(_Typed).decode
_decode_done = msgspec.json.Decoder(_Done).decode


async def events_after(store: Store, response_id: str, after: int) -> AsyncGenerator[Frame]:
    """The events that are written by now, from the one behind `after` on."""
    while chunks := await store.read(partial(response_tx.events_after, response_id, after)):
        for chunk in chunks:
            for frame in frames_in(chunk):
                if frame.sequence_number > after:
                    yield frame
            after = chunk.last


def frames_in(chunk: EventChunk) -> Iterator[Frame]:
    for number, line in enumerate(chunk.events.split("\n"), start=chunk.first):
        yield Frame(_decode_type(line).type, number, line.encode())


async def end_orphan(store: Store, stored: StoredResponse, *, now: Callable[[], int]) -> None:
    """Fail a response whose gateway died, as `interrupted`. Of several attempts one wins."""
    done: dict[int, Item] = {}
    following = 0
    async for event in events_after(store, stored.id, -1):
        following = event.sequence_number + 1
        if event.type == ITEM_DONE:
            event_done = _decode_done(event.data)
            if event_done.output_index is not UNSET and event_done.item is not UNSET:
                done[event_done.output_index] = event_done.item
    writer = EventWriter(decode_resource(stored.resource), now=now, position=StreamPosition(done=done, next=following))
    frames = writer.take(Ended(status="failed", error=INTERRUPTED))
    await settle(store, writer.resource, last_events=chunk_of(frames) if stored.is_background else None)
