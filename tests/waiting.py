"""Waiting for something that happens elsewhere: in another process, in a thread, in a task.

A condition is polled until it holds. How long that takes depends on the machine, so the timeout is generous; a wait
ends early when it succeeds.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

TIMEOUT = 30.0
"""Seconds after which a condition that does not hold is a failure, on any machine."""
_INTERVAL = 0.01
_TICK = 0.01
_MAX_MEASURED = 300.0
_HOPS = 4


def eventually(ask: Callable[[], T], *, within: float = TIMEOUT, what: Callable[[], object] | None = None) -> T:
    """Poll `ask` until it returns something true, and return that.

    `within` can only extend the timeout; `what` describes the failure.
    """
    end = time.monotonic() + max(within, TIMEOUT)
    while not (answer := ask()):
        if time.monotonic() > end:
            raise AssertionError(_failure(ask, answer, within, what))
        time.sleep(_INTERVAL)
    return answer


@overload
async def eventually_async(
    ask: Callable[[], Awaitable[T | None]], *, within: float = TIMEOUT, what: Callable[[], object] | None = None
) -> T: ...
@overload
async def eventually_async(
    ask: Callable[[], T], *, within: float = TIMEOUT, what: Callable[[], object] | None = None
) -> T: ...
async def eventually_async(
    ask: Callable[[], Any], *, within: float = TIMEOUT, what: Callable[[], object] | None = None
) -> Any:
    """`eventually` in an event loop; `ask` may be a coroutine function."""
    end = time.monotonic() + max(within, TIMEOUT)
    while True:
        asked = ask()
        answer = await asked if isinstance(asked, Awaitable) else asked
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(_failure(ask, answer, within, what))
        await asyncio.sleep(_INTERVAL)


def _failure(ask: Callable[[], object], answer: object, within: float, what: Callable[[], object] | None) -> str:
    state = f"{ask} was still {answer!r}" if what is None else what()
    return f"{state} after {max(within, TIMEOUT):g} s"


class Stopwatch:
    """Measures how long something takes, without the time in which this machine ran something else.

    A thread asks for a hundredth of a second again and again; any delay beyond that was not available to anybody. What
    is measured goes through several threads and processes, one after the other, and each of them was late as often.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._late = 0.0
        self._stopped = threading.Event()
        threading.Thread(target=self._measure, daemon=True).start()

    def seconds(self) -> float:
        """Stop, and return the seconds since it was created."""
        took = time.monotonic() - self._began
        self._stopped.set()
        return max(0.0, took - _HOPS * self._late)

    def _measure(self) -> None:
        before = self._began
        while not self._stopped.wait(_TICK):
            now = time.monotonic()
            self._late += max(0.0, now - before - _TICK)
            before = now
            if now - self._began > _MAX_MEASURED:
                return
