"""Every stream that is open, so that a stopping server can end them all at once.

Above: `server.py`, which closes them, and the handlers that stream. Below: asyncio.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

T = TypeVar("T")
log = logging.getLogger(__name__)


class Streams:
    """The open streams of one server, and the work that goes on though its stream has ended."""

    def __init__(self) -> None:
        self._watches: set[asyncio.Task[None]] = set()
        self._work: set[asyncio.Task[Any]] = set()
        self.is_closing = False

    def watch(self, receive: Receive) -> asyncio.Task[None]:
        """A task that is done as soon as the client is gone or the server stops. Give it back with `release`."""
        task = asyncio.ensure_future(until_disconnect(receive))
        self._watches.add(task)
        if self.is_closing:
            task.cancel()
        return task

    async def release(self, watch: asyncio.Task[None]) -> None:
        self._watches.discard(watch)
        await stop(watch)

    def keep(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run `work` to its end, whoever stops listening."""
        task = asyncio.create_task(work, name=name)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task

    def close(self) -> None:
        """End every stream now, and every one that is opened from here on."""
        self.is_closing = True
        for watch in self._watches:
            watch.cancel()

    async def finish(self, *, within: float) -> None:
        """Wait for work that goes on without a listener, then stop what is left of it."""
        if not self._work:
            return
        _, late = await asyncio.wait(self._work, timeout=within)
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
