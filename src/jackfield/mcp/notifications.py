"""`notifications/tools/list_changed`, on a session's GET stream or on `subscriptions/listen` (2026-07-28).

Above: `api.py`. Below: the catalog's followers. A client learns that the list changed and fetches it again.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from msgspec import Raw

from jackfield.catalog.catalog import Catalog, Follower
from jackfield.http.sse import CONNECTED, Comment, EventMessage
from jackfield.http.streams import stop
from jackfield.mcp.results import stamped
from jackfield.mcp.sessions import McpSession, Push
from jackfield.model.principal import Principal
from jackfield.protocol.jsonrpc import INVALID_PARAMS, RpcError, RpcRequest, notification, response
from jackfield.protocol.mcp import MODERN, SUBSCRIPTION_KEY

LIST_CHANGED = "notifications/tools/list_changed"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


async def session_messages(
    catalog: Catalog, principal: Principal, session: McpSession
) -> AsyncGenerator[EventMessage | Comment]:
    """The messages of a session outside requests. After the first comment no change is missed."""
    follower = catalog.follow(principal)
    session.follow(follower)
    try:
        yield CONNECTED
        async with session.push.stream() as outbox:
            changes = asyncio.create_task(_push_changes(follower, outbox))
            try:
                while (said := await _next(outbox, changes)) is not None:
                    yield EventMessage(event="message", data=Raw(said.message), on_sent=said.on_sent)
            finally:
                await stop(changes)
    finally:
        session.unfollow(follower)


async def _push_changes(follower: Follower, outbox: "asyncio.Queue[Push]") -> None:
    async for change in follower:
        if change.names_tools:
            await outbox.put(Push(notification(LIST_CHANGED)))


async def _next(outbox: "asyncio.Queue[Push]", changes: "asyncio.Task[None]") -> Push | None:
    """The next message; None at the end of the stream."""
    if not outbox.empty():
        return outbox.get_nowait()
    coming = asyncio.ensure_future(outbox.get())
    try:
        await asyncio.wait((coming, changes), return_when=asyncio.FIRST_COMPLETED)
        return coming.result() if coming.done() else None
    finally:
        coming.cancel()


def wants_tool_changes(request: RpcRequest) -> bool:
    """Whether a subscription asks for the one thing that can be subscribed to here."""
    wanted = request.params.get("notifications")
    if not isinstance(wanted, dict):
        raise RpcError(
            INVALID_PARAMS, "'params.notifications' must be an object, such as {\"toolsListChanged\": true}."
        )
    return wanted.get("toolsListChanged") is True


async def subscription_messages(
    catalog: Catalog, principal: Principal, request: RpcRequest
) -> AsyncGenerator[EventMessage | Comment]:
    """First what is agreed to, then each change; at the end, if the gateway ends it, the empty result."""
    meta: dict[str, Any] = {SUBSCRIPTION_KEY: request.id}
    is_wanted = wants_tool_changes(request)
    follower = catalog.follow(principal)
    honoured = {"toolsListChanged": True} if is_wanted else {}
    changed = _message(notification(LIST_CHANGED, {"_meta": meta}))
    try:
        yield _message(notification(ACKNOWLEDGED, {"notifications": honoured, "_meta": meta}))
        async for change in follower:
            if is_wanted and change.names_tools:
                yield changed
        yield _message(response(request.id, stamped(b"", revision=MODERN, meta=meta)))
    finally:
        follower.close()


def _message(json: bytes) -> EventMessage:
    return EventMessage(event="message", data=Raw(json))
