"""`/api/v1/tools/changes`: what changed in the catalog, live, as server-sent events or over WebSocket.

Above: `routes.py`. Below: the catalog. A key hears only of tools that it may see.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Literal

from msgspec import Struct
from starlette.types import Send

from jackfield.catalog.catalog import Catalog
from jackfield.model.principal import Principal
from jackfield.web.answers import Answer, encode
from jackfield.web.sse import Comment, EventStream, Message
from jackfield.web.streams import next_of, stop
from jackfield.web.visit import Visit

GOING_AWAY = 1001


class Connected(Struct, frozen=True, kw_only=True):
    """The first message: the catalog's version now."""

    type: Literal["connected"] = "connected"
    version: str


class Changed(Struct, frozen=True, kw_only=True):
    """Which tools came, went or have another definition; names only."""

    type: Literal["tools.changed"] = "tools.changed"
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    version: str


async def stream_changes(visit: Visit) -> Answer:
    """The changes as server-sent events."""

    async def messages() -> AsyncGenerator[Message | Comment]:
        async for body in _messages(visit.gateway.catalog, visit.principal):
            yield Message(event=body.type, id=body.version, data=body)

    return EventStream(messages(), streams=visit.reception.streams)


async def socket_changes(visit: Visit, send: Send) -> None:
    """The same messages over WebSocket, one text frame each."""
    if (await visit.receive())["type"] != "websocket.connect":
        return
    await send({"type": "websocket.accept", "headers": []})
    messages = _messages(visit.gateway.catalog, visit.principal)
    gone = visit.reception.streams.watch(visit.receive)
    coming = asyncio.ensure_future(next_of(messages))
    try:
        while True:
            await asyncio.wait((coming, gone), return_when=asyncio.FIRST_COMPLETED)
            message = None if gone.done() else coming.result()
            if message is None:
                break
            await send({"type": "websocket.send", "text": encode(message).decode()})
            coming = asyncio.ensure_future(next_of(messages))
        if gone.cancelled() or not gone.done():
            await send({"type": "websocket.close", "code": GOING_AWAY})
    finally:
        await stop(coming)
        await visit.reception.streams.release(gone)


async def _messages(catalog: Catalog, principal: Principal) -> AsyncGenerator[Connected | Changed]:
    changes = catalog.follow(principal)
    yield Connected(version=catalog.version)
    async for change in changes:
        yield Changed(added=change.added, removed=change.removed, changed=change.changed, version=change.version)
