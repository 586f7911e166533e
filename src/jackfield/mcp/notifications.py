"""Notifications outside requests: changed lists and updated resources.

They go on a session's GET stream, or since 2026-07-28 on `subscriptions/listen`.
Above: `api.py`. Below: the catalog's followers, and the sources for resources. A client learns that something changed
and fetches it again; what it has not taken yet is told once.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from msgspec import Raw, Struct

from jackfield.catalog.catalog import Catalog, ListFollower
from jackfield.errors import Refused
from jackfield.http.sse import CONNECTED, Comment, EventMessage
from jackfield.http.streams import stop
from jackfield.mcp.core_tasks import TASK_CHANGE, CoreTasks
from jackfield.mcp.results import stamped
from jackfield.mcp.sessions import Caller, McpSession, Push
from jackfield.mcp.tasks import Tasks
from jackfield.model.principal import Principal
from jackfield.protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, RpcError, RpcRequest, notification, response
from jackfield.protocol.mcp import LATEST_HANDSHAKE, MODERN, SUBSCRIPTION_KEY
from jackfield.sources.source_registry import SourceRegistry

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
MOST_FOLLOWED = 1_000
"""Resources that one client follows at a time."""
MOST_OF_A_KEY = 5_000
"""Resources that all clients of one key follow at a time."""
MOST_PARTS = 100
"""Parts of one followed resource that a client is told of by their own URIs."""
_LISTS = {"toolsListChanged": "tools", "promptsListChanged": "prompts", "resourcesListChanged": "resources"}
_UPDATED = "updated:"


class Wanted(Struct, frozen=True):
    """What a subscription of 2026-07-28 asks for."""

    lists: tuple[str, ...]
    uris: tuple[str, ...]
    task_ids: Any = None
    """As the client sent them; None: it asks for no tasks."""


class FollowedTasks(Struct, frozen=True):
    """The tasks of a subscription."""

    tasks: Tasks
    ids: tuple[str, ...] | None
    """None: it asks for none."""

    def watched(self, changed: Callable[[str], None]) -> AbstractContextManager[None]:
        return self.tasks.watch(self.ids, changed) if self.ids else nullcontext()


class ResourceFollowers:
    """Follows resources for clients."""

    def __init__(self, catalog: Catalog, sources: SourceRegistry) -> None:
        self._catalog = catalog
        self._sources = sources
        self._of_key: Counter[str] = Counter()

    async def follow(self, uri: str, principal: Principal, tell: Callable[[str], None]) -> Callable[[], None]:
        """Have `tell` called with the URI as the client knows it; returns how to end that.

        Raises `Refused` or `RpcError`. A client is told only for as long as it may read the resource.
        """
        tool = self._catalog.resources(principal).find(uri).tool
        if self._of_key[principal.name] >= MOST_OF_A_KEY:
            raise RpcError(INVALID_REQUEST, f"A key follows {MOST_OF_A_KEY:,} resources at most. End some first.")
        parts: set[str] = set()

        def updated(own_uri: str) -> None:
            if not self._may_read(uri, principal):
                return
            if uri != tool.name or own_uri == uri or not self._is_told_of(own_uri, tool.source, principal, parts):
                tell(uri)
            else:
                tell(own_uri)

        self._of_key[principal.name] += 1
        try:
            end = await self._sources.subscribe(tool.source, tool.name, updated, principal=principal.on_record)
        except BaseException:
            self._ended(principal)
            raise

        def ended() -> None:
            end()
            self._ended(principal)

        return ended

    def _ended(self, principal: Principal) -> None:
        self._of_key[principal.name] -= 1
        if not self._of_key[principal.name]:
            del self._of_key[principal.name]

    def _is_told_of(self, part: str, source: str, principal: Principal, parts: set[str]) -> bool:
        """Whether a part is the key's to know, and one of not too many."""
        if part not in parts:
            if len(parts) >= MOST_PARTS or not self._catalog.resources(principal).sees(source, part):
                return False
            parts.add(part)
        return True

    def _may_read(self, uri: str, principal: Principal) -> bool:
        try:
            self._catalog.resources(principal).find(uri)
        except Refused:
            return False
        return True

    async def subscribe(self, session: McpSession, uri: str, principal: Principal) -> None:
        """`resources/subscribe`; a second one of the same session changes nothing."""
        if uri in session.followed:
            return
        if len(session.followed) >= MOST_FOLLOWED:
            raise RpcError(INVALID_REQUEST, f"A session follows {MOST_FOLLOWED:,} resources at most. End some first.")
        end = await self.follow(uri, principal, lambda told: session.change(f"{_UPDATED}{told}"))
        if session.is_over or uri in session.followed:
            end()
        else:
            session.followed[uri] = end

    def unsubscribe(self, session: McpSession, uri: str) -> None:
        """`resources/unsubscribe`; one that was not followed changes nothing."""
        end = session.followed.pop(uri, None)
        if end is not None:
            end()


async def session_messages(
    catalog: Catalog, principal: Principal, session: McpSession, tasks: CoreTasks, *, after: int | None = None
) -> AsyncGenerator[EventMessage | Comment | bytes]:
    """The messages of a session outside requests. After the first comment no change is missed.

    `after`: the client comes back, and has the events up to this number.
    """
    stream = session.events.standalone
    follower = catalog.follow_lists(principal)
    session.follow(follower)
    try:
        yield CONNECTED
        for missed in () if after is None else stream.after(after):
            yield missed
        if session.revision == LATEST_HANDSHAKE:
            yield stream.prime()
        async with session.push.stream() as outbox:
            changes = asyncio.create_task(_push_changes(follower, outbox, session, tasks))
            try:
                while (said := await _next(outbox, changes)) is not None:
                    if said.on_sent is None:
                        yield stream.frame(said.message)
                    else:
                        data = Raw(said.message)
                        yield EventMessage(event="message", id=stream.next_id(), data=data, on_sent=said.on_sent)
            finally:
                await stop(changes)
                while not outbox.empty():  # for a client that comes back
                    if (unsent := outbox.get_nowait()).on_sent is None:
                        stream.frame(unsent.message)
    finally:
        session.unfollow(follower)


async def _push_changes(
    follower: ListFollower, outbox: "asyncio.Queue[Push]", session: McpSession, tasks: CoreTasks
) -> None:
    async for change in follower:
        is_task = change.startswith(TASK_CHANGE)
        message = await tasks.status(change[len(TASK_CHANGE) :], session) if is_task else _change(change)
        if message is not None:
            await outbox.put(Push(message))


def _change(change: str, meta: dict[str, Any] | None = None) -> bytes:
    """The notification of a change: of a list, or of a resource."""
    params: dict[str, Any] = {} if meta is None else {"_meta": meta}
    if change.startswith(_UPDATED):
        return notification("notifications/resources/updated", {"uri": change[len(_UPDATED) :], **params})
    return notification(f"notifications/{change}/list_changed", params or None)


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


def wanted_by(request: RpcRequest) -> Wanted:
    """What a subscription asks for. Raises `RpcError`."""
    wanted = request.params.get("notifications")
    if not isinstance(wanted, dict):
        raise RpcError(
            INVALID_PARAMS, "'params.notifications' must be an object, such as {\"toolsListChanged\": true}."
        )
    uris = wanted.get("resourceSubscriptions") or ()
    if not isinstance(uris, (list, tuple)) or not all(isinstance(uri, str) for uri in uris):
        raise RpcError(INVALID_PARAMS, "'params.notifications.resourceSubscriptions' must be a list of URIs.")
    if len(uris) > MOST_FOLLOWED:
        raise RpcError(INVALID_PARAMS, f"A subscription follows {MOST_FOLLOWED:,} resources at most.")
    lists = tuple(key for key in _LISTS if wanted.get(key) is True)
    return Wanted(lists, tuple(dict.fromkeys(uris)), wanted.get("taskIds"))


async def subscription_messages(
    catalog: Catalog, followers: ResourceFollowers, request: RpcRequest, caller: Caller, tasks: FollowedTasks
) -> AsyncGenerator[EventMessage | Comment]:
    """First what is agreed to, then each change; at the end, if the gateway ends it, the empty result."""
    meta: dict[str, Any] = {SUBSCRIPTION_KEY: request.id}
    wanted = wanted_by(request)
    lists = {_LISTS[key] for key in wanted.lists}
    follower = catalog.follow_lists(caller.principal)
    followed: dict[str, Callable[[], None]] = {}
    seen: dict[str, Any] = {}
    try:
        await _follow_all(wanted.uris, followers, caller.principal, follower, followed)
        honoured: dict[str, Any] = dict.fromkeys(wanted.lists, True)
        if followed:
            honoured["resourceSubscriptions"] = list(followed)
        if tasks.ids is not None:
            honoured["taskIds"] = list(tasks.ids)
        with tasks.watched(lambda task: follower.offer(f"{TASK_CHANGE}{task}")):
            yield _message(notification(ACKNOWLEDGED, {"notifications": honoured, "_meta": meta}))
            for task in tasks.ids or ():
                follower.offer(f"{TASK_CHANGE}{task}")
            async for change in follower:
                if change in lists or change.startswith(_UPDATED):
                    yield _message(_change(change, meta))
                elif change.startswith(TASK_CHANGE):
                    news = await tasks.tasks.news(change[len(TASK_CHANGE) :], caller, seen, meta=meta)
                    if news is not None:
                        yield _message(news)
        yield _message(response(request.id, stamped(b"", revision=MODERN, meta=meta)))
    finally:
        follower.close()
        for end in followed.values():
            end()


async def _follow_all(
    uris: Iterable[str],
    followers: ResourceFollowers,
    principal: Principal,
    follower: ListFollower,
    followed: dict[str, Callable[[], None]],
) -> None:
    """Follow those that can be; what cannot be read or followed is not agreed to."""

    async def one(uri: str) -> None:
        try:
            followed[uri] = await followers.follow(uri, principal, lambda told: follower.offer(f"{_UPDATED}{told}"))
        except (Refused, RpcError):
            return

    async with asyncio.TaskGroup() as group:
        for uri in uris:
            group.create_task(one(uri))


def _message(json: bytes) -> EventMessage:
    return EventMessage(event="message", data=Raw(json))
