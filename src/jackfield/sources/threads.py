"""Daemon threads for functions that block, so that one that never returns holds up nothing else.

Above: `inprocess.py` and `files.py`. Below: threading. The standard executors will not do: they join their
threads when the process exits and have one limit for everybody, so a hanging tool would stop both.
"""

import asyncio
import contextlib
import contextvars
import itertools
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

IDLE_SECONDS = 10.0
"""How long a thread without work stays, in case more comes."""
MOST_RUNNING = 64
"""Calls of one tool that run in threads at once; more wait for their turn, or for their deadline."""
MOST_ABANDONED = 8
"""Calls of one tool that were given up and never came back; at this many it gets no more threads."""

_numbers = itertools.count(1)


class Threads:
    """Starts a thread when none is idle; each takes one job at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._closed = False

    def run(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Start `job` in a thread, with the caller's context variables. Whoever cancels the future drops the
        result; the thread goes on until the job ends.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()
        self._worker().jobs.put(_Job(context, job, loop, future))
        return future

    def open(self) -> None:
        """Keep threads for later jobs, also after it was closed."""
        with self._lock:
            self._closed = False

    def close(self) -> None:
        """Let idle threads go now and busy ones when their job ends. Waits for none."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.jobs.put(None)

    def _worker(self) -> "_Worker":
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return _Worker(self)

    def rests(self, worker: "_Worker") -> bool:
        """The worker has no job any more; whether it should wait for another."""
        with self._lock:
            if not self._closed:
                self._idle.append(worker)
            return not self._closed

    def leaves(self, worker: "_Worker") -> bool:
        """The worker has waited long enough; False when a job is on its way to it after all."""
        with self._lock:
            if worker not in self._idle:
                return False
            self._idle.remove(worker)
            return True


class Stuck(Exception):
    """The lane's tool has given up threads that do not come back; it gets no more."""


class Lane:
    """One tool's way to the threads, so that a tool that hangs uses up its own share and no other's."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._turns = asyncio.Semaphore(MOST_RUNNING)
        self._abandoned = 0

    async def run(self, job: Callable[[], T]) -> T:
        """The job's result. Cancelling abandons the thread, which goes on alone. Raises `Stuck`."""
        async with self._turns:
            if self._abandoned >= MOST_ABANDONED:
                raise Stuck
            future = self._threads.run(job)
            try:
                return await asyncio.shield(future)
            except asyncio.CancelledError:
                if not future.done():
                    self._abandoned += 1
                    future.add_done_callback(self._came_back)
                raise

    def _came_back(self, _: asyncio.Future[T]) -> None:
        self._abandoned -= 1


class _Job:
    __slots__ = ("context", "future", "job", "loop")

    def __init__(
        self,
        context: contextvars.Context,
        job: Callable[[], Any],
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[Any],
    ) -> None:
        self.context = context
        self.job = job
        self.loop = loop
        self.future = future

    def run(self) -> Callable[[], None]:
        """Do the job; gives back what the event loop has to do with its end."""
        try:
            result = self.context.run(self.job)
        except BaseException as error:  # noqa: BLE001 - a thread's border: the error goes to who waits
            return partial(self._settle, error, None)
        return partial(self._settle, None, result)

    def _settle(self, error: BaseException | None, result: Any) -> None:
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class _Worker:
    """One thread and the jobs on their way to it."""

    def __init__(self, threads: Threads) -> None:
        self.jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads = threads
        threading.Thread(target=self._work, name=f"jackfield-tool-{next(_numbers)}", daemon=True).start()

    def _work(self) -> None:
        staying = True
        while staying:
            job = self._next()
            if job is None:
                return
            settle = job.run()
            staying = self._threads.rests(self)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                job.loop.call_soon_threadsafe(settle)
            del job, settle  # an idle thread holds on to no result

    def _next(self) -> _Job | None:
        while True:
            try:
                return self.jobs.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                if self._threads.leaves(self):
                    return None
