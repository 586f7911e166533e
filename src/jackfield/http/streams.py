"""Every stream that is open, so that a stopping server can end them all at once, and a revoked key those it opened.

Above: `server.py`, which closes them, and the handlers that stream. Below: asyncio.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar
from weakref import WeakSet

from starlette.types import Receive

from jackfield.model.principal import Principal

T = TypeVar("T")
log = logging.getLogger(__name__)

GOING_AWAY, POLICY_VIOLATION = 1001, 1008
"""Why a WebSocket is closed (RFC 6455): the server stops, or its principal may not go on."""


class _Open:
    """What is open at one server."""

    __slots__ = ("ended", "is_closing", "watches", "work")

    def __init__(self) -> None:
        self.watches: dict[asyncio.Task[None], Streams] = {}
        self.ended: WeakSet[asyncio.Task[None]] = WeakSet()
        """Those whose principal may not go on."""
        self.work: set[asyncio.Task[Any]] = set()
        self.is_closing = False


class Streams:
    """The open streams of one server, and the work that goes on though its stream has ended."""

    __slots__ = ("_login", "_open", "_principal")

    def __init__(
        self, opened: _Open | None = None, principal: Principal | None = None, login: str | None = None
    ) -> None:
        self._open = opened or _Open()
        self._principal = principal
        """Whose the streams are that are opened by this object."""
        self._login = login

    def of(self, principal: Principal, login: str | None) -> "Streams":
        """The same, for streams that this principal opens; `login`: the digest of its login, if it has one."""
        return Streams(self._open, principal, login)

    @property
    def is_closing(self) -> bool:
        return self._open.is_closing

    def watch(self, receive: Receive) -> asyncio.Task[None]:
        """A task that is done as soon as the client is gone or the server stops. Give it back with `release`.

        It is cancelled when the server stops. A principal who may not go on counts as gone.
        """
        task = asyncio.ensure_future(self._until_gone(receive))
        self._open.watches[task] = self
        if self._open.is_closing:
            task.cancel()
        return task

    async def release(self, watch: asyncio.Task[None]) -> None:
        self._open.watches.pop(watch, None)
        await stop(watch)

    async def _until_gone(self, receive: Receive) -> None:
        try:
            await until_disconnect(receive)
        except asyncio.CancelledError:
            if asyncio.current_task() not in self._open.ended:
                raise

    def close_code(self, watch: asyncio.Task[None]) -> int | None:
        """The code to close a WebSocket with after `watch` is done; None: the client has closed it."""
        if watch in self._open.ended:
            return POLICY_VIOLATION
        return GOING_AWAY if watch.cancelled() else None

    def end(self, names: AbstractSet[str]) -> None:
        """End the streams of these principals, and of sessions that act for them, as if they had hung up."""
        self._end_those(lambda principal, _: principal.name in names or principal.on_record in names)

    def end_grant(self, grant_id: str) -> None:
        """End the streams that were opened with a token of this grant."""
        self._end_those(lambda principal, _: principal.grant == grant_id)

    def end_login(self, digest: str) -> None:
        """End the streams that were opened with this login."""
        self._end_those(lambda _, login: login == digest)

    def _end_those(self, is_over: Callable[[Principal, str | None], bool]) -> None:
        for watch, streams in self._open.watches.items():
            if streams._principal is not None and is_over(streams._principal, streams._login):  # noqa: SLF001 - our own
                self._open.ended.add(watch)
                watch.cancel()

    def keep(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run `work` to its end, whoever stops listening."""
        task = asyncio.create_task(work, name=name)
        self._open.work.add(task)
        task.add_done_callback(self._open.work.discard)
        return task

    def close(self) -> None:
        """End every stream now, and every one that is opened from here on."""
        self._open.is_closing = True
        for watch in self._open.watches:
            watch.cancel()

    async def finish(self, *, within: float) -> None:
        """Wait for work that goes on without a listener, then stop what is left of it."""
        if not self._open.work:
            return
        _, late = await asyncio.wait(self._open.work, timeout=within)
        for task in late:
            log.warning("%s was still going on and is stopped.", task.get_name())
            await stop(task)


async def next_of(items: AsyncIterator[T]) -> T | None:
    """The next item; None after the last one."""
    return await anext(items, None)


async def until_done(items: AsyncIterator[T], work: "asyncio.Future[Any]") -> AsyncGenerator[T]:
    """The items that come before the work is done, and those that are there by then."""
    coming = asyncio.ensure_future(next_of(items))
    try:
        while True:
            await asyncio.wait((coming, work), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)  # the work may be done and its last item still on the way
            item = coming.result() if coming.done() else None
            if item is None:
                return
            yield item
            coming = asyncio.ensure_future(next_of(items))
    finally:
        await stop(coming)


async def stop(task: asyncio.Future[Any]) -> None:
    """Cancel and wait until it is over. Its outcome interests nobody; a fault on the way out is logged."""
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.warning("Something that was being stopped failed: %r", fault)


async def until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] not in ("http.disconnect", "websocket.disconnect"):
        pass
