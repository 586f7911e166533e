"""Responses as they are kept: one row each, the conversation by its links, and the stream of those in the background.

Above: the Responses door, which knows what the texts mean. Below: the named statements in `sql/responses.sql`. A
response is settled once; whoever comes second is told so.
"""

import re
from collections.abc import Sequence
from functools import partial

import msgspec
from msgspec import Struct

from jackfield.store import moves
from jackfield.store.access import Read, Write
from jackfield.store.moves import Script
from jackfield.store.rows import Row

SLACK_MS = 60_000
"""How much later, or earlier, than an item its response may have its id from."""
_LATEST = (1 << 48) - 1
_MADE_ID = re.compile(r"[a-z_]{1,16}_(?P<ms>[0-9a-f]{12})[0-9a-f]{16}")
EVENTS_AT_ONCE = 50
"""Rows of events that are read at a time."""


class KeptResponse(Struct, frozen=True, kw_only=True):
    """A response's row. `resource`, `input` and `output` are JSON; the resource's own output is left empty."""

    id: str
    principal: str
    status: str
    previous_id: str | None
    resource: str
    input: str
    output: str = "[]"
    owner: str
    is_background: bool = False
    stop_wanted: bool = False
    is_finished: bool = False
    is_orphan: bool = False
    """Not finished, and the gateway that was making it is dead."""


class Turn(Struct, frozen=True):
    """What one response of a conversation added to it, as JSON."""

    id: str
    previous_id: str | None
    input: str
    output: str


class EventChunk(Struct, frozen=True):
    """Events `first` to `last` of a stream, one JSON object a line."""

    first: int
    last: int
    events: str


def stop_topic(response_id: str) -> str:
    """What is published when somebody wants a response stopped."""
    return f"{response_id}:stop"


class Responses:
    """The responses part of a store. Each response's id is the topic of whatever is written about it."""

    def __init__(self, write: Write, read: Read) -> None:
        self._write = write
        self._read = read

    async def add(self, response: KeptResponse) -> None:
        """A response begins."""
        values = {
            "id": response.id,
            "principal": response.principal,
            "status": response.status,
            "previous_id": response.previous_id,
            "resource": response.resource,
            "input": response.input,
            "owner": response.owner,
            "is_background": int(response.is_background),
        }
        await self._write(partial(moves.run, "insert_response", **values))

    async def settle(
        self, response_id: str, *, status: str, resource: str, output: str, last_events: EventChunk | None = None
    ) -> bool:
        """How it ended, with the end of its stream. False: it had ended before, or is gone."""
        values = {"id": response_id, "status": status, "resource": resource, "output": output}
        return await self._write(partial(_settle, values, last_events), wakes=response_id)

    async def get(self, response_id: str) -> KeptResponse | None:
        row = await self._read(partial(moves.one, "get_response", id=response_id))
        return None if row is None else _kept(row)

    async def conversation(self, response_id: str) -> list[Turn]:
        """The response and all before it, the first first; the first has a link if what it continued is gone."""
        rows = await self._read(partial(moves.run, "response_chain", id=response_id))
        return [Turn(row["id"], row["previous_id"], row["input"], row["output"]) for row in rows]

    async def with_item(self, item_id: str, *, principal: str, within_ms: int) -> Turn | None:
        """The response of this key that has an item by an id which `new_id` made; it took `within_ms` at most."""
        made = _MADE_ID.fullmatch(item_id)
        if made is None:
            return None
        made_at = int(made["ms"], 16)
        # An approved call has the id of when it was asked for, and may have run any time later.
        until = _LATEST if item_id.startswith("mcp_") else made_at + SLACK_MS
        values = {
            "principal": principal,
            "item": f'%"id":"{item_id}"%',
            "first": f"resp_{max(0, made_at - within_ms - SLACK_MS):012x}",
            "last": f"resp_{until:012x}g",
        }
        row = await self._read(partial(moves.one, "response_with_item", **values))
        return None if row is None else Turn(row["id"], row["previous_id"], row["input"], row["output"])

    async def want_stopped(self, response_id: str) -> bool:
        """Ask whoever makes it to stop. False: it has ended."""
        script = partial(moves.one, "want_response_stopped", id=response_id)
        return await self._write(script, wakes=stop_topic(response_id)) is not None

    async def delete(self, response_id: str) -> bool:
        """Forget a response and its stream. What continued it can no longer be continued."""
        return await self._write(partial(_delete, response_id), wakes=response_id)

    async def append_events(self, response_id: str, chunk: EventChunk) -> None:
        """More of a background response's stream."""
        await self._write(partial(_append, response_id, chunk), wakes=response_id)

    async def events_after(self, response_id: str, after: int) -> list[EventChunk]:
        """The next of the stream's chunks that hold an event later than `after`."""
        values = {"id": response_id, "after": after, "limit": EVENTS_AT_ONCE}
        rows = await self._read(partial(moves.run, "response_events_after", **values))
        return [EventChunk(row["first"], row["last"], row["events"]) for row in rows]


def prune(*, before_id: str, limit: int) -> Script[int]:
    """Forget old responses and their streams; how many."""
    gone = yield "prune_responses", {"before_id": before_id, "limit": limit}
    if gone:
        yield "delete_response_events", {"ids": _json_list(gone)}
    return len(gone)


def _settle(values: dict[str, str], last_events: EventChunk | None) -> Script[bool]:
    rows = yield "settle_response", values
    if rows and last_events is not None:
        yield from _append(values["id"], last_events)
    return bool(rows)


def _append(response_id: str, chunk: EventChunk) -> Script[None]:
    values = {"id": response_id, "first": chunk.first, "last": chunk.last, "events": chunk.events}
    yield "append_response_events", values


def _delete(response_id: str) -> Script[bool]:
    rows = yield "delete_response", {"id": response_id}
    yield "delete_response_events", {"ids": _json_list([{"id": response_id}])}
    return bool(rows)


def _kept(row: Row) -> KeptResponse:
    return KeptResponse(
        id=row["id"],
        principal=row["principal"],
        status=row["status"],
        previous_id=row["previous_id"],
        resource=row["resource"],
        input=row["input"],
        output=row["output"],
        owner=row["owner"],
        is_background=bool(row["is_background"]),
        stop_wanted=bool(row["stop_wanted"]),
        is_finished=row["finished_at"] is not None,
        is_orphan=bool(row["is_orphan"]),
    )


def _json_list(rows: Sequence[Row]) -> str:
    return msgspec.json.encode([row["id"] for row in rows]).decode()
