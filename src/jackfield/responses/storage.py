"""Persists a response: its row at the start, the events of a background response as they come, its end.

Above: `run.py` and `service.py`. Below: `transactions.py`. Tokens never wait for the disk; the terminal event does.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

import msgspec
from msgspec import UNSET, Struct, UnsetType

from jackfield.errors import Unavailable
from jackfield.http.response import encode
from jackfield.model.items import Item, encode_items
from jackfield.model.response_request import CreateResponse
from jackfield.responses import transactions as response_tx
from jackfield.responses.resource import INTERRUPTED, ResponseResource, decode_resource
from jackfield.responses.transactions import EventChunk, StoredResponse
from jackfield.responses.wire import Frame
from jackfield.responses.writer import EventWriter, StreamPosition
from jackfield.runs.events import Ended
from jackfield.store import Store

log = logging.getLogger(__name__)

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

    def begin(self, resource: ResponseResource) -> None: ...

    async def on_disk(self) -> None: ...

    def put(self, frames: list[Frame]) -> None: ...

    async def end(self, resource: ResponseResource, last: list[Frame]) -> None: ...


class UnstoredWriter:
    """For `store: false`: nothing is stored."""

    def __init__(self, now: Callable[[], int]) -> None:
        self.now = now

    def begin(self, resource: ResponseResource) -> None: ...

    async def on_disk(self) -> None: ...

    def put(self, frames: list[Frame]) -> None: ...

    async def end(self, resource: ResponseResource, last: list[Frame]) -> None: ...


class RowWriter:
    """Persists a response, and every event of a background response."""

    def __init__(self, store: Store, request: CreateResponse, *, owner: Owner, now: Callable[[], int]) -> None:
        self.now = now
        self._store = store
        self._request = request
        self._owner = owner
        self._added: asyncio.Future[None] | None = None
        self._journal: _Journal | None = None

    def begin(self, resource: ResponseResource) -> None:
        row = StoredResponse(
            id=resource.id,
            principal=self._owner.principal,
            status=resource.status,
            previous_id=resource.previous_response_id,
            resource=_without_output(resource),
            input=items_as_json(self._request.input),
            owner=self._owner.gateway,
            is_background=self._request.background,
        )
        self._added = self._store.write(partial(response_tx.add_response, row))
        if self._request.background:
            self._journal = _Journal(self._store, resource.id, after=self._added)

    async def on_disk(self) -> None:
        """Wait until the response's row is persisted."""
        if self._added is not None:
            await asyncio.shield(self._added)

    def put(self, frames: list[Frame]) -> None:
        if self._journal is not None:
            self._journal.put(frames)

    async def end(self, resource: ResponseResource, last: list[Frame]) -> None:
        rest = None if self._journal is None else chunk_of([*await self._journal.close(), *last])
        for pause in (*TRY_AGAIN_AFTER, None):
            try:
                if not await settle(self._store, resource, last_events=rest):
                    log.warning("response %s was deleted, or ended by another gateway, before its end", resource.id)
            except Unavailable as fault:
                if pause is None:
                    raise
                log.warning("the end of response %s is written later: %s", resource.id, fault)
                await asyncio.sleep(pause)
            else:
                return


class _Journal:
    """Writes a stream's events, many at once."""

    def __init__(self, store: Store, response_id: str, *, after: "asyncio.Future[None]") -> None:
        self._store = store
        self._response_id = response_id
        self._waiting: list[Frame] = []
        self._filled = asyncio.Event()
        self._after = after
        self._closing = asyncio.Event()
        self._writing = asyncio.ensure_future(self._write())

    def put(self, frames: list[Frame]) -> None:
        self._waiting += frames
        self._filled.set()

    async def close(self) -> list[Frame]:
        """Stop writing and return what is left."""
        self._closing.set()
        self._filled.set()
        await self._writing
        return self._waiting

    async def _write(self) -> None:
        await asyncio.wait((self._after,))
        while not self._closing.is_set():
            self._filled.clear()
            frames, self._waiting = self._waiting, []
            try:
                await self._append(frames)
            except Unavailable as fault:
                log.warning("the stream of response %s is written later: %s", self._response_id, fault)
                self._waiting = frames + self._waiting
            with suppress(TimeoutError):
                async with asyncio.timeout(EVENTS_EVERY):
                    await self._closing.wait()
            await self._filled.wait()

    async def _append(self, frames: list[Frame]) -> None:
        chunk = chunk_of(frames)
        if chunk is not None:
            await self._store.write(partial(response_tx.append_events, self._response_id, chunk))


async def settle(store: Store, resource: ResponseResource, *, last_events: EventChunk | None) -> bool:
    """Persist the final response; False if it was settled before."""
    script = partial(
        response_tx.settle_response,
        resource.id,
        status=resource.status,
        resource=_without_output(resource),
        output=items_as_json(resource.output),
        last_events=last_events,
    )
    return await store.write(script)


def chunk_of(frames: Sequence[Frame]) -> EventChunk | None:
    if not frames:
        return None
    lines = b"\n".join(frame.data for frame in frames).decode()
    return EventChunk(frames[0].sequence_number, frames[-1].sequence_number, lines)


def items_as_json(items: Sequence[Item]) -> str:
    return encode_items(items).decode()


def _without_output(resource: ResponseResource) -> str:
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
            for number, line in enumerate(chunk.events.split("\n"), start=chunk.first):
                if number > after:
                    yield Frame(_decode_type(line).type, number, line.encode())
            after = chunk.last


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
