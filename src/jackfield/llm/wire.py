"""Between a model and the gateway's one way out, and how long an answer is waited for.

The way out (`Outgoing.send`, lent by whoever opens the models) knows which addresses may be reached. Above:
`openai.py`.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Protocol, TypeVar

T = TypeVar("T")


class Answer(Protocol):
    """An answer whose body is still to be read."""

    status: int

    @property
    def headers(self) -> Mapping[str, str]: ...

    def aiter_bytes(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class Send(Protocol):
    """Sends one request. `named_by` is the url in the operator's config that asks for it."""

    async def __call__(
        self, method: str, url: str, *, headers: Mapping[str, str], content: bytes | None, named_by: str | None
    ) -> Answer: ...


class Patience:
    """`asyncio.timeout` for a wait that recurs: one timer for a whole stream, not one for each of its pieces."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._since = 0.0
        self._waiting: asyncio.Task[object] | None = None
        self._is_lost = False
        self._timer: asyncio.TimerHandle | None = None

    async def next(self, pieces: AsyncGenerator[T, None] | AsyncIterator[T]) -> T | None:
        """The next piece, None at the end. Raises `TimeoutError` if it takes longer than `seconds`."""
        task = asyncio.current_task()
        assert task is not None
        cancelled_before = task.cancelling()
        self._since, self._waiting, self._is_lost = self._loop.time(), task, False
        if self._timer is None:
            self._timer = self._loop.call_later(self.seconds, self._look)
        try:
            return await anext(pieces, None)
        except asyncio.CancelledError:
            if self._is_lost and task.uncancel() <= cancelled_before:
                raise TimeoutError from None
            raise
        finally:
            self._waiting = None

    def shorten(self, seconds: float) -> None:
        """From now on, wait no longer than this."""
        if seconds < self.seconds:
            self.seconds = seconds
            self.end()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._waiting is None:
            return  # the reader is busy elsewhere; its next wait sets the timer again
        left = self._since + self.seconds - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self._is_lost = True
            self._waiting.cancel()
