"""An event loop on a thread of its own, on which the blocking client runs the asynchronous one."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for callers on other threads. Many threads may share one."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A daemon, so that a program that forgets to close its client still ends.
        self._thread = threading.Thread(target=self._loop.run_forever, name="jackfield-sdk", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns. An interrupt (Ctrl-C) cancels it."""
        if not self.is_running:
            work.close()
            raise RuntimeError("this client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def run_to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """`run` for work that cleans up: an interrupt cancels it and waits for its end; a second one does not wait."""
        task = self.run(_started(work))
        try:
            return self.run(_outcome(task))
        except BaseException:
            if self.is_running:
                self.run(_ended(task))
            raise

    def iterate(self, items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """The items one by one; leaving the iteration closes the generator."""
        try:
            while (item := self.run(_next(items))) is not None:
                yield item[0]
        finally:
            if self.is_running:
                self.run(items.aclose())

    def close(self) -> None:
        """Stop the loop and its thread. Idempotent."""
        if self.is_running:
            self.run(self._shut_down())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _shut_down(self) -> None:
        """Cancel remaining tasks, as `asyncio.run` does."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._loop.shutdown_asyncgens()


async def _next(items: AsyncGenerator[T, None]) -> tuple[T] | None:
    try:
        return (await anext(items),)
    except StopAsyncIteration:
        return None


async def _started(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    return asyncio.create_task(work)


async def _outcome(task: asyncio.Task[T]) -> T:
    return await asyncio.shield(task)


async def _ended(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait((task,))
