"""Streams read back from the store, and the end of a response whose gateway died while it was making it.

Above: the desk. Below: `transactions.py`. What a background response had said by then stays; its stream goes on
where it stopped, with the failure.
"""

from collections.abc import AsyncGenerator, Callable
from functools import partial

import msgspec
from msgspec import UNSET, Struct, UnsetType

from jackfield.model.items import Item
from jackfield.responses import transactions as response_tx
from jackfield.responses.resource import decode_resource
from jackfield.responses.run import INTERRUPTED
from jackfield.responses.storage import chunk_of, settle
from jackfield.responses.transactions import KeptResponse
from jackfield.responses.wire import Frame
from jackfield.responses.writer import EventWriter, Told
from jackfield.runs.events import Ended
from jackfield.store import Store

ITEM_DONE = "response.output_item.done"


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


async def end_orphan(store: Store, kept: KeptResponse, *, now: Callable[[], int]) -> None:
    """Fail a response that nobody makes any more, as `interrupted`. Of several who try, one does."""
    done: dict[int, Item] = {}
    following = 0
    async for event in events_after(store, kept.id, -1):
        following = event.sequence_number + 1
        if event.type == ITEM_DONE:
            told = _decode_done(event.data)
            if told.output_index is not UNSET and told.item is not UNSET:
                done[told.output_index] = told.item
    writer = EventWriter(decode_resource(kept.resource), now=now, told=Told(done=done, next=following))
    frames = writer.take(Ended(status="failed", error=INTERRUPTED))
    await settle(store, writer.resource, last_events=chunk_of(frames) if kept.is_background else None)
