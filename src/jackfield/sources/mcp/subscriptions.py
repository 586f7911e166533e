"""Subscriptions to resources of one MCP server: each URI is asked for once, however many follow it.

In the handshake era a URI is subscribed to by a request. Since 2026-07-28 one stream carries all of them; when their
set changes a new stream is opened before the old one is closed. After a lost connection everything is asked for again,
and everybody is told that their resources may have changed meanwhile. A server that tells of the same resource again
and again is passed on a few times a second.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress

from jackfield.protocol.backoff import RetryDelays
from jackfield.protocol.jsonrpc import INVALID_REQUEST, METHOD_NOT_FOUND, RpcError
from jackfield.sources.base import Updated
from jackfield.sources.mcp.connection import Connection
from jackfield.sources.mcp.transport import McpClientError

MOST = 10_000
"""URIs of one server that are followed at a time."""
PAUSE_SECONDS = 0.1
"""After a resource was told of, further updates of it are gathered for so long."""
MOST_PARTS = 100
"""Parts of one followed resource that are told of by their own URIs at a time."""
DEEPEST = 100
"""Levels of a URI that are looked at for a followed resource that it is part of."""
ACKNOWLEDGED_SECONDS = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0


class ResourceSubscriptions:
    """Who follows which resource of a server. Used on the event loop only."""

    def __init__(self, name: str, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._name = name
        self._log = logging.getLogger(f"jackfield.mcp.{name}")
        self._connect = connect
        self._listeners: dict[str, list[Updated]] = {}
        self._folders: dict[str, set[str]] = {}
        """The followed URIs by what the URIs of their parts begin with, but for a slash."""
        self._gathered: dict[str, dict[str, None]] = {}
        """By followed URI that was told of just now: what was updated since."""
        self._pauses: dict[str, asyncio.TimerHandle] = {}
        self._connection: Connection | None = None
        self._wanted = asyncio.Event()
        self._heard: frozenset[str] = frozenset()
        """What the open stream carries."""
        self._changed = asyncio.Condition()
        self._worker: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(self, uri: str, updated: Updated) -> None:
        """Follow a resource. Raises `RpcError` where the server does not let it be followed."""
        connection = await self._connect()
        if not connection.agreement.tells_of("resources", "subscribe"):
            raise RpcError(METHOD_NOT_FOUND, f"Source '{self._name}' does not offer subscriptions to resources.")
        if uri not in self._listeners and len(self._listeners) >= MOST:
            raise RpcError(INVALID_REQUEST, f"{MOST:,} resources of '{self._name}' are subscribed to already.")
        is_first = uri not in self._listeners
        self._listeners.setdefault(uri, []).append(updated)
        self._folders.setdefault(uri.rstrip("/"), set()).add(uri)
        try:
            if connection.agreement.is_modern:
                await self._listened_to(uri)
            elif is_first:
                await connection.subscribe(uri)
        except BaseException:
            self.remove(uri, updated)
            raise

    def remove(self, uri: str, updated: Updated) -> None:
        """Follow it no more; the last one ends the subscription at the server."""
        listeners = self._listeners.get(uri, [])
        if updated in listeners:
            listeners.remove(updated)
        if listeners or uri not in self._listeners:
            return
        del self._listeners[uri]
        self._forget(uri)
        connection = self._connection
        if connection is None:
            return
        if connection.agreement.is_modern:
            self._wanted.set()
        else:
            self._start(self._unsubscribed(connection, uri))

    def updated(self, uri: str) -> None:
        """The server says that a resource changed: one that is followed, or a part of one."""
        for followed in (uri,) if uri in self._listeners else self._whole_of(uri):
            gathered = self._gathered.get(followed)
            if gathered is None:
                self._tell(followed, (uri,))
            elif len(gathered) < MOST_PARTS:
                gathered[uri] = None
            else:
                gathered[followed] = None

    def _whole_of(self, uri: str) -> list[str]:
        """The followed resources that this is a part of."""
        found: list[str] = []
        end = len(uri)
        for _ in range(DEEPEST):
            end = uri.rfind("/", 0, end)
            if end < 0:
                break
            found += self._folders.get(uri[:end], ())
        return found

    def _tell(self, followed: str, uris: Iterable[str]) -> None:
        self._gathered[followed] = {}
        self._pauses[followed] = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._tell_gathered, followed)
        for uri in uris:
            for listener in tuple(self._listeners.get(followed, ())):
                listener(uri)

    def _tell_gathered(self, followed: str) -> None:
        gathered = self._gathered.pop(followed)
        del self._pauses[followed]
        if gathered:
            self._tell(followed, gathered)

    def _forget(self, followed: str) -> None:
        """Nobody follows it any more."""
        folder = followed.rstrip("/")
        self._folders[folder].discard(followed)
        if not self._folders[folder]:
            del self._folders[folder]
        if (pause := self._pauses.pop(followed, None)) is not None:
            pause.cancel()
            del self._gathered[followed]

    def connected(self, connection: Connection) -> None:
        """There is a new connection: ask for everything again."""
        self._connection, self._heard = connection, frozenset()
        if not self._listeners:
            return
        if connection.agreement.is_modern:
            self._wanted.set()
        else:
            self._start(self._resubscribed(connection))
        for uri in tuple(self._listeners):
            self.updated(uri)

    async def close(self) -> None:
        for pause in self._pauses.values():
            pause.cancel()
        self._pauses.clear()
        self._gathered.clear()
        tasks = [*self._tasks, *([] if self._worker is None else [self._worker])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._worker, self._connection = None, None

    async def _listened_to(self, uri: str) -> None:
        """Wait until the stream carries this URI too."""
        self._wanted.set()
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._listen(), name=f"mcp resources of {self._name}")
        with suppress(TimeoutError):
            async with asyncio.timeout(ACKNOWLEDGED_SECONDS), self._changed:
                await self._changed.wait_for(lambda: uri in self._heard)

    async def _listen(self) -> None:
        """Keep one stream open for all URIs, for as long as there are any."""
        delays = RetryDelays(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        stream: asyncio.Task[None] | None = None
        try:
            while self._listeners:
                self._wanted.clear()
                wanted = frozenset(self._listeners)
                if stream is None or stream.done() or wanted != self._heard:
                    before, stream = stream, await self._opened(wanted)
                    if before is not None:
                        before.cancel()
                    if stream is None:
                        await asyncio.sleep(delays.next())
                        continue
                    delays.reset()
                woken = asyncio.ensure_future(self._wanted.wait())
                await asyncio.wait((woken, stream), return_when=asyncio.FIRST_COMPLETED)
                woken.cancel()
                if stream.done():
                    self._heard = frozenset()
                    await asyncio.sleep(delays.next())
        finally:
            if stream is not None:
                stream.cancel()

    async def _opened(self, wanted: frozenset[str]) -> "asyncio.Task[None] | None":
        """A stream that carries these; None: it cannot be had now."""
        acknowledged = asyncio.Event()
        try:
            connection = await self._connect()
        except (McpClientError, RpcError) as fault:
            self._log.debug("resources cannot be followed now: %s", fault)
            return None
        stream = asyncio.create_task(self._read(connection, sorted(wanted), acknowledged))
        waiting = asyncio.ensure_future(acknowledged.wait())
        await asyncio.wait((waiting, stream), timeout=ACKNOWLEDGED_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if stream.done():
            return None
        async with self._changed:
            self._heard = wanted
            self._changed.notify_all()
        return stream

    async def _read(self, connection: Connection, uris: list[str], acknowledged: asyncio.Event) -> None:
        try:
            await connection.listen(uris, acknowledged.set)
        except (McpClientError, RpcError) as fault:
            self._log.debug("the subscription to resources broke: %s", fault)

    async def _resubscribed(self, connection: Connection) -> None:
        for uri in tuple(self._listeners):
            with suppress(McpClientError, RpcError):
                await connection.subscribe(uri)

    async def _unsubscribed(self, connection: Connection, uri: str) -> None:
        with suppress(McpClientError, RpcError):
            await connection.unsubscribe(uri)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
